use std::sync::atomic::{AtomicUsize, Ordering};

use store::Embedded;

use super::*;

/// Times that a loaded machine keeps.
const QUICK: Terms = Terms {
    renewal: Duration::from_millis(50),
    giving_up: Duration::from_secs(2),
    expiry: Duration::from_secs(3),
};
const MEMBERS: &str = "_members";

fn leases(store: &Arc<dyn Store>, process: &str) -> Leases {
    Leases::new(store.clone(), process.to_owned(), QUICK)
}

fn embedded() -> (tempfile::TempDir, Arc<dyn Store>) {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Default::default()).unwrap();
    (directory, Arc::new(store))
}

/// As another process that takes it for gone does.
async fn take_away(store: &Arc<dyn Store>, member: &str) {
    let tenant = store::own_tenant(&**store, MEMBERS).await.unwrap();
    let delete = Operation::Delete { key: Key::new(MEMBERS, "", member), expect: Expect::Present };
    store.write(tenant, vec![delete]).await.unwrap();
}

async fn write_behind(store: &Arc<dyn Store>, fence: &Fence) -> Result<Revision, StoreError> {
    let somewhere = store::own_tenant(&**store, "t").await.unwrap();
    let put = Operation::Put { key: Key::new("things", "", "x"), expect: Expect::Any, value: Bytes::new() };
    store.fenced(fence.clone()).write(somewhere, vec![put]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_holds_it_at_a_time() {
    let (_directory, store) = embedded();
    let holding = Arc::new(AtomicUsize::new(0));
    let all = (0..5).map(async |i| {
        let leases = leases(&store, &format!("p{i}"));
        for _ in 0..3 {
            let term = leases.acquire("l", None).await;
            assert_eq!(holding.fetch_add(1, Ordering::SeqCst), 0);
            assert_eq!(leases.held(), ["l"]);
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert!(!term.ended.is_cancelled());
            holding.fetch_sub(1, Ordering::SeqCst);
        }
    });
    futures::future::join_all(all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_free_when_its_holder_is_gone() {
    let (_directory, store) = embedded();
    let first = leases(&store, "first");
    let old = first.acquire("l", None).await;
    write_behind(&store, &old.fence).await.unwrap();
    take_away(&store, "first.0").await;
    let next = leases(&store, "second").acquire("l", None).await;
    assert!(matches!(write_behind(&store, &old.fence).await, Err(StoreError::Fenced)));
    old.ended.cancelled().await;
    drop(old);
    // It comes again as another, and waits like everybody.
    let again = first.acquire("l", None);
    assert!(tokio::time::timeout(QUICK.renewal * 10, again).await.is_err());
    assert!(!next.ended.is_cancelled(), "the end of an old term ended the next");
    write_behind(&store, &next.fence).await.unwrap();
    drop(next);
    assert_eq!(first.acquire("l", None).await.fence.key.name, "l");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_is_gone() {
    let (_directory, store) = embedded();
    // A process that was killed, with a lease.
    let members = store::own_tenant(&*store, MEMBERS).await.unwrap();
    let row = store::own_tenant(&*store, "_lease-l").await.unwrap();
    let put = |key, value: &'static str| {
        vec![Operation::Put { key, expect: Expect::Absent, value: Bytes::from_static(value.as_bytes()) }]
    };
    store.write(members, put(Key::new(MEMBERS, "", "dead.0"), "7")).await.unwrap();
    store.write(row, put(Key::new(HELD, "", "l"), r#"{"holder": "dead.0"}"#)).await.unwrap();
    let leases = leases(&store, "alive");
    let early = tokio::time::timeout(QUICK.expiry / 2, leases.acquire("l", None)).await;
    assert!(early.is_err(), "it was taken from a process that may be alive");
    leases.acquire("l", None).await;
    assert!(store.get(members, &Key::new(MEMBERS, "", "dead.0")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_gives_everything_back() {
    let (_directory, store) = embedded();
    let first = leases(&store, "first");
    let terms = [first.acquire("a", None).await, first.acquire("b", None).await];
    first.leave().await;
    let second = leases(&store, "second");
    for name in ["a", "b"] {
        second.acquire(name, None).await;
    }
    assert!(terms.iter().all(|term| term.ended.is_cancelled()));
}

const SHARDS: u64 = 8;

/// Who works on what now, and behind which fence.
type At = Arc<Mutex<BTreeMap<String, (String, Fence)>>>;

/// A process that works on whatever shards are its own.
struct Working {
    leases: Leases,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Working {
    fn start(store: &Arc<dyn Store>, process: &str, at: &At) -> Working {
        let leases = leases(store, process);
        let tasks = Shard::all(SHARDS).map(|shard| {
            let (store, leases, at) = (store.clone(), leases.clone(), at.clone());
            let (name, process) = (format!("s-{shard}"), process.to_owned());
            tokio::spawn(async move {
                loop {
                    let term = leases.acquire(&name, Some(shard)).await;
                    let now = (process.clone(), term.fence.clone());
                    let before = at.lock().insert(name.clone(), now);
                    // Who has not noticed its end yet writes nothing any more.
                    if let Some((_, fence)) = before {
                        assert!(matches!(write_behind(&store, &fence).await, Err(StoreError::Fenced)));
                    }
                    term.ended.cancelled().await;
                    let mut at = at.lock();
                    if at.get(&name).is_some_and(|(_, fence)| *fence == term.fence) {
                        at.remove(&name);
                    }
                }
            })
        });
        Working { tasks: tasks.collect(), leases }
    }

    async fn end(self) {
        self.leases.leave().await;
        for task in self.tasks {
            assert!(!task.is_finished(), "a process failed");
            task.abort();
        }
    }
}

async fn until_spread(at: &At, over: &[&str]) {
    let least = usize::try_from(SHARDS).unwrap() / over.len();
    for _ in 0..1_000 {
        {
            let at = at.lock();
            let share = |process: &&str| at.values().filter(|(holder, _)| holder == process).count();
            let fair = over.iter().all(|process| (least..=least + 1).contains(&share(process)));
            if fair && at.len() as u64 == SHARDS && over.iter().map(share).sum::<usize>() == at.len() {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not spread over {over:?}: {:?}", at.lock());
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_go_to_whoever_is_there() {
    let (_directory, store) = embedded();
    let at = At::default();
    let one = Working::start(&store, "one", &at);
    until_spread(&at, &["one"]).await;
    let two = Working::start(&store, "two", &at);
    until_spread(&at, &["one", "two"]).await;
    let three = Working::start(&store, "three", &at);
    until_spread(&at, &["one", "two", "three"]).await;
    two.end().await;
    until_spread(&at, &["one", "three"]).await;
    // Taken for gone, it comes again.
    let gone = one.leases.session().await.unwrap().member;
    take_away(&store, &gone).await;
    let mut sessions = one.leases.inner.sessions.clone();
    sessions.wait_for(|now| now.as_ref().is_some_and(|now| now.member != gone)).await.unwrap();
    until_spread(&at, &["one", "three"]).await;
    one.end().await;
    until_spread(&at, &["three"]).await;
    three.end().await;
}
