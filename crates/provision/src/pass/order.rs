//! Deletion in the reverse order of references: what others take values from goes after them.
//!
//! Who refers to an object is found by looking at the objects that could, when it matters, so nothing has to be kept up
//! to date. Objects that refer to each other in a circle do not wait for each other.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use objects::{CompactString, Value, meta};
use runtime::Key;

use super::Pass;
use crate::driver::Driver;
use crate::failure::Failure;
use crate::policies;
use crate::reading::Interest;
use crate::references;

/// Objects that are followed to find a circle. One that is wider than this is left to the user's override.
const FOLLOWED: usize = 256;
/// Names in a message; more are counted.
const NAMED: usize = 3;

/// Who refers to what, as it was at some time.
#[derive(Default)]
pub(crate) struct Referring {
    /// By what is referred to.
    by_target: HashMap<Key, Vec<Key>>,
    /// All that was written up to this revision was seen.
    as_of: Option<u64>,
}

impl Referring {
    /// Whether all are in it who may have taken a value from an object. Nobody takes one from what is being deleted,
    /// so it only must have been looked for since then.
    fn suffices(&self, going: &Value) -> bool {
        revision(going).is_some_and(|own| self.as_of.is_some_and(|seen| own <= seen))
    }
}

fn revision(object: &Value) -> Option<u64> {
    meta::resource_version(object).parse().ok()
}

impl<D: Driver> Pass<'_, D> {
    /// Why the resource cannot go yet: objects that still take values from this one.
    pub(super) async fn needed_by(&self) -> Result<Option<String>, Failure> {
        if self.controls.any_order {
            return Ok(None);
        }
        let mut found = self.dependants().await?;
        if found.is_empty() {
            return Ok(None);
        }
        let own = self.needs().await?;
        found.retain(|key| !own.contains(key));
        let Some(first) = found.first() else { return Ok(None) };
        let named = |key: &Key| format!("{} {}/{}", key.kind, key.namespace, key.name);
        let mut names: Vec<String> = found.iter().take(NAMED).map(named).collect();
        if found.len() > NAMED {
            names.push(format!("{} more", found.len() - NAMED));
        }
        let verb = if found.len() == 1 { "refers" } else { "refer" };
        // Woken when the first of them goes.
        self.reader.note(first, Interest::All);
        Ok(Some(format!(
            "{} still {verb} to it; it goes after them, or at once with the annotation {}: any",
            names.join(", "),
            policies::DELETION_ORDER
        )))
    }

    fn key(&self) -> Key {
        Key::new(self.facts.resource.clone(), meta::namespace(&self.object), meta::name(&self.object))
    }

    /// What an object takes values from.
    fn targets(&self, kind: &str, object: &Value) -> Vec<Key> {
        let driver = &self.engine.driver;
        let Some(facts) = driver.facts(kind) else { return Vec::new() };
        let mut targets = references::targets(&facts, object);
        targets.extend(driver.refers_to(object));
        targets
    }

    /// Objects that refer to this one, looked at once more.
    async fn dependants(&self) -> Result<Vec<Key>, Failure> {
        let own = self.key();
        let shared = self.engine.driver.also_known_as(&self.object);
        let referring = self.referring(&own).await?;
        let by_name = |name: &Key| referring.by_target.get(name).into_iter().flatten().cloned();
        let found: BTreeSet<Key> = by_name(&own).chain(shared.iter().flat_map(by_name)).collect();
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let all_go = !shared.is_empty() && self.namespace_goes().await?;
        let mut still = Vec::new();
        for key in found {
            let Some(object) = self.reader.peek(&key.kind, &key.namespace, &key.name).await? else {
                continue;
            };
            let targets = self.targets(&key.kind, &object);
            let goes = all_go || meta::is_deleting(&object);
            if targets.contains(&own) || goes && shared.iter().any(|name| targets.contains(name)) {
                still.push(key);
            }
        }
        Ok(still)
    }

    async fn namespace_goes(&self) -> Result<bool, Failure> {
        let namespace = self.reader.peek("namespaces", "", meta::namespace(&self.object)).await?;
        Ok(namespace.is_some_and(|namespace| meta::is_deleting(&namespace)))
    }

    /// Who refers to what, of the objects that could refer to this one. Many that are deleted together ask the same.
    async fn referring(&self, own: &Key) -> Result<Arc<Referring>, Failure> {
        let driver = &self.engine.driver;
        let free = driver.refers_freely();
        let of = if free { own.namespace.clone() } else { own.kind.clone() };
        let at = (CompactString::from(self.control_plane), of);
        if let Some(known) = self.engine.referring.get(&at).filter(|known| known.suffices(&self.object)) {
            return Ok(known);
        }
        // Those that are deleted together with this one are asked first: what is looked for then was looked for
        // after their deletion, and serves them too.
        let together = self.reader.list(&own.kind, if free { &own.namespace } else { "" }).await?;
        let as_of = together.iter().chain([&self.object]).filter_map(revision).max();
        let mut found = Referring { as_of, ..Referring::default() };
        for kind in driver.known_kinds() {
            let Some(facts) = driver.facts(&kind) else { continue };
            let named = facts.references.iter().any(|reference| reference.kind == own.kind);
            // References that a kind does not know of are of one namespace.
            let namespace = match (named, free) {
                (true, _) => "",
                (false, true) => own.namespace.as_str(),
                (false, false) => continue,
            };
            for object in self.reader.list(&kind, namespace).await? {
                let key = Key::new(kind.clone(), meta::namespace(&object), meta::name(&object));
                for target in self.targets(&kind, &object) {
                    if target != key {
                        found.by_target.entry(target).or_default().push(key.clone());
                    }
                }
            }
        }
        let found = Arc::new(found);
        self.engine.referring.insert(at, found.clone());
        Ok(found)
    }

    /// Everything that this object takes values from, and what those do in turn.
    async fn needs(&self) -> Result<BTreeSet<Key>, Failure> {
        let mut found = BTreeSet::new();
        let mut next = self.targets(&self.facts.resource, &self.object);
        while let Some(key) = next.pop() {
            if found.len() >= FOLLOWED || !found.insert(key.clone()) {
                continue;
            }
            if self.engine.driver.facts(&key.kind).is_some()
                && let Some(object) = self.reader.peek(&key.kind, &key.namespace, &key.name).await?
            {
                next.extend(self.targets(&key.kind, &object));
            }
        }
        Ok(found)
    }
}
