use std::collections::BTreeSet;
use std::time::Duration;

use apiserver::{Config, Engines};
use store::{Embedded, Expect, Operation, Store};
use tempfile::TempDir;

use super::*;
use crate::event::Change;

fn store() -> (TempDir, Arc<dyn Store>) {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(directory.path(), Default::default()).unwrap();
    (directory, Arc::new(store))
}

fn config() -> Config {
    Config::new("host", [7; 32], String::new(), ([127, 0, 0, 1], 6443))
}

async fn next(feed: &mut Stream) -> Option<Event> {
    let next = tokio::time::timeout(Duration::from_millis(300), feed.next()).await;
    next.ok().flatten().map(|event| event.unwrap())
}

/// Controllers of the store that a control plane came to are shown all that is in it, and nothing before it is whole.
#[tokio::test]
async fn who_arrives_is_looked_at() {
    let ((_one, first), (_other, second)) = (store(), store());
    let here = Engine::new(first, config());
    let there = here.beside("there", second);
    let engines = Engines::new(here.clone(), vec![there.clone()]);
    let made = here.create_control_plane("a").await;
    let plane = made.map_err(|failure| failure.0).unwrap();
    let fleet = InProcessFleet::new(there.clone());
    let from = fleet.position().await.unwrap();
    let namespaces = Kinds::These(BTreeSet::from(["namespaces".into()]));
    let mut all = fleet.follow(&Kinds::All, from).await.unwrap();
    let mut some = fleet.follow(&namespaces, from).await.unwrap();

    engines.move_to("a", &there).await.map_err(|failure| failure.0).unwrap();
    let mut seen = BTreeSet::new();
    while let Some(event) = next(&mut some).await {
        assert_eq!((event.change, event.control_plane.as_str()), (Change::Existing, "a"));
        seen.insert(event.key.name.to_string());
    }
    let expected = ["default", "kube-node-lease", "kube-public", "kube-system"];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let mut kinds = BTreeSet::new();
    while let Some(event) = next(&mut all).await {
        assert_eq!(event.change, Change::Existing);
        kinds.insert(event.key.kind);
    }
    assert!(kinds.contains("namespaces") && kinds.contains("serviceaccounts"), "{kinds:?}");
    assert!(!kinds.contains(ARRIVAL), "{kinds:?}");

    // And what happens from then on.
    let moved = there.planes.find("a").await.unwrap().unwrap();
    assert!(here.store.tenant_by_id(plane.id).await.unwrap().is_none());
    let entry = there.store.get(moved.id, &Key::new("namespaces", "", "default")).await.unwrap().unwrap();
    let put = Operation::Put { key: entry.key, expect: Expect::Any, value: entry.value };
    there.store.write(moved.id, vec![put]).await.unwrap();
    assert_eq!(next(&mut some).await.unwrap().change, Change::Updated);
}
