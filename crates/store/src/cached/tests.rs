//! Over the embedded engine, which is always there: the suite, and what copies cost.

mod life;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Cached, Options};
use crate::conformance::Harness;
use crate::{Embedded, Store, embedded};

/// Copies at the first read, and waits for the copy however slow the machine is: what can be read from memory is.
pub(super) const EAGER: Options = Options {
    bytes: 64 << 20,
    idle: Duration::from_secs(60),
    patience: Duration::from_secs(20),
    passes: 0,
    near: false,
};

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

/// As over an engine in the same process.
mod near {
    use super::{Directory, EAGER, Options};
    use crate::{Expect, Key, Limit, Operation, Scope};

    crate::conformance!(Directory::new(Options { near: true, ..EAGER }));

    #[tokio::test]
    async fn only_what_is_read_in_many_pages_is_copied() {
        let directory = Directory::new(Options { near: true, passes: 3, ..EAGER });
        let cached = directory.cached();
        let store: &dyn crate::Store = &*cached;
        let tenant = store.create_tenant("t", bytes::Bytes::new(), Vec::new()).await.unwrap().id;
        let put = |name: String| Operation::Put {
            key: Key::new("things", "", name),
            expect: Expect::Any,
            value: bytes::Bytes::from_static(b"value"),
        };
        let revision = store.write(tenant, (0..10).map(|i| put(i.to_string())).collect()).await.unwrap();
        let scope = Scope::Kind("things".into());
        let limit = Limit { entries: 4, bytes: 0 };
        for _ in 0..10 {
            store.range_within(tenant, &scope, None, None, limit).await.unwrap();
            store.get(tenant, &Key::new("things", "", "1")).await.unwrap();
            store.count(tenant, &scope).await.unwrap();
        }
        assert_eq!((cached.load().tenants, cached.load().from_memory), (0, 0));
        let after = Key::new("things", "", "3");
        let rest =
            async || store.range_within(tenant, &scope, Some(&after), Some(revision), limit).await.unwrap();
        let first = rest().await;
        // The copy is made beside the reads, and used once it is there.
        while cached.load().from_memory == 0 {
            assert_eq!(rest().await.entries, first.entries);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(cached.load().tenants, 1);
        // What is written is seen at once.
        store.write(tenant, vec![put("10".into())]).await.unwrap();
        let from_memory = cached.load().from_memory;
        let page = store.range_within(tenant, &scope, None, None, Limit::default()).await.unwrap();
        assert_eq!(page.entries.len(), 11);
        assert_eq!(cached.load().from_memory, from_memory + 1);
        // The revision of before is read from the engine, which still has it.
        assert_eq!(rest().await.entries, first.entries);
        store.close().await;
    }
}
