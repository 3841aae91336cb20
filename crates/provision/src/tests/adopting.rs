//! Resources that were there before their objects.

use objects::meta;
use serde_json::json;

use super::cloud::Resource;
use super::driver::TOKENS;
use super::fixture::{Fixture, condition};

fn there(size: i32) -> Resource {
    let fields = json!({"size": size, "zone": "zone-b"});
    Resource { name: "old".to_owned(), fields: fields.as_object().unwrap().clone(), ..Resource::default() }
}

const POLICY: &str = "services.k8s.aws/adoption-policy";
const FIELDS: &str = "services.k8s.aws/adoption-fields";

#[tokio::test(flavor = "multi_thread")]
async fn the_object_becomes_like_the_resource() {
    let f = Fixture::new().await;
    f.cloud.put("old-1", there(7));
    f.make(TOKENS, "old", json!({POLICY: "adopt", FIELDS: r#"{"id": "old-1"}"#}), json!({"size": 1})).await;
    f.synced(TOKENS, "old").await;
    let object = f.get(TOKENS, "old").await.unwrap();
    assert_eq!((&object["spec"]["size"], &object["spec"]["zone"]), (&json!(7), &json!("zone-b")));
    assert_eq!(object["status"]["id"], "old-1");
    assert_eq!(meta::annotation(&object, "services.k8s.aws/adopted"), Some("true"));
    assert!(f.cloud.calls().iter().all(|call| call == "Get"), "nothing is changed");
    // From now on it is ours.
    f.edit(TOKENS, "old", json!({"size": 8})).await;
    f.synced(TOKENS, "old").await;
    assert_eq!(f.cloud.only("old").fields["size"], 8);
    // But it is not made again when it is gone.
    f.cloud.lose("old");
    f.nudge(TOKENS, "old").await;
    f.told(TOKENS, "old", "ACK.Recoverable", "True", "adopted resource not found").await;
    f.delete(TOKENS, "old").await;
    f.gone(TOKENS, "old").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_resource_becomes_like_the_object() {
    let f = Fixture::new().await;
    f.cloud.put("old-1", there(7));
    f.make(
        TOKENS,
        "old",
        json!({POLICY: "adopt-or-create", FIELDS: r#"{"id": "old-1"}"#}),
        json!({"size": 1}),
    )
    .await;
    f.synced(TOKENS, "old").await;
    assert_eq!(f.cloud.only("old").fields["size"], 1);
    f.make(TOKENS, "fresh", json!({POLICY: "adopt-or-create"}), json!({"size": 1})).await;
    f.synced(TOKENS, "fresh").await;
    f.cloud.only("fresh");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_adopted() {
    let f = Fixture::new().await;
    for (name, annotations, kind, text) in [
        ("no-fields", json!({POLICY: "adopt"}), "ACK.Terminal", "adoption-fields is required"),
        ("no-json", json!({POLICY: "adopt", FIELDS: "id=1"}), "ACK.Terminal", "is not a JSON object"),
        ("no-id", json!({POLICY: "adopt", FIELDS: "{}"}), "ACK.Terminal", "required field missing: id"),
        ("no-policy", json!({POLICY: "perhaps"}), "ACK.Terminal", "unrecognized adoption policy"),
        (
            "nothing",
            json!({POLICY: "adopt", FIELDS: r#"{"id": "x"}"#}),
            "ACK.Recoverable",
            "adopted resource not found",
        ),
    ] {
        f.make(TOKENS, name, annotations, json!({})).await;
        f.told(TOKENS, name, kind, "True", text).await;
        assert!(f.cloud.of(name).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_looked_at() {
    let f = Fixture::new().await;
    f.cloud.put("old-1", there(7));
    let annotations =
        json!({"services.k8s.aws/read-only": "true", POLICY: "adopt", FIELDS: r#"{"id": "old-1"}"#});
    f.make(TOKENS, "old", annotations, json!({"size": 1})).await;
    f.told(TOKENS, "old", "ACK.ResourceSynced", "True", "").await;
    let object = f.get(TOKENS, "old").await.unwrap();
    assert_eq!((&object["spec"]["size"], &object["status"]["id"]), (&json!(1), &json!("old-1")));
    assert!(condition(&object, "ACK.LateInitialized").is_none());
    f.delete(TOKENS, "old").await;
    f.gone(TOKENS, "old").await;
    assert_eq!(f.cloud.only("old").fields["size"], 7);
    assert!(f.cloud.calls().iter().all(|call| call == "Get"));
}
