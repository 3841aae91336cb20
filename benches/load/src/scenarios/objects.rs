//! Single objects: every verb on one object at a time.

use serde_json::json;

use super::{Session, configmap};
use crate::target::{APPLY, MERGE_PATCH, Request};

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let path = session.configmaps(&session.namespace);
    let payload = "x".repeat(session.settings.payload);
    let one = {
        let path = path.clone();
        move |kind: &str, round: usize, number: usize| format!("{path}/{kind}-{round}-{number}")
    };
    let named = move |kind: &str, round: usize, number: usize, content: usize| {
        configmap(&format!("{kind}-{round}-{number}"), &payload, content)
    };

    let (collection, object) = (path.clone(), named.clone());
    session.rounds("create", move |r, n| Request::post(&collection, &object("cm", r, n, n))).await?;

    let at = one.clone();
    session.rounds("get", move |r, n| Request::get(at("cm", r, n))).await?;

    let (at, object) = (one.clone(), named.clone());
    session.rounds("update", move |r, n| Request::put(at("cm", r, n), &object("cm", r, n, n + 1))).await?;

    let at = one.clone();
    session
        .rounds("merge patch", move |r, n| {
            Request::patch(at("cm", r, n), MERGE_PATCH, &json!({"data": {"number": format!("p{n}")}}))
        })
        .await?;

    // The same object applied three times: it is new, then different, then the same again.
    for (scenario, change) in [("apply, create", 0), ("apply, change", 1), ("apply, no change", 1)] {
        let (at, object) = (one.clone(), named.clone());
        session
            .rounds(scenario, move |r, n| {
                let path = at("applied", r, n) + "?fieldManager=load&force=true";
                Request::patch(path, APPLY, &object("applied", r, n, n + change))
            })
            .await?;
    }
    let at = one.clone();
    session.rounds("delete", move |r, n| Request::delete(at("cm", r, n))).await?;
    session.aside.succeed(Request::delete(path)).await.map(drop)
}
