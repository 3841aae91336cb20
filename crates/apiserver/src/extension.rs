//! Paths of the hosting control plane that are answered by what is built on top of this crate.

use async_trait::async_trait;
use objects::Value;

use crate::body::Body;
use crate::call::Head;
use crate::service::Answer;

/// All such paths begin with this. Roles name them as `nonResourceURLs`.
pub const PREFIX: &str = "/hangar/v1/";

/// A right that a write takes beside the one to write the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    /// Empty for what is in none.
    pub namespace: String,
    pub name: String,
}

/// Told to the engine once, before it serves.
#[async_trait]
pub trait Extension: Send + Sync {
    /// Answers a request that its user may make. `path` is what follows the prefix, in parts.
    async fn answer(&self, head: &Head, path: &[&str], body: Body) -> Answer;

    /// What else somebody must be allowed to do who writes this object into the hosting control plane. `kind` is the
    /// storage type; `old` is what stands there.
    fn needs(&self, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Needed> {
        let _ = (kind, object, old);
        Vec::new()
    }
}
