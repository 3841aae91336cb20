//! Regular expressions as Terraform has them, in the words of the library that matches them.

use crate::module::problem::Problem;

/// What a pattern may take when it is compiled.
const SIZE: usize = 1 << 20;
/// More repetitions of one thing are refused, as Terraform does.
const REPETITIONS: u32 = 1_000;

pub(super) fn pattern(text: &str) -> Result<regex::Regex, Problem> {
    let translated = translated(text);
    let built = translated.and_then(|text| regex::RegexBuilder::new(&text).size_limit(SIZE).build().ok());
    built.ok_or_else(|| Problem::new("the pattern is not a regular expression"))
}

/// Classes in the sense of ASCII alone: inside of brackets, and outside.
const CLASSES: [(char, &str); 6] = [
    ('d', "[0-9]"),
    ('D', "[^0-9]"),
    ('w', "[0-9A-Za-z_]"),
    ('W', "[^0-9A-Za-z_]"),
    ('s', r"[\t\n\f\r ]"),
    ('S', r"[^\t\n\f\r ]"),
];

fn translated(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_class = false;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = after;
        match letter {
            '\\' => {
                let escaped = after.chars().next()?;
                rest = &after[escaped.len_utf8()..];
                match escaped {
                    'Q' if !in_class => {
                        let (literal, following) = rest.split_once("\\E").unwrap_or((rest, ""));
                        out.push_str(&regex::escape(literal));
                        rest = following;
                    }
                    'b' | 'B' if !in_class => out.push_str(&format!("(?-u:\\{escaped})")),
                    // What is in these braces is part of the escape.
                    'p' | 'P' | 'x' if rest.starts_with('{') => {
                        let (name, following) = rest.split_once('}')?;
                        out.push_str(&format!("\\{escaped}{name}}}"));
                        rest = following;
                    }
                    // Marks of words to the library, letters to Terraform.
                    '<' | '>' => out.push(escaped),
                    _ => match CLASSES.iter().find(|(name, _)| *name == escaped) {
                        Some((_, class)) => out.push_str(class),
                        None => out.extend(['\\', escaped]),
                    },
                }
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if let Some(following) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = following;
                }
                if let Some(following) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = following;
                }
            }
            '[' if rest.starts_with(':') => {
                let (name, following) = rest.split_once(":]")?;
                out.push_str(&format!("[{name}:]"));
                rest = following;
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Sets within sets are the library's own.
            '[' | '&' | '~' if in_class => out.extend(['\\', letter]),
            '{' if !in_class => match repetitions(rest) {
                // A brace that counts nothing is a brace.
                None => out.push_str("\\{"),
                Some(most) if most > REPETITIONS => return None,
                Some(_) => out.push('{'),
            },
            other => out.push(other),
        }
    }
    Some(out)
}

/// How many repetitions are asked for behind a brace, at most; nothing if it is not about repetitions.
fn repetitions(rest: &str) -> Option<u32> {
    let (counts, _) = rest.split_once('}')?;
    let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
    let least = least.parse().ok()?;
    if most.is_empty() { Some(least) } else { Some(most.parse::<u32>().ok()?.max(least)) }
}
