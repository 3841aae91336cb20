//! YAML as Terraform writes it: in blocks, all texts in quotes but those of several lines.

use super::json;
use crate::module::term::Term;

/// Where lines are folded.
const WIDTH: usize = 80;
/// A longer key needs a mark of its own.
const LONGEST_KEY: usize = 128;

/// The nesting of terms is bounded where they are made.
pub(super) fn written(term: &Term) -> String {
    let mut out = String::new();
    write(term, 0, &mut out);
    // A plain word alone could go on.
    if matches!(term, Term::Null | Term::Bool(_) | Term::Number(_)) {
        out.push_str("...\n");
    }
    out
}

fn write(term: &Term, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match term {
        Term::Secret(inner) => write(inner, depth, out),
        Term::Object(entries) | Term::Map(entries) if !entries.is_empty() => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 || !out.ends_with("- ") {
                    out.push_str(&indent);
                }
                if key.contains('\n') || key.len() > LONGEST_KEY {
                    out.push_str("? ");
                    text(key, depth, out);
                    out.push_str(&indent);
                } else {
                    quoted(key, None, out);
                }
                out.push(':');
                match value {
                    Term::Object(inner) | Term::Map(inner) if !inner.is_empty() => {
                        out.push('\n');
                        write(value, depth + 1, out);
                    }
                    Term::Tuple(inner) | Term::List(inner) | Term::Set(inner) if !inner.is_empty() => {
                        out.push('\n');
                        write(value, depth, out);
                    }
                    plain => {
                        out.push(' ');
                        write(plain, depth, out);
                    }
                }
            }
        }
        Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) if !elements.is_empty() => {
            for (at, element) in elements.iter().enumerate() {
                if at > 0 || !out.ends_with("- ") {
                    out.push_str(&indent);
                }
                out.push_str("- ");
                match element {
                    Term::String(string) => text(string, depth, out),
                    other => write(other, depth + 1, out),
                }
            }
        }
        Term::String(string) => text(string, depth, out),
        plain => {
            out.push_str(&json::written(plain));
            out.push('\n');
        }
    }
}

fn text(text: &str, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth + 1);
    if !text.contains('\n') || !is_block(text) {
        quoted(text, Some(&indent), out);
        out.push('\n');
        return;
    }
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let ends = text.len() - text.trim_end_matches('\n').len();
    match ends {
        0 => out.push('-'),
        1 if text.len() > 1 => {}
        _ => out.push('+'),
    }
    out.push('\n');
    for line in text.split_inclusive('\n') {
        if line != "\n" {
            out.push_str(&indent);
        }
        out.push_str(line);
    }
    if ends == 0 {
        out.push('\n');
    }
}

/// Whether it can be read back from a block: no white space where nobody sees it, nothing that has to be escaped.
fn is_block(text: &str) -> bool {
    !text.contains(" \n")
        && !text.ends_with(' ')
        && text.chars().all(|letter| letter == '\n' || is_printable(letter))
}

fn is_printable(letter: char) -> bool {
    matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && letter != '\u{feff}'
}

/// In quotes; in lines of that indentation if one is given.
fn quoted(text: &str, indent: Option<&str>, out: &mut String) {
    let column = |out: &str| out.rsplit('\n').next().unwrap_or_default().chars().count();
    out.push('"');
    let letters: Vec<char> = text.chars().collect();
    let mut after_break = false;
    let mut width = column(out);
    for (at, letter) in letters.iter().enumerate() {
        let inside = at > 0 && at + 1 < letters.len();
        if let Some(indent) = indent
            && *letter == ' '
            && inside
            && !after_break
            && width > WIDTH
        {
            out.push('\n');
            out.push_str(indent);
            width = indent.len();
            if letters[at + 1] == ' ' {
                out.push('\\');
                width += 1;
            }
            after_break = true;
            continue;
        }
        after_break = *letter == ' ';
        let before = out.len();
        match letter {
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            other if is_printable(*other) => out.push(*other),
            other => match u32::from(*other) {
                code @ 0..=0xff => out.push_str(&format!("\\x{code:02X}")),
                code @ 0x100..=0xffff => out.push_str(&format!("\\u{code:04X}")),
                code => out.push_str(&format!("\\U{code:08X}")),
            },
        }
        width += out[before..].chars().count();
    }
    out.push('"');
}
