//! Fields of resources in ConfigMaps and Secrets.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::driver::TOKENS;
use super::fixture::Fixture;
use crate::dialect::ack::exports::KIND;

async fn export(f: &Fixture, name: &str, path: &str, to: Value) {
    f.create(json!({
        "apiVersion": "services.k8s.aws/v1alpha1", "kind": "FieldExport",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"from": {"path": path, "resource": {"group": "cloud.test", "kind": "Token", "name": "source"}}, "to": to},
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_copied_and_kept_up_to_date() {
    let f = Fixture::new().await;
    export(&f, "early", ".status.ackResourceMetadata.arn", json!({"kind": "configmap", "name": "target"}))
        .await;
    f.told(KIND, "early", "ACK.Recoverable", "True", "does not exist").await;
    f.make(TOKENS, "source", json!({}), json!({"size": 3})).await;
    f.synced(TOKENS, "source").await;
    f.told(KIND, "early", "ACK.Recoverable", "True", "exports do not create it").await;
    let metadata = json!({"name": "target", "namespace": "default"});
    f.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"other": "x"}}))
        .await;
    f.secret("target", "kept").await;
    export(&f, "size", ".spec.size", json!({"kind": "secret", "name": "target", "key": "size"})).await;
    let encoded = |text: &str| json!(BASE64_STANDARD.encode(text));
    f.until("both are there", async |f| {
        let (map, secret) =
            (f.get("configmaps", "target").await.unwrap(), f.get("secrets", "target").await.unwrap());
        map["data"]["default.early"].as_str().is_some_and(|arn| arn.starts_with("arn:id-"))
            && map["data"]["other"] == "x"
            && secret["data"]["size"] == encoded("3")
    })
    .await;
    f.until("all is well", async |f| {
        f.get(KIND, "early").await.unwrap()["status"]["conditions"] == json!([])
    })
    .await;
    f.edit(TOKENS, "source", json!({"size": 4})).await;
    f.until("it follows", async |f| {
        f.get("secrets", "target").await.unwrap()["data"]["size"] == encoded("4")
    })
    .await;
    f.delete(KIND, "size").await;
    f.gone(KIND, "size").await;
    assert_eq!(f.get("secrets", "target").await.unwrap()["data"]["size"], encoded("4"), "the data stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_that_cannot_be() {
    let f = Fixture::new().await;
    export(&f, "bad", ".status[", json!({"kind": "configmap", "name": "target"})).await;
    f.told(KIND, "bad", "ACK.Terminal", "True", "cannot be understood").await;
    f.make(TOKENS, "source", json!({}), json!({})).await;
    export(&f, "whole", ".spec", json!({"kind": "configmap", "name": "target"})).await;
    f.told(KIND, "whole", "ACK.Recoverable", "True", "only texts, booleans and whole numbers").await;
}
