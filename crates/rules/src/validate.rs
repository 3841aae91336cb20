//! Running a schema's rules over an object.

use std::collections::HashMap;

use compact_str::CompactString;
use objects::Path;
use objects::field::{Error, ErrorList};
use serde_json::Value;

use crate::budget::{Budget, Meter, PER_CALL_LIMIT};
use crate::error::EvalError;
use crate::eval::Machine;
use crate::program::Op;
use crate::schema_rules::{CompiledRule, CompiledRules, Reason, Station, StationId};
use crate::value::Val;

/// Longest message that a `messageExpression` may give.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What the rules say of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Review {
    pub errors: ErrorList,
    /// Errors of values that were so before this update: reported, not enforced.
    pub ratcheted: ErrorList,
}

impl CompiledRules {
    /// Checks a value, and on update what it was before. `path` is where the value stands: empty for a whole object.
    #[must_use]
    pub fn validate(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &Path,
        budget: &mut Budget,
    ) -> ErrorList {
        self.review(value, old, path, budget).errors
    }

    /// As [`CompiledRules::validate`], and what was passed over because it had not changed.
    #[must_use]
    pub fn review(&self, value: &Value, old: Option<&Value>, path: &Path, budget: &mut Budget) -> Review {
        let mut walk = Walk { rules: self, budget, review: Review::default() };
        if let Some(root) = self.root {
            let old = old.filter(|old| !old.is_null());
            let pair = Pair { value, old, current: old.map(|old| (value, old)), nearest: None };
            walk.visit(root, pair, path);
        }
        walk.review
    }
}

/// A value and what it was, where that can be told.
#[derive(Clone, Copy)]
struct Pair<'a> {
    value: &'a Value,
    /// For `oldSelf`.
    old: Option<&'a Value>,
    /// For ratcheting: this value and what it was; or, where that cannot be told, the nearest value around it.
    current: Option<(&'a Value, &'a Value)>,
    nearest: Option<(&'a Value, &'a Value)>,
}

impl<'a> Pair<'a> {
    /// A part of the value.
    fn part(self, value: &'a Value, old: Option<&'a Value>) -> Pair<'a> {
        let old = old.filter(|old| !old.is_null());
        let (current, nearest) = match self.current {
            None => (None, self.nearest),
            Some(_) => (old.map(|old| (value, old)), self.current),
        };
        Pair { value, old, current, nearest }
    }

    /// A field of the value. Of a whole object, `apiVersion` and `kind` are never ratcheted: both versions of it were
    /// converted to the same.
    fn field(self, name: &str, value: &'a Value, old: Option<&'a Value>) -> Pair<'a> {
        let part = self.part(value, old);
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Pair { current: None, nearest: None, ..part };
        }
        part
    }

    fn unchanged(self) -> bool {
        self.current.or(self.nearest).is_some_and(|(new, old)| new == old)
    }
}

struct Walk<'r, 'b> {
    rules: &'r CompiledRules,
    budget: &'b mut Budget,
    review: Review,
}

