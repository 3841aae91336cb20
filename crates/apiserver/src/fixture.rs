//! For tests of this crate: a server in the same process, on a store of its own.

use std::sync::Arc;

use auth::user::{MASTERS, UserInfo};
use bytes::Bytes;
use http::{Request, Response, request};
use http_body_util::{BodyExt, Full};
use store::{Embedded, Store};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::{ApiServer, Body, Config, Door, Engine, audit};

pub const HOST: &str = "host";

pub struct Fixture {
    pub engine: Arc<Engine>,
    pub directory: TempDir,
}

impl Fixture {
    /// With the hosting control plane, and another one called `a`.
    pub async fn new() -> Fixture {
        let directory = TempDir::new().unwrap();
        Fixture::audited(directory, None).await
    }

    pub async fn audited(directory: TempDir, audit: Option<audit::Log>) -> Fixture {
        Fixture::configured(directory, |config| Config { audit, ..config }).await
    }

    /// Whose control planes may have the server connect to these addresses.
    pub async fn allowing(ranges: &str) -> Fixture {
        let egress = egress::Policy::new(ranges.parse().unwrap());
        Fixture::configured(TempDir::new().unwrap(), |config| Config { egress, ..config }).await
    }

    pub async fn configured(directory: TempDir, configure: impl FnOnce(Config) -> Config) -> Fixture {
        let store: Arc<dyn Store> = Arc::new(Embedded::open(directory.path(), Default::default()).unwrap());
        let config = Config::new(HOST, [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
        let engine = Engine::new(store, configure(config));
        for name in [HOST, "a"] {
            engine.create_control_plane(name).await.map_err(|failure| failure.0).unwrap();
        }
        Fixture { engine, directory }
    }

    /// Sends a request that says itself who it is from and where it goes.
    pub async fn send(
        &self,
        door: Door,
        request: request::Builder,
        body: impl Into<Bytes>,
    ) -> Response<Body> {
        let request: Request<Full<Bytes>> = request.extension(door).body(Full::new(body.into())).unwrap();
        ApiServer::new(self.engine.clone()).oneshot(request).await.unwrap()
    }

    /// The same for JSON from the administrator of a control plane; the code and the body of the answer.
    pub async fn ask(&self, plane: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let response = self.send(administrator(plane), request, body.to_owned()).await;
        let code = response.status().as_u16();
        (code, text(response).await)
    }
}

pub fn administrator(plane: &str) -> Door {
    somebody(plane, UserInfo::new("admin", [MASTERS]))
}

pub fn somebody(plane: &str, user: UserInfo) -> Door {
    Door { remote: Some(([192, 0, 2, 1], 4711).into()), ..Door::in_process(plane, Arc::new(user)) }
}

/// The whole body.
pub async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}
