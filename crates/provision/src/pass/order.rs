//! Deletion in the reverse order of references: what others take values from goes after them.
//!
//! Who refers to an object is found by looking at the objects that could, when it matters, so nothing has to be kept up
//! to date. Objects that refer to each other in a circle do not wait for each other.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::SignedDuration;
use objects::{CompactString, Value, meta};
use runtime::Key;

use super::Pass;
use crate::driver::Driver;
use crate::failure::Failure;
use crate::policies;
use crate::references;

/// Objects that are followed to find a circle. One that is wider than this is left to the user's override.
const FOLLOWED: usize = 256;
/// For so long, who refers to what is not looked for again. A reference that is younger may be missed.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(1);
/// Names in a message; more are counted.
const NAMED: usize = 3;

/// By what is referred to.
pub(crate) type Referring = HashMap<Key, Vec<Key>>;

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
        self.reader.note(first);
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
        let mut found = Vec::new();
        for key in self.referring(&own).await?.get(&own).into_iter().flatten() {
            let object = self.reader.peek(&key.kind, &key.namespace, &key.name).await?;
            if object.is_some_and(|object| self.targets(&key.kind, &object).contains(&own)) {
                found.push(key.clone());
            }
        }
        Ok(found)
    }

    /// Who refers to what, of the objects that could refer to this one. Many that are deleted together ask the same.
    async fn referring(&self, own: &Key) -> Result<Arc<Referring>, Failure> {
        let driver = &self.engine.driver;
        let free = driver.refers_freely();
        let of = if free { own.namespace.clone() } else { own.kind.clone() };
        let at = (CompactString::from(self.control_plane), of);
        if let Some((when, known)) = self.engine.referring.get(&at)
            && self.now.duration_since(when) < REMEMBERED
        {
            return Ok(known);
        }
        let mut found = Referring::new();
        for kind in driver.kinds() {
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
                        found.entry(target).or_default().push(key.clone());
                    }
                }
            }
        }
        let found = Arc::new(found);
        self.engine.referring.insert(at, (self.now, found.clone()));
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
