//! Any sequence of calls does to a store what it does to a few maps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Harness, key, put, put_if, text, things, until};
use crate::{Change, Entry, Expect, Operation, Retention, Revision, Scope, Store, StoreError, TenantId};

/// What a step expects of a key, resolved against the model when it runs.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Any,
    Absent,
    Present,
    /// The revision that is there.
    Right,
    /// One that is not.
    Stale,
}

#[derive(Clone, Debug)]
enum Step {
    Put { tenant: u8, name: u8, wish: Wish, value: u16 },
    Delete { tenant: u8, name: u8, wish: Wish },
    PutAll { tenant: u8, value: u16 },
    Create { tenant: u8 },
    Remove { tenant: u8 },
    Fork { from: u8, to: u8, back: u8 },
    Compact,
    Reopen,
    Look { tenant: u8, back: u8 },
    Watch { tenant: u8, back: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wish = || {
        prop_oneof![
            4 => Just(Wish::Any),
            1 => Just(Wish::Absent),
            1 => Just(Wish::Present),
            3 => Just(Wish::Right),
            1 => Just(Wish::Stale),
        ]
    };
    let tenant = || 0..3u8;
    let step = prop_oneof![
        12 => (tenant(), 0..6u8, wish(), any::<u16>())
            .prop_map(|(tenant, name, wish, value)| Step::Put { tenant, name, wish, value }),
        5 => (tenant(), 0..6u8, wish()).prop_map(|(tenant, name, wish)| Step::Delete { tenant, name, wish }),
        2 => (tenant(), any::<u16>()).prop_map(|(tenant, value)| Step::PutAll { tenant, value }),
        2 => tenant().prop_map(|tenant| Step::Create { tenant }),
        1 => tenant().prop_map(|tenant| Step::Remove { tenant }),
        3 => (tenant(), tenant(), 0..4u8).prop_map(|(from, to, back)| Step::Fork { from, to, back }),
        1 => Just(Step::Compact),
        2 => Just(Step::Reopen),
        3 => (tenant(), 0..6u8).prop_map(|(tenant, back)| Step::Look { tenant, back }),
        2 => (tenant(), 0..6u8).prop_map(|(tenant, back)| Step::Watch { tenant, back }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// By name: created, modified, value.
type State = BTreeMap<String, (Revision, Revision, String)>;

/// A tenant's history, oldest first; never empty.
struct Model {
    id: TenantId,
    history: Vec<(Revision, State)>,
}

impl Model {
    fn now(&self) -> &State {
        &self.history[self.history.len() - 1].1
    }

    fn back(&self, steps: u8) -> &(Revision, State) {
        &self.history[self.history.len().saturating_sub(1 + usize::from(steps))]
    }
}

fn as_state(entries: &[Entry]) -> State {
    let row =
        |entry: &Entry| (entry.key.name.to_string(), (entry.created, entry.modified, text(&entry.value)));
    entries.iter().map(row).collect()
}

struct World<H> {
    harness: H,
    store: Arc<dyn Store>,
    tenants: BTreeMap<u8, Model>,
}

/// Runs random sequences, each on a fresh harness.
pub fn check<H: Harness>(harness: impl Fn() -> H) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { cases: 40, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let result = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(async {
            let harness = harness();
            let store = harness.open().await;
            let mut world = World { harness, store, tenants: BTreeMap::new() };
            for step in &steps {
                world.take(step).await;
            }
            world.compare_all().await;
            world.store.close().await;
        });
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

impl<H: Harness> World<H> {
    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Put { tenant, name, wish, value } => {
                let value = value.to_string();
                self.write(tenant, &[name], wish, Some(&value)).await;
            }
            Step::Delete { tenant, name, wish } => self.write(tenant, &[name], wish, None).await,
            Step::PutAll { tenant, value } => {
                self.write(tenant, &[0, 1, 2, 3, 4, 5], Wish::Any, Some(&value.to_string())).await;
            }
            Step::Create { tenant } => {
                let made = self.store.create_tenant(&tenant.to_string(), Bytes::new(), vec![]).await;
                if self.tenants.contains_key(&tenant) {
                    assert!(matches!(made, Err(StoreError::TenantExists { .. })), "{made:?}");
                } else {
                    self.add(tenant, made.unwrap().id, State::new()).await;
                }
            }
            Step::Remove { tenant } => {
                if let Some(model) = self.tenants.remove(&tenant) {
                    self.store.delete_tenant(model.id).await.unwrap();
                    assert!(matches!(self.store.revision(model.id).await, Err(StoreError::NoTenant)));
                }
            }
            Step::Fork { from, to, back } => self.fork(from, to, back).await,
            Step::Compact => {
                self.store.compact(Retention { age: Duration::ZERO, bytes: 0 }).await.unwrap();
                for model in self.tenants.values_mut() {
                    model.history = vec![model.history[model.history.len() - 1].clone()];
                }
            }
            Step::Reopen => {
                self.store.close().await;
                self.store = self.harness.open().await;
            }
            Step::Look { tenant, back } => {
                if let Some(model) = self.tenants.get(&tenant) {
                    let (at, expected) = model.back(back);
                    // The present is also asked for as such.
                    let asked = (back > 0).then_some(*at);
                    let page = self.store.range(model.id, &things(), None, asked, 0).await.unwrap();
                    assert_eq!(
                        (page.revision, as_state(&page.entries)),
                        (*at, expected.clone()),
                        "tenant {tenant}"
                    );
                }
            }
            Step::Watch { tenant, back } => self.watch(tenant, back).await,
        }
    }

    async fn add(&mut self, tenant: u8, id: TenantId, state: State) {
        let revision = self.store.revision(id).await.unwrap();
        self.tenants.insert(tenant, Model { id, history: vec![(revision, state)] });
    }

    async fn write(&mut self, tenant: u8, names: &[u8], wish: Wish, value: Option<&str>) {
        let Some(model) = self.tenants.get_mut(&tenant) else { return };
        let mut next = model.now().clone();
        let (mut operations, mut conflict, mut changed) = (Vec::new(), false, Vec::new());
        for name in names.iter().map(ToString::to_string) {
            let there = next.get(&name).map(|(_, modified, _)| *modified);
            let (expect, holds) = match (wish, there) {
                (Wish::Any, _) => (Expect::Any, true),
                (Wish::Absent, there) => (Expect::Absent, there.is_none()),
                (Wish::Present, there) => (Expect::Present, there.is_some()),
                (Wish::Right, Some(modified)) => (Expect::Modified(modified), true),
                (Wish::Right, None) => (Expect::Absent, true),
                (Wish::Stale, there) => (Expect::Modified(Revision(there.map_or(1, |it| it.0 + 1))), false),
            };
            conflict |= !holds;
            if value.is_some() || there.is_some() {
                changed.push(name.clone());
            }
            operations.push(match value {
                Some(value) => put_if(&name, expect, value),
                None => Operation::Delete { key: key(&name), expect },
            });
        }
        let result = self.store.write(model.id, operations).await;
        let before = model.history[model.history.len() - 1].0;
        match result {
            Err(StoreError::Conflict { .. }) if conflict => {}
            Ok(revision) if !conflict && changed.is_empty() => assert_eq!(revision, before),
            Ok(revision) if !conflict => {
                assert!(revision > before);
                for name in changed {
                    match value {
                        Some(value) => {
                            let created = next.get(&name).map_or(revision, |(created, ..)| *created);
                            next.insert(name, (created, revision, value.to_owned()));
                        }
                        None => drop(next.remove(&name)),
                    }
                }
                model.history.push((revision, next));
            }
            other => panic!("conflict expected: {conflict}; got {other:?}"),
        }
    }

    async fn fork(&mut self, from: u8, to: u8, back: u8) {
        let Some(source) = self.tenants.get(&from) else { return };
        let (at, state) = source.back(back).clone();
        let made = self.store.fork_tenant(source.id, Some(at), &to.to_string(), Bytes::new()).await;
        if self.tenants.contains_key(&to) {
            assert!(matches!(made, Err(StoreError::TenantExists { .. })), "{made:?}");
            return;
        }
        let id = made.unwrap().id;
        let copied = self.store.range(id, &Scope::All, None, None, 0).await.unwrap();
        let copy = as_state(&copied.entries);
        if self.harness.forks_keep_revisions() {
            assert_eq!((copied.revision, &copy), (at, &state));
        } else {
            let values = |state: &State| -> Vec<_> {
                state.iter().map(|(name, (.., value))| (name.clone(), value.clone())).collect()
            };
            assert_eq!(values(&copy), values(&state));
            assert!(copied.revision >= at);
        }
        self.add(to, id, copy).await;
        // Writes to it at once, while it may still be reading from its source.
        self.store.write(id, vec![put("5", "forked")]).await.unwrap();
        let entries = self.store.range(id, &Scope::All, None, None, 0).await.unwrap();
        let Some(model) = self.tenants.get_mut(&to) else { return };
        let mut next = model.now().clone();
        let created = next.get("5").map_or(entries.revision, |(created, ..)| *created);
        next.insert("5".into(), (created, entries.revision, "forked".into()));
        assert_eq!(as_state(&entries.entries), next);
        model.history.push((entries.revision, next));
    }

    /// A watch from any point leads from the state then to the state now.
    async fn watch(&mut self, tenant: u8, back: u8) {
        let Some(model) = self.tenants.get(&tenant) else { return };
        let (from, mut state) = model.back(back).clone();
        let now = model.history[model.history.len() - 1].0;
        let mut watch = self.store.watch(model.id, things(), from).await.unwrap();
        let (events, ended) = until(&mut watch, now).await;
        assert_eq!(ended, None);
        for event in events {
            let name = event.key.name.to_string();
            let before = state.get(&name).map(|(.., value)| value.clone());
            match event.change {
                Change::Created => assert_eq!(before, None),
                Change::Updated => assert_eq!(before, event.previous.as_deref().map(text)),
                Change::Deleted => assert_eq!(before, Some(text(&event.value))),
            }
            if event.change == Change::Deleted {
                state.remove(&name);
            } else {
                state.insert(name, (event.created, event.revision, text(&event.value)));
            }
        }
        assert_eq!(&state, model.now());
    }

    async fn compare_all(&self) {
        for model in self.tenants.values() {
            for (at, expected) in &model.history {
                let page = self.store.range(model.id, &Scope::All, None, Some(*at), 0).await.unwrap();
                assert_eq!(&as_state(&page.entries), expected, "at {at}");
            }
            let count = self.store.count(model.id, &things()).await.unwrap();
            assert_eq!(count, model.now().len() as u64);
            let bytes: usize = model.now().iter().map(|(name, (.., value))| name.len() + value.len()).sum();
            assert!(self.store.size(model.id).await.unwrap() >= bytes as u64);
        }
        let names: Vec<_> = self.tenants.keys().map(ToString::to_string).collect();
        let listed = self.store.tenants(None, 0).await.unwrap();
        assert_eq!(listed.iter().map(|tenant| tenant.name.to_string()).collect::<Vec<_>>(), names);
    }
}
