//! A process that writes under load is killed, many times. What it acknowledged is there, nothing is half there,
//! revisions never come back, and watches resumed from before the kill miss nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::conformance::{Fixture, all, key, text, things, until};
use crate::embedded::Options;
use crate::{Embedded, Expect, Operation, Revision, Scope, Store};

/// Where the child finds its directory.
pub(super) const DIRECTORY: &str = "STORE_TEST_DIRECTORY";
const KILLS: u64 = 20;
const WRITERS: usize = 6;

fn open(directory: &std::path::Path) -> Arc<dyn Store> {
    let options = Options { progress_interval: Duration::from_millis(50), ..Options::default() };
    Arc::new(Embedded::open(directory, options).unwrap())
}

/// Both halves of a pair are written in one transaction, always with the same number.
fn pair(writer: usize) -> [String; 2] {
    ["left", "right"].map(|half| format!("{writer}-{half}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by nothing_acknowledged_is_lost, in a process of its own, and killed"]
async fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store = open(directory.as_ref());
    let tenant = store.tenant("first").await.unwrap().unwrap().id;
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut number: u64 = match store.get(tenant, &key(&pair(writer)[0])).await.unwrap() {
                Some(entry) => text(&entry.value).trim_end_matches('.').parse().unwrap(),
                None => 0,
            };
            loop {
                number += 1;
                let value = Bytes::from(format!("{number}{}", ".".repeat(500 * writer)));
                let operations = pair(writer).map(|name| Operation::Put {
                    key: key(&name),
                    expect: Expect::Any,
                    value: value.clone(),
                });
                let revision = store.write(tenant, operations.into()).await.unwrap();
                acknowledge(&format!("write {writer} {number} {revision}"));
            }
        })
    });
    let turnover = {
        let store = store.clone();
        tokio::spawn(async move {
            for index in 0.. {
                let name = format!("{}-{index}", std::process::id());
                let made = store.fork_tenant(tenant, None, &name, Bytes::new()).await.unwrap().id;
                acknowledge(&format!("fork {name}"));
                if index % 2 == 0 {
                    store.delete_tenant(made).await.unwrap();
                    acknowledge(&format!("delete {name}"));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    futures::future::join_all(writers).await;
    turnover.await.unwrap();
}

fn acknowledge(line: &str) {
    let mut out = std::io::stdout().lock();
    // One write per line: a kill leaves whole lines.
    let _ = out.write_all(format!("\nack {line}\n").as_bytes());
    let _ = out.flush();
}

/// Runs the child for a while, kills it, and returns what it acknowledged.
fn run_and_kill(directory: &std::path::Path, for_how_long: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "embedded::tests::crash::child", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in out.split(b'\n').map_while(Result::ok) {
            let line = text(&line);
            lines.extend(line.strip_prefix("ack ").map(str::to_owned));
        }
        lines
    });
    std::thread::sleep(for_how_long);
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn nothing_acknowledged_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (tenant, mut seen_until) = runtime.block_on(async {
        let store = open(directory.path());
        let tenant = store.create_tenant("first", Bytes::new(), vec![]).await.unwrap().id;
        // Ballast, so that forks take several steps.
        let ballast =
            (0..1200).map(|index| crate::conformance::put(&format!("ballast-{index:05}"), "x")).collect();
        let revision = store.write(tenant, ballast).await.unwrap();
        store.close().await;
        (tenant, revision)
    });
    let mut random = 0x2545_f491_4f6c_dd1d_u64 ^ u64::from(std::process::id());
    let mut acknowledged: BTreeMap<usize, u64> = BTreeMap::new();
    let mut revisions: HashSet<Revision> = HashSet::new();
    let mut watched: HashMap<String, u64> = HashMap::new();
    for kill in 0..KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let lines = run_and_kill(directory.path(), Duration::from_millis(60 + random % 200));
        let mut tenants: HashMap<String, bool> = HashMap::new();
        for line in &lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["write", writer, number, revision] => {
                    acknowledged.insert(writer.parse().unwrap(), number.parse().unwrap());
                    let revision = Revision(revision.parse().unwrap());
                    assert!(revision > seen_until, "kill {kill}: revision {revision} came back");
                    assert!(revisions.insert(revision), "kill {kill}: revision {revision} came twice");
                }
                ["fork", name] => drop(tenants.insert(name.to_owned(), true)),
                ["delete", name] => drop(tenants.insert(name.to_owned(), false)),
                _ => panic!("{line}"),
            }
        }
        runtime.block_on(async {
            let f = Fixture { store: open(directory.path()), tenant };
            check_writes(&f, &acknowledged, kill).await;
            seen_until = check_watch(&f, seen_until, &mut watched, kill).await;
            check_tenants(&f, &tenants, kill).await;
            f.store.close().await;
        });
    }
    assert!(revisions.len() as u64 > KILLS, "the child hardly wrote: {} writes", revisions.len());
}

