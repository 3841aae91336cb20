//! From the tree as written to a program: names are resolved, types checked, and the worst cost estimated.

use std::sync::Arc;

use crate::budget::traversal;
use crate::library::{self, Extent, Overload};
use crate::program::{LIST_COST, MAP_COST, Op, Pattern, PatternUse};
use crate::syntax::{Entry, Expr, Issue, Kind};
use crate::ty::{Ty, Variables};
use crate::types::{MAX_REQUEST_BYTES, Place, Shape, TypeId, Types, escape, unescape};
use crate::value::{Text, Val};

/// A variable in scope.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub ty: Ty,
    pub place: Option<TypeId>,
    pub extent: Extent,
    pub used: bool,
}

impl Variable {
    pub fn new(name: impl Into<String>, ty: Ty) -> Self {
        let extent = Extent { size: MAX_REQUEST_BYTES, element: MAX_REQUEST_BYTES };
        Variable { name: name.into(), ty, place: None, extent, used: false }
    }

    /// A variable that holds a value of a schema.
    pub fn at(name: impl Into<String>, place: Place<'_>, id: TypeId) -> Self {
        let mut variable = Variable::new(name, Ty::of(place, id));
        variable.place = Some(id);
        variable.extent = extent_of(place);
        variable
    }
}

/// A field, before it is known how it is read: its name, and what is known of its value.
struct Member {
    name: Arc<str>,
    ty: Ty,
    place: Option<TypeId>,
    extent: Extent,
}

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Checked {
    pub op: Op,
    pub ty: Ty,
    /// Where in the schema the value comes from, if it does.
    pub place: Option<TypeId>,
    pub extent: Extent,
    /// The worst case.
    pub cost: u64,
}

pub(crate) type Outcome = Result<Checked, Issue>;

pub(crate) struct Checker<'a> {
    pub types: &'a Types,
    pub scope: Vec<Variable>,
    /// What `variables` has.
    pub definitions: &'a [(String, Ty)],
    /// The types that may be constructed, by the names that they and their nested types begin with.
    pub constructed: &'a [&'a str],
    /// Whether the list being checked may mix types: only what `format` prints may.
    mixed: bool,
}

const SCALAR: Extent = Extent { size: 1, element: 1 };

/// Names that are types when they are not called.
const TYPE_NAMES: [(&str, &str); 13] = [
    ("bool", "bool"),
    ("int", "int"),
    ("uint", "uint"),
    ("double", "double"),
    ("string", "string"),
    ("bytes", "bytes"),
    ("list", "list"),
    ("map", "map"),
    ("null_type", "null_type"),
    ("type", "type"),
    ("optional_type", "optional_type"),
    ("google.protobuf.Timestamp", "google.protobuf.Timestamp"),
    ("google.protobuf.Duration", "google.protobuf.Duration"),
];

pub(crate) fn extent_of(place: Place<'_>) -> Extent {
    let element = place.element().map_or(1, |e| e.declared().max_size);
    Extent { size: place.declared().max_size, element }
}

fn constant(value: Val<'static>, ty: Ty) -> Outcome {
    let extent = Extent { size: value.size(), element: 1 };
    Ok(Checked { op: Op::Const(value), ty, place: None, extent, cost: 0 })
}

impl<'a> Checker<'a> {
    pub fn new(types: &'a Types, scope: Vec<Variable>) -> Self {
        Checker { types, scope, definitions: &[], constructed: &[], mixed: false }
    }

    pub fn uses(&self, name: &str) -> bool {
        self.scope.iter().any(|v| v.name == name && v.used)
    }

