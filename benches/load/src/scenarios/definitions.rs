//! From the definition of a custom resource to its first object.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Session, done_once};
use crate::statistics::Latencies;
use crate::target::Request;
use crate::work::Done;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let before = session.report.server.resident_kib()?;
    let mut established = Latencies::default();
    let mut measurement = session.report.measurement("definition to first object");
    let (cpu, mut all) = (session.report.begin()?, Done::default());
    for number in 0..session.settings.definitions {
        let group = format!("g{number}x{}.load.dev", session.run);
        let definition = definition(&group);
        let path = format!("{DEFINITIONS}/widgets.{group}");
        let objects = format!("/apis/{group}/v1/namespaces/{}/widgets", session.namespace);
        let object = json!({
            "apiVersion": format!("{group}/v1"), "kind": "Widget",
            "metadata": {"name": "first"}, "spec": {"size": 1},
        });
        let began = Instant::now();
        session.aside.succeed(Request::post(DEFINITIONS, &definition)).await?;
        // A client in a hurry asks until it is told yes; the stock server says no for two seconds.
        let first_object = async {
            loop {
                let (status, _) = session.aside.call(Request::post(&objects, &object)).await?;
                if status.is_success() {
                    return anyhow::Ok(done_once(began));
                }
                anyhow::ensure!(began.elapsed() < PATIENCE, "no object is accepted: {status}");
                tokio::time::sleep(PAUSE).await;
            }
        };
        let is_established = async {
            while !is_established(&session.aside.json(Request::get(&path)).await?) {
                anyhow::ensure!(began.elapsed() < PATIENCE, "the definition is not established");
                tokio::time::sleep(PAUSE).await;
            }
            anyhow::Ok(began.elapsed())
        };
        let (first, seen) = tokio::try_join!(first_object, is_established)?;
        all.merge(first);
        established.push(seen);
    }
    measurement.add(&cpu, all)?;
    let grown = session.report.server.resident_kib()?.saturating_sub(before);
    measurement.detail("established_ms", established.summary());
    measurement.detail("resident_kib_per_definition", grown / session.settings.definitions.max(1) as u64);
    measurement.tell()?;
    for number in 0..session.settings.definitions {
        let path = format!("{DEFINITIONS}/widgets.g{number}x{}.load.dev", session.run);
        session.aside.succeed(Request::delete(path)).await?;
    }
    Ok(())
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
}

fn definition(group: &str) -> Value {
    let item = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}});
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 0},
        "name": {"type": "string", "maxLength": 64},
        "items": {"type": "array", "items": item},
    }});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
