use std::collections::BTreeSet;
use std::time::Duration;

use apiserver::control_plane::Charter;
use apiserver::{Beginning, Config, Engines};
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

async fn next<T>(feed: &mut (impl futures::Stream<Item = Result<T, FleetError>> + Unpin)) -> Option<T> {
    let next = tokio::time::timeout(Duration::from_millis(300), feed.next()).await;
    next.ok().flatten().map(|told| told.unwrap())
}

/// The next that is an event.
async fn next_event(feed: &mut Changes) -> Option<Event> {
    loop {
        match next(feed).await? {
            Told::Event(event) => return Some(event),
            Told::UpTo(_) => {}
        }
    }
}

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Names of what was there and is shown.
async fn swept(feed: &mut Changes, control_plane: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    while let Some(event) = next_event(feed).await {
        assert_eq!((event.change, event.control_plane.as_str()), (Change::Existing, control_plane));
        seen.insert(event.key.name.to_string());
    }
    seen.into_iter().collect()
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
    let namespaces = Kinds::these(["namespaces"]);
    let mut all = fleet.follow(&Kinds::All, from).await.unwrap();
    let mut some = fleet.follow(&namespaces, from).await.unwrap();

    engines.move_to("a", &there).await.map_err(|failure| failure.0).unwrap();
    assert_eq!(swept(&mut some, "a").await, NAMESPACES);
    let mut kinds = BTreeSet::new();
    while let Some(event) = next_event(&mut all).await {
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
    assert_eq!(next_event(&mut some).await.unwrap().change, Change::Updated);
}

/// Of a shard, a fleet shows what is in it, whether it was there before or happens now, and remembers that for itself.
#[tokio::test]
async fn a_shard_is_a_fleet_of_its_own() {
    let (_directory, store) = store();
    let engine = Engine::new(store, config());
    let names = ["a", "d", "g", "h", "one"];
    for name in names {
        engine.create_control_plane(name).await.map_err(|failure| failure.0).unwrap();
    }
    let namespaces = Kinds::These(BTreeSet::from(["namespaces".into()]));
    let shards: Vec<Shard> = Shard::all(4).collect();
    let fleet = |shard: &Shard| InProcessFleet::new(engine.clone()).only(*shard);
    let from = fleet(&shards[0]).position().await.unwrap();
    let mut follows = Vec::new();
    for shard in &shards {
        follows.push(fleet(shard).follow(&namespaces, from).await.unwrap());
    }
    for name in names {
        let plane = engine.planes.find(name).await.unwrap().unwrap();
        let key = Key::new("namespaces", "", "default");
        let entry = engine.store.get(plane.id, &key).await.unwrap().unwrap();
        let again = Operation::Put { key, expect: Expect::Present, value: entry.value };
        engine.store.write(plane.id, vec![again]).await.unwrap();
    }
    let mut all = Vec::new();
    for (shard, follow) in shards.iter().zip(&mut follows) {
        let mut expected: Vec<&str> = names.into_iter().filter(|name| shard.contains(name)).collect();
        let mut seen = Vec::new();
        let mut read = from;
        while let Some(told) = next(follow).await {
            match told {
                Told::Event(event) => {
                    seen.push(event.control_plane.to_string());
                    read = read.max(event.position);
                }
                Told::UpTo(position) => read = read.max(position),
            }
        }
        assert!(read > from, "{shard}: who has nothing to do comes on as well");
        assert_eq!(seen, expected, "{shard}");
        let mut sweep = fleet(shard).sweep(&namespaces, None, None);
        let mut swept = BTreeSet::new();
        while let Some(event) = next(&mut sweep).await {
            swept.insert(event.control_plane.to_string());
        }
        expected.sort_unstable();
        assert_eq!(swept.into_iter().collect::<Vec<_>>(), expected, "{shard}");
        all.extend(expected);
        let cursor = Cursor { position: Position(all.len() as u64), ..Cursor::default() };
        fleet(shard).save(&cursor).await.unwrap();
        assert_eq!(fleet(shard).load().await.unwrap(), Some(cursor));
    }
    all.sort_unstable();
    assert_eq!(all, names);
    assert_eq!(InProcessFleet::new(engine).load().await.unwrap(), None);
}

/// Copies have no history that controllers have seen. Whoever looks after what is outside waits for a change.
#[tokio::test]
async fn copies_are_looked_at_but_by_those_who_leave_them_to_the_original() {
    let (_directory, store) = store();
    let engine = Engine::new(store, config());
    let original = engine.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
    let (fleet, outside) =
        (InProcessFleet::new(engine.clone()), InProcessFleet::new(engine.clone()).leaving_copies());
    let (namespaces, from) = (Kinds::these(["namespaces"]), fleet.position().await.unwrap());
    let mut looking = fleet.follow(&namespaces, from).await.unwrap();
    let mut leaving = outside.follow(&namespaces, from).await.unwrap();

    for (name, beginning) in [
        ("fork", Beginning::Fork(original.id, None)),
        ("restored", Beginning::Export(engine.store.export_tenant(original.id, None).await.unwrap())),
    ] {
        let made = engine.establish(name, Charter::default(), beginning).await;
        let copy = made.map_err(|failure| failure.0).unwrap();
        assert_eq!(swept(&mut looking, name).await, NAMESPACES);
        assert!(next_event(&mut leaving).await.is_none(), "{name}");
        let entry = engine.store.get(copy.id, &Key::new("namespaces", "", "default")).await.unwrap().unwrap();
        let put = Operation::Put { key: entry.key, expect: Expect::Any, value: entry.value };
        engine.store.write(copy.id, vec![put]).await.unwrap();
        for feed in [&mut looking, &mut leaving] {
            assert_eq!(next_event(feed).await.unwrap().change, Change::Updated, "{name}");
        }
    }
}
