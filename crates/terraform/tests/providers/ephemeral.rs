//! What providers open for a while, used by modules: for arguments that are written only, and for other providers.

use objects::Value as Json;
use provision::policies::APPLIED;
use serde_json::json;
use terraform::module::kinds::MODULES;

use super::plane::*;

/// What the resources of a module are.
const RESOURCES: &str = "resources.terraform.hangar.dev";

const WRITTEN: &str = r#"
    variable "label" {
      default = "k"
    }
    variable "size" {
      default = 1
    }
    locals {
      login = { user = "me", password = ephemeral.shelf_key.k.key }
    }
    ephemeral "shelf_key" "k" {
      label = var.label
      lasts = 0.2
    }
    resource "shelf_thing" "a" {
      name      = local.login.user
      size      = var.size
      secret_wo = "${local.login.password}!"
    }
    output "name" {
      value = shelf_thing.a.name
    }
"#;

async fn module(plane: &Plane, text: &str, more: Json) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"main.tf": text},
    });
    plane.create("configmaps", map).await;
    let mut spec = json!({"providerRef": {"name": "shelf"}, "moduleRef": {"configMap": {"name": "shop"}}});
    objects::patch::merge(&mut spec, &more);
    let object = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "shop"}, "spec": spec,
    });
    plane.create(MODULES, object).await;
}

/// What the files on the shelf with this end say.
fn files(plane: &Plane, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(plane.world.cloud.path()).unwrap().flatten().map(|entry| entry.path());
    let own = entries.filter(|path| path.extension().is_some_and(|one| one == end));
    own.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// Everything that was opened was closed again.
async fn closed(plane: &Plane) {
    let holds = || plane.asked("CloseEphemeralResource") > 0 && files(plane, "key").is_empty();
    plane.until(MODULES, "shop", |_| holds()).await;
}

/// Of no object, Secret or state.
async fn kept_nowhere(plane: &Plane, secret: &str) {
    use base64::Engine as _;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    for kind in ["secrets", "configmaps", MODULES, RESOURCES] {
        for object in plane.list(kind).await {
            let mut text = object.to_string();
            for value in
                object["data"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str())
            {
                let bytes = base64::engine::general_purpose::STANDARD.decode(value).unwrap_or_default();
                text += &String::from_utf8_lossy(&bytes);
            }
            assert!(!text.contains(secret) && !text.contains(&encoded(secret)), "{object:#}");
        }
    }
}

#[tokio::test]
async fn for_arguments_that_are_only_written() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    module(&plane, WRITTEN, json!({})).await;
    plane.current(MODULES, "shop").await;
    let written = files(&plane, "wo").remove(0);
    assert!(written.starts_with("key of k-") && written.ends_with('!'), "{written}");
    assert_eq!(plane.world.things()[0]["name"], "me");
    closed(&plane).await;
    assert!(plane.asked("RenewEphemeralResource") > 0, "it ends by itself if it is not renewed");
    kept_nowhere(&plane, "key of").await;

    // It is another one each time, and that changes nothing.
    let (applies, opened) = (plane.applies(), plane.asked("OpenEphemeralResource"));
    let child = plane.list(RESOURCES).await.remove(0);
    let name = objects::meta::name(&child).to_owned();
    plane.look(RESOURCES, &name).await;
    plane.rest().await;
    assert_eq!(plane.applies(), applies);
    assert!(plane.asked("OpenEphemeralResource") > opened);
    let settled = plane.get(RESOURCES, &name).await.unwrap();
    closed(&plane).await;
    plane.look(RESOURCES, &name).await;
    plane.rest().await;
    let again = plane.get(RESOURCES, &name).await.unwrap();
    assert_eq!(again["spec"], settled["spec"]);
    let applied = |object: &Json| objects::meta::annotation(object, APPLIED).map(str::to_owned);
    assert!(applied(&again).is_some() && applied(&again) == applied(&settled));

    // A change is made with what is open then.
    plane.patch(MODULES, "shop", json!({"spec": {"resource": {"input": {"size": 2}}}})).await;
    plane.current(MODULES, "shop").await;
    assert_eq!(plane.world.things()[0]["size"], 2);
    assert_ne!(files(&plane, "wo"), [written]);

    // Nothing is opened to destroy it.
    closed(&plane).await;
    let opened = plane.asked("OpenEphemeralResource");
    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert_eq!((plane.world.things().len(), plane.asked("OpenEphemeralResource")), (0, opened));
}

