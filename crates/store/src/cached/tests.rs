//! Over the embedded engine, which is always there: the suite, and what copies cost.

mod life;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Cached, Options};
use crate::conformance::Harness;
use crate::{Embedded, Store, embedded};

/// Copies at the first read, and waits for the copy however slow the machine is: what can be read from memory is.
pub(super) const EAGER: Options =
    Options { bytes: 64 << 20, idle: Duration::from_secs(60), patience: Duration::from_secs(20), passes: 0 };

pub(super) struct Directory {
    dir: tempfile::TempDir,
    options: Options,
}

impl Directory {
    pub(super) fn new(options: Options) -> Directory {
        Directory { dir: tempfile::tempdir().unwrap(), options }
    }

    pub(super) fn cached(&self) -> Arc<Cached> {
        let options = embedded::Options {
            // Small enough that the cases fall out of it.
            event_bytes: 64 << 10,
            progress_interval: Duration::from_millis(100),
            ..embedded::Options::default()
        };
        let engine = Embedded::open(self.dir.path(), options).unwrap();
        Arc::new(Cached::new(Arc::new(engine), self.options))
    }
}

#[async_trait]
impl Harness for Directory {
    async fn open(&self) -> Arc<dyn Store> {
        self.cached()
    }
}

mod roomy {
    crate::conformance!(super::Directory::new(super::EAGER));
}

/// With room for a few entries only, so that copies come and go, and some are too large.
mod cramped {
    crate::conformance!(super::Directory::new(super::Options { bytes: 8 << 10, ..super::EAGER }));
}
