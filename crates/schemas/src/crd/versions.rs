//! Which version of a group is preferred.

use std::cmp::Ordering;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// The parts of `v1`, `v2beta3`; `None` for names of another kind.
fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (major, rest) = rest.split_at(digits);
    let (stability, minor) = if rest.is_empty() {
        (Stability::Stable, "0")
    } else if let Some(minor) = rest.strip_prefix("beta") {
        (Stability::Beta, minor)
    } else {
        (Stability::Alpha, rest.strip_prefix("alpha")?)
    };
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    Some((stability, number(major)?, number(minor)?))
}

/// The preferred version first: stable before beta before alpha, higher numbers before lower; names of another
/// kind last, in alphabetical order.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_first() {
        let mut versions = [
            "foo1",
            "v1alpha1",
            "v11beta2",
            "v10",
            "v2",
            "v10beta3",
            "v12alpha1",
            "foo10",
            "v3beta1",
            "v1x",
            "v",
        ];
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v1alpha1",
                "foo1",
                "foo10",
                "v",
                "v1x"
            ]
        );
    }
}
