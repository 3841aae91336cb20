//! JSON as Terraform writes and reads it: numbers of any length, and letters escaped that would mean something in HTML.

use crate::module::term::{Entries, Term};
use crate::value::Number;

/// Deeper texts mean harm.
const DEEPEST: usize = 100;

pub fn written(term: &Term) -> String {
    let mut out = String::new();
    write(term, &mut out);
    out
}

fn write(term: &Term, out: &mut String) {
    match term {
        Term::Null | Term::Ephemeral => out.push_str("null"),
        Term::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Term::Number(number) => out.push_str(&number.plain()),
        Term::String(text) => quoted(text, out),
        Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(element, out);
            }
            out.push(']');
        }
        Term::Object(entries) | Term::Map(entries) => {
            out.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quoted(key, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Term::Secret(inner) => write(inner, out),
    }
}

pub fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Nothing if it is not JSON.
pub fn read(text: &str) -> Option<Term> {
    let mut reader = Reader { rest: text };
    let term = reader.value(DEEPEST)?;
    reader.space();
    reader.rest.is_empty().then_some(term)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    /// After the elements of something, whether there are more.
    fn more(&mut self, end: &str) -> Option<bool> {
        self.space();
        match self.take(end) {
            Some(()) => Some(false),
            None => self.take(",").map(|()| true),
        }
    }

    fn value(&mut self, depth: usize) -> Option<Term> {
        let depth = depth.checked_sub(1)?;
        self.space();
        match self.rest.chars().next()? {
            'n' => self.take("null").map(|()| Term::Null),
            't' => self.take("true").map(|()| Term::Bool(true)),
            'f' => self.take("false").map(|()| Term::Bool(false)),
            '"' => self.text().map(Term::text),
            '[' => self.elements(depth).map(Term::Tuple),
            '{' => self.entries(depth).map(Term::Object),
            _ => self.number().map(Term::Number),
        }
    }

    fn elements(&mut self, depth: usize) -> Option<Vec<Term>> {
        self.take("[")?;
        self.space();
        let mut elements = Vec::new();
        if self.take("]").is_some() {
            return Some(elements);
        }
        loop {
            elements.push(self.value(depth)?);
            if !self.more("]")? {
                return Some(elements);
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Option<Entries> {
        self.take("{")?;
        self.space();
        let mut entries = Entries::new();
        if self.take("}").is_some() {
            return Some(entries);
        }
        loop {
            self.space();
            let key = self.text()?;
            self.space();
            self.take(":")?;
            entries.insert(key, self.value(depth)?);
            if !self.more("}")? {
                return Some(entries);
            }
        }
    }

    /// Quotes and escapes are read by the one who knows them; this only finds the end.
    fn text(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == '"' && !escaped;
            escaped = *letter == '\\' && !escaped;
            ends
        });
        let (text, rest) = self.rest.split_at(end?.0 + 1);
        self.rest = rest;
        serde_json::from_str(text).ok()
    }

    fn number(&mut self) -> Option<Number> {
        let end = self.rest.find(|letter: char| !matches!(letter, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        // JSON is stricter than we are: no plus, no zeros in front, digits on both sides of a point.
        serde_json::from_str::<&serde_json::value::RawValue>(text).ok()?;
        Number::parse(text)
    }
}
