//! Changes of a namespace's own labels: whether they can be read, and which pods they leave behind.

use std::collections::{BTreeMap, HashSet};

use objects::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::{Level, PREFIX, Policy, Version, checks};

/// How many pods are looked at when the demands of a namespace grow.
const PODS_TO_CHECK: usize = 3000;

/// What is wrong with the labels of a namespace. Errors that were there before are let pass, or else the
/// namespace could never be changed again.
pub fn check_namespace(namespace: &Value, old: Option<&Value>) -> ErrorList {
    let errors = label_errors(namespace);
    match old {
        Some(old) if label_errors(old) == errors => ErrorList::new(),
        _ => errors,
    }
}

fn label_errors(namespace: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut check = |label: String, is_valid: fn(&str) -> bool, wanted: &str| {
        let key = format!("{PREFIX}{label}");
        let value =
            objects::meta::labels(namespace).and_then(|labels| labels.get(&key)).and_then(Value::as_str);
        if let Some(bad) = value.filter(|value| !is_valid(value)) {
            errors.push(Error::invalid(&Path::new("metadata").child("labels").key(&key), bad, wanted));
        }
    };
    for mode in ["enforce", "audit", "warn"] {
        let levels = "must be one of privileged, baseline, restricted";
        check(mode.to_owned(), |text| Level::named(text).is_some(), levels);
        check(
            format!("{mode}-version"),
            |text| Version::read(text).is_some(),
            "must be \"latest\" or \"v1.x\"",
        );
    }
    errors
}

/// Whether a change of labels asks more of pods than before, so that those that are there should be
/// listed for [`warnings`].
pub fn demands_more(namespace: &Value, old: &Value) -> bool {
    let (new, old) = (Policy::of(namespace).enforce, Policy::of(old).enforce);
    let relaxed = new.version == old.version && new.level <= old.level;
    new != old && new.level != Level::Privileged && !relaxed
}

/// What to say about the pods that a namespace would no longer admit.
pub fn warnings<'a>(namespace: &Value, pods: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let standard = Policy::of(namespace).enforce;
    let pods = one_of_each_owner_first(pods);
    // By what is wrong: how many pods, and the first of their names.
    let mut found: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for pod in pods.iter().take(PODS_TO_CHECK) {
        let reasons: Vec<String> = checks::run(standard, pod).into_iter().map(|(reason, _)| reason).collect();
        if reasons.is_empty() {
            continue;
        }
        let name = objects::meta::name(pod);
        let entry = found.entry(reasons.join(", ")).or_insert((0, name));
        *entry = (entry.0 + 1, entry.1.min(name));
    }
    let mut said = Vec::new();
    if pods.len() > PODS_TO_CHECK {
        said.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_TO_CHECK} of {} existing pods",
            pods.len()
        ));
    }
    if !found.is_empty() {
        let name = objects::meta::name(namespace);
        said.push(format!(
            "existing pods in namespace {name:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut about_pods: Vec<String> = found
        .into_iter()
        .map(|(what, (count, name))| match count {
            1 => format!("{name}: {what}"),
            2 => format!("{name} (and 1 other pod): {what}"),
            _ => format!("{name} (and {} other pods): {what}", count - 1),
        })
        .collect();
    about_pods.sort_unstable();
    said.extend(about_pods);
    said
}

/// Replicas look alike, so that one of each is worth more than many of one.
fn one_of_each_owner_first<'a>(pods: impl IntoIterator<Item = &'a Value>) -> Vec<&'a Value> {
    let mut owners = HashSet::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for pod in pods {
        let references = objects::meta::owner_references(pod).iter();
        let mut controllers = references.filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let owner = controllers.next().and_then(|owner| owner.get("uid")).and_then(Value::as_str);
        match owner {
            Some(uid) if !owners.insert(uid) => rest.push(pod),
            _ => first.push(pod),
        }
    }
    first.extend(rest);
    first
}
