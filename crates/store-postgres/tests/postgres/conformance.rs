//! The engine passes the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::Store;
use store::conformance::Harness;
use store_postgres::{Options, Postgres};

use crate::server::{Server, fresh_schema};

/// A schema of its own on the shared server.
pub struct Place {
    pub server: Arc<Server>,
    pub schema: String,
}

impl Place {
    pub fn new() -> Place {
        Place { server: Server::shared(), schema: fresh_schema() }
    }

    pub fn options(&self) -> Options {
        Options {
            schema: self.schema.clone(),
            // Small enough that the cases fall out of it.
            event_bytes: 64 << 10,
            progress_interval: Duration::from_millis(100),
            // Small enough that the cases need several.
            partition_lines: 1000,
            connections: 4,
            // A machine that builds beside its tests is slow to let anybody in.
            patience: Duration::from_secs(10),
            ..Options::default()
        }
    }

    pub async fn store(&self) -> Arc<Postgres> {
        Arc::new(Postgres::open(&self.server.url(), self.options()).await.unwrap())
    }
}

#[async_trait]
impl Harness for Place {
    async fn open(&self) -> Arc<dyn Store> {
        self.store().await
    }

    async fn second(&self) -> Option<Arc<dyn Store>> {
        Some(self.store().await)
    }
}

store::conformance!(Place::new());
