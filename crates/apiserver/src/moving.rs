//! A control plane moves from one store to another, with everything in it and under its own keys.
//!
//! It is frozen where it is: a key that every write checks, so that no process can write past it. Then it is copied
//! under seal (nobody finds it yet), opened there, and deleted here. What breaks off before it is opened is undone,
//! what breaks off after is finished: [`Engine::settle_move`] tells the two apart by the seal. Its revisions only grow: an
//! imported tenant begins beyond what the exported one had served. Watches end, and begin again over there.

use bytes::Bytes;
use objects::{Reason, Status};
use store::{Expect, Key, Operation, StoreError, Tenant, TenantId};

use crate::engine::{Engine, no_control_plane};
use crate::service::Failure;

const KIND: &str = "_frozen";

fn key() -> Key {
    Key::new(KIND, "", "")
}

/// What a write of any object depends on.
pub(crate) fn check() -> Operation {
    Operation::Check { key: key(), expect: Expect::Absent }
}

/// A write that met a control plane on its way is to be tried again soon, and finds it where it went.
pub(crate) fn explain(error: StoreError) -> StoreError {
    match error {
        StoreError::Conflict { key, .. } if key.kind == KIND => {
            StoreError::Unavailable("the control plane is being moved to another store".to_owned())
        }
        error => error,
    }
}

impl Engine {
    /// Moves a control plane to the store of another engine. Returns when it is served from there.
    pub async fn move_to(&self, other: &Engine, name: &str) -> Result<(), Failure> {
        self.settle_move(other, name).await?;
        let Some(tenant) = self.store.tenant(name).await? else { return Err(no_control_plane().into()) };
        if other.store.tenant(name).await?.is_some() {
            let message = format!("the store to move to has a control plane {name:?} of its own");
            return Err(Status::new(Reason::AlreadyExists, message).into());
        }
        self.freeze(tenant.id).await?;
        match self.copy(other, &tenant).await {
            Ok(copied) => self.open_and_leave(other, &tenant, &copied).await,
            Err(failure) => {
                self.settle_move(other, name).await?;
                Err(failure)
            }
        }
    }

    /// Undoes or finishes a move that broke off. Nothing happens if there was none.
    pub async fn settle_move(&self, other: &Engine, name: &str) -> Result<(), Failure> {
        let Some(there) = other.store.tenant(name).await? else { return self.thaw_if_frozen(name).await };
        let here = self.store.tenant(name).await?;
        let sealed = other.planes.is_sealed(&there)?;
        match here {
            // The seal stands: the copy may lack anything.
            Some(here) if sealed => {
                other.store.delete_tenant(there.id).await?;
                self.thaw(here.id).await
            }
            // It was opened: what is here is what was left behind, if it was frozen for that.
            Some(here) if self.store.get(here.id, &key()).await?.is_some() => self.leave(&here).await,
            _ => Ok(()),
        }
    }

    async fn copy(&self, other: &Engine, tenant: &Tenant) -> Result<Tenant, Failure> {
        let record = self.planes.record_with_seal(tenant, true)?;
        let export = self.store.export_tenant(tenant.id, None).await?;
        let copied = other.store.import_tenant(&tenant.name, record, export).await?;
        other.thaw(copied.id).await?;
        Ok(copied)
    }

    async fn open_and_leave(&self, other: &Engine, tenant: &Tenant, copied: &Tenant) -> Result<(), Failure> {
        let open = self.planes.record_with_seal(tenant, false)?;
        other.store.update_tenant(copied.id, open).await?;
        other.planes.forget(&tenant.name);
        other.announce(&tenant.name).await?;
        self.leave(tenant).await
    }

    async fn leave(&self, tenant: &Tenant) -> Result<(), Failure> {
        self.store.delete_tenant(tenant.id).await?;
        self.planes.forget(&tenant.name);
        Ok(self.announce(&tenant.name).await?)
    }

    async fn freeze(&self, tenant: TenantId) -> Result<(), Failure> {
        let put = Operation::Put { key: key(), expect: Expect::Any, value: Bytes::new() };
        self.store.write(tenant, vec![put]).await?;
        Ok(())
    }

    async fn thaw(&self, tenant: TenantId) -> Result<(), Failure> {
        self.store.write(tenant, vec![Operation::Delete { key: key(), expect: Expect::Any }]).await?;
        Ok(())
    }

