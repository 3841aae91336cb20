//! Functions of texts.

use unicode_segmentation::UnicodeSegmentation as _;

use super::format::format;
use super::patterns::pattern;
use super::{ANY, Arguments, Made, Row, bounded, wrong};
use crate::module::term::{Entries, Term};

pub(super) const TABLE: &[Row] = &[
    ("lower", 1, 1, |arguments| {
        // One letter for one.
        let small = |letter: char| letter.to_lowercase().next().unwrap_or(letter);
        Ok(Term::text(arguments.text(0)?.chars().map(small).collect::<String>()))
    }),
    ("upper", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.chars().map(capital).collect::<String>()))),
    ("title", 1, 1, |arguments| Ok(Term::text(title(&arguments.text(0)?)))),
    ("trimspace", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.trim()))),
    ("chomp", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.trim_end_matches(['\r', '\n'])))),
    ("strrev", 1, 1, |arguments| {
        Ok(Term::text(arguments.text(0)?.graphemes(true).rev().collect::<String>()))
    }),
    ("trim", 2, 2, |arguments| {
        let cut = arguments.text(1)?;
        Ok(Term::text(arguments.text(0)?.trim_matches(|letter| cut.contains(letter))))
    }),
    ("trimprefix", 2, 2, |arguments| {
        let (text, cut) = (arguments.text(0)?, arguments.text(1)?);
        Ok(Term::text(text.strip_prefix(&cut).unwrap_or(&text)))
    }),
    ("trimsuffix", 2, 2, |arguments| {
        let (text, cut) = (arguments.text(0)?, arguments.text(1)?);
        Ok(Term::text(text.strip_suffix(&cut).unwrap_or(&text)))
    }),
    ("startswith", 2, 2, |arguments| Ok(Term::Bool(arguments.text(0)?.starts_with(&arguments.text(1)?)))),
    ("endswith", 2, 2, |arguments| Ok(Term::Bool(arguments.text(0)?.ends_with(&arguments.text(1)?)))),
    ("strcontains", 2, 2, |arguments| Ok(Term::Bool(arguments.text(0)?.contains(&arguments.text(1)?)))),
    ("substr", 3, 3, substr),
    ("basename", 1, 1, |arguments| {
        let text = arguments.text(0)?;
        let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        Ok(Term::text(match (name, text.starts_with('/')) {
            ("", true) => "/",
            ("", false) => ".",
            (name, _) => name,
        }))
    }),
    ("dirname", 1, 1, |arguments| {
        let text = arguments.text(0)?;
        Ok(Term::text(cleaned(
            text.rsplit_once('/').map_or("", |(directory, _)| directory),
            text.starts_with('/'),
        )))
    }),
    ("indent", 2, 2, |arguments| {
        let (width, text) = (arguments.count(0)?, arguments.text(1)?);
        bounded(text.len().saturating_add(width.saturating_mul(text.matches('\n').count())))?;
        Ok(Term::text(text.replace('\n', &format!("\n{}", " ".repeat(width)))))
    }),
    ("join", 2, ANY, |mut arguments| {
        let separator = arguments.text(0)?;
        let mut texts = Vec::new();
        for at in 1..arguments.len() {
            texts.extend(arguments.texts(at)?);
        }
        bounded(separator.len().saturating_mul(texts.len()))?;
        Ok(Term::text(texts.join(&separator)))
    }),
    ("split", 2, 2, |arguments| {
        let (separator, text) = (arguments.text(0)?, arguments.text(1)?);
        if separator.is_empty() {
            return Ok(Term::List(text.chars().map(Term::text).collect()));
        }
        Ok(Term::List(text.split(&separator).map(Term::text).collect()))
    }),
    ("replace", 3, 3, replace),
    ("regex", 2, 2, |arguments| {
        let (pattern, text) = (pattern(&arguments.text(0)?)?, arguments.text(1)?);
        match pattern.captures(&text) {
            Some(found) => Ok(captured(&pattern, &found)),
            None => wrong("the pattern does not match"),
        }
    }),
    ("regexall", 2, 2, |arguments| {
        let (pattern, text) = (pattern(&arguments.text(0)?)?, arguments.text(1)?);
        Ok(Term::List(pattern.captures_iter(&text).map(|found| captured(&pattern, &found)).collect()))
    }),
    ("format", 1, ANY, |arguments| format(&arguments.0).map(Term::text)),
    ("formatlist", 1, ANY, formatlist),
];

