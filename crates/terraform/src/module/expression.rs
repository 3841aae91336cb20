//! The value of an expression.
//!
//! Bounded: what an expression takes is counted in steps, and a module has only so many. The parser bounds how deep
//! expressions are nested.

use std::cell::Cell;
use std::cmp::Ordering;

use hcl_edit::Span as _;
use hcl_edit::expr::{
    BinaryOp, BinaryOperator, Expression, ForExpr, FuncCall, ObjectKey, Traversal, TraversalOperator,
    UnaryOperator,
};

use super::problem::{File, Problem};
use super::term::{Entries, Term};
use super::unify::alike;
use super::{arithmetic, functions, reading, references, template, types};
use crate::value::Number;

/// What all expressions of a module may take in one look: values made, and a sixteenth of the bytes of their texts.
const STEPS: usize = 2_000_000;

/// What is left of the steps.
pub struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Budget {
        Budget(Cell::new(STEPS))
    }
}

impl Budget {
    pub fn spend(&self, steps: usize) -> Result<(), Problem> {
        match self.0.get().checked_sub(steps) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => Err(Problem::new("the module's expressions make too much of too little")),
        }
    }
}

/// What stands outside of expressions.
pub trait Names {
    fn variable(&self, name: &str) -> Result<Term, Problem>;
    fn local(&self, name: &str) -> Result<Term, Problem>;
    /// By its address in the module: one object, or a list or a map of them.
    fn resource(&self, address: &str) -> Result<Term, Problem>;
    /// The outputs of a called module, or one of them, in the same form.
    fn call(&self, name: &str, only: Option<&str>) -> Result<Term, Problem>;

    /// Whether what is ephemeral is open: it has values then, and they are secret.
    fn is_open(&self) -> bool {
        false
    }

    /// What a function of a provider makes of its arguments.
    fn function(&self, _provider: &str, _name: &str, _arguments: Vec<Term>) -> Result<Term, Problem> {
        Err(Problem::new("functions of providers cannot be called here"))
    }
}

/// No names at all: what a default may be made of.
pub struct Nothing;

impl Names for Nothing {
    fn variable(&self, _: &str) -> Result<Term, Problem> {
        Err(Problem::new("a constant is required here"))
    }

    fn local(&self, name: &str) -> Result<Term, Problem> {
        self.variable(name)
    }

    fn resource(&self, address: &str) -> Result<Term, Problem> {
        self.variable(address)
    }

    fn call(&self, name: &str, _: Option<&str>) -> Result<Term, Problem> {
        self.variable(name)
    }
}

/// Where an expression stands.
#[derive(Clone)]
pub struct Scope<'a> {
    pub file: &'a File,
    pub names: &'a dyn Names,
    pub budget: &'a Budget,
    /// Names of `for` and of dynamic blocks, and `each` and `count`; the last one counts.
    pub bound: Vec<(String, Term)>,
    /// In a file or a text that is a template; there is none in such.
    pub in_template: bool,
}

impl<'a> Scope<'a> {
    pub fn new(file: &'a File, names: &'a dyn Names, budget: &'a Budget) -> Scope<'a> {
        Scope { file, names, budget, bound: Vec::new(), in_template: false }
    }

    #[must_use]
    pub fn with(&self, bound: impl IntoIterator<Item = (String, Term)>) -> Scope<'a> {
        let mut scope = self.clone();
        scope.bound.extend(bound);
        scope
    }

    fn bound(&self, name: &str) -> Option<&Term> {
        self.bound.iter().rev().find(|(bound, _)| bound == name).map(|(_, term)| term)
    }

    pub fn evaluate(&self, expression: &Expression) -> Result<Term, Problem> {
        match self.value(expression) {
            Ok(Term::Ephemeral) => Err(Problem::Ephemeral),
            found => found.map_err(|problem| problem.within(self.file, expression.span())),
        }
    }

