//! The engine passes the suite also where reads are answered from memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::Store;
use store::cached::{Cached, Options};
use store::conformance::Harness;

use crate::conformance::Place;

struct InMemory(Place);

#[async_trait]
impl Harness for InMemory {
    async fn open(&self) -> Arc<dyn Store> {
        // Copies at the first read, and waits for the copy however slow the machine is.
        let options = Options { passes: 0, patience: Duration::from_secs(20), ..Options::default() };
        Arc::new(Cached::new(self.0.open().await, options))
    }

    async fn second(&self) -> Option<Arc<dyn Store>> {
        Some(self.open().await)
    }

    fn forks_keep_revisions(&self) -> bool {
        self.0.forks_keep_revisions()
    }
}

store::conformance!(InMemory(Place::new()));
