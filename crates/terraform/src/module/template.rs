//! Texts with expressions in them.
//!
//! A template is first cut into parts ([`Part`]): the marks that take white space away see one line at a time, and what
//! `<<-` takes off the beginnings of lines is decided by all lines, those in directives among them.

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::template::{
    Directive, Element, ForTemplateExpr, HeredocTemplate, StringTemplate, Strip, Template,
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
    let cutting = Cutting { scope, writing: Writing::Quoted };
    rendered(scope, &cutting.parts(&elements, Trim::default(), 0)?)
}

/// A text that is a template as a whole.
pub fn whole(scope: &Scope<'_>, template: &Template) -> Result<Term, Problem> {
    let cutting = Cutting { scope, writing: Writing::Lines };
    rendered(scope, &cutting.template(template, Trim::default(), 0)?)
}

/// Text between two markers.
pub fn heredoc(scope: &Scope<'_>, heredoc: &HeredocTemplate) -> Result<Term, Problem> {
    // The parser takes the indentation off some of the lines, and says how much of it: others have to be seen, too.
    let writing = if heredoc.indent().is_some() { Writing::Source } else { Writing::Lines };
    let mut parts = Cutting { scope, writing }.template(&heredoc.template, Trim::default(), 0)?;
    if writing == Writing::Source {
        let mut margin = Margin { at_start: true, least: None };
        margin.measure(&parts);
        let mut at_start = true;
        outdent(&mut parts, margin.least.unwrap_or(0), &mut at_start);
    }
    rendered(scope, &parts)
}

/// How the literals of a template are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// In quotes, with escapes; the parser resolves those outside of directives.
    Quoted,
    /// As they are.
    Lines,
    /// As they are in the file.
    Source,
}

enum Part<'a> {
    /// One line, or a part of one.
    Literal(String),
    Value(&'a Expression),
    If {
        condition: &'a Expression,
        then: Vec<Part<'a>>,
        otherwise: Option<Vec<Part<'a>>>,
    },
    For {
        repeated: &'a ForTemplateExpr,
        body: Vec<Part<'a>>,
    },
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

struct Cutting<'s> {
    scope: &'s Scope<'s>,
    writing: Writing,
}

impl Cutting<'_> {
    fn template<'a>(
        &self,
        template: &'a Template,
        trim: Trim,
        depth: usize,
    ) -> Result<Vec<Part<'a>>, Problem> {
        self.parts(&template.iter().collect::<Vec<_>>(), trim, depth)
    }

    fn parts<'a>(
        &self,
        elements: &[&'a Element],
        trim: Trim,
        depth: usize,
    ) -> Result<Vec<Part<'a>>, Problem> {
        let mut parts = Vec::new();
        for (at, element) in elements.iter().enumerate() {
            match element {
                Element::Literal(literal) => {
                    let start = match at.checked_sub(1) {
                        Some(at) => strips(elements[at]).1,
                        None => trim.start,
                    };
                    let end = elements.get(at + 1).map_or(trim.end, |next| strips(next).0);
                    let text = self.text(literal.value(), literal.span(), depth)?;
                    parts.extend(self.lines(&text, Trim { start, end }).into_iter().map(Part::Literal));
                }
                Element::Interpolation(one) => parts.push(Part::Value(&one.expr)),
                Element::Directive(directive) => parts.push(self.directive(directive, depth + 1)?),
            }
        }
        Ok(parts)
    }

    fn text(
        &self,
        value: &str,
        span: Option<std::ops::Range<usize>>,
        depth: usize,
    ) -> Result<String, Problem> {
        match self.writing {
            Writing::Quoted if depth > 0 => unescaped(value).ok_or_else(|| {
                Problem::new("a text has an escape that stands for nothing").within(self.scope.file, span)
            }),
            Writing::Quoted | Writing::Lines => Ok(value.to_owned()),
            Writing::Source => {
                let written = span.and_then(|span| self.scope.file.text.get(span));
                Ok(written.unwrap_or(value).replace("$${", "${").replace("%%{", "%{"))
            }
        }
    }

    fn lines(&self, text: &str, trim: Trim) -> Vec<String> {
        let mut lines: Vec<&str> = match self.writing {
            Writing::Quoted => vec![text],
            Writing::Lines | Writing::Source => text.split_inclusive('\n').collect(),
        };
        if let Some(first) = lines.first_mut().filter(|_| trim.start) {
            *first = first.trim_start();
        }
        if let Some(last) = lines.last_mut().filter(|_| trim.end) {
            *last = last.trim_end();
        }
        lines.into_iter().map(str::to_owned).collect()
    }

    fn directive<'a>(&self, directive: &'a Directive, depth: usize) -> Result<Part<'a>, Problem> {
        match directive {
            Directive::If(one) => {
                let (first, other, last) = (&one.if_expr, &one.else_expr, &one.endif_expr);
                let end = other.as_ref().map_or(last.strip, |other| other.strip);
                let trim = Trim { start: after(first.strip), end: before(end) };
                let then = self.template(&first.template, trim, depth)?;
                let otherwise = match other {
                    Some(other) => {
                        let trim = Trim { start: after(other.strip), end: before(last.strip) };
                        Some(self.template(&other.template, trim, depth)?)
                    }
                    None => None,
                };
                Ok(Part::If { condition: &first.cond_expr, then, otherwise })
            }
            Directive::For(one) => {
                let repeated = &one.for_expr;
                let trim = Trim { start: after(repeated.strip), end: before(one.endfor_expr.strip) };
                Ok(Part::For { repeated, body: self.template(&repeated.template, trim, depth)? })
            }
        }
    }
}

