//! A provider that others wrote, with what the newest versions of the protocol have: the Python package
//! `pyvider-components` (protocol 6).

use objects::Value as Json;
use serde_json::json;
use sha2::{Digest, Sha256};
use terraform::module::kinds::MODULES;
use terraform::plugin::Launch;
use terraform::queries::kinds::QUERIES;

use super::frameworks::tool;
use super::plane::*;
use super::world::*;

const NOTES: &str = "notes.secret.pyvider.kubeform.com";

fn pyvider(world: &World) -> Launch {
    // It looks at the name that it is called by.
    let program = world.cloud.path().join("terraform-provider-pyvider");
    std::os::unix::fs::symlink(tool("pyvider-venv/bin/pyvider"), &program).unwrap();
    let mut launch = Launch::new(program);
    let index = world.cloud.path().join("index.json").display().to_string();
    for (name, value) in [("PYVIDER_TESTMODE", "true"), ("PYVIDER_SECRET_NOTE_INDEX", &index)] {
        launch.environment.insert(name.into(), auth::Secret::new(value.to_owned()));
    }
    launch
}

/// What it says of a secret.
fn digest(secret: &str) -> String {
    Sha256::digest(secret).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

async fn plane() -> Plane {
    let world = World::new();
    let launch = pyvider(&world);
    Plane::of(world, "pyvider", launch).await
}

/// A value that it lends reaches an attribute that is only written, and is nowhere afterwards.
#[tokio::test]
async fn a_lease_for_a_secret_note() {
    let plane = plane().await;
    let lease = plane.world.cloud.path().join("held.lease");
    let text = format!(
        r#"
        ephemeral "pyvider_lease" "l" {{
          name        = "l"
          path        = "{}"
          ttl_seconds = 1
        }}
        resource "pyvider_secret_note" "n" {{
          name           = "n"
          secret_value   = ephemeral.pyvider_lease.l.lease_id
          secret_version = "1"
        }}
        output "digest" {{
          value = pyvider_secret_note.n.digest
        }}"#,
        lease.display()
    );
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}, "data": {"main.tf": text},
    });
    plane.create("configmaps", map).await;
    let object = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "notes"},
        "spec": {"moduleRef": {"configMap": {"name": "notes"}}},
    });
    plane.create(MODULES, object).await;
    // What the lease says while it is held.
    let held = plane.until_file(&lease).await;
    let id = held.split_whitespace().nth(1).unwrap().to_owned();
    let object = plane.current(MODULES, "notes").await;
    assert_eq!(object["spec"]["resource"]["output"]["digest"], digest(&id), "{held}");
    plane.until(MODULES, "notes", |_| !lease.exists()).await;
    for kind in ["secrets", MODULES, "resources.terraform.hangar.dev"] {
        let all = Json::Array(plane.list(kind).await).to_string();
        assert!(!all.contains(&id), "{kind}");
    }
}

/// The same attribute from a Secret; told by its version that it is another.
#[tokio::test]
async fn a_secret_note_of_a_secret() {
    let plane = plane().await;
    plane.secret("word", "resource", json!({"secret_value": "first word"})).await;
    let note = json!({
        "apiVersion": "secret.pyvider.kubeform.com/v1alpha1", "kind": "Note", "metadata": {"name": "n"},
        "spec": {"resource": {"name": "n", "secretVersion": "1"}, "secretRef": {"name": "word"}},
    });
    plane.create(NOTES, note).await;
    let made = plane.current(NOTES, "n").await;
    assert_eq!(made["spec"]["state"]["digest"], digest("first word"));
    plane.patch("secrets", "word", json!({"stringData": {"resource": r#"{"secret_value": "other"}"#}})).await;
    plane.patch(NOTES, "n", json!({"spec": {"resource": {"secretVersion": "2"}}})).await;
    plane
        .until(NOTES, "n", |now| now.is_some_and(|now| now["spec"]["state"]["digest"] == digest("other")))
        .await;
    plane.delete(NOTES, "n").await;
    plane.gone(NOTES, "n").await;
}

/// What exists is listed, and taken over by the identity that it is listed with.
#[tokio::test]
async fn notes_that_exist() {
    let plane = plane().await;
    plane.secret("word", "resource", json!({"secret_value": "word"})).await;
    let note = |object: &str, name: &str, annotations: Json| {
        json!({
            "apiVersion": "secret.pyvider.kubeform.com/v1alpha1", "kind": "Note",
            "metadata": {"name": object, "annotations": annotations},
            "spec": {"resource": {"name": name}, "secretRef": {"name": "word"}},
        })
    };
    for name in ["left", "owned", "other"] {
        plane.create(NOTES, note(name, name, json!({"hangar.dev/deletion-policy": "retain"}))).await;
        plane.current(NOTES, name).await;
    }
    plane.delete(NOTES, "left").await;
    plane.gone(NOTES, "left").await;
    let query = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Query", "metadata": {"name": "notes"},
        "spec": {"provider": "pyvider", "type": "pyvider_secret_note"},
    });
    plane.create(QUERIES, query).await;
    let found = plane.current(QUERIES, "notes").await["status"]["found"].take();
    assert_eq!(
        found,
        json!([
            {"name": "left", "identity": {"name": "left"}},
            {"name": "other", "identity": {"name": "other"}, "object": "Note/other"},
            {"name": "owned", "identity": {"name": "owned"}, "object": "Note/owned"},
        ])
    );
    plane.patch(QUERIES, "notes", json!({"spec": {"config": {"namePrefix": "le"}}})).await;
    let found = plane.current(QUERIES, "notes").await["status"]["found"].take();
    assert_eq!(found, json!([{"name": "left", "identity": {"name": "left"}}]));
    plane.patch(QUERIES, "notes", json!({"spec": {"config": {"namePrefix": " "}}})).await;
    plane.failed(QUERIES, "notes", "name_prefix must not be empty").await;
    let taken = json!({"hangar.dev/import-identity": found[0]["identity"].to_string()});
    plane.create(NOTES, note("taken", "left", taken)).await;
    let taken = plane.current(NOTES, "taken").await;
    assert_eq!(taken["spec"]["state"]["digest"], digest("word"));
}