    /// The same where something that has no value now can be an element of what does.
    pub fn evaluate_part(&self, expression: &Expression) -> Result<Term, Problem> {
        match self.evaluate(expression) {
            Err(Problem::Ephemeral) => Ok(Term::Ephemeral),
            found => found,
        }
    }

    fn value(&self, expression: &Expression) -> Result<Term, Problem> {
        self.budget.spend(1)?;
        match expression {
            Expression::Null(_) => Ok(Term::Null),
            Expression::Bool(bool) => Ok(Term::Bool(*bool.value())),
            Expression::Number(number) => {
                let written = number.as_repr().map(|text| (**text).to_owned());
                let text = written.unwrap_or_else(|| number.value().to_string());
                let number = Number::parse(text.trim());
                number.map(Term::Number).ok_or_else(|| Problem::new("this number cannot be used"))
            }
            Expression::String(text) => Ok(Term::text(text.value())),
            Expression::Array(elements) => {
                let elements = elements.iter().map(|element| self.evaluate_part(element));
                Ok(Term::Tuple(elements.collect::<Result<_, _>>()?))
            }
            Expression::Object(object) => {
                let mut entries = Entries::new();
                let mut secret = false;
                for (key, value) in object.iter() {
                    let (key, secret_key) = self.key(key)?;
                    secret |= secret_key;
                    entries.insert(key, self.evaluate_part(value.expr())?);
                }
                Ok(Term::Object(entries).secret_if(secret))
            }
            Expression::StringTemplate(text) => template::string(self, text),
            Expression::HeredocTemplate(text) => template::heredoc(self, text),
            Expression::Parenthesis(inner) => self.evaluate(inner.inner()),
            Expression::Variable(name) => match self.bound(name) {
                Some(term) => Ok(term.clone()),
                None => Err(Problem::new(format!("there is nothing called {:?}", name.as_str()))),
            },
            Expression::Conditional(choice) => {
                let (condition, secret) = self.evaluate(&choice.cond_expr)?.opened();
                let condition = types::boolean(&condition)
                    .map_err(|problem| problem.within(self.file, choice.cond_expr.span()))?;
                let (chosen, other) = if condition {
                    (&choice.true_expr, &choice.false_expr)
                } else {
                    (&choice.false_expr, &choice.true_expr)
                };
                let chosen = self.evaluate(chosen)?;
                // The other side says of which type both are, so it is waited for; one without a value says nothing.
                let sides = match self.evaluate(other) {
                    Ok(other) => alike(vec![chosen, other])?,
                    Err(problem) if problem.is_pending() => return Err(problem),
                    Err(_) => vec![chosen],
                };
                Ok(sides.into_iter().next().unwrap_or(Term::Null).secret_if(secret))
            }
            Expression::FuncCall(call) => self.call(call),
            Expression::Traversal(traversal) => self.traversal(traversal),
            Expression::UnaryOp(operation) => {
                let (operand, secret) = self.evaluate(&operation.expr)?.opened();
                let term = match operation.operator.value() {
                    UnaryOperator::Not => Term::Bool(!types::boolean(&operand)?),
                    UnaryOperator::Neg => {
                        let negative = arithmetic::negate(&types::number(&operand)?);
                        Term::Number(negative.ok_or_else(|| Problem::new("this number is too large"))?)
                    }
                };
                Ok(term.secret_if(secret))
            }
            Expression::BinaryOp(operation) => self.binary(operation),
            Expression::ForExpr(expression) => self.comprehension(expression),
        }
    }

    /// A key of an object, and whether it is secret.
    fn key(&self, key: &ObjectKey) -> Result<(String, bool), Problem> {
        match key {
            ObjectKey::Ident(name) => Ok((name.as_str().to_owned(), false)),
            ObjectKey::Expression(expression) => self.text(expression),
        }
    }

    /// Something that is a text, and whether it is secret.
    pub fn text(&self, expression: &Expression) -> Result<(String, bool), Problem> {
        let (term, secret) = self.evaluate(expression)?.opened();
        let text = types::string(&term).map_err(|problem| problem.within(self.file, expression.span()))?;
        Ok((text, secret))
    }

