//! What would be done in a cloud, in words: for `hangar plan`, and for `--dry-run=server` in control planes here.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::{Engine, Foresight};
use async_trait::async_trait;
use objects::meta;
use provision::Preview;
use provision::plan::{LATER, Verb, brief};
use runtime::InProcessFleet;
use serde_json::{Value, json};

use super::Cloud;

/// Somebody sits before kubectl and waits. A plan takes a few reads.
const PATIENCE: Duration = Duration::from_secs(10);

/// What all warnings of an answer may take together is 4096 bytes; the rest is for others, and for the last line.
const ROOM: usize = 3_500;

/// The plans of clouds that are set up.
pub struct OfClouds {
    /// The engine holds this.
    engine: Weak<Engine>,
    clouds: Arc<Vec<Box<dyn Cloud>>>,
}

impl OfClouds {
    pub fn new(engine: &Arc<Engine>, clouds: Arc<Vec<Box<dyn Cloud>>>) -> OfClouds {
        OfClouds { engine: Arc::downgrade(engine), clouds }
    }
}

#[async_trait]
impl Foresight for OfClouds {
    async fn foresee(&self, control_plane: &str, object: &Value) -> Vec<String> {
        let Some(cloud) = self.clouds.iter().find(|cloud| cloud.knows(object)) else { return Vec::new() };
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let fleet = InProcessFleet::new(engine);
        let planned = tokio::time::timeout(PATIENCE, cloud.plans(&fleet, control_plane, object)).await;
        let told = match planned {
            Ok(Ok(parts)) if parts.is_empty() => vec!["nothing".to_owned()],
            Ok(Ok(parts)) => parts.iter().flat_map(|(part, preview)| of_part(part, preview)).collect(),
            Ok(Err(failure)) => vec![format!("cannot be made: {failure}")],
            Err(_) => vec![format!("cannot be made: no answer within {} s", PATIENCE.as_secs())],
        };
        // kubectl shows the same line only once, so each says what it is about.
        let about =
            format!("plan of {} {}/{}", meta::kind(object), meta::namespace(object), meta::name(object));
        fitting(told.into_iter().map(|line| format!("{about}: {line}")).collect(), &about)
    }
}

/// What would be done about a part of an object, or all of it.
fn of_part(part: &str, preview: &Preview) -> Vec<String> {
    let first = match (preview.verb, preview.place.as_str()) {
        (Verb::Nothing, "") => None,
        (_, "") => Some(verb(preview)),
        (_, place) => Some(format!("{} in {place}", verb(preview))),
    };
    let told = first.into_iter().chain(lines(preview));
    match part {
        "" => told.collect(),
        part => told.map(|line| format!("{part}: {line}")).collect(),
    }
}

/// As many lines as warnings have room for, and how many there are beside.
fn fitting(mut lines: Vec<String>, about: &str) -> Vec<String> {
    let (all, mut room) = (lines.len(), ROOM);
    let fit = lines.iter().take_while(|line| {
        let left = room.checked_sub(line.len() + line.matches(['"', '\\']).count());
        room = left.unwrap_or_default();
        left.is_some()
    });
    let fit = fit.count();
    lines.truncate(fit);
    if fit < all {
        lines.push(format!("{about}: and {} more", all - fit));
    }
    lines
}

/// What would be done, in one word.
pub fn verb(preview: &Preview) -> String {
    json!(preview.verb).as_str().unwrap_or_default().to_owned()
}

/// Each change, each call, and what else is to be known.
pub fn lines(preview: &Preview) -> Vec<String> {
    let shown = |value: &Value| if value == LATER { LATER.to_owned() } else { brief(value) };
    let change = |change: &provision::Change| {
        let values = match (change.sensitive, preview.verb) {
            (true, Verb::Create) => "(sensitive value)".to_owned(),
            (true, _) => "changes".to_owned(),
            (false, Verb::Create) => shown(&change.to),
            (false, _) => format!("{} -> {}", shown(&change.from), shown(&change.to)),
        };
        format!("{}: {values}{}", change.path, if change.replaces { " (replaces it)" } else { "" })
    };
    let changes = preview.changes.iter().map(change);
    let calls = preview.calls.iter().map(|call| format!("calls {call}"));
    // There may be no room for all of it: what is to be known beside it comes first.
    preview.remarks.iter().cloned().chain(changes).chain(calls).collect()
}

#[cfg(test)]
mod tests {
    use provision::Change;

    use super::*;

    fn preview(verb: Verb, changes: Vec<Change>) -> Preview {
        let remarks = vec!["warning: old".to_owned()];
        Preview { verb, place: "shelf".into(), changes, calls: vec!["a:Create".into()], remarks }
    }

    #[test]
    fn changes_and_settings() {
        let changes = || {
            vec![
                Change::new("spec.a", Value::Null, json!("x")),
                Change::new("spec.id", Value::Null, json!(LATER)),
                Change::sensitive("spec.p"),
            ]
        };
        let check = |verb, expected: [&str; 5]| assert_eq!(lines(&preview(verb, changes())), expected);
        let (first, last) = ("warning: old", "calls a:Create");
        let (id, secret) = ("spec.id: (known after apply)", "spec.p: (sensitive value)");
        check(Verb::Create, [first, r#"spec.a: "x""#, id, secret, last]);
        let id = "spec.id: null -> (known after apply)";
        check(Verb::Update, [first, r#"spec.a: null -> "x""#, id, "spec.p: changes", last]);
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let lines = |count: usize| (0..count).map(|n| format!("p: {n:0>96}")).collect::<Vec<_>>();
        assert_eq!(fitting(lines(30), "p"), lines(30));
        let fitted = fitting(lines(100), "p");
        assert_eq!((fitted.len(), fitted.last().unwrap().as_str()), (36, "p: and 65 more"));
    }
}
