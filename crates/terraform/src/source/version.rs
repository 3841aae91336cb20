//! Versions and what is asked of them, as Terraform writes it: `~> 3.1`, `>= 2.0, < 3.0`, `!= 2.5.1`.

use std::fmt;

use super::SourceError;

/// A version with up to three numbers and perhaps a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(semver::Version);

impl Version {
    pub fn parse(text: &str) -> Option<Version> {
        semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok().map(Version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    More,
    AtLeast,
    Less,
    AtMost,
    /// At least this, and only the last number that is given may grow.
    About,
}

/// The longer ones first: one is the beginning of another.
const OPERATORS: [(&str, Operator); 7] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("!=", Operator::NotEqual),
    ("~>", Operator::About),
    (">", Operator::More),
    ("<", Operator::Less),
    ("=", Operator::Equal),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    operator: Operator,
    version: semver::Version,
    /// How many numbers were given.
    numbers: usize,
}

impl Constraint {
    /// Nothing is asked for.
    pub fn any() -> Constraint {
        Constraint { text: String::new(), terms: Vec::new() }
    }

    pub fn parse(text: &str) -> Result<Constraint, SourceError> {
        let terms = text.split(',').map(str::trim).filter(|term| !term.is_empty());
        let terms: Option<Vec<Term>> = terms.map(Term::parse).collect();
        let terms = terms.ok_or_else(|| SourceError::Constraint(text.to_owned()))?;
        Ok(Constraint { text: text.trim().to_owned(), terms })
    }

    /// A pre-release fits only where it is asked for by name.
    pub fn fits(&self, version: &Version) -> bool {
        let named =
            self.terms.iter().any(|term| term.operator == Operator::Equal && term.version == version.0);
        (version.0.pre.is_empty() || named) && self.terms.iter().all(|term| term.fits(&version.0))
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "any version" } else { &self.text })
    }
}

impl Term {
    fn parse(text: &str) -> Option<Term> {
        let (operator, version) = OPERATORS
            .iter()
            .find_map(|(sign, operator)| Some((*operator, text.strip_prefix(sign)?.trim())))
            .unwrap_or((Operator::Equal, text));
        let version = version.strip_prefix('v').unwrap_or(version);
        let (numbers, rest) = match version.find(['-', '+']) {
            Some(at) => version.split_at(at),
            None => (version, ""),
        };
        let given = numbers.split('.').count();
        if given > 3 {
            return None;
        }
        let whole = format!("{numbers}{}{rest}", ".0".repeat(3 - given));
        Some(Term { operator, version: semver::Version::parse(&whole).ok()?, numbers: given })
    }

    fn fits(&self, version: &semver::Version) -> bool {
        let own = &self.version;
        match self.operator {
            Operator::Equal => version == own,
            Operator::NotEqual => version != own,
            Operator::More => version > own,
            Operator::AtLeast => version >= own,
            Operator::Less => version < own,
            Operator::AtMost => version <= own,
            Operator::About => {
                version >= own
                    && match self.numbers {
                        1 | 2 => version.major == own.major,
                        _ => version.major == own.major && version.minor == own.minor,
                    }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits() {
        fn check(constraint: &str, fits: &[&str], not: &[&str]) {
            let constraint = Constraint::parse(constraint).unwrap();
            for (versions, expected) in [(fits, true), (not, false)] {
                for version in versions {
                    assert_eq!(
                        constraint.fits(&Version::parse(version).unwrap()),
                        expected,
                        "{constraint} {version}"
                    );
                }
            }
        }
        check("", &["1.0.0", "9.9.9"], &["1.0.0-beta1"]);
        check("1.2.3", &["1.2.3"], &["1.2.4"]);
        check("= 1.2", &["1.2.0"], &["1.2.1"]);
        check("~> 1.2", &["1.2.0", "1.9.0"], &["1.1.9", "2.0.0"]);
        check("~> 1.2.3", &["1.2.3", "1.2.9"], &["1.2.2", "1.3.0"]);
        check(">= 2.0, < 3.0, != 2.5.1", &["2.0.0", "2.5.0"], &["2.5.1", "3.0.0", "1.9.9"]);
        check("> 1", &["1.0.1"], &["1.0.0"]);
        check("1.0.0-beta1", &["1.0.0-beta1"], &["1.0.0"]);
        for wrong in ["=> 1.0", "one", "1.2.3.4", "~>"] {
            assert!(Constraint::parse(wrong).is_err(), "{wrong}");
        }
    }
}
