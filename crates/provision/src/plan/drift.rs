//! Drift: the resource is not as desired although nobody changed the object.

use serde::{Deserialize, Serialize};

use super::Change;

/// What is done about drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftPolicy {
    /// The resource is made as desired again.
    #[default]
    Correct,
    /// It is told, by field, and left as it is.
    Report,
    /// It is left as it is.
    Ignore,
}

/// What to do with changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Make them. `drifted` if nobody asked for them by editing the object.
    Make {
        drifted: bool,
    },
    Report,
    Ignore,
}

/// `generation` is the object's, `applied` the one that the resource was last made like.
pub fn judge(policy: DriftPolicy, generation: i64, applied: Option<i64>, changes: &[Change]) -> Verdict {
    let drifted = !changes.is_empty() && applied == Some(generation);
    match policy {
        _ if !drifted => Verdict::Make { drifted: false },
        DriftPolicy::Correct => Verdict::Make { drifted: true },
        DriftPolicy::Report => Verdict::Report,
        DriftPolicy::Ignore => Verdict::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_no_drift() {
        let changes = [Change::new("spec.a", 1.into(), 2.into())];
        for (policy, applied, expected) in [
            (DriftPolicy::Correct, Some(3), Verdict::Make { drifted: true }),
            (DriftPolicy::Correct, Some(2), Verdict::Make { drifted: false }),
            (DriftPolicy::Report, Some(3), Verdict::Report),
            (DriftPolicy::Report, Some(2), Verdict::Make { drifted: false }),
            (DriftPolicy::Report, None, Verdict::Make { drifted: false }),
            (DriftPolicy::Ignore, Some(3), Verdict::Ignore),
            (DriftPolicy::Ignore, Some(2), Verdict::Make { drifted: false }),
        ] {
            assert_eq!(judge(policy, 3, applied, &changes), expected, "{policy:?} {applied:?}");
        }
        assert_eq!(judge(DriftPolicy::Report, 3, Some(3), &[]), Verdict::Make { drifted: false });
    }
}
