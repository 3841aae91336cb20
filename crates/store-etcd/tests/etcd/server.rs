//! The etcd that these tests start, and how the store is opened on it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use databases::etcd::{Server, Wish};
use store_etcd::{Config, Etcd, Options};

pub trait Configured {
    /// A store below a prefix nobody used before.
    fn fresh_config(&self) -> Config;
}

impl Configured for Server {
    fn fresh_config(&self) -> Config {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let config = Config::parse(&self.url()).unwrap();
        Config { prefix: format!("/test-{}", NEXT.fetch_add(1, Ordering::Relaxed)), ..config }
    }
}

/// Small enough that the cases fall out of it, and patient with a machine that does other things.
pub fn options() -> Options {
    Options {
        event_bytes: 64 << 10,
        progress_interval: Duration::from_millis(100),
        compaction_interval: Duration::from_secs(2),
        request_timeout: Duration::from_secs(20),
        connect_timeout: Duration::from_secs(5),
        ..Options::default()
    }
}

pub async fn open(config: &Config) -> Etcd {
    Etcd::open(config, options()).await.unwrap_or_else(|error| panic!("{error}"))
}

thread_local! {
    static OWN: RefCell<Option<Rc<Server>>> = const { RefCell::new(None) };
}

/// The server of this test, which has a thread of its own. Not shared between tests: etcd compacts all it holds.
pub fn own() -> Rc<Server> {
    OWN.with(|own| own.borrow_mut().get_or_insert_with(|| Rc::new(Server::start())).clone())
}
