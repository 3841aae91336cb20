//! `move`: a control plane comes to another store, with everything in it.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::create::{Waiting, check_name};
use super::{Session, condition, ctx, type_of};
use crate::api;

#[derive(Args, Clone, Debug)]
pub struct Move {
    /// name of the control plane
    name: String,
    /// the store to keep it in from now on; `default` is that of the hosting control plane
    #[arg(long, value_name = "NAME")]
    store: String,
    #[command(flatten)]
    waiting: Waiting,
}

/// What became of it, once the operator has looked at this generation.
fn outcome(object: &Value, generation: i64, store: &str) -> Option<Result<(), String>> {
    let status = &object["status"];
    if status["observedGeneration"].as_i64()? < generation {
        return None;
    }
    let synced = condition(object, "Synced")?;
    match synced["status"].as_str()? {
        "True" if status["store"] == store => Some(Ok(())),
        "True" => None,
        _ => Some(Err(synced["message"].as_str().unwrap_or_default().to_owned())),
    }
}

pub async fn run(session: &Session, wanted: Move) -> anyhow::Result<()> {
    let (name, store) = (wanted.name.as_str(), wanted.store.as_str());
    check_name(name)?;
    let hosting = session.hosting(&session.files.load()?).await?;
    let api = &hosting.api;
    let object = ctx::on_server(api, name).await?;
    if matches!(type_of(&object), "host" | "external") {
        bail!(
            "control plane {name:?} is of type {}: it is in no store that it could leave",
            type_of(&object)
        );
    }
    let before = object["status"]["store"].as_str().unwrap_or("-").to_owned();
    let patch = json!({"spec": {"store": store}});
    let step = session.progress.step(format!("Moving control plane {name} from {before} to {store}..."));
    let asked = api.merge(api::CONTROL_PLANES, "", name, &patch).await.context("error moving")?;
    if !wanted.waiting.wait {
        step.done();
        return Ok(());
    }
    let generation = asked["metadata"]["generation"].as_i64().unwrap_or_default();
    let timeout = wanted.waiting.timeout;
    let watched = api.follow(api::CONTROL_PLANES, name, None, |object| match object {
        Some(object) => outcome(object, generation, store).map(|outcome| outcome.map(|()| object.clone())),
        None => Some(Err("it was deleted".to_owned())),
    });
    let moved = match tokio::time::timeout(timeout, watched).await {
        Ok(watched) => watched.context("error waiting for the move")?,
        Err(_) => bail!("control plane {name:?} has not moved after {timeout:?}"),
    };
    let moved = moved.map_err(|why| anyhow::anyhow!("control plane {name:?} was not moved: {why}"))?;
    step.done();
    let last = &moved["status"]["lastMove"];
    if before != store && last["to"] == store {
        session.progress.note(format!(
            "{} entries in {} ms, of which writes had to wait for {} ms",
            last["entries"], last["milliseconds"], last["pauseMilliseconds"]
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes() {
        let check = |observed: i64, synced: &str, store: &str, expected: Option<Result<(), String>>| {
            let conditions = json!([{"type": "Synced", "status": synced, "message": "no"}]);
            let status = json!({"observedGeneration": observed, "conditions": conditions, "store": store});
            assert_eq!(outcome(&json!({"status": status}), 2, "pg"), expected);
        };
        check(2, "True", "pg", Some(Ok(())));
        check(1, "True", "pg", None);
        check(2, "True", "default", None);
        check(3, "False", "default", Some(Err("no".to_owned())));
        assert_eq!(outcome(&json!({}), 2, "pg"), None);
    }
}