    pub fn check(&mut self, expr: &Expr) -> Outcome {
        match &expr.kind {
            Kind::Null => constant(Val::Null, Ty::Null),
            Kind::Bool(b) => constant(Val::Bool(*b), Ty::Bool),
            Kind::Int(i) => constant(Val::Int(*i), Ty::Int),
            Kind::Uint(u) => constant(Val::Uint(*u), Ty::Uint),
            Kind::Double(d) => constant(Val::Double(*d), Ty::Double),
            Kind::Str(text) => constant(Val::Str(Text::Owned(text.clone())), Ty::Str),
            Kind::Bytes(bytes) => constant(Val::Bytes(bytes.clone()), Ty::Bytes),
            Kind::Ident(name) => self.ident(expr.at, name),
            Kind::Select { operand, field, optional } => self.select(expr.at, operand, field, *optional),
            Kind::Index { operand, index, optional } => self.index(expr.at, operand, index, *optional),
            Kind::Call { target, name, args } => self.call(expr.at, target.as_deref(), name, args),
            Kind::Not(operand) => self.apply(expr.at, "!_", false, &[operand.as_ref()]),
            Kind::Negate(operand) => self.apply(expr.at, "-_", false, &[operand.as_ref()]),
            Kind::Binary { op, left, right } => {
                self.apply(expr.at, op.function(), false, &[left.as_ref(), right.as_ref()])
            }
            Kind::And(terms) => self.logic(expr.at, "_&&_", terms, Op::And),
            Kind::Or(terms) => self.logic(expr.at, "_||_", terms, Op::Or),
            Kind::Conditional { test, yes, no } => self.conditional(expr.at, test, yes, no),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Message { name, entries } => self.message(expr.at, name, entries),
        }
    }

