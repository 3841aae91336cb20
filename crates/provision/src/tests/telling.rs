//! ACK's conditions, tags and selectors, as tables.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use objects::Value;
use serde_json::json;

use crate::dialect::ack::{Ack, selectors, tags};
use crate::dialect::{
    Advisory, Dependable, Dialect, LateState, Look, NOT_CONVERGING, ReferencesState, Report, Verdict,
};
use crate::driver::{Place, RoleSelected};
use crate::facts::Facts;
use crate::failure::{Class, Failure};

fn facts() -> Facts {
    Facts::new("buckets.s3.services.k8s.aws", "Bucket", "s3", "f", Arc::new(Ack::default()))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

struct Case {
    verdict: Verdict,
    references: ReferencesState,
    late: Option<LateState>,
    advisories: Vec<Advisory>,
    place: Option<Place>,
}

impl Case {
    fn of(verdict: Verdict) -> Case {
        Case { verdict, references: ReferencesState::None, late: None, advisories: Vec::new(), place: None }
    }

    fn status(&self, object: &Value, found: Option<&Value>, now: Timestamp) -> (Value, Look) {
        let facts = facts();
        let report = Report {
            facts: &facts,
            object,
            verdict: &self.verdict,
            status: found,
            arn: None,
            place: self.place.as_ref(),
            references: &self.references,
            late: self.late.as_ref(),
            advisories: &self.advisories,
        };
        (Ack::default().status(&report, now), Ack::default().look(&report))
    }

    /// Type, status, reason and message of all conditions, one to a line.
    fn lines(&self) -> (String, Look) {
        let (status, look) = self.status(&json!({}), None, at(0));
        let text = |one: &Value, field: &str| one[field].as_str().unwrap_or("-").to_owned();
        let line =
            |one: &Value| ["type", "status", "reason", "message"].map(|field| text(one, field)).join(" | ");
        let lines: Vec<String> = status["conditions"].as_array().unwrap().iter().map(line).collect();
        (lines.join("\n"), look)
    }
}

#[test]
fn conditions() {
    let hours = |hours: u64| Look::After(Duration::from_secs(hours * 3_600));
    let check =
        |case: Case, expected: &[&str], look: Look| assert_eq!(case.lines(), (expected.join("\n"), look));
    check(
        Case::of(Verdict::Synced),
        &[
            "Ready | True | - | Resource synced successfully",
            "ACK.ResourceSynced | True | - | Resource synced successfully",
        ],
        Look::Interval,
    );
    check(
        Case::of(Verdict::NotSynced { message: "being made".to_owned(), after: None }),
        &[
            "Ready | False | being made | Resource not synced",
            "ACK.ResourceSynced | False | being made | Resource not synced",
        ],
        Look::After(Duration::from_secs(30)),
    );
    check(
        Case::of(Verdict::Failed(Failure::new(Class::Terminal, "InvalidName", "bad name"))),
        &[
            "Ready | False | ACK.Terminal | InvalidName: bad name",
            "ACK.ResourceSynced | False | InvalidName: bad name | Resource not synced",
            "ACK.Terminal | True | - | InvalidName: bad name",
        ],
        hours(10),
    );
    let unknown = "Unable to determine if desired resource state matches latest observed state";
    check(
        Case::of(Verdict::Failed(Failure::recoverable("oh"))),
        &[
            "Ready | False | ACK.Recoverable | oh",
            &format!("ACK.ResourceSynced | Unknown | oh | {unknown}"),
            "ACK.Recoverable | True | - | oh",
        ],
        Look::Backoff,
    );
    let role = Failure::new(Class::Waiting(Duration::from_secs(15)), "IAMRoleNotAvailable", "no map");
    check(
        Case::of(Verdict::Failed(role)),
        &[
            "Ready | False | no map | IAM Role is not available",
            "ACK.ResourceSynced | False | no map | IAM Role is not available",
        ],
        Look::After(Duration::from_secs(15)),
    );
    let selected =
        RoleSelected { arn: "arn:r".to_owned(), selector: "s".to_owned(), resource_version: "7".to_owned() };
    let everything = Case {
        references: ReferencesState::Resolved,
        late: Some(LateState::Delayed(vec!["spec.a".to_owned()])),
        advisories: vec![Advisory { reason: NOT_CONVERGING, message: "spec.b".to_owned() }],
        place: Some(Place { role: Some(selected), ..Place::default() }),
        ..Case::of(Verdict::Synced)
    };
    check(
        everything,
        &[
            "Ready | True | - | Resource synced successfully",
            "ACK.ResourceSynced | True | - | Resource synced successfully",
            "ACK.LateInitialized | False | Delayed Late Initialization | Waiting for the values of spec.a",
            "ACK.ReferencesResolved | True | - | -",
            "ACK.IAMRoleSelected | True | Selected | Selected arn:r by s (7)",
            "ACK.Advisory | True | NotConverging | spec.b",
        ],
        Look::After(Duration::from_secs(5)),
    );
    let waiting = Case {
        references: ReferencesState::Waiting("key is not synced yet".to_owned()),
        ..Case::of(Verdict::Failed(Failure::waiting(Duration::ZERO, "key is not synced yet")))
    };
    assert_eq!(waiting.lines().1, Look::Backoff);
    assert!(
        waiting.lines().0.contains(
            "ACK.ReferencesResolved | Unknown | key is not synced yet | Reference resolution failed"
        )
    );
}

#[test]
fn times_stay_while_nothing_changes() {
    let synced = Case::of(Verdict::Synced);
    let (first, _) = synced.status(&json!({}), Some(&json!({"a": 1})), at(1));
    let object = json!({"status": first});
    assert_eq!(synced.status(&object, Some(&json!({"a": 1})), at(2)).0, first);
    let failed = Case::of(Verdict::Failed(Failure::recoverable("x")));
    let (second, _) = failed.status(&object, None, at(3));
    assert_eq!(second["a"], 1, "what was known stays");
    let object = json!({"status": second});
    let again = Case::of(Verdict::Failed(Failure::recoverable("y"))).status(&object, None, at(4)).0;
    let times = |status: &Value| -> Vec<String> {
        status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["lastTransitionTime"].to_string())
            .collect()
    };
    assert_eq!(times(&second), times(&again), "another message is no transition");
    assert_ne!(times(&first), times(&second));
}