    fn call(&self, call: &FuncCall) -> Result<Term, Problem> {
        let name = references::function(call);
        if let Some(tried) = self.tried(&name, call) {
            return tried;
        }
        let mut arguments = Vec::with_capacity(call.args.len());
        for argument in call.args.iter() {
            arguments.push(self.evaluate_part(argument)?);
        }
        if call.args.expand_final() {
            match arguments.pop() {
                Some(Term::Tuple(elements) | Term::List(elements) | Term::Set(elements)) => {
                    arguments.extend(elements)
                }
                _ => return Err(Problem::new("only a list can be expanded into arguments")),
            }
        }
        let made = match (references::provider_function(call), reading::call(self, &name, &arguments)) {
            (Some((provider, name)), _) => self.names.function(provider, name, arguments)?,
            (None, Some(made)) => made?,
            // What is only secret cannot be told from what is ephemeral then; null is never wrong.
            (None, None) if name == "ephemeralasnull" && self.names.is_open() => {
                arguments.pop().unwrap_or(Term::Null).without_secret()
            }
            (None, None) => functions::call(&name, arguments)?,
        };
        self.budget.spend(made.weight())?;
        Ok(made)
    }

    /// The two functions that look at whether an expression has a value. What is pending is not a failure.
    fn tried(&self, name: &str, call: &FuncCall) -> Option<Result<Term, Problem>> {
        let mut last = Problem::new("no expression has a value");
        match name {
            "try" => {
                for argument in call.args.iter() {
                    match self.evaluate(argument) {
                        Err(problem) if !problem.is_passing() => last = problem,
                        found => return Some(found),
                    }
                }
                Some(Err(last))
            }
            "can" => Some(match call.args.get(0).map(|argument| self.evaluate(argument)) {
                Some(Err(problem)) if problem.is_passing() => Err(problem),
                Some(tried) => Ok(Term::Bool(tried.is_ok())),
                None => Err(Problem::new("can takes one expression")),
            }),
            _ => None,
        }
    }

    fn traversal(&self, traversal: &Traversal) -> Result<Term, Problem> {
        let operators: Vec<&TraversalOperator> = traversal.operators.iter().map(|one| one.value()).collect();
        let free = match &traversal.expr {
            Expression::Variable(name) if self.bound(name).is_none() => Some(name.as_str()),
            _ => None,
        };
        let Some(root) = free else {
            let start = self.evaluate(&traversal.expr)?;
            return self.steps(start, &operators);
        };
        let names = references::names(&operators);
        let mut named = 1;
        let start = match (root, names.as_slice()) {
            ("var", [name, ..]) => self.names.variable(name)?,
            ("local", [name, ..]) => self.names.local(name)?,
            ("path", ["module", ..]) => Term::text(self.file.directory()),
            ("path", [_, ..]) => Term::text("."),
            ("terraform", ["workspace", ..]) => Term::text("default"),
            ("each" | "count", _) => {
                return Err(Problem::new(format!("{root} is only there where it is repeated")));
            }
            ("module", [call, ..]) => self.names.call(call, references::output(&operators))?,
            ("data" | "ephemeral", [type_name, name]) => {
                named = 2;
                self.names.resource(&format!("{root}.{type_name}.{name}"))?
            }
            (type_name, [name, ..]) => self.names.resource(&format!("{type_name}.{name}"))?,
            _ => return Err(Problem::new(format!("there is nothing called {root:?}"))),
        };
        self.steps(start, &operators[named..])
    }

