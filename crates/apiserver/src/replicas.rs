//! Several processes on one store: what this one holds of control planes follows what the others do to them.
//!
//! What is held is derived from definitions and roles, and from the directory. Definitions and roles are in the
//! feed like all objects. The directory is not: whoever changes it says so in a tenant of the server's own, which
//! the others follow. Between a write elsewhere and its echo here lies what the store needs to push it, as with
//! several servers on one etcd.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use objects::CompactString;
use sha2::{Digest, Sha256};
use store::{Expect, Feed, Key, Operation, StoreError};

use crate::control_plane::{CRD_KIND, POLICY_KINDS};
use crate::engine::Engine;
use crate::stations::fairness::FLOW_KINDS;

/// The row of the directory in which changes of the directory are announced.
const TENANT: &str = "_replicas";
const KIND: &str = "_directory";
/// Announcements overwrite each other in this many places, so that they take no room.
const PLACES: u64 = 256;
/// How soon the feed is asked for again when it broke off.
const AGAIN: Duration = Duration::from_millis(200);

impl Engine {
    /// Joins the other processes on the store: to be called before anything is served. What it returns follows
    /// them for as long as it is polled.
    pub async fn join(self: &Arc<Self>) -> Result<impl Future<Output = ()> + Send + use<>, StoreError> {
        let tenant = store::own_tenant(&*self.store, TENANT).await?;
        let feed = follow(self).await?;
        // Set once: a second call follows as the first does.
        let _ = self.replicas.set(tenant);
        let engine = self.clone();
        Ok(async move { keep_following(&engine, feed).await })
    }

    /// The same for a store that is away: until it is there nothing of it is served, and nothing is to be heard.
    pub async fn join_when_there(self: Arc<Self>) {
        while !self.is_stopping() {
            match self.join().await {
                Ok(following) => {
                    // What was asked for just before is not followed.
                    self.planes.forget_all();
                    return following.await;
                }
                Err(error) => tracing::debug!(store = %self.name, %error, "the store cannot be joined yet"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Tells the other processes that a row of the directory is not what it was.
    pub(crate) async fn announce(&self, name: &str) -> Result<(), StoreError> {
        let Some(tenant) = self.replicas.get() else { return Ok(()) };
        let hash = Sha256::digest(name);
        let place = u64::from(hash[0]) % PLACES;
        let key = Key::new(KIND, "", place.to_string());
        let value = Bytes::copy_from_slice(name.as_bytes());
        self.store.write(*tenant, vec![Operation::Put { key, expect: Expect::Any, value }]).await.map(drop)
    }
}

async fn follow(engine: &Engine) -> Result<Feed, StoreError> {
    let kinds =
        POLICY_KINDS.into_iter().chain(FLOW_KINDS).chain([CRD_KIND, KIND]).map(CompactString::from).collect();
    engine.store.follow(kinds, None).await
}

async fn keep_following(engine: &Engine, mut feed: Feed) {
    loop {
        while let Some(Ok(event)) = feed.next().await {
            if event.key.kind != KIND {
                engine.planes.changed_elsewhere(event.tenant, &event.key.kind);
            } else if let Ok(name) = std::str::from_utf8(&event.value) {
                engine.planes.forget(name);
            }
        }
        if engine.is_stopping() {
            return;
        }
        tracing::warn!("the feed of the store broke off; what is held of control planes is dropped");
        feed = loop {
            tokio::time::sleep(AGAIN).await;
            match follow(engine).await {
                Ok(feed) => break feed,
                Err(_) if engine.is_stopping() => return,
                Err(error) => tracing::debug!(%error, "the store cannot be followed yet"),
            }
        };
        // Whatever happened meanwhile was not heard.
        engine.planes.forget_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::fixture::{Fixture, HOST};

    /// Another server on the fixture's store.
    fn beside(fixture: &Fixture) -> Arc<Engine> {
        let config = Config::new(HOST, [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6444));
        Engine::new(fixture.engine.store.clone(), config)
    }

    async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        for _ in 0..500 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} did not come true");
    }

    #[tokio::test]
    async fn what_others_write_is_known_here() {
        let fixture = Fixture::new().await;
        let here = beside(&fixture);
        for engine in [&here, &fixture.engine] {
            tokio::spawn(engine.join().await.unwrap());
        }
        let old = here.planes.find("a").await.unwrap().unwrap();
        let (policy, surface) =
            (here.planes.policy(&old).await.unwrap(), here.planes.surface(&old).await.unwrap());

        let role = r#"{"metadata": {"name": "r"}, "rules": []}"#;
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(fixture.ask("a", "POST", path, role).await.0, 201);
        until("another policy", async || !Arc::ptr_eq(&policy, &here.planes.policy(&old).await.unwrap()))
            .await;
        assert!(Arc::ptr_eq(&surface, &here.planes.surface(&old).await.unwrap()));

        assert!(fixture.engine.delete_control_plane("a").await.is_ok_and(|deleted| deleted));
        until("its end", async || here.planes.find("a").await.unwrap().is_none()).await;
        let new = fixture.engine.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
        until("its return", async || {
            here.planes.find("a").await.unwrap().is_some_and(|found| found.id == new.id)
        })
        .await;
    }
}
