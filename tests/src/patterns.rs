//! Expected text with the places where every run differs.
//!
//! In a line, `[..]` stands for any text, `[AGE]`, `[TIME]`, `[UID]`, `[RV]` and `[IP]` for what they say. A line
//! `...` stands for any number of lines. Runs of spaces inside a line are equal whatever their length: how wide
//! kubectl makes a column depends on the ages in it; and blank lines are nothing, for its versions differ in them.
//! Indentation counts.

use regex::Regex;

/// What a token stands for.
const TOKENS: [(&str, &str); 6] = [
    ("[..]", ".*"),
    ("[AGE]", "(<invalid>|([0-9]+[smhdy])+)"),
    ("[TIME]", r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z"),
    ("[UID]", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("[RV]", "[1-9][0-9]*"),
    ("[IP]", r"[0-9]{1,3}(\.[0-9]{1,3}){3}"),
];

/// Whether `actual` is what was expected.
pub(crate) fn matches(expected: &[String], actual: &[String]) -> bool {
    let solid =
        |lines: &[String]| lines.iter().filter(|line| !line.trim().is_empty()).cloned().collect::<Vec<_>>();
    all_match(&solid(expected), &solid(actual))
}

fn all_match(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=actual.len()).any(|skipped| all_match(rest, &actual[skipped..]))
        }
        Some((first, rest)) => match actual.split_first() {
            Some((line, others)) => line_matches(first, line) && all_match(rest, others),
            None => false,
        },
    }
}

fn line_matches(expected: &str, actual: &str) -> bool {
    let (expected, actual) = (squeezed(expected), squeezed(actual));
    if expected == actual {
        return true;
    }
    let mut pattern = regex::escape(&expected);
    for (token, meaning) in TOKENS {
        pattern = pattern.replace(&regex::escape(token), meaning);
    }
    Regex::new(&format!("^{pattern}$")).is_ok_and(|pattern| pattern.is_match(&actual))
}

fn squeezed(line: &str) -> String {
    let text = line.trim_start();
    let indentation = line.len() - text.len();
    let mut shown = line[..indentation].to_owned();
    shown.push_str(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, actual: &str, equal: bool) {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(matches(&lines(expected), &lines(actual)), equal, "{expected:?} {actual:?}");
    }

    #[test]
    fn tokens_stand_for_what_differs() {
        check("a  1  [AGE]", "a   1      3m5s", true);
        check("a  1  [AGE]", "a   1      soon", false);
        check("  a: b", "a: b", false);
        check("uid: [UID]", "uid: 0b5b3ee5-9a3c-4a3f-9b1b-0f0f0f0f0f0f", true);
        check("resourceVersion: \"[RV]\"", "resourceVersion: \"0\"", false);
        check("a (b)", "a (b)", true);
        check("a (b)", "a b", false);
        check("x [..] z", "x y y z", true);
    }

    #[test]
    fn lines_can_be_left_out() {
        check("a\n...\nc", "a\nb\nb\nc", true);
        check("a\n...\nc", "a\nc", true);
        check("a\n...\nc", "a\nb", false);
        check("...", "", true);
        check("a\n...", "b", false);
        check("", "a", false);
        check("a\n\nb\n", "a\nb", true);
    }
}
