//! The engine passes the suite.

use std::sync::Arc;

use async_trait::async_trait;
use store::Store;
use store::conformance::Harness;
use store_etcd::Config;

use crate::server::{self, Configured};

pub struct Prefix(Config);

impl Prefix {
    pub fn new() -> Prefix {
        Prefix(server::own().fresh_config())
    }
}

#[async_trait]
impl Harness for Prefix {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(server::open(&self.0).await)
    }

    async fn second(&self) -> Option<Arc<dyn Store>> {
        Some(self.open().await)
    }

    fn forks_keep_revisions(&self) -> bool {
        false
    }

    /// What etcd refuses, and what it does not even read.
    fn too_large(&self) -> Vec<usize> {
        vec![1_600_000, 3 << 20, 8 << 20]
    }
}

store::conformance!(Prefix::new());
