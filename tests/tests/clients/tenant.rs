//! A control plane of its own for each test.

use end_to_end::{Client, ControlPlane, Server};

pub struct Tenant {
    pub server: Server,
    pub plane: ControlPlane,
}

impl Tenant {
    pub fn start() -> Tenant {
        let server = Server::start();
        let plane = ControlPlane::create(&server, "team");
        Tenant { server, plane }
    }

    /// Its administrator; [`ControlPlane::path`] says where.
    pub fn client(&self) -> Client {
        self.server.client_as(self.plane.credentials())
    }
}