/// The escapes of quoted texts resolved; nothing if there is one that is not known.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        let digits = match letters.next()? {
            'n' => {
                out.push('\n');
                continue;
            }
            'r' => {
                out.push('\r');
                continue;
            }
            't' => {
                out.push('\t');
                continue;
            }
            same @ ('"' | '\\') => {
                out.push(same);
                continue;
            }
            'u' => 4,
            'U' => 8,
            _ => return None,
        };
        let code: String = letters.by_ref().take(digits).collect();
        out.push(
            u32::from_str_radix(&code, 16).ok().and_then(char::from_u32).filter(|_| code.len() == digits)?,
        );
    }
    Some(out)
}

/// The smallest indentation of any line that begins with text; none are those of white space alone.
struct Margin {
    at_start: bool,
    least: Option<usize>,
}

impl Margin {
    fn measure(&mut self, parts: &[Part<'_>]) {
        for part in parts {
            match part {
                Part::Literal(text) => {
                    let spaces = text.len() - text.trim_start().len();
                    if self.at_start && !is_blank_line(text) {
                        self.seen(text[..spaces].chars().count());
                    }
                    self.at_start = text.ends_with('\n');
                }
                Part::Value(_) => self.mark(),
                Part::If { then, otherwise, .. } => {
                    self.mark();
                    self.measure(then);
                    self.mark();
                    if let Some(otherwise) = otherwise {
                        self.measure(otherwise);
                        self.mark();
                    }
                }
                Part::For { body, .. } => {
                    self.mark();
                    self.measure(body);
                    self.mark();
                }
            }
        }
    }

    fn seen(&mut self, spaces: usize) {
        self.least = Some(self.least.map_or(spaces, |least| least.min(spaces)));
    }

    /// Something that is no text stands where the line begins.
    fn mark(&mut self) {
        if self.at_start {
            self.seen(0);
        }
        self.at_start = false;
    }
}

fn is_blank_line(text: &str) -> bool {
    text.ends_with('\n') && text.trim_start().is_empty()
}

fn outdent(parts: &mut [Part<'_>], margin: usize, at_start: &mut bool) {
    for part in parts {
        match part {
            Part::Literal(text) => {
                let ends = text.ends_with('\n');
                if *at_start && !is_blank_line(text) {
                    *text = text.chars().skip(margin).collect();
                }
                *at_start = ends;
            }
            Part::Value(_) => *at_start = false,
            Part::If { then, otherwise, .. } => {
                for branch in [Some(then), otherwise.as_mut()].into_iter().flatten() {
                    *at_start = false;
                    outdent(branch, margin, at_start);
                }
                *at_start = false;
            }
            Part::For { body, .. } => {
                *at_start = false;
                outdent(body, margin, at_start);
                *at_start = false;
            }
        }
    }
}

fn rendered(scope: &Scope<'_>, parts: &[Part<'_>]) -> Result<Term, Problem> {
    let mut text = Text::default();
    text.parts(scope, parts)?;
    let term = Term::text(text.text);
    scope.budget.spend(term.weight())?;
    Ok(term.secret_if(text.secret))
}

#[derive(Default)]
struct Text {
    text: String,
    secret: bool,
}

impl Text {
    fn parts(&mut self, scope: &Scope<'_>, parts: &[Part<'_>]) -> Result<(), Problem> {
        for part in parts {
            match part {
                Part::Literal(text) => self.push(scope, text)?,
                Part::Value(expression) => {
                    let (text, secret) = scope.text(expression)?;
                    self.secret |= secret;
                    self.push(scope, &text)?;
                }
                Part::If { condition, then, otherwise } => {
                    let (holds, secret) = scope.evaluate(condition)?.opened();
                    self.secret |= secret;
                    let holds = types::boolean(&holds)
                        .map_err(|problem| problem.within(scope.file, condition.span()))?;
                    match otherwise {
                        _ if holds => self.parts(scope, then)?,
                        Some(otherwise) => self.parts(scope, otherwise)?,
                        None => {}
                    }
                }
                Part::For { repeated, body } => self.repetition(scope, repeated, body)?,
            }
        }
        Ok(())
    }

    fn push(&mut self, scope: &Scope<'_>, text: &str) -> Result<(), Problem> {
        scope.budget.spend(text.len() / 16)?;
        self.text.push_str(text);
        Ok(())
    }

    fn repetition(
        &mut self,
        scope: &Scope<'_>,
        repeated: &ForTemplateExpr,
        body: &[Part<'_>],
    ) -> Result<(), Problem> {
        let (collection, secret) = scope.evaluate(&repeated.collection_expr)?.opened();
        self.secret |= secret;
        for (key, value) in pairs(collection)? {
            let key = repeated.key_var.as_ref().map(|name| (name.as_str().to_owned(), key));
            let value = (repeated.value_var.as_str().to_owned(), value);
            self.parts(&scope.with(key.into_iter().chain([value])), body)?;
        }
        Ok(())
    }
}