    fn ident(&mut self, at: usize, name: &str) -> Outcome {
        if let Some((slot, variable)) = self.scope.iter_mut().enumerate().rev().find(|(_, v)| v.name == name)
        {
            variable.used = true;
            let (ty, place, extent) = (variable.ty.clone(), variable.place, variable.extent);
            return Ok(Checked { op: Op::Var { slot, name: name.into() }, ty, place, extent, cost: 1 });
        }
        match TYPE_NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, runtime)) => constant(Val::Type(runtime), Ty::Type),
            None => Err(undeclared(at, name)),
        }
    }

    /// `a.b.c` spelled out, if it is only names: types and functions can have such names.
    fn dotted(&self, expr: &Expr) -> Option<String> {
        match &expr.kind {
            Kind::Ident(name) => (!self.scope.iter().any(|v| v.name == *name)).then(|| name.clone()),
            Kind::Select { operand, field, optional: false } => {
                Some(format!("{}.{field}", self.dotted(operand)?))
            }
            _ => None,
        }
    }

    fn select(&mut self, at: usize, operand: &Expr, field: &str, optional: bool) -> Outcome {
        if let Some(prefix) = self.dotted(operand) {
            let name = format!("{prefix}.{field}");
            if let Some((_, runtime)) = TYPE_NAMES.iter().find(|(known, _)| *known == name) {
                return constant(Val::Type(runtime), Ty::Type);
            }
        }
        let operand = self.check(operand)?;
        if operand.ty == Ty::Host && !optional {
            return host_call(at, field, vec![operand]);
        }
        if operand.ty == Ty::Definitions {
            let found = self.definitions.iter().find(|(name, _)| name == field);
            let (name, ty) = found.ok_or_else(|| Issue::new(at, format!("undefined field '{field}'")))?;
            let op = Op::Definition(name.as_str().into());
            return Ok(Checked { op, ty: ty.clone(), cost: 1, ..operand });
        }
        let Member { name: field, ty, place, extent } = self.field_of(at, &operand, field)?;
        let cost = operand.cost.saturating_add(1);
        let chained = matches!(operand.ty, Ty::Optional(_));
        let ty = if (optional || chained) && !matches!(ty, Ty::Optional(_)) { Ty::optional(ty) } else { ty };
        let op = Op::Select { operand: Box::new(operand.op), field, optional };
        Ok(Checked { op, ty, place, extent, cost })
    }

    /// `has(operand.field)`
    pub(crate) fn has(&mut self, at: usize, argument: &Expr) -> Outcome {
        let Kind::Select { operand, field, optional: false } = &argument.kind else {
            return Err(Issue::new(at, "invalid argument to has() macro"));
        };
        let operand = self.check(operand)?;
        let field = self.field_of(argument.at, &operand, field)?.name;
        let cost = operand.cost.saturating_add(1);
        let op = Op::Has { operand: Box::new(operand.op), field };
        Ok(Checked { op, ty: Ty::Bool, place: None, extent: SCALAR, cost })
    }

    fn field_of(&self, at: usize, operand: &Checked, field: &str) -> Result<Member, Issue> {
        let undefined = || Issue::new(at, format!("undefined field '{field}'"));
        let ty = match &operand.ty {
            Ty::Optional(inner) => inner,
            ty => ty,
        };
        match ty {
            Ty::Dyn | Ty::Host => {
                let extent = Extent { size: MAX_REQUEST_BYTES, element: MAX_REQUEST_BYTES };
                Ok(Member { name: field.into(), ty: Ty::Dyn, place: None, extent })
            }
            Ty::Map(_, value) => {
                let (place, extent) = self.element_of(operand);
                Ok(Member { name: field.into(), ty: (**value).clone(), place, extent })
            }
            Ty::Object(id) => {
                let place = self.types.place(*id);
                let Shape::Object { fields } = place.shape() else { return Err(undefined()) };
                // A name in backquotes is the property's own.
                let backquoted = field.contains(['.', '-', '/']);
                let escaped = if backquoted { escape(field) } else { Some(field.into()) };
                let found = escaped.and_then(|name| fields.get_key_value(name.as_str()));
                let (name, declared) = found.ok_or_else(undefined)?;
                let place = place.to(declared.of);
                let ty = Ty::of(place, declared.of);
                Ok(Member {
                    name: name.as_str().into(),
                    ty,
                    place: Some(declared.of),
                    extent: extent_of(place),
                })
            }
            other => Err(Issue::new(at, format!("type '{other}' does not support field selection"))),
        }
    }

    fn index(&mut self, at: usize, operand: &Expr, index: &Expr, optional: bool) -> Outcome {
        let operand = self.check(operand)?;
        let index = self.check(index)?;
        let (container, chained) = match &operand.ty {
            Ty::Optional(inner) => ((**inner).clone(), true),
            ty => (ty.clone(), false),
        };
        let ty = match &container {
            Ty::List(item) if index.ty.may_be(&Ty::Int) => (**item).clone(),
            Ty::Map(key, value) if index.ty.may_be(key) => (**value).clone(),
            ty if ty.is_dynamic() => Ty::Dyn,
            ty => return Err(no_overload(at, "_[_]", false, &[ty, &index.ty])),
        };
        let (place, extent) = self.element_of(&operand);
        let ty = if (optional || chained) && !matches!(ty, Ty::Optional(_)) { Ty::optional(ty) } else { ty };
        let cost = operand.cost.saturating_add(index.cost).saturating_add(1);
        let op = Op::Index { operand: Box::new(operand.op), index: Box::new(index.op), optional };
        Ok(Checked { op, ty, place, extent, cost })
    }

    /// Where the elements of a list or the values of a map come from, and how large they are.
    pub(crate) fn element_of(&self, container: &Checked) -> (Option<TypeId>, Extent) {
        match container.place.map(|id| self.types.place(id)).map(|p| (p, p.shape())) {
            Some((p, Shape::List { item: id, .. } | Shape::Map { value: id })) => {
                (Some(*id), extent_of(p.to(*id)))
            }
            _ => (None, Extent { size: container.extent.element, element: container.extent.element }),
        }
    }

    fn call(&mut self, at: usize, target: Option<&Expr>, name: &str, args: &[Expr]) -> Outcome {
        if let Some(expanded) = self.expand(at, target, name, args) {
            return expanded;
        }
        let Some(target) = target else {
            let args: Vec<&Expr> = args.iter().collect();
            return self.apply(at, name, false, &args);
        };
        if let Some(prefix) = self.dotted(target) {
            let qualified = format!("{prefix}.{name}");
            if matches!(qualified.as_str(), "math.greatest" | "math.least") && args.len() > 1 {
                return self.variadic(at, &qualified, args);
            }
            if library::overloads(&qualified, false).is_some() {
                let args: Vec<&Expr> = args.iter().collect();
                return self.apply(at, &qualified, false, &args);
            }
        }
        let mut all = vec![target];
        all.extend(args);
        self.apply(at, name, true, &all)
    }

    /// All arguments as one list.
    fn variadic(&mut self, at: usize, name: &str, args: &[Expr]) -> Outcome {
        let elements: Vec<(bool, Expr)> = args.iter().map(|arg| (false, arg.clone())).collect();
        let mixed = std::mem::replace(&mut self.mixed, true);
        let list = self.list(&elements);
        self.mixed = mixed;
        let list = list?;
        let numbers = |ty: &Ty| matches!(ty, Ty::Int | Ty::Uint | Ty::Double | Ty::Dyn | Ty::Host);
        if !matches!(&list.ty, Ty::List(item) if numbers(item)) {
            return Err(no_overload(at, name, false, &[&list.ty]));
        }
        let result = match &list.ty {
            Ty::List(item) => (**item).clone(),
            _ => Ty::Dyn,
        };
        let mut checked = self.resolve(at, name, false, vec![list])?;
        checked.ty = result;
        Ok(checked)
    }

    fn apply(&mut self, at: usize, name: &str, member: bool, args: &[&Expr]) -> Outcome {
        let mut checked = Vec::with_capacity(args.len());
        for (index, arg) in args.iter().enumerate() {
            let mixed = std::mem::replace(&mut self.mixed, member && name == "format" && index == 1);
            let outcome = self.check(arg);
            self.mixed = mixed;
            checked.push(outcome?);
        }
        self.resolve(at, name, member, checked)
    }

    /// Picks the overloads that fit; what fits no type fits no value either.
    fn resolve(&mut self, at: usize, name: &str, member: bool, args: Vec<Checked>) -> Outcome {
        if member && matches!(args.first(), Some(Checked { ty: Ty::Host, .. })) {
            return host_call(at, name, args);
        }
        let Some(known) = library::overloads(name, member) else {
            return Err(undeclared(at, name));
        };
        let mut result: Option<Ty> = None;
        let mut fitting: Vec<&'static Overload> = Vec::new();
        for overload in known.iter().filter(|o| o.args.len() == args.len()) {
            let mut variables = Variables::default();
            if !overload.args.iter().zip(&args).all(|(wanted, given)| variables.accept(wanted, &given.ty)) {
                continue;
            }
            let ty = variables.resolve(&overload.result);
            result = Some(match result {
                None => ty,
                Some(other) if other == ty => ty,
                Some(_) => Ty::Dyn,
            });
            fitting.push(overload);
        }
        let Some(ty) = result else {
            let types: Vec<&Ty> = args.iter().map(|a| &a.ty).collect();
            return Err(no_overload(at, name, member, &types));
        };
        let extents: Vec<Extent> = args.iter().map(|a| a.extent).collect();
        let worst = |price: &dyn Fn(&&'static Overload) -> u64| fitting.iter().map(price).max().unwrap_or(1);
        let call_cost = worst(&|o| o.charge(&extents));
        let cost = args.iter().fold(call_cost, |sum, a| sum.saturating_add(a.cost));
        let size = worst(&|o| o.result_size(&extents));
        let element = extents.iter().map(|e| e.element.max(1)).max().unwrap_or(1);
        let extent = match ty {
            Ty::Bool | Ty::Int | Ty::Uint | Ty::Double => SCALAR,
            // What was cut out of a text is no larger than the text.
            Ty::List(_) if extents.first().is_some_and(|e| e.element <= 1) => Extent { size, element: size },
            _ => Extent { size, element },
        };
        // What a list holds keeps its place in the schema when it is taken out of the list again.
        let place =
            args.first().filter(|_| matches!(name, "_+_" | "reverse" | "slice" | "sort" | "distinct"));
        let place = place.and_then(|first| first.place);
        let op = self.call_op(at, fitting, args)?;
        Ok(Checked { op, ty, place, extent, cost })
    }

    fn call_op(&self, at: usize, overloads: Vec<&'static Overload>, args: Vec<Checked>) -> Result<Op, Issue> {
        let usage = match overloads.first().map(|o| o.name) {
            Some("matches") => Some(PatternUse::Matches),
            Some("find") => Some(PatternUse::Find),
            Some("findAll") => Some(PatternUse::FindAll),
            _ => None,
        };
        let mut ops: Vec<Op> = args.into_iter().map(|a| a.op).collect();
        if let (Some(usage), Some(Op::Const(Val::Str(pattern)))) = (usage, ops.get(1)) {
            let regex = library::compile_regex(pattern).map_err(|error| Issue::new(at, error.to_string()))?;
            let limit = (ops.len() > 2).then(|| ops.pop()).flatten();
            ops.truncate(1);
            if let Some(text) = ops.pop() {
                return Ok(Op::Pattern(Box::new(Pattern { usage, text, regex, limit })));
            }
        }
        Ok(Op::Call { overloads: overloads.into(), args: ops.into() })
    }

    fn logic(&mut self, at: usize, name: &str, terms: &[Expr], make: fn(Box<[Op]>) -> Op) -> Outcome {
        let mut ops = Vec::with_capacity(terms.len());
        let mut cost = 0u64;
        for term in terms {
            let checked = self.check(term)?;
            if !checked.ty.may_be(&Ty::Bool) {
                let types = if ops.is_empty() { [&checked.ty, &Ty::Bool] } else { [&Ty::Bool, &checked.ty] };
                return Err(no_overload(at, name, false, &types));
            }
            cost = cost.saturating_add(checked.cost);
            ops.push(checked.op);
        }
        Ok(Checked { op: make(ops.into()), ty: Ty::Bool, place: None, extent: SCALAR, cost })
    }

    fn conditional(&mut self, at: usize, test: &Expr, yes: &Expr, no: &Expr) -> Outcome {
        let (test, yes, no) = (self.check(test)?, self.check(yes)?, self.check(no)?);
        let ty = yes.ty.agree(&no.ty).filter(|_| test.ty.may_be(&Ty::Bool));
        let Some(ty) = ty else {
            return Err(no_overload(at, "_?_:_", false, &[&test.ty, &yes.ty, &no.ty]));
        };
        let extent = Extent {
            size: yes.extent.size.max(no.extent.size),
            element: yes.extent.element.max(no.extent.element),
        };
        let place = yes.place.filter(|place| no.place == Some(*place));
        let cost = test.cost.saturating_add(yes.cost.max(no.cost));
        Ok(Checked { op: Op::Conditional(Box::new([test.op, yes.op, no.op])), ty, place, extent, cost })
    }

    fn list(&mut self, elements: &[(bool, Expr)]) -> Outcome {
        let mixed = std::mem::take(&mut self.mixed);
        let mut ty: Option<Ty> = None;
        let mut ops = Vec::with_capacity(elements.len());
        let (mut cost, mut element) = (LIST_COST, 0);
        for (optional, expr) in elements {
            let checked = self.check(expr)?;
            let item = self.present_type(expr.at, *optional, &checked)?;
            ty = Some(self.join(expr.at, ty, item, mixed)?);
            cost = cost.saturating_add(checked.cost);
            element = checked.extent.size.max(element);
            ops.push((*optional, checked.op));
        }
        let extent = Extent { size: elements.len() as u64, element };
        let ty = Ty::list(ty.unwrap_or(Ty::Dyn));
        Ok(Checked { op: Op::List(ops.into()), ty, place: None, extent, cost })
    }

    fn map(&mut self, entries: &[Entry]) -> Outcome {
        let (mut key_ty, mut value_ty): (Option<Ty>, Option<Ty>) = (None, None);
        let mut ops = Vec::with_capacity(entries.len());
        let (mut cost, mut element) = (MAP_COST, 0);
        for entry in entries {
            let key = self.check(&entry.key)?;
            let value = self.check(&entry.value)?;
            let item = self.present_type(entry.value.at, entry.optional, &value)?;
            key_ty = Some(self.join(entry.key.at, key_ty, key.ty, false)?);
            value_ty = Some(self.join(entry.value.at, value_ty, item, false)?);
            cost = cost.saturating_add(key.cost).saturating_add(value.cost);
            element = value.extent.size.max(element);
            ops.push((entry.optional, key.op, value.op));
        }
        let extent = Extent { size: entries.len() as u64, element };
        let ty = Ty::Map(Arc::new(key_ty.unwrap_or(Ty::Dyn)), Arc::new(value_ty.unwrap_or(Ty::Dyn)));
        Ok(Checked { op: Op::Map(ops.into()), ty, place: None, extent, cost })
    }

    /// `Name{field: value}`: a map of its fields.
    fn message(&mut self, at: usize, name: &str, entries: &[Entry]) -> Outcome {
        let root = name.split('.').next().unwrap_or_default();
        if !self.constructed.contains(&root) {
            return Err(undeclared(at, name));
        }
        let (mut cost, mut ops) = (MAP_COST, Vec::with_capacity(entries.len()));
        for entry in entries {
            let Kind::Ident(field) = &entry.key.kind else {
                return Err(Issue::new(entry.key.at, "a field of an object must be a name"));
            };
            let value = self.check(&entry.value)?;
            self.present_type(entry.value.at, entry.optional, &value)?;
            cost = cost.saturating_add(value.cost);
            let key = Op::Const(Val::Str(Text::Owned(unescape(field).into())));
            ops.push((entry.optional, key, value.op));
        }
        let extent = Extent { size: entries.len() as u64, element: MAX_REQUEST_BYTES };
        Ok(Checked { op: Op::Map(ops.into()), ty: Ty::Dyn, place: None, extent, cost })
    }

    /// The type of an element; `?element` takes it out of an optional.
    fn present_type(&self, at: usize, optional: bool, checked: &Checked) -> Result<Ty, Issue> {
        match &checked.ty {
            ty if !optional => Ok(ty.clone()),
            Ty::Optional(inner) => Ok((**inner).clone()),
            ty if ty.is_dynamic() => Ok(Ty::Dyn),
            ty => Err(Issue::new(at, format!("expected type 'optional_type({ty})' but found '{ty}'"))),
        }
    }

    fn join(&self, at: usize, so_far: Option<Ty>, item: Ty, mixed: bool) -> Result<Ty, Issue> {
        match so_far {
            None => Ok(item),
            Some(ty) => match ty.agree(&item) {
                Some(joint) => Ok(joint),
                None if mixed => Ok(Ty::Dyn),
                None => Err(Issue::new(at, format!("expected type '{ty}' but found '{item}'"))),
            },
        }
    }
}