impl<'r> Walk<'r, '_> {
    /// Rules of null are not run: whether a value may be null is for the rules around it.
    fn visit<'a>(&mut self, id: StationId, pair: Pair<'a>, path: &Path)
    where
        'r: 'a,
    {
        let Some(station) = self.rules.station(id) else { return };
        if pair.value.is_null() || self.budget.is_exhausted() {
            return;
        }
        for rule in &station.rules {
            if self.budget.is_exhausted() {
                return;
            }
            if self.budget.remaining() == 0 {
                self.review.errors.push(Error::invalid(path, station.type_name, OUT_OF_BUDGET));
                return self.budget.exhaust();
            }
            self.run(station, rule, pair, path);
        }
        for part in &station.all_of {
            // What allOf adds is not ratcheted by the value itself, only by what is around it.
            self.visit(*part, Pair { current: None, ..pair }, path);
        }
        match pair.value {
            Value::Array(items) => self.visit_items(station, items, pair, path),
            Value::Object(entries) => {
                let old = pair.old.and_then(Value::as_object).filter(|_| station.entries_correlate);
                for (name, value) in entries {
                    let part = pair.field(name, value, old.and_then(|old| old.get(name)));
                    if let Some(additional) = station.additional {
                        self.visit(additional, part, &path.key(name));
                    }
                    if let Some(field) = station.fields.get(name.as_str()) {
                        self.visit(*field, part, &path.child(name));
                    }
                }
            }
            _ => {}
        }
    }

    fn visit_items<'a>(&mut self, station: &'r Station, items: &'a [Value], pair: Pair<'a>, path: &Path)
    where
        'r: 'a,
    {
        let Some(below) = station.items else { return };
        let old = pair.old.and_then(Value::as_array).filter(|_| !station.keys.is_empty());
        let old: HashMap<String, &'a Value> =
            old.into_iter().flatten().map(|item| (identity(item, &station.keys), item)).collect();
        for (index, item) in items.iter().enumerate() {
            let before = if old.is_empty() { None } else { old.get(&identity(item, &station.keys)).copied() };
            self.visit(below, pair.part(item, before), &path.index(index));
        }
    }

    fn run<'a>(&mut self, station: &'r Station, rule: &'r CompiledRule, pair: Pair<'a>, path: &Path)
    where
        'r: 'a,
    {
        if rule.uses_old_self && pair.old.is_none() && !rule.optional_old_self {
            return;
        }
        let invalid = |detail: String| Error::invalid(path, station.type_name, detail);
        let outcome = match self.evaluate(station, &rule.program, pair, rule.optional_old_self) {
            Some(outcome) => outcome,
            None => return self.review.errors.push(invalid(OUT_OF_BUDGET.to_owned())),
        };
        let error = match outcome {
            Ok(Val::Bool(true)) => return,
            Ok(_) => return self.report(station, rule, pair, path),
            Err(error) => error,
        };
        let name = &rule.name;
        self.review.errors.push(match error {
            EvalError::NoSuchOverload => invalid(format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: \
                 {name}"
            )),
            EvalError::CostLimit => {
                self.budget.exhaust();
                invalid(format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                ))
            }
            error => invalid(format!("{error} evaluating rule: {name}")),
        });
    }

    /// The value of an expression, or nothing if it cost more than is left.
    fn evaluate<'a>(
        &mut self,
        station: &'r Station,
        program: &'r Op,
        pair: Pair<'a>,
        optional_old: bool,
    ) -> Option<Result<Val<'a>, EvalError>>
    where
        'r: 'a,
    {
        let place = station.place.map(|id| self.rules.types.place(id));
        let this = Val::of_json(pair.value, place);
        let old = pair.old.map(|old| Val::of_json(old, place));
        let old = if optional_old { Some(Val::optional(old)) } else { old };
        let mut meter = Meter::new(PER_CALL_LIMIT);
        let outcome = Machine::new(vec![Some(this), old], &mut meter).eval(program);
        self.budget.take(meter.spent()).then_some(outcome)
    }

    /// A rule was not kept.
    fn report<'a>(&mut self, station: &'r Station, rule: &'r CompiledRule, pair: Pair<'a>, path: &Path)
    where
        'r: 'a,
    {
        let path = if rule.field_path.is_empty() { path.clone() } else { path.child(&rule.field_path) };
        let detail = match self.message(station, rule, pair) {
            Ok(Some(message)) => message,
            Ok(None) if rule.message.is_empty() => format!("failed rule: {}", rule.name),
            Ok(None) => rule.message.clone(),
            Err(stopped) => {
                self.budget.exhaust();
                stopped
            }
        };
        let error = match rule.reason {
            _ if self.budget.is_exhausted() => Error::invalid(&path, station.type_name, detail),
            Reason::Invalid => Error::invalid(&path, station.type_name, detail),
            Reason::Required => Error::required(&path, detail),
            Reason::Forbidden => Error::forbidden(&path, detail),
            Reason::Duplicate => Error::duplicate(&path, station.type_name),
        };
        // A transition rule is about the change itself, so it is never passed over.
        if !rule.uses_old_self && pair.unchanged() {
            self.review.ratcheted.push(error);
        } else {
            self.review.errors.push(error);
        }
    }

    /// What `messageExpression` says, if it says something usable; an error if it was stopped for its cost.
    fn message<'a>(
        &mut self,
        station: &'r Station,
        rule: &'r CompiledRule,
        pair: Pair<'a>,
    ) -> Result<Option<String>, String>
    where
        'r: 'a,
    {
        let Some((source, program)) = &rule.message_expression else { return Ok(None) };
        match self.evaluate(station, program, pair, false) {
            None => Err("messageExpression evaluation failed due to running out of cost budget, no further validation \
                         rules will be run"
                .to_owned()),
            Some(Err(EvalError::CostLimit)) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: \
                 {source:?}"
            )),
            Some(Ok(Val::Str(text))) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            Some(_) => Ok(None),
        }
    }
}

/// The keys of an element of a keyed list as one text.
fn identity(item: &Value, keys: &[CompactString]) -> String {
    let parts: Vec<String> =
        keys.iter().map(|key| item.get(key.as_str()).map_or_else(String::new, ToString::to_string)).collect();
    parts.join("\u{0}")
}
