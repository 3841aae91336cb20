//! Evaluation: a walk over the program, paid for step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::budget::{Meter, traversal};
use crate::compare::MAX_DEPTH;
use crate::error::EvalError;
use crate::host::{HostObject, HostValue};
use crate::library::{Extent, Overload, sort_by_keys};
use crate::program::{Fold, FoldKind, LIST_COST, MAP_COST, Op, Pattern, PatternUse};
use crate::value::{Key, List, Map, Val};

type Outcome<'a> = Result<Val<'a>, EvalError>;

pub(crate) struct Machine<'a, 'm> {
    /// Declared variables first, then those that macros bind; `None` for one that has no value.
    stack: Vec<Option<Val<'a>>>,
    meter: &'m mut Meter,
    definitions: Option<&'m dyn Definitions<'a>>,
}

/// Gives the value of `variables.name`.
pub(crate) trait Definitions<'a> {
    fn resolve(&self, name: &str, meter: &mut Meter) -> Outcome<'a>;
}

impl<'a, 'm> Machine<'a, 'm> {
    pub fn new(variables: Vec<Option<Val<'a>>>, meter: &'m mut Meter) -> Self {
        Machine { stack: variables, meter, definitions: None }
    }

    pub fn with_definitions(self, definitions: &'m dyn Definitions<'a>) -> Self {
        Machine { definitions: Some(definitions), ..self }
    }

    pub fn eval(&mut self, op: &'a Op) -> Outcome<'a> {
        match op {
            Op::Const(value) => Ok(value.clone()),
            Op::Var { slot, name } => self.variable(*slot, name),
            Op::Definition(name) => self.definition(name),
            Op::Select { operand, field, optional } => self.select(operand, field, *optional),
            Op::Has { operand, field } => self.has(operand, field),
            Op::Index { operand, index, optional } => self.index(operand, index, *optional),
            Op::Call { overloads, args } => self.call(overloads, args),
            Op::Pattern(pattern) => self.pattern(pattern),
            Op::Host { target, method, args } => self.host(target, method, args),
            Op::And(terms) => self.logic(terms, false),
            Op::Or(terms) => self.logic(terms, true),
            Op::Conditional(parts) => self.conditional(parts),
            Op::List(elements) => self.list(elements),
            Op::Map(entries) => self.map(entries),
            Op::Fold(fold) => self.fold(fold),
            Op::Bind(parts) => self.bind(parts),
            Op::IfPresent { target, body, flat } => self.if_present(target, body, *flat),
        }
    }

    fn variable(&mut self, slot: usize, name: &str) -> Outcome<'a> {
        self.meter.charge(1)?;
        self.stack.get(slot).cloned().flatten().ok_or_else(|| EvalError::Unbound(name.to_owned()))
    }

