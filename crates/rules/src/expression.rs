//! Expressions on their own, with variables that the caller declares: what admission policies are made of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemas::Schema;
use serde_json::Value;

use crate::budget::{Budget, Meter, PER_CALL_LIMIT};
use crate::check::{Checker, Variable};
use crate::error::{CompileError, EvalError};
use crate::eval::{Definitions, Machine};
use crate::host::HostObject;
use crate::program::Op;
use crate::syntax::parse;
use crate::ty::Ty;
use crate::types::{TypeId, Types};
use crate::value::Val;

/// What is known of a variable when an expression is compiled.
#[derive(Clone, Debug)]
pub enum VariableType {
    /// Anything; mistakes show at evaluation.
    Dyn,
    Bool,
    Int,
    Double,
    String,
    /// An object of a schema: unknown fields are errors when compiling.
    Schema(Arc<Schema>),
    /// A value of a schema that is not an object of the API, such as `request`: its `metadata`, if it has any, is only
    /// what the schema says.
    Structure(Arc<Schema>),
    /// An object of the caller's with methods, such as `authorizer`.
    Host,
    /// `variables`: expressions that are evaluated when they are asked for.
    Definitions(Vec<Definition>),
}

/// A named expression that others refer to as `variables.name`.
#[derive(Clone, Debug)]
pub struct Definition {
    pub name: String,
    pub expression: Arc<Expression>,
}

/// A compiled expression. Immutable: share it behind an `Arc`.
#[derive(Debug)]
pub struct Expression {
    program: Op,
    types: Types,
    variables: Vec<(String, Option<TypeId>)>,
    result: Ty,
    cost: u64,
}

impl Expression {
    /// Compiles an expression that sees these variables.
    pub fn compile(source: &str, variables: &[(&str, VariableType)]) -> Result<Expression, CompileError> {
        Self::compile_within(source, variables, &[])
    }

    /// As [`Expression::compile`], for an expression that may construct objects of these types and of those that are
    /// nested in them: `Object{spec: Object.spec{replicas: 1}}`. Their fields are not checked; the value is a map.
    pub fn compile_constructing(
        source: &str,
        variables: &[(&str, VariableType)],
        constructed: &[&str],
    ) -> Result<Expression, CompileError> {
        Self::compile_within(source, variables, constructed)
    }

    fn compile_within(
        source: &str,
        variables: &[(&str, VariableType)],
        constructed: &[&str],
    ) -> Result<Expression, CompileError> {
        let mut types = Types::default();
        let mut scope = Vec::with_capacity(variables.len());
        let mut definitions = Vec::new();
        let mut places = Vec::with_capacity(variables.len());
        for (name, declared) in variables {
            let mut place = None;
            let ty = match declared {
                VariableType::Dyn => Ty::Dyn,
                VariableType::Bool => Ty::Bool,
                VariableType::Int => Ty::Int,
                VariableType::Double => Ty::Double,
                VariableType::String => Ty::Str,
                VariableType::Host => Ty::Host,
                VariableType::Schema(schema) | VariableType::Structure(schema) => {
                    let is_resource = matches!(declared, VariableType::Schema(_));
                    place = types.declare_root(schema.root(), is_resource);
                    place.map_or(Ty::Dyn, |id| Ty::of(types.place(id), id))
                }
                VariableType::Definitions(list) => {
                    definitions
                        .extend(list.iter().map(|d| (d.name.clone(), d.expression.result.without_objects())));
                    Ty::Definitions
                }
            };
            let variable = match place {
                Some(id) => Variable::at(*name, types.place(id), id),
                None => Variable::new(*name, ty),
            };
            places.push(((*name).to_owned(), place));
            scope.push(variable);
        }
        types.seal();
        let mut checker = Checker::new(&types, scope);
        checker.definitions = &definitions;
        checker.constructed = constructed;
        let checked = parse(source).and_then(|expr| checker.check(&expr));
        let checked = checked.map_err(|issue| CompileError::Invalid(issue.render(source)))?;
        Ok(Expression {
            program: checked.op,
            result: checked.ty,
            cost: checked.cost,
            variables: places,
            types,
        })
    }

    /// As [`Expression::compile`], for an expression that must be true or false.
    pub fn compile_bool(
        source: &str,
        variables: &[(&str, VariableType)],
    ) -> Result<Expression, CompileError> {
        Self::compile_as(source, variables, &Ty::Bool)
    }

    /// As [`Expression::compile`], for an expression that must be text.
    pub fn compile_string(
        source: &str,
        variables: &[(&str, VariableType)],
    ) -> Result<Expression, CompileError> {
        Self::compile_as(source, variables, &Ty::Str)
    }