/// Terraform turns one letter into one: those that would become two stay as they are.
fn capital(letter: char) -> char {
    let mut turned = letter.to_uppercase();
    match (turned.next(), turned.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}

fn title(text: &str) -> String {
    let mut start = true;
    let one = |letter: char| {
        let made = if start { capital(letter) } else { letter };
        start = match letter {
            '_' => false,
            ascii if ascii.is_ascii() => !ascii.is_ascii_alphanumeric(),
            other => other.is_whitespace(),
        };
        made
    };
    text.chars().map(one).collect()
}

/// A path without what leads nowhere.
fn cleaned(path: &str, absolute: bool) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." if steps.last().is_some_and(|last| *last != "..") => drop(steps.pop()),
            ".." if absolute => {}
            step => steps.push(step),
        }
    }
    match (absolute, steps.is_empty()) {
        (true, _) => ["/", &steps.join("/")].concat(),
        (false, true) => ".".to_owned(),
        (false, false) => steps.join("/"),
    }
}

fn substr(arguments: Arguments) -> Made {
    let text = arguments.text(0)?;
    let letters: Vec<&str> = text.graphemes(true).collect();
    let (offset, length) = (arguments.whole(1)?, arguments.whole(2)?);
    let start = if offset < 0 { (letters.len() as i64).saturating_add(offset).max(0) } else { offset };
    let start = usize::try_from(start).unwrap_or(0).min(letters.len());
    let end = usize::try_from(length).map_or(letters.len(), |length| start.saturating_add(length));
    Ok(Term::text(letters[start..end.min(letters.len())].concat()))
}

/// A text, a list of groups, or a map of named groups.
fn captured(pattern: &regex::Regex, found: &regex::Captures<'_>) -> Term {
    let group = |at: usize| found.get(at).map_or(Term::Null, |one| Term::text(one.as_str()));
    let named: Entries = pattern
        .capture_names()
        .flatten()
        .map(|name| (name.to_owned(), found.name(name).map_or(Term::Null, |one| Term::text(one.as_str()))))
        .collect();
    if !named.is_empty() {
        return Term::Object(named);
    }
    if found.len() == 1 { group(0) } else { Term::Tuple((1..found.len()).map(group).collect()) }
}

fn replace(arguments: Arguments) -> Made {
    let (text, from, to) = (arguments.text(0)?, arguments.text(1)?, arguments.text(2)?);
    let expression = from.strip_prefix('/').and_then(|from| from.strip_suffix('/'));
    let largest = |times: usize| bounded(text.len().saturating_add(times.saturating_mul(to.len())));
    match expression {
        Some(expression) => {
            let pattern = pattern(expression)?;
            // A group can bring back the whole text each time.
            let times = pattern.find_iter(&text).count();
            bounded(times.saturating_mul(to.len().saturating_mul(text.len().max(1))))?;
            Ok(Term::text(pattern.replace_all(&text, to.as_str())))
        }
        None => {
            largest(text.matches(&from).count())?;
            Ok(Term::text(text.replace(&from, &to)))
        }
    }
}

fn formatlist(mut arguments: Arguments) -> Made {
    let lengths: Vec<usize> = arguments.0.iter().filter_map(elements).map(<[Term]>::len).collect();
    let length = lengths.first().copied().unwrap_or(1);
    if lengths.iter().any(|other| *other != length) {
        return wrong("the lists are not of the same length");
    }
    let all = std::mem::take(&mut arguments.0);
    let row = |at: usize| {
        let chosen =
            all.iter().map(|term| elements(term).and_then(|all| all.get(at)).unwrap_or(term).clone());
        format(&chosen.collect::<Vec<_>>()).map(Term::text)
    };
    Ok(Term::List((0..length).map(row).collect::<Result<_, _>>()?))
}

fn elements(term: &Term) -> Option<&[Term]> {
    match term {
        Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => Some(elements),
        _ => None,
    }
}
