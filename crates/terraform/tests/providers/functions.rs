//! Functions of a provider, called by modules.

use serde_json::json;
use terraform::module::kinds::MODULES;

use super::plane::*;

#[tokio::test]
async fn modules_call_functions_of_providers() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    // Before the provider is configured, too, with this and with what the Secret says.
    let text = r#"
        provider "shelf" {
          account_key = provider::shelf::label("key of the account")
        }
        resource "shelf_thing" "a" {
          name = provider::shelf::label("a", 1, 2)
          note = upper(provider::shelf::label(provider::shelf::label("b")))
        }
        output "label" {
          value = provider::shelf::label(shelf_thing.a.name)
        }
    "#;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"main.tf": text},
    });
    plane.create("configmaps", map).await;
    let object = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "shop"},
        "spec": {"providerRef": {"name": "shelf"}, "moduleRef": {"configMap": {"name": "shop"}}},
    });
    plane.create(MODULES, object).await;
    let object = plane.current(MODULES, "shop").await;
    assert_eq!(object["spec"]["resource"]["output"]["label"], "<<a-1-2>>");
    let things = plane.world.things();
    assert_eq!((&things[0]["name"], &things[0]["note"]), (&json!("<a-1-2>"), &json!("<<B>>")));
    let secret = plane.get("secrets", "shop-shelf-provider").await.unwrap();
    assert!(secret_value(&secret, "provider").unwrap().contains("<key of the account>"));

    for (call, says) in [
        ("label(\"a#\")", "main.tf:6: provider::shelf::label: a# is no name"),
        ("label()", "main.tf:6: provider::shelf::label: it takes 1 arguments, and not 0"),
        ("tag(\"a\")", "main.tf:6: no Provider that is ready is shelf and has the function tag"),
    ] {
        let text = text.replace("label(\"a\", 1, 2)", call);
        plane.patch("configmaps", "shop", json!({"data": {"main.tf": text}})).await;
        plane.failed(MODULES, "shop", says).await;
    }
    assert_eq!(plane.world.things(), things);
}
