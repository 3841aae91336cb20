//! Macros: calls that bind variables.

use crate::check::{Checked, Checker, Outcome, Variable, no_overload};
use crate::library::Extent;
use crate::program::{Fold, FoldKind, Op};
use crate::syntax::{Expr, Issue, Kind};
use crate::ty::Ty;
use crate::types::TypeId;

/// What is known of the result of a macro.
type Folded = (Ty, Option<TypeId>, Extent);

/// A macro over a range: how many variables, whether there may be a filter before the body.
struct Form {
    name: &'static str,
    kind: FoldKind,
    variables: usize,
    filter: bool,
}

const fn form(name: &'static str, kind: FoldKind, variables: usize, filter: bool) -> Form {
    Form { name, kind, variables, filter }
}

const FORMS: [Form; 19] = [
    form("all", FoldKind::All, 1, false),
    form("all", FoldKind::All, 2, false),
    form("exists", FoldKind::Exists, 1, false),
    form("exists", FoldKind::Exists, 2, false),
    form("exists_one", FoldKind::ExistsOne, 1, false),
    form("exists_one", FoldKind::ExistsOne, 2, false),
    form("existsOne", FoldKind::ExistsOne, 1, false),
    form("existsOne", FoldKind::ExistsOne, 2, false),
    form("map", FoldKind::Map, 1, false),
    form("map", FoldKind::Map, 1, true),
    form("filter", FoldKind::Filter, 1, false),
    form("transformList", FoldKind::Map, 2, false),
    form("transformList", FoldKind::Map, 2, true),
    form("transformMap", FoldKind::TransformMap, 2, false),
    form("transformMap", FoldKind::TransformMap, 2, true),
    form("transformMapEntry", FoldKind::TransformMapEntry, 2, false),
    form("transformMapEntry", FoldKind::TransformMapEntry, 2, true),
    form("sortBy", FoldKind::SortBy, 1, false),
    form("sortBy", FoldKind::SortBy, 1, true),
];