#[test]
fn others_depend_on_what_is_synced() {
    let object = |kind: &str| json!({"kind": "Key", "metadata": {"name": "k"}, "status": {"conditions": [{"type": kind, "status": "True"}]}});
    let ack = Ack::default();
    assert_eq!(ack.dependable(&object("ACK.ResourceSynced")), Dependable::Yes);
    assert!(matches!(ack.dependable(&object("ACK.Terminal")), Dependable::Never(_)));
    assert!(matches!(ack.dependable(&json!({})), Dependable::NotYet(_)));
}

#[test]
fn default_tags() {
    let mut object = json!({"metadata": {"name": "b", "namespace": "ns"}});
    let of = |object: &Value| tags::of(tags::DEFAULT, &facts(), object, "1.2.3");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let plain =
        [pair("services.k8s.aws/controller-version", "s3-1.2.3"), pair("services.k8s.aws/namespace", "ns")];
    assert_eq!(of(&object), plain);
    object["metadata"]["labels"] =
        json!({"app.kubernetes.io/managed-by": "kro", "kro.run/kro-version": "0.3"});
    let all = of(&object);
    assert_eq!(all[2..], [pair("app.kubernetes.io/managed-by", "kro"), pair("kro.run/kro-version", "0.3")]);
    assert_eq!(tags::parse("a=b=c"), Ok(pair("a", "b=c")));
    assert!(tags::parse("a").is_err() && tags::parse("=b").is_err());
    assert!(tags::is_system("aws:x", [].into_iter()) && tags::is_system("a", ["a"].into_iter()));
}

#[test]
fn role_selectors() {
    let object = json!({"apiVersion": "s3.services.k8s.aws/v1alpha1", "kind": "Bucket",
        "metadata": {"name": "b", "namespace": "ns", "labels": {"team": "x"}}});
    let namespace = json!({"metadata": {"name": "ns", "labels": {"stage": "dev"}}});
    let selector = |spec: Value| json!({"metadata": {"name": "s", "resourceVersion": "1"}, "spec": spec});
    for (spec, expected) in [
        (json!({}), true),
        (json!({"namespaceSelector": {"names": ["ns", "other"]}}), true),
        (json!({"namespaceSelector": {"names": ["other"]}}), false),
        (json!({"namespaceSelector": {"labelSelector": {"matchLabels": {"stage": "dev"}}}}), true),
        (json!({"namespaceSelector": {"labelSelector": {"matchLabels": {"stage": "prod"}}}}), false),
        (json!({"resourceTypeSelector": [{"kind": "Queue"}, {"group": "s3.services.k8s.aws"}]}), true),
        (json!({"resourceTypeSelector": [{"kind": "Queue"}]}), false),
        (json!({"resourceTypeSelector": [{"version": "v1"}]}), false),
        (json!({"resourceLabelSelector": {"matchLabels": {"team": "x"}}}), true),
        (json!({"resourceLabelSelector": {"matchLabels": {"team": "y"}}}), false),
    ] {
        let found =
            selectors::select(&[selector(spec.clone())], &facts(), &object, Some(&namespace)).unwrap();
        assert_eq!(found.is_some(), expected, "{spec}");
    }
    let two = [selector(json!({})), selector(json!({}))];
    assert!(selectors::select(&two, &facts(), &object, Some(&namespace)).is_err());
}
