//! Paths of the hosting control plane that are answered by what is built on top of this crate.

use async_trait::async_trait;
use auth::user::UserInfo;
use objects::Value;

use crate::body::Body;
use crate::call::Head;
use crate::service::{Answer, Failure};

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

/// Replaces keys of the installation. Told to the engine once, before it serves.
#[async_trait]
pub trait Rotator: Send + Sync {
    /// Replaces the key that rows of control planes are encrypted with. Returns when nothing is encrypted with the one before.
    async fn rotate_data_key(&self) -> Result<RotationReport, RotationFailure>;

    /// The ids of all keys that are known, that of the one that encrypts first.
    fn keys(&self) -> Vec<String>;
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationReport {
    /// Rows that were encrypted anew.
    pub rows: u64,
    /// The id of the key that encrypts from now on.
    pub key: String,
    /// All that are known.
    pub keys: Vec<String>,
}

#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum RotationFailure {
    #[error("rotate the data key: it is being rotated")]
    Underway,
    #[error("rotate the data key: {0}")]
    Failed(String),
}

/// A write as an extension sees it.
pub struct Writing<'a> {
    pub user: &'a UserInfo,
    /// What stands there.
    pub old: Option<&'a Value>,
    /// Whether the user sent the whole object, as with POST and PUT. A patch leaves parts of the old object in the new one.
    pub whole: bool,
}

/// Told to the engine once, before it serves.
#[async_trait]
pub trait Extension: Send + Sync {
    /// Answers a request that its user may make. `path` is what follows the prefix, in parts.
    async fn answer(&self, user: &UserInfo, head: &Head, path: &[&str], body: Body) -> Answer;

    /// Completes an object of the hosting control plane with what only the server knows, before it is validated.
    fn complete(&self, kind: &str, write: &Writing<'_>, object: &mut Value) -> Result<(), Failure> {
        let _ = (kind, write, object);
        Ok(())
    }

    /// What else somebody must be allowed to do who writes this object into the hosting control plane. `kind` is the
    /// storage type; `old` is what stands there.
    fn needs(&self, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Needed> {
        let _ = (kind, object, old);
        Vec::new()
    }
}