    /// What the rest of a traversal leads to.
    fn steps(&self, start: Term, operators: &[&TraversalOperator]) -> Result<Term, Problem> {
        self.budget.spend(1)?;
        if start == Term::Ephemeral {
            return Err(Problem::Ephemeral);
        }
        let Some((operator, rest)) = operators.split_first() else { return Ok(start) };
        let next = match operator {
            TraversalOperator::GetAttr(name) => attribute(start, name)?,
            TraversalOperator::Index(index) => element(start, &self.evaluate(index)?)?,
            TraversalOperator::LegacyIndex(index) => {
                element(start, &Term::Number(Number::from(*index.value())))?
            }
            TraversalOperator::FullSplat(_) => return self.splat(start, rest, rest.len()),
            TraversalOperator::AttrSplat(_) => {
                let named = |one: &&&TraversalOperator| matches!(one, TraversalOperator::GetAttr(_));
                let of_each = rest.iter().take_while(named).count();
                return self.splat(start, rest, of_each);
            }
        };
        self.steps(next, rest)
    }

    /// The first `of_each` steps are those of every element.
    fn splat(&self, start: Term, rest: &[&TraversalOperator], of_each: usize) -> Result<Term, Problem> {
        let (start, secret) = start.opened();
        let (elements, of_one_type) = match start {
            Term::List(elements) | Term::Set(elements) => (elements, true),
            Term::Tuple(elements) => (elements, false),
            Term::Null => (Vec::new(), false),
            one => (vec![one], false),
        };
        self.budget.spend(elements.len())?;
        let each = elements.into_iter().map(|element| match self.steps(element, &rest[..of_each]) {
            Err(Problem::Ephemeral) => Ok(Term::Ephemeral),
            found => found,
        });
        let each = each.collect::<Result<_, _>>()?;
        let each = if of_one_type { Term::List(each) } else { Term::Tuple(each) };
        let each = each.secret_if(secret);
        self.steps(each, &rest[of_each..])
    }

    fn binary(&self, operation: &BinaryOp) -> Result<Term, Problem> {
        use BinaryOperator::{
            And, Div, Eq, Greater, GreaterEq, Less, LessEq, Minus, Mod, Mul, NotEq, Or, Plus,
        };
        let operator = *operation.operator.value();
        let (left, secret_left) = self.evaluate(&operation.lhs_expr)?.opened();
        if matches!(operator, And | Or) {
            let left = types::boolean(&left)?;
            if left == (operator == Or) {
                return Ok(Term::Bool(left).secret_if(secret_left));
            }
        }
        let (right, secret_right) = self.evaluate(&operation.rhs_expr)?.opened();
        if left.has_ephemeral() || right.has_ephemeral() {
            return Err(Problem::Ephemeral);
        }
        let secret = secret_left || secret_right;
        let numbers = || Ok::<_, Problem>((types::number(&left)?, types::number(&right)?));
        let compared = || numbers().map(|(left, right)| left.cmp(&right));
        let computed = |operation: fn(&Number, &Number) -> Option<Number>| {
            let (left, right) = numbers()?;
            self.budget.spend(arithmetic::cost(&left, &right))?;
            let made = operation(&left, &right);
            made.map(Term::Number).ok_or_else(|| Problem::new("this has no result that is a number"))
        };
        let term = match operator {
            Eq => Term::Bool(left.clone().revealed() == right.clone().revealed()),
            NotEq => Term::Bool(left.clone().revealed() != right.clone().revealed()),
            LessEq => Term::Bool(compared()? != Ordering::Greater),
            GreaterEq => Term::Bool(compared()? != Ordering::Less),
            Less => Term::Bool(compared()? == Ordering::Less),
            Greater => Term::Bool(compared()? == Ordering::Greater),
            Plus => computed(arithmetic::add)?,
            Minus => computed(arithmetic::subtract)?,
            Mul => computed(arithmetic::multiply)?,
            Div => computed(arithmetic::divide)?,
            Mod => computed(arithmetic::remainder)?,
            And | Or => Term::Bool(types::boolean(&right)?),
        };
        let inside = matches!(operator, Eq | NotEq) && (left.has_secret() || right.has_secret());
        Ok(term.secret_if(secret || inside))
    }