    async fn thaw_if_frozen(&self, name: &str) -> Result<(), Failure> {
        match self.store.tenant(name).await? {
            Some(here) => self.thaw(here.id).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use super::*;
    use crate::fixture::{Fixture, administrator, text};
    use crate::{ApiServer, Body};

    const PATH: &str = "/api/v1/namespaces/default/configmaps";

    async fn ask(server: &ApiServer, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.extension(administrator("b")).body(body.to_owned()).unwrap();
        let response: http::Response<Body> =
            tower::ServiceExt::oneshot(server.clone(), request).await.unwrap();
        (response.status().as_u16(), text(response).await)
    }

    fn version(answer: &str) -> u64 {
        let object: objects::Value = serde_json::from_str(answer).unwrap();
        object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Two stores behind one server, and a control plane `b` with one object in the first.
    async fn two() -> (Fixture, Fixture, ApiServer) {
        let (from, to) = (Fixture::new().await, Fixture::new().await);
        from.engine.create_control_plane("b").await.map_err(|failure| failure.0).unwrap();
        let server = ApiServer::new(from.engine.clone()).beside(vec![to.engine.clone()]);
        assert_eq!(ask(&server, "POST", PATH, r#"{"metadata": {"name": "x"}}"#).await.0, 201);
        (from, to, server)
    }

    #[tokio::test]
    async fn it_is_served_from_where_it_went() {
        let (from, to, server) = two().await;
        let before = version(&ask(&server, "POST", PATH, r#"{"metadata": {"name": "y"}}"#).await.1);
        from.engine.move_to(&to.engine, "b").await.map_err(|failure| failure.0).unwrap();
        assert!(from.engine.planes.find("b").await.unwrap().is_none());
        assert!(to.engine.planes.find("b").await.unwrap().is_some());
        let (code, moved) = ask(&server, "GET", &format!("{PATH}/x"), "").await;
        assert_eq!(code, 200, "{moved}");
        let (code, made) = ask(&server, "POST", PATH, r#"{"metadata": {"name": "z"}}"#).await;
        assert_eq!(code, 201, "{made}");
        assert!(version(&made) > before);
        // And back again.
        to.engine.move_to(&from.engine, "b").await.map_err(|failure| failure.0).unwrap();
        let (_, back) =
            ask(&server, "PUT", &format!("{PATH}/z"), r#"{"metadata": {"name": "z"}, "data": {"k": "v"}}"#)
                .await;
        assert!(version(&back) > version(&made), "{back}");
    }

    #[tokio::test]
    async fn whoever_writes_meanwhile_is_told_to_come_again() {
        let (from, _to, server) = two().await;
        let plane = from.engine.planes.find("b").await.unwrap().unwrap();
        from.engine.freeze(plane.id).await.map_err(|failure| failure.0).unwrap();
        let (code, told) = ask(&server, "POST", PATH, r#"{"metadata": {"name": "y"}}"#).await;
        assert_eq!(code, 503, "{told}");
        assert_eq!(ask(&server, "GET", &format!("{PATH}/x"), "").await.0, 200);
    }

    #[tokio::test]
    async fn what_broke_off_is_undone_or_finished() {
        let (from, to, server) = two().await;
        let (here, there): (&Arc<Engine>, &Arc<Engine>) = (&from.engine, &to.engine);
        let tenant = here.store.tenant("b").await.unwrap().unwrap();
        let good = |result: Result<(), Failure>| result.map_err(|failure| failure.0).unwrap();
        // Before it was opened: frozen only, and copied.
        good(here.freeze(tenant.id).await);
        good(here.settle_move(there, "b").await);
        assert_eq!(ask(&server, "POST", PATH, r#"{"metadata": {"name": "1"}}"#).await.0, 201);
        good(here.freeze(tenant.id).await);
        let copied = here.copy(there, &tenant).await.map_err(|failure| failure.0).unwrap();
        assert!(there.planes.find("b").await.unwrap().is_none(), "a copy under seal is found");
        good(here.settle_move(there, "b").await);
        assert!(there.store.tenant_by_id(copied.id).await.unwrap().is_none());
        assert_eq!(ask(&server, "POST", PATH, r#"{"metadata": {"name": "2"}}"#).await.0, 201);
        // After.
        good(here.freeze(tenant.id).await);
        let copied = here.copy(there, &tenant).await.map_err(|failure| failure.0).unwrap();
        let open = here.planes.record_with_seal(&tenant, false).unwrap();
        there.store.update_tenant(copied.id, open).await.unwrap();
        good(here.settle_move(there, "b").await);
        assert!(here.store.tenant("b").await.unwrap().is_none());
        assert_eq!(ask(&server, "POST", PATH, r#"{"metadata": {"name": "3"}}"#).await.0, 201);
        good(here.settle_move(there, "b").await);
        assert_eq!(ask(&server, "GET", &format!("{PATH}/2"), "").await.0, 200);
    }
}
