//! Reading other objects, and being woken when they change.
//!
//! Whoever reads an object that matters to it is noted under it before the read, so that no change falls between
//! the two. The notes are a bounded index in memory: what is dropped from it, or lost with the process, costs time
//! (until the next look), never truth.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use objects::{CompactString, Value};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use runtime::{Context, Fleet, Key};

use crate::failure::Failure;

/// Objects that others are noted under.
const TARGETS: usize = 65_536;
/// Dependants noted under one object. More than these find out at their next look.
const DEPENDANTS: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    control_plane: CompactString,
    key: Key,
}

/// What of an object matters to who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// What others put into a Secret; not what the driver itself writes there ([`crate::Driver::written_keys`]).
    Inputs,
    All,
}

/// Who is to be woken by what.
pub struct Dependants {
    index: Cache<Target, Arc<Mutex<BTreeMap<Key, Interest>>>>,
}

impl Default for Dependants {
    fn default() -> Self {
        Dependants { index: Cache::new(TARGETS) }
    }
}

impl Dependants {
    pub fn note(&self, control_plane: &str, target: Key, dependant: &Key, interest: Interest) {
        let target = Target { control_plane: control_plane.into(), key: target };
        let noted = self.index.get_or_insert_with(&target, || Ok::<_, ()>(Arc::default()));
        let Ok(noted) = noted else { return };
        let mut noted = noted.lock();
        if let Some(before) = noted.get_mut(dependant) {
            *before = interest.max(*before);
        } else if noted.len() < DEPENDANTS {
            noted.insert(dependant.clone(), interest);
        }
    }

    /// Everybody who is noted under an object. Some may no longer care; they are woken in vain, and that is all.
    pub fn of(&self, control_plane: &str, target: &Key) -> BTreeMap<Key, Interest> {
        let target = Target { control_plane: control_plane.into(), key: target.clone() };
        self.index.get(&target).map(|noted| noted.lock().clone()).unwrap_or_default()
    }

    pub fn is_target(&self, control_plane: &str, target: &Key) -> bool {
        self.index.contains_key(&Target { control_plane: control_plane.into(), key: target.clone() })
    }
}

/// Where objects are read from.
#[async_trait]
pub trait Source: Send + Sync {
    async fn get(&self, key: &Key) -> Result<Option<Value>, runtime::Error>;
    async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>, runtime::Error>;
}

#[async_trait]
impl Source for Context {
    async fn get(&self, key: &Key) -> Result<Option<Value>, runtime::Error> {
        Context::get(self, &key.kind, &key.namespace, &key.name).await
    }

    async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>, runtime::Error> {
        Context::list(self, kind, namespace).await
    }
}

/// One control plane of a fleet, outside of any reconcile.
pub struct FleetSource<'a> {
    pub fleet: &'a dyn Fleet,
    pub control_plane: &'a str,
}

#[async_trait]
impl Source for FleetSource<'_> {
    async fn get(&self, key: &Key) -> Result<Option<Value>, runtime::Error> {
        Ok(self.fleet.get(self.control_plane, key).await?)
    }

    async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>, runtime::Error> {
        Ok(self.fleet.list(self.control_plane, kind, namespace).await?)
    }
}

/// Where there is no control plane, and so no objects.
pub struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn get(&self, _: &Key) -> Result<Option<Value>, runtime::Error> {
        Ok(None)
    }

    async fn list(&self, _: &str, _: &str) -> Result<Vec<Value>, runtime::Error> {
        Ok(Vec::new())
    }
}

/// Reads objects of one control plane on behalf of one of them.
pub struct Reader<'a> {
    source: &'a dyn Source,
    control_plane: &'a str,
    noting: Option<(&'a Dependants, &'a Key)>,
}

impl<'a> Reader<'a> {
    pub fn new(
        source: &'a dyn Source,
        control_plane: &'a str,
        noting: Option<(&'a Dependants, &'a Key)>,
    ) -> Self {
        Reader { source, control_plane, noting }
    }

    /// The same without any note of who reads what.
    #[must_use]
    pub fn quiet(&self) -> Reader<'a> {
        Reader { noting: None, ..*self }
    }

    pub fn control_plane(&self) -> &'a str {
        self.control_plane
    }

    /// An object that matters: when it comes, changes or goes, the object that this is read for is looked at again.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
        let key = Key::new(kind, namespace, name);
        self.note(&key, Interest::All);
        Ok(self.source.get(&key).await?)
    }

    /// A Secret that is written to as well: what the driver itself writes there wakes nobody who reads it so.
    pub async fn get_inputs(&self, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
        let key = Key::new("secrets", namespace, name);
        self.note(&key, Interest::Inputs);
        Ok(self.source.get(&key).await?)
    }

    /// Has changes of an object wake the one that this is read for.
    pub fn note(&self, key: &Key, interest: Interest) {
        if let Some((dependants, dependant)) = self.noting {
            dependants.note(self.control_plane, key.clone(), dependant, interest);
        }
    }

    /// An object as it is now; its changes are noticed at the next look.
    pub async fn peek(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
        Ok(self.source.get(&Key::new(kind, namespace, name)).await?)
    }

    /// All objects of a kind, in a namespace or (empty) in all. None of a kind that is not there.
    pub async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>, Failure> {
        Ok(self.source.list(kind, namespace).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependants_are_of_one_control_plane() {
        let (dependants, secret) = (Dependants::default(), Key::new("secrets", "ns", "s"));
        dependants.note("a", secret.clone(), &Key::new("things", "ns", "one"), Interest::All);
        dependants.note("a", secret.clone(), &Key::new("things", "ns", "one"), Interest::All);
        dependants.note("b", secret.clone(), &Key::new("things", "ns", "two"), Interest::All);
        assert!(dependants.is_target("a", &secret));
        assert_eq!(dependants.of("a", &secret).len(), 1);
        assert_eq!(dependants.of("b", &secret).len(), 1);
        assert!(dependants.of("c", &secret).is_empty() && !dependants.is_target("c", &secret));
    }
}