    fn definition(&mut self, name: &'a str) -> Outcome<'a> {
        self.meter.charge(1)?;
        let definitions = self.definitions.ok_or_else(|| EvalError::Unbound(name.to_owned()))?;
        definitions.resolve(name, self.meter)
    }

    fn select(&mut self, operand: &'a Op, field: &'a str, optional: bool) -> Outcome<'a> {
        let operand = self.eval(operand)?;
        self.meter.charge(1)?;
        let missing = || EvalError::NoSuchKey(field.to_owned());
        match operand {
            Val::Map(map) if optional => Ok(Val::optional(map.field(field))),
            Val::Map(map) => map.field(field).ok_or_else(missing),
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => match &*inner {
                Val::Map(map) => Ok(Val::optional(map.field(field))),
                _ => Err(EvalError::NoSuchOverload),
            },
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn has(&mut self, operand: &'a Op, field: &'a str) -> Outcome<'a> {
        let operand = self.eval(operand)?;
        self.meter.charge(1)?;
        match operand {
            Val::Map(map) => Ok(map.field(field).is_some().into()),
            Val::Optional(None) => Ok(false.into()),
            Val::Optional(Some(inner)) => match &*inner {
                Val::Map(map) => Ok(map.field(field).is_some().into()),
                _ => Err(EvalError::NoSuchOverload),
            },
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn index(&mut self, operand: &'a Op, index: &'a Op, optional: bool) -> Outcome<'a> {
        let operand = self.eval(operand)?;
        let index = self.eval(index)?;
        self.meter.charge(1)?;
        match operand {
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => Ok(Val::optional(element(&inner, &index)?)),
            operand if optional => Ok(Val::optional(element(&operand, &index)?)),
            operand => element(&operand, &index)?.ok_or_else(|| match (&operand, &index) {
                (Val::List(_), Val::Int(i)) => EvalError::IndexOutOfBounds(*i),
                (_, key) => EvalError::NoSuchKey(key.to_string()),
            }),
        }
    }

    fn values(&mut self, ops: &'a [Op]) -> Result<Vec<Val<'a>>, EvalError> {
        ops.iter().map(|op| self.eval(op)).collect()
    }

    fn call(&mut self, overloads: &'a [&'static Overload], args: &'a [Op]) -> Outcome<'a> {
        let values = self.values(args)?;
        let Some(overload) = overloads.iter().find(|o| o.fits(&values)) else {
            return Err(EvalError::NoSuchOverload);
        };
        let mut extents = [Extent { size: 1, element: 1 }; 4];
        for (extent, value) in extents.iter_mut().zip(&values) {
            extent.size = value.size();
        }
        self.meter.charge(overload.charge(extents.get(..values.len()).unwrap_or(&extents)))?;
        (overload.run)(&values, self.meter)
    }

    fn pattern(&mut self, pattern: &'a Pattern) -> Outcome<'a> {
        let Val::Str(text) = self.eval(&pattern.text)? else { return Err(EvalError::NoSuchOverload) };
        let length = pattern.regex.as_str().len() as u64;
        self.meter
            .charge(traversal(text.len() as u64 + 1).saturating_mul(length.div_ceil(4)).saturating_add(1))?;
        let owned = |found: regex::Match<'_>| Val::from(found.as_str().to_owned());
        match pattern.usage {
            PatternUse::Matches => Ok(pattern.regex.is_match(&text).into()),
            PatternUse::Find => Ok(pattern.regex.find(&text).map_or_else(|| "".into(), owned)),
            PatternUse::FindAll => {
                let limit = match &pattern.limit {
                    None => usize::MAX,
                    Some(limit) => match self.eval(limit)? {
                        Val::Int(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
                        _ => return Err(EvalError::NoSuchOverload),
                    },
                };
                Ok(pattern.regex.find_iter(&text).take(limit).map(owned).collect::<Vec<_>>().into())
            }
        }
    }

    fn host(&mut self, target: &'a Op, method: &'a str, args: &'a [Op]) -> Outcome<'a> {
        let Val::Host(object) = self.eval(target)? else { return Err(EvalError::NoSuchOverload) };
        self.meter.charge(if method == "check" { 350_000 } else { 1 })?;
        let args: Option<Vec<Json>> = self.values(args)?.iter().map(Val::to_json).collect();
        call_host(&object, method, &args.ok_or(EvalError::NoSuchOverload)?)
    }

    /// `&&` and `||`. What decides the result decides it whatever stands beside it: an error counts only if no term
    /// does. Running out of budget is no such error.
    fn logic(&mut self, terms: &'a [Op], deciding: bool) -> Outcome<'a> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Val::Bool(value)) if value == deciding => return Ok(deciding.into()),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvalError::NoSuchOverload)),
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok((!deciding).into()), Err)
    }

    fn conditional(&mut self, [test, yes, no]: &'a [Op; 3]) -> Outcome<'a> {
        match self.eval(test)? {
            Val::Bool(true) => self.eval(yes),
            Val::Bool(false) => self.eval(no),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn list(&mut self, elements: &'a [(bool, Op)]) -> Outcome<'a> {
        self.meter.charge(LIST_COST)?;
        let mut items = Vec::with_capacity(elements.len());
        for (optional, op) in elements {
            match self.eval(op)? {
                Val::Optional(inner) if *optional => items.extend(inner.as_deref().cloned()),
                _ if *optional => return Err(EvalError::NoSuchOverload),
                value => items.push(value),
            }
        }
        Ok(items.into())
    }

    fn map(&mut self, entries: &'a [(bool, Op, Op)]) -> Outcome<'a> {
        self.meter.charge(MAP_COST)?;
        let mut out = BTreeMap::new();
        for (optional, key, value) in entries {
            let key = self.eval(key)?;
            let value = match self.eval(value)? {
                Val::Optional(inner) if *optional => inner.as_deref().cloned(),
                _ if *optional => return Err(EvalError::NoSuchOverload),
                value => Some(value),
            };
            if let Some(value) = value {
                insert_new(&mut out, &key, value)?;
            }
        }
        Ok(Val::Map(Map::Owned(Arc::new(out))))
    }

    fn bind(&mut self, [init, body]: &'a [Op; 2]) -> Outcome<'a> {
        let value = self.eval(init)?;
        self.meter.charge(1)?;
        self.with(None, value, body)
    }

    fn if_present(&mut self, target: &'a Op, body: &'a Op, flat: bool) -> Outcome<'a> {
        let Val::Optional(inner) = self.eval(target)? else { return Err(EvalError::NoSuchOverload) };
        self.meter.charge(1)?;
        let Some(inner) = inner else { return Ok(Val::Optional(None)) };
        let result = self.with(None, (*inner).clone(), body)?;
        Ok(if flat { result } else { Val::optional(Some(result)) })
    }

    /// Evaluates with one or two more variables.
    fn with(&mut self, first: Option<Val<'a>>, second: Val<'a>, body: &'a Op) -> Outcome<'a> {
        let depth = self.stack.len();
        if let Some(first) = first {
            self.stack.push(Some(first));
        }
        self.stack.push(Some(second));
        let result = self.eval(body);
        self.stack.truncate(depth);
        result
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        self.meter.charge(1)?;
        let turns = turns(&range, fold.two)?;
        let mut state = State::new(fold.kind);
        for (first, second) in turns {
            self.meter.charge(fold.kind.turn_cost())?;
            if let Some(filter) = &fold.filter {
                match self.with(first.clone(), second.clone(), filter)? {
                    Val::Bool(true) => {}
                    Val::Bool(false) => continue,
                    _ => return Err(EvalError::NoSuchOverload),
                }
            }
            let result = self.with(first.clone(), second.clone(), &fold.body);
            if let Some(done) = state.take(first, second, result)? {
                return Ok(done);
            }
        }
        state.finish(self.meter)
    }
}

/// What a loop has so far.
struct State<'a> {
    kind: FoldKind,
    failed: Option<EvalError>,
    count: u64,
    items: Vec<Val<'a>>,
    keys: Vec<Val<'a>>,
    entries: BTreeMap<Key, Val<'a>>,
}

impl<'a> State<'a> {
    fn new(kind: FoldKind) -> Self {
        State { kind, failed: None, count: 0, items: Vec::new(), keys: Vec::new(), entries: BTreeMap::new() }
    }

    /// One turn; a value if the loop need not go on.
    fn take(
        &mut self,
        first: Option<Val<'a>>,
        element: Val<'a>,
        result: Outcome<'a>,
    ) -> Result<Option<Val<'a>>, EvalError> {
        let deciding = match self.kind {
            FoldKind::All => Some(false),
            FoldKind::Exists => Some(true),
            _ => None,
        };
        // In `all` and `exists` a later element can still decide; see `Machine::logic`.
        let result = match (result, deciding) {
            (Err(error), Some(_)) if error != EvalError::CostLimit => {
                self.failed.get_or_insert(error);
                return Ok(None);
            }
            (result, _) => result?,
        };
        match (self.kind, result) {
            (FoldKind::All | FoldKind::Exists, Val::Bool(value)) => {
                return Ok((Some(value) == deciding).then_some(Val::Bool(value)));
            }
            (FoldKind::ExistsOne, Val::Bool(value)) => self.count += u64::from(value),
            (FoldKind::Filter, Val::Bool(true)) => self.items.push(element),
            (FoldKind::Filter, Val::Bool(false)) => {}
            (FoldKind::Map, value) => self.items.push(value),
            (FoldKind::SortBy, key) => {
                self.keys.push(key);
                self.items.push(element);
            }
            (FoldKind::TransformMap, value) => {
                insert_new(&mut self.entries, &first.unwrap_or(Val::Null), value)?
            }
            (FoldKind::TransformMapEntry, Val::Map(map)) => {
                for (key, value) in map.iter() {
                    insert_new(&mut self.entries, &key, value)?;
                }
            }
            _ => return Err(EvalError::NoSuchOverload),
        }
        Ok(None)
    }

    fn finish(self, meter: &mut Meter) -> Outcome<'a> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.kind {
            FoldKind::All => Ok(true.into()),
            FoldKind::Exists => Ok(false.into()),
            FoldKind::ExistsOne => Ok((self.count == 1).into()),
            FoldKind::Map | FoldKind::Filter => Ok(self.items.into()),
            FoldKind::SortBy => sort_by_keys(self.items, self.keys, meter),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                Ok(Val::Map(Map::Owned(Arc::new(self.entries))))
            }
        }
    }
}

type Turn<'a> = (Option<Val<'a>>, Val<'a>);

/// The variables of each turn. A map gives its keys to one variable, keys and values to two.
fn turns<'a>(range: &Val<'a>, two: bool) -> Result<Vec<Turn<'a>>, EvalError> {
    match range {
        Val::List(list) if two => Ok(indexed(list)),
        Val::List(list) => Ok(list.iter().map(|item| (None, item)).collect()),
        Val::Map(map) if two => Ok(map.iter().map(|(key, value)| (Some(key), value)).collect()),
        Val::Map(map) => Ok(map.iter().map(|(key, _)| (None, key)).collect()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn indexed<'a>(list: &List<'a>) -> Vec<Turn<'a>> {
    (0i64..).zip(list.iter()).map(|(index, item)| (Some(Val::Int(index)), item)).collect()
}

fn insert_new<'a>(into: &mut BTreeMap<Key, Val<'a>>, key: &Val<'a>, value: Val<'a>) -> Result<(), EvalError> {
    let found = Key::of(key)
        .ok_or_else(|| EvalError::function(format!("unsupported key type: {}", key.type_name())))?;
    match into.insert(found, value) {
        None => Ok(()),
        Some(_) => Err(EvalError::function(format!("Failed with repeated key: {key}"))),
    }
}

/// An element by index or key; an error if the container has no such kind of index.
fn element<'a>(container: &Val<'a>, index: &Val<'a>) -> Result<Option<Val<'a>>, EvalError> {
    match (container, index) {
        (Val::List(list), Val::Int(i)) => Ok(usize::try_from(*i).ok().and_then(|i| list.get(i))),
        (Val::List(list), Val::Uint(u)) => Ok(usize::try_from(*u).ok().and_then(|i| list.get(i))),
        (Val::List(list), Val::Double(d)) if d.fract() == 0.0 && *d >= 0.0 => Ok(list.get(*d as usize)),
        (Val::Map(map), key) => Ok(map.get(key)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn call_host<'a>(object: &Arc<dyn HostObject>, method: &str, args: &[Json]) -> Outcome<'a> {
    match object.call(method, args)? {
        HostValue::Object(object) => Ok(Val::Host(object)),
        HostValue::Json(json) => owned(json, MAX_DEPTH),
    }
}

/// A value that belongs to nobody else.
fn owned<'a>(json: Json, depth: u16) -> Outcome<'a> {
    let depth = depth.checked_sub(1).ok_or_else(|| EvalError::function("value is nested too deeply"))?;
    Ok(match json {
        Json::Null => Val::Null,
        Json::Bool(b) => Val::Bool(b),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Val::Int(integer),
            None => number.as_u64().map_or(Val::Double(number.as_f64().unwrap_or(f64::NAN)), Val::Uint),
        },
        Json::String(text) => text.into(),
        Json::Array(items) => {
            items.into_iter().map(|item| owned(item, depth)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Json::Object(entries) => {
            let entries =
                entries.into_iter().map(|(key, value)| Ok((Key::Str(key.into()), owned(value, depth)?)));
            Val::Map(Map::Owned(Arc::new(entries.collect::<Result<BTreeMap<_, _>, EvalError>>()?)))
        }
    })
}
