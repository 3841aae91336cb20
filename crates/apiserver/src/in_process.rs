//! For callers in the same process, such as controllers: the server as one of them sees it, and what no client
//! can ask over the wire.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use auth::user::UserInfo;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use objects::CompactString;
use store::{Key, Scope, StoreError};
use tower::Service;

use crate::Door;
use crate::body::{Body, BoxError};
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::owners;
use crate::service::ApiServer;
use crate::stations::fairness::Placed;

/// The API of one control plane for one known caller. Nothing is kept between calls: making one costs a few
/// words, and dropping it nothing.
#[derive(Clone)]
pub struct InProcess {
    server: ApiServer,
    door: Door,
    agent: HeaderValue,
}

impl InProcess {
    /// `agent` is the name that the caller's writes are tracked by.
    pub fn new(
        server: ApiServer,
        control_plane: impl Into<CompactString>,
        identity: Arc<UserInfo>,
        agent: HeaderValue,
    ) -> Self {
        InProcess { server, door: Door::in_process(control_plane, identity), agent }
    }

    /// For a caller whom the control plane does not know: it proves who it is as everybody else does.
    pub fn with_certificate(
        server: ApiServer,
        control_plane: impl Into<CompactString>,
        certificate: Vec<u8>,
        agent: HeaderValue,
    ) -> Self {
        let door = Door { certificates: Arc::new(vec![certificate]), ..Door::of(control_plane) };
        InProcess { server, door, agent }
    }
}

/// An extension of requests that delete custom resources: the objects are taken in the versions they are stored in, and
/// answered so, without a conversion webhook. What removes a definition or a namespace must not depend on one. It cannot
/// be said over the wire.
#[derive(Clone, Copy, Debug)]
pub struct Unconverted;

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Placed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.door.clone());
        request.headers_mut().entry(header::USER_AGENT).or_insert_with(|| self.agent.clone());
        self.server.call(request)
    }
}

/// A page of what names an owner.
pub struct Dependants {
    pub keys: Vec<Key>,
    /// Where the next page begins; none on the last one.
    pub next: Option<Key>,
}

impl Engine {
    /// What names the owner of this uid in its `ownerReferences`, by the index that is written with the objects.
    pub async fn dependants(
        &self,
        plane: &ControlPlane,
        uid: &str,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Dependants, StoreError> {
        let scope = Scope::Namespace(owners::KIND.into(), uid.into());
        let page = self.store.range(plane.id, &scope, after, None, limit).await?;
        let next = page.entries.last().filter(|_| page.more).map(|last| last.key.clone());
        let keys = page.entries.iter().filter_map(|row| owners::dependant(&row.key)).collect();
        Ok(Dependants { keys, next })
    }
}