impl Checker<'_> {
    /// The call as a macro, if it is one.
    pub(crate) fn expand(
        &mut self,
        at: usize,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Option<Outcome> {
        match (target, name, args) {
            (None, "has", [argument]) => return Some(self.has(at, argument)),
            (Some(target), "bind", [variable, init, body]) if matches!(&target.kind, Kind::Ident(n) if n == "cel") =>
            {
                return Some(self.bind(variable, init, body));
            }
            (Some(target), "optMap" | "optFlatMap", [variable, body]) => {
                return Some(self.if_present(target, variable, body, name == "optFlatMap"));
            }
            _ => {}
        }
        let target = target?;
        let form = FORMS
            .iter()
            .find(|form| form.name == name && args.len() == form.variables + 1 + usize::from(form.filter))?;
        let (variables, rest) = args.split_at(form.variables);
        // `x.all(y)` with something else than a name is an error, but `sortBy` and the rest are known as macros only.
        let (filter, body) = match rest {
            [filter, body] => (Some(filter), body),
            [body] => (None, body),
            _ => return None,
        };
        Some(self.fold(at, form.kind, target, variables, filter, body))
    }

    fn fold(
        &mut self,
        at: usize,
        kind: FoldKind,
        target: &Expr,
        variables: &[Expr],
        filter: Option<&Expr>,
        body: &Expr,
    ) -> Outcome {
        let range = self.check(target)?;
        let bound = self.loop_variables(target.at, &range, variables)?;
        let depth = self.scope.len();
        self.scope.extend(bound);
        let filter = filter.map(|filter| self.check(filter)).transpose();
        let body = self.check(body);
        self.scope.truncate(depth);
        let (filter, body) = (filter?, body?);
        for test in filter.iter().chain(predicate(kind).then_some(&body)) {
            if !test.ty.may_be(&Ty::Bool) {
                return Err(no_overload(at, "_&&_", false, &[&Ty::Bool, &test.ty]));
            }
        }
        let turn =
            kind.turn_cost().saturating_add(body.cost).saturating_add(filter.as_ref().map_or(0, |f| f.cost));
        let cost = range.cost.saturating_add(range.extent.size.saturating_mul(turn)).saturating_add(1);
        let (ty, place, extent) = self.fold_result(at, kind, &range, &body)?;
        let fold = Fold {
            kind,
            range: range.op,
            two: variables.len() == 2,
            filter: filter.map(|f| f.op),
            body: body.op,
        };
        Ok(Checked { op: Op::Fold(Box::new(fold)), ty, place, extent, cost })
    }

    fn loop_variables(&self, at: usize, range: &Checked, variables: &[Expr]) -> Result<Vec<Variable>, Issue> {
        let (place, extent) = self.element_of(range);
        let element = |name: String, ty: Ty| Variable { place, extent, ..Variable::new(name, ty) };
        // As upstream, which declares the keys of maps without a size: a rule over them is estimated by their number.
        let key = |name: String, ty: Ty| Variable {
            extent: Extent { size: 0, element: 1 },
            ..Variable::new(name, ty)
        };
        let names: Vec<String> = variables.iter().map(variable_name).collect::<Result<_, _>>()?;
        match (&range.ty, names.as_slice()) {
            (Ty::List(item), [name]) => Ok(vec![element(name.clone(), (**item).clone())]),
            (Ty::List(item), [index, name]) => {
                Ok(vec![key(index.clone(), Ty::Int), element(name.clone(), (**item).clone())])
            }
            (Ty::Map(keys, _), [name]) => Ok(vec![key(name.clone(), (**keys).clone())]),
            (Ty::Map(keys, values), [first, second]) => {
                Ok(vec![key(first.clone(), (**keys).clone()), element(second.clone(), (**values).clone())])
            }
            (ty, names) if ty.is_dynamic() => {
                Ok(names.iter().map(|name| element(name.clone(), Ty::Dyn)).collect())
            }
            (ty, _) => Err(Issue::new(
                at,
                format!(
                    "expression of type '{ty}' cannot be range of a comprehension (must be list, map, or dynamic)"
                ),
            )),
        }
    }

    fn fold_result(
        &self,
        at: usize,
        kind: FoldKind,
        range: &Checked,
        body: &Checked,
    ) -> Result<Folded, Issue> {
        let of_body = Extent { size: range.extent.size, element: body.extent.size };
        let key = match &range.ty {
            Ty::Map(key, _) => (**key).clone(),
            Ty::List(_) => Ty::Int,
            _ => Ty::Dyn,
        };
        Ok(match kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => {
                (Ty::Bool, None, Extent { size: 1, element: 1 })
            }
            FoldKind::Map => (Ty::list(body.ty.clone()), None, of_body),
            FoldKind::Filter => match &range.ty {
                Ty::Map(key, _) => (Ty::List(key.clone()), None, range.extent),
                Ty::List(_) => (range.ty.clone(), range.place, range.extent),
                _ => (Ty::list(Ty::Dyn), None, range.extent),
            },
            FoldKind::SortBy if matches!(range.ty, Ty::Map(..)) => {
                return Err(no_overload(at, "sortBy", true, &[&range.ty, &body.ty]));
            }
            FoldKind::SortBy => (range.ty.clone(), range.place, range.extent),
            FoldKind::TransformMap => (Ty::Map(key.into(), body.ty.clone().into()), None, of_body),
            FoldKind::TransformMapEntry => match &body.ty {
                Ty::Map(..) => {
                    (body.ty.clone(), None, Extent { size: range.extent.size, element: body.extent.element })
                }
                ty if ty.is_dynamic() => (Ty::Map(Ty::Dyn.into(), Ty::Dyn.into()), None, of_body),
                ty => return Err(Issue::new(at, format!("expected type 'map' but found '{ty}'"))),
            },
        })
    }

    fn bind(&mut self, variable: &Expr, init: &Expr, body: &Expr) -> Outcome {
        let name = variable_name(variable)?;
        let init = self.check(init)?;
        let (place, extent) = (init.place, init.extent);
        self.scope.push(Variable { place, extent, ..Variable::new(name, init.ty) });
        let body = self.check(body);
        self.scope.pop();
        let body = body?;
        let cost = init.cost.saturating_add(body.cost).saturating_add(1);
        Ok(Checked { op: Op::Bind(Box::new([init.op, body.op])), cost, ..body })
    }

    fn if_present(&mut self, target: &Expr, variable: &Expr, body: &Expr, flat: bool) -> Outcome {
        let name = variable_name(variable)?;
        let at = target.at;
        let target = self.check(target)?;
        let inner = match &target.ty {
            Ty::Optional(inner) => (**inner).clone(),
            ty if ty.is_dynamic() => Ty::Dyn,
            ty => return Err(no_overload(at, "optMap", true, &[ty])),
        };
        let (place, extent) = (target.place, target.extent);
        self.scope.push(Variable { place, extent, ..Variable::new(name, inner) });
        let body = self.check(body);
        self.scope.pop();
        let body = body?;
        let ty = match &body.ty {
            ty if !flat => Ty::optional(ty.clone()),
            ty @ (Ty::Optional(_) | Ty::Dyn | Ty::Host) => ty.clone(),
            ty => {
                return Err(Issue::new(at, format!("expected type 'optional_type({ty})' but found '{ty}'")));
            }
        };
        let cost = target.cost.saturating_add(body.cost).saturating_add(3);
        let op = Op::IfPresent { target: Box::new(target.op), body: Box::new(body.op), flat };
        Ok(Checked { op, ty, cost, place: body.place, extent: body.extent })
    }
}

fn predicate(kind: FoldKind) -> bool {
    matches!(kind, FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter)
}

fn variable_name(expr: &Expr) -> Result<String, Issue> {
    match &expr.kind {
        Kind::Ident(name) => Ok(name.clone()),
        _ => Err(Issue::new(expr.at, "argument must be a simple name")),
    }
}