/// What `authorizer` and the values that come from it can be asked; `requestResource` is a field of it.
const HOST_METHODS: [&str; 15] = [
    "allowed",
    "check",
    "error",
    "errored",
    "fieldSelector",
    "group",
    "labelSelector",
    "name",
    "namespace",
    "path",
    "reason",
    "requestResource",
    "resource",
    "serviceAccount",
    "subresource",
];

fn host_call(at: usize, name: &str, args: Vec<Checked>) -> Outcome {
    if !HOST_METHODS.contains(&name) {
        return Err(undeclared(at, name));
    }
    // A call out of the process is dear: upstream reckons authorization checks at this price.
    let call_cost = if name == "check" { 350_000 } else { 1 };
    let cost =
        args.iter().fold(call_cost, |sum: u64, a| sum.saturating_add(a.cost).saturating_add(traversal(1)));
    let mut ops = args.into_iter().map(|a| a.op);
    let target = ops.next().unwrap_or(Op::Const(Val::Null));
    let op = Op::Host { target: Box::new(target), method: name.into(), args: ops.collect() };
    let extent = Extent { size: MAX_REQUEST_BYTES, element: MAX_REQUEST_BYTES };
    let ty = match name {
        "allowed" | "errored" => Ty::Bool,
        "reason" | "error" => Ty::Str,
        _ => Ty::Host,
    };
    Ok(Checked { op, ty, place: None, extent, cost })
}

fn undeclared(at: usize, name: &str) -> Issue {
    Issue::new(at, format!("undeclared reference to '{name}' (in container '')"))
}

pub(crate) fn no_overload(at: usize, name: &str, member: bool, types: &[&Ty]) -> Issue {
    let shown: Vec<String> = types.iter().map(ToString::to_string).collect();
    let signature = match shown.split_first() {
        Some((target, args)) if member => format!("{target}.({})", args.join(", ")),
        _ => format!("({})", shown.join(", ")),
    };
    Issue::new(at, format!("found no matching overload for '{name}' applied to '{signature}'"))
}
