//! Texts with expressions in them.

use std::borrow::Cow;

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::template::{
    Directive, Element, ForDirective, HeredocTemplate, IfDirective, StringTemplate, Strip, Template,
};

use super::expression::{Scope, pairs};
use super::problem::Problem;
use super::term::Term;
use super::types;

/// A quoted text. One that is nothing but an expression is that expression's value, whatever it is.
pub fn string(scope: &Scope<'_>, template: &StringTemplate) -> Result<Term, Problem> {
    let elements: Vec<&Element> = template.iter().collect();
    if let [Element::Interpolation(only)] = elements.as_slice() {
        return scope.evaluate(&only.expr);
    }
    let mut text = Text::default();
    text.elements(scope, &elements, Trim::default())?;
    text.finish(scope)
}

/// A text that is a template as a whole.
pub fn whole(scope: &Scope<'_>, template: &Template) -> Result<Term, Problem> {
    let mut text = Text::default();
    text.template(scope, template, Trim::default())?;
    text.finish(scope)
}

/// Text between two markers. The parser takes the indentation off its own lines, but not off those in directives.
pub fn heredoc(scope: &Scope<'_>, heredoc: &HeredocTemplate) -> Result<Term, Problem> {
    let indent = format!("\n{}", " ".repeat(heredoc.indent().unwrap_or_default()));
    let mut text = Text { indent: Some(indent).filter(|indent| indent.len() > 1), ..Text::default() };
    text.template(scope, &heredoc.template, Trim::default())?;
    text.finish(scope)
}

/// Whether white space goes at either end.
#[derive(Clone, Copy, Default)]
struct Trim {
    start: bool,
    end: bool,
}

fn before(strip: Strip) -> bool {
    matches!(strip, Strip::Start | Strip::Both)
}

fn after(strip: Strip) -> bool {
    matches!(strip, Strip::End | Strip::Both)
}

/// What an element takes away of the literals beside it.
fn strips(element: &Element) -> (bool, bool) {
    match element {
        Element::Literal(_) => (false, false),
        Element::Interpolation(one) => (before(one.strip), after(one.strip)),
        Element::Directive(directive) => match &**directive {
            Directive::If(one) => (before(one.if_expr.strip), after(one.endif_expr.strip)),
            Directive::For(one) => (before(one.for_expr.strip), after(one.endfor_expr.strip)),
        },
    }
}

#[derive(Default)]
struct Text {
    text: String,
    secret: bool,
    /// What is taken off lines in directives.
    indent: Option<String>,
    /// How many directives this is in.
    depth: usize,
}

impl Text {
    fn finish(self, scope: &Scope<'_>) -> Result<Term, Problem> {
        let term = Term::String(self.text);
        scope.budget.spend(term.weight())?;
        Ok(term.secret_if(self.secret))
    }

    fn template(&mut self, scope: &Scope<'_>, template: &Template, trim: Trim) -> Result<(), Problem> {
        let elements: Vec<&Element> = template.iter().collect();
        self.elements(scope, &elements, trim)
    }

    fn elements(&mut self, scope: &Scope<'_>, elements: &[&Element], trim: Trim) -> Result<(), Problem> {
        for (at, element) in elements.iter().enumerate() {
            match element {
                Element::Literal(literal) => {
                    let start = match at.checked_sub(1) {
                        Some(at) => strips(elements[at]).1,
                        None => trim.start,
                    };
                    let end = elements.get(at + 1).map_or(trim.end, |next| strips(next).0);
                    let text = match &self.indent {
                        Some(indent) if self.depth > 0 => Cow::from(literal.value().replace(indent, "\n")),
                        _ => Cow::from(literal.value()),
                    };
                    let mut text = text.as_ref();
                    if start {
                        text = text.trim_start();
                    }
                    if end {
                        text = text.trim_end();
                    }
                    self.push(scope, text)?;
                }
                Element::Interpolation(one) => self.expression(scope, &one.expr)?,
                Element::Directive(directive) => {
                    self.depth += 1;
                    match &**directive {
                        Directive::If(one) => self.choice(scope, one)?,
                        Directive::For(one) => self.repetition(scope, one)?,
                    }
                    self.depth -= 1;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, scope: &Scope<'_>, text: &str) -> Result<(), Problem> {
        scope.budget.spend(text.len() / 16)?;
        self.text.push_str(text);
        Ok(())
    }

    fn expression(&mut self, scope: &Scope<'_>, expression: &Expression) -> Result<(), Problem> {
        let (text, secret) = scope.text(expression)?;
        self.secret |= secret;
        self.push(scope, &text)
    }

    fn choice(&mut self, scope: &Scope<'_>, directive: &IfDirective) -> Result<(), Problem> {
        let (first, last) = (&directive.if_expr, &directive.endif_expr);
        let (condition, secret) = scope.evaluate(&first.cond_expr)?.opened();
        self.secret |= secret;
        let holds = types::boolean(&condition)
            .map_err(|problem| problem.within(scope.file, first.cond_expr.span()))?;
        match (&directive.else_expr, holds) {
            (other, true) => {
                let end = other.as_ref().map_or(last.strip, |other| other.strip);
                let trim = Trim { start: after(first.strip), end: before(end) };
                self.template(scope, &first.template, trim)
            }
            (Some(other), false) => {
                let trim = Trim { start: after(other.strip), end: before(last.strip) };
                self.template(scope, &other.template, trim)
            }
            (None, false) => Ok(()),
        }
    }

    fn repetition(&mut self, scope: &Scope<'_>, directive: &ForDirective) -> Result<(), Problem> {
        let repeated = &directive.for_expr;
        let (collection, secret) = scope.evaluate(&repeated.collection_expr)?.opened();
        self.secret |= secret;
        let trim = Trim { start: after(repeated.strip), end: before(directive.endfor_expr.strip) };
        for (key, value) in pairs(collection)? {
            let key = repeated.key_var.as_ref().map(|name| (name.as_str().to_owned(), key));
            let value = (repeated.value_var.as_str().to_owned(), value);
            let scope = scope.with(key.into_iter().chain([value]));
            self.template(&scope, &repeated.template, trim)?;
        }
        Ok(())
    }
}