#[tokio::test]
async fn for_other_providers() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let text = r#"
        provider "shelf" {
          alias = "lender"
        }
        provider "shelf" {
          account_key = ephemeral.shelf_key.k.key
        }
        ephemeral "shelf_key" "k" {
          provider = shelf.lender
          label    = "k"
        }
        data "shelf_count" "all" {}
        resource "shelf_thing" "a" {
          name = "a"
          note = data.shelf_count.all.count < 2 ? "few" : "many"
        }
    "#;
    module(&plane, text, json!({"resource": {"input": {}}})).await;
    plane.current(MODULES, "shop").await;
    assert_eq!(plane.world.things()[0]["note"], "few");
    let accounts = std::fs::read_to_string(plane.world.cloud.path().join("accounts")).unwrap();
    assert!(!accounts.is_empty() && accounts.lines().all(|key| key.starts_with("key of k-")), "{accounts}");
    kept_nowhere(&plane, "key of").await;
    closed(&plane).await;
    // It takes the provider to destroy it.
    let opened = plane.asked("OpenEphemeralResource");
    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty() && plane.asked("OpenEphemeralResource") > opened);
    closed(&plane).await;
}

#[tokio::test]
async fn what_can_be_wrong_is_said_and_passes() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    module(&plane, WRITTEN, json!({"resource": {"input": {"label": "lost"}}})).await;
    let says = "what is ephemeral of it is not open: ephemeral.shelf_key.k: label: this key is lost";
    plane.failed(MODULES, "shop", says).await;
    let label = |label: &str| json!({"spec": {"resource": {"input": {"label": label}}}});
    plane.patch(MODULES, "shop", label("")).await;
    plane.failed(MODULES, "shop", "ephemeral.shelf_key.k: label: a key needs a label").await;
    assert!(plane.world.things().is_empty());
    plane.patch(MODULES, "shop", label("k")).await;
    plane.current(MODULES, "shop").await;
    closed(&plane).await;

    let child = plane.list(RESOURCES).await.remove(0);
    let name = objects::meta::name(&child).to_owned();
    for (fault, says) in [
        (
            "fail",
            "ephemeral.shelf_key.k: the provider failed in OpenEphemeralResource: the shelf is out of order",
        ),
        (
            "garbage",
            "ephemeral.shelf_key.k: the provider answered OpenEphemeralResource with what is no answer",
        ),
        ("die", "ephemeral.shelf_key.k: the provider ended during OpenEphemeralResource"),
    ] {
        closed(&plane).await;
        plane.world.fault(&format!("OpenEphemeralResource: {fault}"));
        plane.nudge(RESOURCES, &name).await;
        plane.failed(RESOURCES, &name, says).await;
        plane.world.fault("");
        plane.nudge(RESOURCES, &name).await;
        plane.current(RESOURCES, &name).await;
    }
    assert_eq!((plane.world.things().len(), plane.applies()), (1, 1));

    // What cannot be renewed or closed harms nobody.
    plane.world.fault("RenewEphemeralResource: fail\nCloseEphemeralResource: fail");
    plane.patch(MODULES, "shop", json!({"spec": {"resource": {"input": {"size": 5}}}})).await;
    plane.current(MODULES, "shop").await;
    assert_eq!(plane.world.things()[0]["size"], 5);

    for (from, to, says) in [
        (
            "secret_wo = \"${",
            "note = \"${",
            "main.tf:18: an ephemeral value is given to an argument that is not write-only",
        ),
        (
            "\"shelf_key\" \"k\"",
            "\"shelf_lock\" \"k\"",
            "main.tf:9: there is no resource ephemeral.shelf_key.k",
        ),
    ] {
        let text = WRITTEN.replace(from, to);
        plane.patch("configmaps", "shop", json!({"data": {"main.tf": text}})).await;
        plane.failed(MODULES, "shop", says).await;
    }
    let text = WRITTEN.replace("shelf_key", "shelf_lock");
    plane.patch("configmaps", "shop", json!({"data": {"main.tf": text}})).await;
    plane.failed(MODULES, "shop", "no Provider that is ready has the ephemeral resource shelf_lock").await;
}

#[tokio::test]
async fn after_a_crash_it_is_opened_anew() {
    let mut plane = Plane::new().await;
    plane.provider_secret().await;
    // The answer of the creation is lost with us.
    std::fs::write(plane.world.cloud.path().join("fault"), "PlanResourceChange: hang").unwrap();
    module(&plane, WRITTEN, json!({})).await;
    plane.until(MODULES, "shop", |_| plane.asked("PlanResourceChange") > 0).await;
    plane.kill().await;
    plane.world.renew();
    plane.world.fault("");
    plane.start();
    plane.current(MODULES, "shop").await;
    assert_eq!((plane.world.things().len(), plane.applies()), (1, 1));
    assert!(files(&plane, "wo")[0].starts_with("key of k-"));
    kept_nowhere(&plane, "key of").await;
}

#[tokio::test]
async fn what_is_open_is_closed_at_the_end() {
    let mut plane = Plane::new().await;
    plane.provider_secret().await;
    plane.world.fault("ApplyResourceChange: slow");
    module(&plane, WRITTEN, json!({})).await;
    plane.until(MODULES, "shop", |_| plane.asked("ApplyResourceChange") > 0).await;
    assert_eq!(files(&plane, "key").len(), 1);
    plane.stop().await;
    assert_eq!((files(&plane, "key").len(), plane.world.things().len()), (0, 1));
}
