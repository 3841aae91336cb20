//! Control planes whose doors are here while another process serves them.

use async_trait::async_trait;
use http::{Request, Response};

use crate::Door;
use crate::body::Body;

/// Told to the engine once, before it serves. What it answers is not looked at here: who asks and whether they may, what
/// is counted and what is noted, is all up to the process that serves the control plane.
#[async_trait]
pub trait Elsewhere: Send + Sync {
    fn serves(&self, control_plane: &str) -> bool;

    async fn answer(&self, door: Door, request: Request<Body>) -> Response<Body>;
}
