//! A store that is away when it is first wanted, and comes later.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::stand_in::{StandIn, StandsFor};
use crate::{Fence, Store, StoreError};

/// Unavailable until [`Arrival::arrived`] is called, and from then on what it was called with.
pub fn late(why: impl Into<String>) -> (Arc<dyn Store>, Arrival) {
    let place = Arc::new(Place {
        opened: OnceLock::new(),
        why: Mutex::new(why.into()),
        closed: watch::Sender::new(false),
    });
    (Arc::new(StandIn(Late { place: place.clone(), fence: None })), Arrival(place))
}

struct Place {
    opened: OnceLock<Arc<dyn Store>>,
    /// Why it is not there.
    why: Mutex<String>,
    closed: watch::Sender<bool>,
}

/// The other end, for whoever opens it.
pub struct Arrival(Arc<Place>);

impl Arrival {
    pub async fn arrived(self, store: Arc<dyn Store>) {
        let opened = self.0.opened.get_or_init(|| store);
        // Whoever closed it while it was being opened had nothing to close.
        if *self.0.closed.borrow() {
            opened.close().await;
        }
    }

    pub fn still_away(&self, why: impl Into<String>) {
        *self.0.why.lock() = why.into();
    }

    /// Resolves when nobody waits for it any more.
    pub async fn closed(&self) {
        // The sender lives in what is waited with.
        let _ = self.0.closed.subscribe().wait_for(|closed| *closed).await;
    }
}

struct Late {
    place: Arc<Place>,
    fence: Option<Fence>,
}

#[async_trait]
impl StandsFor for Late {
    async fn to_read(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self.place.opened.get() {
            Some(store) => Ok(store.clone()),
            None => Err(StoreError::Unavailable(self.place.why.lock().clone())),
        }
    }

    async fn to_change(&self) -> Result<Arc<dyn Store>, StoreError> {
        let store = self.to_read().await?;
        Ok(match &self.fence {
            Some(fence) => store.fenced(fence.clone()),
            None => store,
        })
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        Arc::new(StandIn(Late { place: self.place.clone(), fence: Some(fence) }))
    }

    fn trouble(&self) -> Option<String> {
        self.place.opened.get()?.trouble()
    }

    async fn close(&self) {
        self.place.closed.send_replace(true);
        if let Some(store) = self.place.opened.get() {
            store.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::conformance::Harness;
    use crate::{Embedded, Expect, Key, Operation};

    /// One that was late is a store like any other.
    struct Arrived(tempfile::TempDir);

    #[async_trait]
    impl Harness for Arrived {
        async fn open(&self) -> Arc<dyn Store> {
            let (store, arrival) = late("");
            arrival.arrived(Arc::new(Embedded::open(self.0.path(), Default::default()).unwrap())).await;
            store
        }
    }

    mod arrived {
        crate::conformance!(super::Arrived(tempfile::tempdir().unwrap()));
    }

    #[tokio::test]
    async fn it_is_away_until_it_comes() {
        let directory = tempfile::tempdir().unwrap();
        let (store, arrival) = late("nobody there");
        let away = |why: &str| format!("the store is unavailable: {why}");
        assert_eq!(store.tenants(None, 1).await.unwrap_err().to_string(), away("nobody there"));
        arrival.still_away("the door is locked");
        let refused = store.create_tenant("t", Bytes::new(), Vec::new()).await.unwrap_err();
        assert_eq!(refused.to_string(), away("the door is locked"));

        arrival.arrived(Arc::new(Embedded::open(directory.path(), Default::default()).unwrap())).await;
        let tenant = store.create_tenant("t", Bytes::new(), Vec::new()).await.unwrap().id;
        let key = Key::new("things", "", "a");
        let put = || vec![Operation::Put { key: key.clone(), expect: Expect::Any, value: Bytes::new() }];
        let modified = store.write(tenant, put()).await.unwrap();
        let held = store.fenced(Fence { tenant, key: key.clone(), modified });
        store.write(tenant, put()).await.unwrap();
        assert!(matches!(held.write(tenant, put()).await, Err(StoreError::Fenced)));
        assert!(held.get(tenant, &key).await.unwrap().is_some());
        store.close().await;
    }

    #[tokio::test]
    async fn who_comes_to_a_closed_door_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let (store, arrival) = late("nobody there");
        store.close().await;
        arrival.closed().await;
        arrival.arrived(Arc::new(Embedded::open(directory.path(), Default::default()).unwrap())).await;
        assert!(store.create_tenant("t", Bytes::new(), Vec::new()).await.is_err());
        // The directory is free for another.
        Embedded::open(directory.path(), Default::default()).unwrap().close().await;
    }
}