    fn comprehension(&self, expression: &ForExpr) -> Result<Term, Problem> {
        let intro = &expression.intro;
        let (collection, mut secret) = self.evaluate(&intro.collection_expr)?.opened();
        let mut list = Vec::new();
        let mut map: std::collections::BTreeMap<String, Vec<Term>> = Default::default();
        for (key, value) in pairs(collection)? {
            let mut bound = Vec::with_capacity(2);
            if let Some(name) = &intro.key_var {
                bound.push((name.as_str().to_owned(), key));
            }
            bound.push((intro.value_var.as_str().to_owned(), value));
            let scope = self.with(bound);
            if let Some(condition) = &expression.cond {
                let (holds, secret_condition) = scope.evaluate(&condition.expr)?.opened();
                secret |= secret_condition;
                if !types::boolean(&holds).map_err(|p| p.within(self.file, condition.expr.span()))? {
                    continue;
                }
            }
            match &expression.key_expr {
                None => list.push(scope.evaluate_part(&expression.value_expr)?),
                Some(key) => {
                    let (key, secret_key) = scope.text(key)?;
                    secret |= secret_key;
                    let values = map.entry(key).or_default();
                    values.push(scope.evaluate_part(&expression.value_expr)?);
                    if values.len() > 1 && !expression.grouping {
                        return Err(Problem::new("two elements have the same key; ... would group them"));
                    }
                }
            }
        }
        let made = match (&expression.key_expr, expression.grouping) {
            (None, _) => Term::Tuple(list),
            (Some(_), true) => {
                Term::Object(map.into_iter().map(|(key, values)| (key, Term::Tuple(values))).collect())
            }
            (Some(_), false) => {
                let one = |(key, mut values): (String, Vec<Term>)| Some((key, values.pop()?));
                Term::Object(map.into_iter().filter_map(one).collect())
            }
        };
        self.budget.spend(made.weight())?;
        Ok(made.secret_if(secret))
    }
}

/// Keys and values of a collection: indexes of a list, elements of a set twice.
pub fn pairs(collection: Term) -> Result<Vec<(Term, Term)>, Problem> {
    match collection {
        Term::Tuple(elements) | Term::List(elements) => {
            let keyed = elements.into_iter().enumerate();
            Ok(keyed.map(|(index, term)| (Term::Number(Number::from(index as u64)), term)).collect())
        }
        Term::Set(elements) => Ok(elements.into_iter().map(|term| (term.clone(), term)).collect()),
        Term::Object(entries) | Term::Map(entries) => {
            Ok(entries.into_iter().map(|(key, term)| (Term::String(key), term)).collect())
        }
        other => Err(Problem::new(format!("{} has no elements", other.kind()))),
    }
}

fn attribute(of: Term, name: &str) -> Result<Term, Problem> {
    let (of, secret) = of.opened();
    match of {
        Term::Object(mut entries) | Term::Map(mut entries) => match entries.remove(name) {
            Some(term) => Ok(term.secret_if(secret)),
            None => Err(Problem::new(format!("there is no attribute {name:?}"))),
        },
        other => Err(Problem::new(format!("{} has no attribute {name:?}", other.kind()))),
    }
}

fn element(of: Term, index: &Term) -> Result<Term, Problem> {
    let (of, secret) = of.opened();
    let (index, secret_index) = index.clone().opened();
    let secret = secret || secret_index;
    match of {
        Term::Tuple(mut elements) | Term::List(mut elements) => {
            let at = types::number(&index)?.as_u64().and_then(|at| usize::try_from(at).ok());
            match at.filter(|at| *at < elements.len()) {
                Some(at) => Ok(elements.swap_remove(at).secret_if(secret)),
                None => Err(Problem::new("the list has no such element")),
            }
        }
        map @ (Term::Object(_) | Term::Map(_)) => {
            attribute(map, &types::string(&index)?).map(|term| term.secret_if(secret))
        }
        other => Err(Problem::new(format!("{} has no element to choose", other.kind()))),
    }
}
