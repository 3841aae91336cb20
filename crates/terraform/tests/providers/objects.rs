//! `Provider` objects: from a path or a mirror to kinds, with one clear sentence for whatever is wrong.

use std::io::Write;

use serde_json::{Value as Json, json};
use terraform::plugin::PluginError;
use terraform::providers::{Programs, RESOURCE};
use terraform::registry::Registry;
use terraform::source;

use super::plane::*;
use super::world::*;

async fn provider(plane: &Plane, spec: Json) {
    let object = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Provider", "metadata": {"name": "shelf"}, "spec": spec,
    });
    plane.create(RESOURCE, object).await;
}

async fn told(plane: &Plane, status: &str, says: &str) -> Json {
    let holds = |object: Option<&Json>| {
        let Some(object) = object else { return false };
        let ready = object.pointer("/status/conditions/0/status") == Some(&json!(status));
        ready && message(object, "Ready").contains(says)
    };
    plane.until(RESOURCE, "shelf", holds).await.unwrap()
}

#[tokio::test]
async fn by_path() {
    let plane = Plane::bare().await;
    for wrong in [json!({}), json!({"path": "/nowhere/shelf", "source": "test/shelf"})] {
        let object = json!({
            "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Provider", "metadata": {"name": "shelf"}, "spec": wrong,
        });
        let refused = plane.try_create(RESOURCE, object).await.unwrap_err().to_string();
        assert!(refused.contains("one of path and source is required"), "{refused}");
    }
    provider(&plane, json!({"path": "/nowhere/shelf"})).await;
    told(&plane, "False", "there is no program at /nowhere/shelf").await;
    plane.provider_secret().await;
    assert!(plane.try_create(THINGS, thing("one", json!({"resource": {"name": "one"}}))).await.is_err());
    plane.patch(RESOURCE, "shelf", json!({"spec": {"path": shelf_program()}})).await;
    let object = told(&plane, "True", "").await;
    assert_eq!(object["status"]["types"], json!(1));
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.current(THINGS, "one").await;
    plane.delete(THINGS, "one").await;
    plane.gone(THINGS, "one").await;
    // As long as there are objects of its kinds it stays, and they can be deleted.
    plane.thing("last", json!({"resource": {"name": "last"}})).await;
    plane.current(THINGS, "last").await;
    plane.delete(RESOURCE, "shelf").await;
    let waits = |object: Option<&Json>| {
        object.is_some_and(|object| message(object, "InUse").contains("still there (1)"))
    };
    plane.until(RESOURCE, "shelf", waits).await;
    plane.delete(THINGS, "last").await;
    plane.gone(THINGS, "last").await;
    assert!(plane.world.things().is_empty());
    plane.gone(RESOURCE, "shelf").await;
    loop {
        let made = plane.try_create(THINGS, thing("two", json!({"resource": {"name": "two"}}))).await;
        if made.is_err() {
            break;
        }
        plane.delete(THINGS, "two").await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Another content that does the same.
fn replace(program: &std::path::Path, with: &str) {
    let beside = program.with_extension("new");
    std::fs::copy(shelf_program(), &beside).unwrap();
    std::fs::OpenOptions::new().append(true).open(&beside).unwrap().write_all(with.as_bytes()).unwrap();
    std::fs::rename(&beside, program).unwrap();
}

#[tokio::test]
async fn a_program_that_is_replaced() {
    let plane = Plane::bare().await;
    plane.provider_secret().await;
    let directory = tempfile::TempDir::new().unwrap();
    let program = directory.path().join("terraform-provider-shelf");
    replace(&program, "one");
    provider(&plane, json!({"path": program})).await;
    let before = told(&plane, "True", "").await["status"]["digest"].clone();
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.current(THINGS, "one").await;
    replace(&program, "two");
    let other = |object: Option<&Json>| object.is_some_and(|object| object["status"]["digest"] != before);
    plane.until(RESOURCE, "shelf", other).await;
    plane.nudge(THINGS, "one").await;
    plane.current(THINGS, "one").await;
}

#[tokio::test]
async fn programs_in_a_directory() {
    let (world, registry) = (World::new(), Registry::default());
    let directory = tempfile::TempDir::new().unwrap();
    let mut programs = Programs::default();
    let mut look = async || programs.serve(&registry, &world.pool, directory.path()).await;
    assert!(!look().await);
    let program = directory.path().join("terraform-provider-shelf");
    replace(&program, "one");
    assert!(look().await && !look().await);
    let first = registry.provider("shelf").unwrap();
    replace(&program, "two");
    // Until it is looked at, nothing is started that nobody has looked at.
    let launch = first.program.clone().unwrap();
    let refused = world.pool.lease(&launch, &first.digest, &world.config()).await.err().unwrap();
    assert!(matches!(refused, PluginError::Replaced { .. }), "{refused}");
    assert!(look().await);
    let second = registry.provider("shelf").unwrap();
    assert_ne!(first.digest, second.digest);
    world.pool.lease(second.program.as_ref().unwrap(), &second.digest, &world.config()).await.unwrap();
}

#[tokio::test]
async fn from_a_mirror() {
    let plane = Plane::bare().await;
    let mirror = tempfile::TempDir::new().unwrap();
    let directory = mirror.path().join("example.com/test/shelf");
    std::fs::create_dir_all(&directory).unwrap();
    let name = format!("terraform-provider-shelf_1.2.0_{}.zip", source::platform());
    let pack = |comment: &str| {
        let mut zip = zip::ZipWriter::new(std::fs::File::create(directory.join(&name)).unwrap());
        let stored =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        zip.start_file("terraform-provider-shelf_v1.2.0", stored.large_file(true)).unwrap();
        zip.write_all(&std::fs::read(shelf_program()).unwrap()).unwrap();
        zip.start_file("README", stored).unwrap();
        zip.write_all(comment.as_bytes()).unwrap();
        zip.finish().unwrap();
    };
    pack("first");
    let spec = json!({
        "source": "example.com/test/shelf", "mirror": {"directory": mirror.path()}, "version": "~> 2.0",
    });
    provider(&plane, spec).await;
    told(&plane, "False", "no version of example.com/test/shelf that fits \"~> 2.0\"; it has 1.2.0").await;
    let edit = |spec: Json| plane.patch(RESOURCE, "shelf", json!({"spec": spec}));
    edit(json!({"version": "~> 1.0", "hashes": ["h1:AAAA"]})).await;
    told(&plane, "False", "it may have been tampered with").await;
    edit(json!({"hashes": []})).await;
    let object = told(&plane, "True", "").await;
    assert_eq!(object["status"]["lock"]["version"], "1.2.0");
    assert!(object["status"]["lock"]["hashes"][0].as_str().unwrap().starts_with("h1:"));
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.current(THINGS, "one").await;
}