async fn check_writes(f: &Fixture, acknowledged: &BTreeMap<usize, u64>, kill: u64) {
    let entries: HashMap<String, crate::Entry> = all(&f.store, f.tenant, None)
        .await
        .into_iter()
        .map(|entry| (entry.key.name.to_string(), entry))
        .collect();
    for writer in 0..WRITERS {
        let halves = pair(writer).map(|name| entries.get(&name));
        let (left, right) = match halves {
            [Some(left), Some(right)] => (left, right),
            [None, None] => {
                assert_eq!(acknowledged.get(&writer), None, "kill {kill}: lost");
                continue;
            }
            _ => panic!("kill {kill}: half a transaction"),
        };
        assert_eq!(
            (left.modified, &left.value),
            (right.modified, &right.value),
            "kill {kill}: half a transaction"
        );
        let number: u64 = text(&left.value).trim_end_matches('.').parse().unwrap();
        let last = acknowledged.get(&writer).copied().unwrap_or(0);
        // Every one acknowledged, and at most the one that was under way; or several, if a kill took the lines that
        // told of them.
        assert!(number >= last, "kill {kill}: {last} was acknowledged and {number} is there");
    }
}

/// The watch from where the last round ended shows every number of every writer, once and in order.
async fn check_watch(f: &Fixture, from: Revision, watched: &mut HashMap<String, u64>, kill: u64) -> Revision {
    let now = f.revision().await;
    let mut watch = f.watch(things(), from).await;
    let (events, ended) = until(&mut watch, now).await;
    assert_eq!(ended, None);
    for event in events.iter().filter(|event| !event.key.name.starts_with("ballast")) {
        let number: u64 = text(&event.value).trim_end_matches('.').parse().unwrap();
        let last = watched.insert(event.key.name.to_string(), number).unwrap_or(0);
        assert_eq!(number, last + 1, "kill {kill}: a watch of {} missed something", event.key.name);
    }
    let told: BTreeMap<_, _> = watched.iter().map(|(name, number)| (name.clone(), *number)).collect();
    let there: BTreeMap<String, u64> = (f.things().await.into_iter())
        .filter(|(name, _)| !name.starts_with("ballast"))
        .map(|(name, value)| (name, value.trim_end_matches('.').parse().unwrap()))
        .collect();
    assert_eq!(told, there, "kill {kill}");
    now
}

async fn check_tenants(f: &Fixture, tenants: &HashMap<String, bool>, kill: u64) {
    for (name, lives) in tenants {
        match f.store.tenant(name).await.unwrap() {
            Some(fork) => {
                // A deletion that was under way may or may not have happened; one acknowledged has.
                assert!(lives, "kill {kill}: {name} is back");
                let entries = all(&f.store, fork.id, None).await;
                let count = f.store.count(fork.id, &Scope::All).await.unwrap();
                assert!(entries.len() >= 1200 && entries.len() as u64 == count, "kill {kill}: half a fork");
                f.store.delete_tenant(fork.id).await.unwrap();
            }
            None => {
                assert!(!lives || name.ends_with(['0', '2', '4', '6', '8']), "kill {kill}: {name} is lost")
            }
        }
    }
}
