//! Paths of the hosting control plane that are answered by what is built on top of this crate.

use async_trait::async_trait;

use crate::body::Body;
use crate::call::Head;
use crate::service::Answer;

/// All such paths begin with this. Roles name them as `nonResourceURLs`.
pub const PREFIX: &str = "/hangar/v1/";

/// Told to the engine once, before it serves.
#[async_trait]
pub trait Extension: Send + Sync {
    /// Answers a request that its user may make. `path` is what follows the prefix, in parts.
    async fn answer(&self, head: &Head, path: &[&str], body: Body) -> Answer;
}
