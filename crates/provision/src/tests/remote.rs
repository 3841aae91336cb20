//! The same engine on a control plane that is reached by a client, as any Kubernetes is.

use std::sync::Arc;
use std::time::Duration;

use runtime::{RemoteFleet, Runtime};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::driver::{MARKS, TOKENS};
use super::fixture::Fixture;
use crate::policies;

#[tokio::test(flavor = "multi_thread")]
async fn over_a_client() {
    let mut f = Fixture::new().await;
    f.kill().await;
    let fleet = Arc::new(RemoteFleet::new("somewhere", f.client.clone()));
    let runtime = Runtime::new(fleet, vec![Box::new(f.engine.clone())], Default::default());
    let stop = CancellationToken::new();
    let running = tokio::spawn(runtime.run(stop.clone()));

    f.make(MARKS, "child", json!({}), json!({"parentRef": {"from": {"name": "mother"}}})).await;
    f.told(MARKS, "child", "ACK.ReferencesResolved", "Unknown", "does not exist").await;
    f.make(TOKENS, "mother", json!({}), json!({"size": 3, "password": {"name": "s", "key": "password"}}))
        .await;
    f.told(TOKENS, "mother", "ACK.Terminal", "True", "does not exist").await;
    f.secret("s", "first-password").await;
    f.synced(TOKENS, "mother").await;
    f.synced(MARKS, "child").await;
    // Its own writes do not wake it.
    f.rest().await;
    f.edit(TOKENS, "mother", json!({"size": 4})).await;
    f.synced(TOKENS, "mother").await;
    assert_eq!(f.cloud.only("mother").fields["size"], 4);
    f.annotate(TOKENS, "mother", json!({policies::PAUSED: "true"})).await;
    f.told(TOKENS, "mother", "ACK.Advisory", "True", "Paused").await;
    f.annotate(TOKENS, "mother", json!({policies::PAUSED: null})).await;
    for (kind, name) in [(MARKS, "child"), (TOKENS, "mother")] {
        f.delete(kind, name).await;
        f.gone(kind, name).await;
        assert!(f.cloud.of(name).is_empty());
    }
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap().unwrap();
}
