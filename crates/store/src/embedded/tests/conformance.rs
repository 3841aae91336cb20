//! The embedded engine passes the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::conformance::Harness;
use crate::{Embedded, Store, embedded::Options};

struct Directory(tempfile::TempDir);

#[async_trait]
impl Harness for Directory {
    async fn open(&self) -> Arc<dyn Store> {
        let options = Options {
            // Small enough that the cases fall out of it.
            event_bytes: 64 << 10,
            progress_interval: Duration::from_millis(100),
            ..Options::default()
        };
        Arc::new(Embedded::open(self.0.path(), options).unwrap())
    }
}

crate::conformance!(Directory(tempfile::tempdir().unwrap()));