    fn compile_as(
        source: &str,
        variables: &[(&str, VariableType)],
        wanted: &Ty,
    ) -> Result<Expression, CompileError> {
        let expression = Self::compile(source, variables)?;
        if expression.result.may_be(wanted) {
            Ok(expression)
        } else {
            Err(CompileError::WrongResult { expected: wanted.to_string() })
        }
    }

    /// The worst that one evaluation can cost.
    pub fn estimated_cost(&self) -> u64 {
        self.cost
    }

    /// The value as JSON. What has no form there, such as a quantity, is an error.
    pub fn evaluate(&self, bindings: &Bindings<'_>, budget: &mut Budget) -> Result<Value, EvalError> {
        let mut meter = Meter::new(PER_CALL_LIMIT.min(budget.remaining()));
        let outcome = self.run(bindings, &mut meter).and_then(|value| {
            value
                .to_json()
                .ok_or_else(|| EvalError::function(format!("{} has no JSON form", value.type_name())))
        });
        budget.take(meter.spent());
        outcome
    }

    /// The value of an expression that is a test.
    pub fn evaluate_bool(&self, bindings: &Bindings<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        match self.evaluate(bindings, budget)? {
            Value::Bool(value) => Ok(value),
            _ => Err(EvalError::function("expression did not evaluate to a bool")),
        }
    }

    fn run<'a, 'b: 'a>(&'a self, bindings: &Bindings<'b>, meter: &mut Meter) -> Result<Val<'a>, EvalError> {
        let variables = self.variables.iter().map(|(name, place)| {
            let place = place.map(|id| self.types.place(id));
            bindings.get(name).map(|bound| match bound {
                Bound::Json(json) => Val::of_json(json, place),
                Bound::Null => Val::Null,
                Bound::Host(object) => Val::Host(object.clone()),
            })
        });
        let mut variables: Vec<Option<Val<'a>>> = variables.collect();
        // `variables` itself has no value, only fields.
        for (slot, (name, _)) in variables.iter_mut().zip(&self.variables) {
            if name == "variables" && slot.is_none() {
                *slot = Some(Val::Null);
            }
        }
        Machine::new(variables, meter).with_definitions(bindings).eval(&self.program)
    }
}

/// The values of the variables, for one evaluation or several.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'a> {
    values: Vec<(&'a str, Bound<'a>)>,
    definitions: &'a [Definition],
    /// The definitions that have been asked for. Every expression that is evaluated with these bindings shares them, so
    /// that each is evaluated, and paid for, once.
    resolved: RefCell<BTreeMap<&'a str, Result<Val<'a>, EvalError>>>,
}

#[derive(Clone, Debug)]
enum Bound<'a> {
    Json(&'a Value),
    Null,
    Host(Arc<dyn HostObject>),
}

impl<'a> Bindings<'a> {
    pub fn new() -> Self {
        Bindings::default()
    }

    /// A variable with a value, such as `object` or `request`.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &'a Value) -> Self {
        self.values.push((name, Bound::Json(value)));
        self
    }

    /// A variable with a value, or null: `oldObject` of a creation.
    #[must_use]
    pub fn with_optional(mut self, name: &'a str, value: Option<&'a Value>) -> Self {
        self.values.push((name, value.map_or(Bound::Null, Bound::Json)));
        self
    }

    #[must_use]
    pub fn with_host(mut self, name: &'a str, object: Arc<dyn HostObject>) -> Self {
        self.values.push((name, Bound::Host(object)));
        self
    }

    /// What `variables.name` means. A definition may use those before it.
    #[must_use]
    pub fn with_definitions(mut self, definitions: &'a [Definition]) -> Self {
        self.definitions = definitions;
        self
    }

    fn get(&self, name: &str) -> Option<&Bound<'a>> {
        self.values.iter().rev().find(|(known, _)| *known == name).map(|(_, bound)| bound)
    }
}

impl<'a, 'b: 'a> Definitions<'a> for Bindings<'b> {
    fn resolve(&self, name: &str, meter: &mut Meter) -> Result<Val<'a>, EvalError> {
        if let Some(known) = self.resolved.borrow().get(name) {
            return known.clone();
        }
        let Some(definition) = self.definitions.iter().find(|d| d.name == name) else {
            return Err(EvalError::Unbound(format!("variables.{name}")));
        };
        // Compilation let a definition see only earlier ones, so this ends.
        let outcome: Result<Val<'b>, EvalError> = definition.expression.run(self, meter);
        // An exhausted budget says nothing about the value.
        if !matches!(outcome, Err(EvalError::CostLimit)) {
            self.resolved.borrow_mut().insert(&definition.name, outcome.clone());
        }
        outcome
    }
}
