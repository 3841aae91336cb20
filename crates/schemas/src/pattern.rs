//! Patterns as Go's RE2 reads them, matched by the `regex` crate.
//!
//! The two differ in what a few escapes mean; [`translate`] evens that out. Compiled patterns are kept in one
//! cache for all schemas of all tenants, because many share them (names, quantities, durations).

use std::sync::{Arc, LazyLock};

use quick_cache::sync::Cache;
use regex::Regex;

/// A compiled pattern costs some tens of kilobytes; this many of them are a few dozen megabytes at worst.
const CACHED: usize = 1024;

static COMPILED: LazyLock<Cache<String, Option<Arc<Regex>>>> = LazyLock::new(|| Cache::new(CACHED));

/// Why a pattern does not compile, in Go's words as far as they are known.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    let problem = match Regex::new(&translate(pattern)) {
        Ok(_) => return Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => return Err(go_error("expression too large", pattern)),
        Err(error) => error.to_string(),
    };
    let known = PROBLEMS.iter().find(|(theirs, ..)| problem.contains(theirs));
    Err(match known {
        Some((_, words, culprit)) => {
            let found = Regex::new(culprit).ok().and_then(|culprit| culprit.find(pattern));
            let shown = found.map(|found| found.as_str()).filter(|shown| !shown.is_empty());
            go_error(words, shown.unwrap_or(pattern))
        }
        None => {
            // The last line names the problem; the rest draws where it is.
            let words = problem.lines().last().unwrap_or("").trim_start_matches("error: ");
            go_error(words, pattern)
        }
    })
}

fn go_error(words: &str, shown: &str) -> String {
    format!("error parsing regexp: {words}: `{shown}`")
}

/// What the `regex` crate says, what Go says, and what finds the part of the pattern that Go shows.
const PROBLEMS: [(&str, &str, &str); 7] = [
    ("repetition operator missing", "missing argument to repetition operator", r"[*+?]"),
    ("unclosed group", "missing closing )", ""),
    ("unopened group", "unexpected )", ""),
    ("unclosed character class", "missing closing ]", r"\[.*$"),
    ("look-around", "invalid or unsupported Perl syntax", r"\(\?<?[=!]"),
    ("backreferences", "invalid escape sequence", r"\\[0-9]"),
    ("unrecognized escape", "invalid escape sequence", r"\\[a-zA-Z]"),
];

/// Whether the pattern is found anywhere in the text; `None` if it is no pattern.
pub(crate) fn matches(pattern: &str, text: &str) -> Option<bool> {
    let compiled = match COMPILED.get(pattern) {
        Some(compiled) => compiled,
        None => {
            let compiled = Regex::new(&translate(pattern)).ok().map(Arc::new);
            COMPILED.insert(pattern.to_owned(), compiled.clone());
            compiled
        }
    };
    compiled.map(|regex| regex.is_match(text))
}

/// Go's syntax in the words of the `regex` crate: Perl classes are ASCII, a brace that starts no repetition is a
/// brace, `[`, `&` and `~` in a class are themselves, `\Q..\E` quotes.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut out, &mut rest, in_class),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                // A bracket right at the start of a class is a member of it.
                if rest.as_str().starts_with('^') {
                    rest.next();
                    out.push('^');
                }
                if rest.as_str().starts_with(']') {
                    rest.next();
                    out.push_str("\\]");
                }
            }
            '[' if rest.as_str().starts_with(':') && rest.as_str().contains(":]") => {
                let end = rest.as_str().find(":]").map_or(0, |at| at + 2);
                let (class, after) = rest.as_str().split_at(end);
                out.push('[');
                out.push_str(class);
                rest = after.chars();
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '{' if !in_class && !starts_repetition(rest.as_str()) => out.push_str("\\{"),
            other => out.push(other),
        }
    }
    out
}

fn escape(out: &mut String, rest: &mut std::str::Chars<'_>, in_class: bool) {
    let Some(c) = rest.next() else {
        out.push('\\');
        return;
    };
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' | 'B' if !in_class => {
            out.push_str("(?-u:\\");
            out.push(c);
            out.push(')');
        }
        'Q' => {
            let (quoted, after) = rest.as_str().split_once("\\E").unwrap_or((rest.as_str(), ""));
            out.push_str(&regex::escape(quoted));
            *rest = after.chars();
        }
        // `\p{Greek}`, `\x{10FFFF}`: these braces are part of the escape.
        'p' | 'P' | 'x' if rest.as_str().starts_with('{') => {
            let end = rest.as_str().find('}').map_or(rest.as_str().len(), |at| at + 1);
            let (name, after) = rest.as_str().split_at(end);
            out.push('\\');
            out.push(c);
            out.push_str(name);
            *rest = after.chars();
        }
        // Word boundaries to `regex`, themselves to Go.
        '<' | '>' => out.push(c),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
}

/// Whether this follows the brace of `{2}`, `{2,}` or `{2,5}`.
fn starts_repetition(text: &str) -> bool {
    let Some((inside, _)) = text.split_once('}') else { return false };
    let (low, high) = inside.split_once(',').unwrap_or((inside, "0"));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: Option<bool>) {
        assert_eq!(matches(pattern, text), expected, "{pattern:?} on {text:?} as {:?}", translate(pattern));
    }

    #[test]
    fn as_go_reads_them() {
        check("^a$", "a", Some(true));
        check("^a$", "ba", Some(false));
        check("b", "abc", Some(true));
        check(r"^\d+$", "12", Some(true));
        check(r"^\d+$", "١٢", Some(false));
        check(r"^[\w.-]+$", "a_b.c-d", Some(true));
        check(r"^[\w.-]+$", "é", Some(false));
        check(r"^[^\s]+$", "ab", Some(true));
        check(r"^[[]x$", "[x", Some(true));
        check(r"^[]x]$", "]", Some(true));
        check(r"^[^]x]$", "]", Some(false));
        check(r"^[a&&b]+$", "a&b", Some(true));
        check(r"^[[:alpha:]]+$", "abc", Some(true));
        check(r"^{a}$", "{a}", Some(true));
        check(r"^a{2,3}$", "aaa", Some(true));
        check(r"^a{2,3}$", "a", Some(false));
        check(r"^\<b\>$", "<b>", Some(true));
        check(r"^\Qa.b\E$", "a.b", Some(true));
        check(r"^\Qa.b\E$", "axb", Some(false));
        check(r"\bfoo\b", "a foo b", Some(true));
        check(r"^\p{Lu}", "É", Some(true));
        check("(", "x", None);
    }

    #[test]
    fn what_does_not_compile_is_told_as_go_tells_it() {
        let check = |pattern: &str, expected: &str| {
            let told = super::check(pattern).unwrap_err();
            assert_eq!(told, format!("error parsing regexp: {expected}"));
        };
        check("+", "missing argument to repetition operator: `+`");
        check("(a", "missing closing ): `(a`");
        check("a)", "unexpected ): `a)`");
        check("a[b", "missing closing ]: `[b`");
        check("^(?!a)", "invalid or unsupported Perl syntax: `(?!`");
        check("(a)\\1", "invalid escape sequence: `\\1`");
        check("\\y", "invalid escape sequence: `\\y`");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_pattern_or_is_refused(
            pattern in "[-a-c0-9\\\\dwsQEpb<>{}\\[\\]()^$.,*+?|&~:µ]{0,12}",
            text in "\\PC{0,6}",
        ) {
            proptest::prop_assert_eq!(super::check(&pattern).is_ok(), matches(&pattern, &text).is_some());
        }
    }
}
