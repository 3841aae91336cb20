//! Functions of texts.

use super::{ANY, Arguments, Made, Row, bounded, wrong};
use crate::module::problem::Problem;
use crate::module::term::{Entries, Term};
use crate::module::types;

/// Wider columns than this are nobody's intention.
const WIDEST: usize = 1_000;
/// What a pattern may take when it is compiled.
const PATTERN: usize = 1 << 20;

pub(super) const TABLE: &[Row] = &[
    ("lower", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.to_lowercase()))),
    ("upper", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.to_uppercase()))),
    ("title", 1, 1, |arguments| Ok(Term::text(title(&arguments.text(0)?)))),
    ("trimspace", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.trim()))),
    ("chomp", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.trim_end_matches(['\r', '\n'])))),
    ("strrev", 1, 1, |arguments| Ok(Term::text(arguments.text(0)?.chars().rev().collect::<String>()))),
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
        Ok(Term::text(match text.rsplit_once('/') {
            None => ".",
            Some((directory, _)) => match directory.trim_end_matches('/') {
                "" => "/",
                directory => directory,
            },
        }))
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
    ("format", 1, ANY, |arguments| format(&arguments.0).map(Term::String)),
    ("formatlist", 1, ANY, formatlist),
];

fn title(text: &str) -> String {
    let mut start = true;
    let capital = |letter: char| {
        let made = if start { letter.to_uppercase().next().unwrap_or(letter) } else { letter };
        start = letter.is_whitespace();
        made
    };
    text.chars().map(capital).collect()
}

fn substr(arguments: Arguments) -> Made {
    let letters: Vec<char> = arguments.text(0)?.chars().collect();
    let (offset, length) = (arguments.whole(1)?, arguments.whole(2)?);
    let start = if offset < 0 { (letters.len() as i64).saturating_add(offset).max(0) } else { offset };
    let start = usize::try_from(start).unwrap_or(0).min(letters.len());
    let end = usize::try_from(length).map_or(letters.len(), |length| start.saturating_add(length));
    Ok(Term::text(letters[start..end.min(letters.len())].iter().collect::<String>()))
}

fn pattern(text: &str) -> Result<regex::Regex, Problem> {
    let built = regex::RegexBuilder::new(text).size_limit(PATTERN).build();
    built.map_err(|_| Problem::new("the pattern is not a regular expression"))
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
        return Term::Map(named);
    }
    if found.len() == 1 { group(0) } else { Term::List((1..found.len()).map(group).collect()) }
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
        format(&chosen.collect::<Vec<_>>()).map(Term::String)
    };
    Ok(Term::List((0..length).map(row).collect::<Result<_, _>>()?))
}

fn elements(term: &Term) -> Option<&[Term]> {
    match term {
        Term::List(elements) | Term::Set(elements) => Some(elements),
        _ => None,
    }
}

/// As C's `printf`, with the verbs that modules use.
fn format(arguments: &[Term]) -> Result<String, Problem> {
    let Some((pattern, mut rest)) = arguments.split_first() else { return Ok(String::new()) };
    let pattern = types::string(pattern)?;
    let mut letters = pattern.chars().peekable();
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = letters.next_if(|letter| "-+0 ".contains(*letter)) {
            match flag {
                '-' => spec.left = true,
                '0' => spec.zeros = true,
                '+' => spec.sign = true,
                _ => {}
            }
        }
        let digits = |letters: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut text = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                text.push(digit);
            }
            text.parse::<usize>().ok()
        };
        spec.width = digits(&mut letters).unwrap_or(0);
        if letters.next_if_eq(&'.').is_some() {
            spec.precision = Some(digits(&mut letters).unwrap_or(0));
        }
        if spec.width > WIDEST || spec.precision.is_some_and(|precision| precision > WIDEST) {
            return wrong("the pattern asks for too wide a column");
        }
        match letters.next() {
            Some('%') => out.push('%'),
            Some(verb) => {
                let Some((term, more)) = rest.split_first() else {
                    return wrong("there are fewer arguments than the pattern asks for");
                };
                rest = more;
                out.push_str(&spec.padded(spec.verb(verb, term)?));
            }
            None => return wrong("the pattern ends in the middle"),
        }
    }
    if rest.is_empty() { Ok(out) } else { wrong("there are more arguments than the pattern asks for") }
}

#[derive(Default)]
struct Spec {
    left: bool,
    zeros: bool,
    sign: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn verb(&self, verb: char, term: &Term) -> Result<String, Problem> {
        let whole = || match types::number(term)?.as_i64() {
            Some(whole) => Ok(whole),
            None => wrong("a whole number is required"),
        };
        let text = match verb {
            's' => types::string(term)?,
            'v' => types::string(term).unwrap_or_else(|_| term.to_json().to_string()),
            'q' => serde_json::Value::String(types::string(term)?).to_string(),
            't' => types::boolean(term)?.to_string(),
            'd' => match self.sign {
                true => format!("{:+}", whole()?),
                false => whole()?.to_string(),
            },
            'x' => format!("{:x}", whole()?),
            'X' => format!("{:X}", whole()?),
            'o' => format!("{:o}", whole()?),
            'b' => format!("{:b}", whole()?),
            'f' => format!("{:.*}", self.precision.unwrap_or(6), types::number(term)?.nearest_f64()),
            'g' => types::number(term)?.to_string(),
            _ => return wrong(format!("the pattern has a verb that is not known here, %{verb}")),
        };
        let cut = self.precision.filter(|_| matches!(verb, 's' | 'v'));
        Ok(cut.map_or_else(|| text.clone(), |letters| text.chars().take(letters).collect()))
    }

    fn padded(&self, text: String) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        match (self.left, self.zeros, text.strip_prefix('-')) {
            (true, ..) => text + &" ".repeat(missing),
            (false, true, Some(digits)) => format!("-{}{digits}", "0".repeat(missing)),
            (false, true, None) => "0".repeat(missing) + &text,
            (false, false, _) => " ".repeat(missing) + &text,
        }
    }
}
