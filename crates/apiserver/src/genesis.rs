//! Control planes made and unmade, and what a new one has from its first moment.

use std::sync::Arc;
use std::time::Duration;

use auth::pki::Issued;
use objects::{Reason, Status, Value, meta};
use serde_json::json;
use store::{Export, Revision, StoreError, Tenant, TenantId};

use crate::backup;
use crate::call::timestamp;
use crate::codec::Codec;
use crate::control_plane::{Charter, ControlPlane, ControlPlaneError, KeyChange, KeyKind, Keys};
use crate::encryption::DataKeys;
use crate::engine::{Engine, no_control_plane};
use crate::service::Failure;
use crate::surface::Surface;

/// The address range that Services get their cluster IPs from, and the first of it, which is the API's own.
pub const SERVICE_CIDR: &str = "10.96.0.0/16";
pub const API_SERVICE_IP: &str = "10.96.0.1";

/// What a new control plane has in it.
pub enum Beginning {
    /// What every control plane has from its first moment.
    Empty,
    /// Everything another has, or had at a revision.
    Fork(TenantId, Option<Revision>),
    /// What a backup has, in which nothing is encrypted.
    Export(Export),
}

impl Engine {
    /// Makes a control plane: its keys and its first objects, in one durable step. It answers at once.
    pub async fn create_control_plane(self: &Arc<Self>, name: &str) -> Result<Arc<ControlPlane>, Failure> {
        self.establish(name, Charter::default(), Beginning::Empty).await
    }

    /// Makes a control plane on somebody's behalf, from nothing or from what is elsewhere. Its keys are always its
    /// own: who may enter the one it was copied from has no right here.
    pub async fn establish(
        &self,
        name: &str,
        charter: Charter,
        beginning: Beginning,
    ) -> Result<Arc<ControlPlane>, Failure> {
        let wrong = objects::names::dns1123_label(name);
        if let Some(why) = wrong.first() {
            return Err(
                Status::bad_request(format!("a control plane cannot be named {name:?}: {why}")).into()
            );
        }
        let now = self.now();
        let is_copy = !matches!(beginning, Beginning::Empty);
        // Its data keys are its own as well. A fork shares the bytes of the original, and so has to open them.
        let data_keys = match &beginning {
            Beginning::Fork(source, _) => DataKeys::of_copy(&self.data_keys_of(*source).await?),
            Beginning::Empty | Beginning::Export(_) => DataKeys::generate(),
        };
        let _held = self.config.keys.hold();
        let record = self.planes.new_record(name, charter, is_copy, &data_keys, now)?;
        let source = if let Beginning::Fork(source, _) = &beginning { Some(*source) } else { None };
        let made = match beginning {
            Beginning::Empty => self.store.create_tenant(name, record, self.first_entries(now)?).await,
            Beginning::Fork(source, at) => self.store.fork_tenant(source, at, name, record).await,
            Beginning::Export(export) => {
                let export = backup::closed(export, Codec::new(data_keys));
                self.store.import_tenant(name, record, export).await
            }
        };
        let made = match made {
            Ok(made) => made,
            Err(StoreError::TenantExists { name }) => {
                let message = format!("control plane {name:?} already exists");
                return Err(Status::new(Reason::AlreadyExists, message).into());
            }
            Err(StoreError::BadExport(why)) => return Err(Status::bad_request(why).into()),
            Err(error) => return Err(error.into()),
        };
        if let Some(source) = source {
            self.inherit_again(&made, source).await?;
            self.renewals.add(name);
        }
        self.planes.forget(name);
        self.announce(name).await?;
        if is_copy {
            // Nobody has seen come about what is in it. Broken off here, it is told by whoever settles it.
            self.tell_of_copy(&made).await?;
        }
        let plane = self.planes.find(name).await?;
        plane.ok_or_else(|| Status::internal("a new control plane cannot be found").into())
    }

    async fn data_keys_of(&self, tenant: TenantId) -> Result<DataKeys, Failure> {
        let Some(tenant) = self.store.tenant_by_id(tenant).await? else {
            return Err(no_control_plane().into());
        };
        Ok(self.planes.data_keys_of(&tenant)?)
    }

    /// The original may have been given another data key while it was being copied.
    async fn inherit_again(&self, copy: &Tenant, source: TenantId) -> Result<(), Failure> {
        // An original that is gone was given none that the copy has anything of.
        let Some(source) = self.store.tenant_by_id(source).await? else { return Ok(()) };
        let keys = self.planes.data_keys_of(&source)?;
        self.change_record(copy, |copy| self.planes.record_with_data_keys(copy, &keys)).await?;
        Ok(())
    }

    /// Decides anew what a control plane may take of the server, and have it do.
    pub async fn change_charter(
        &self,
        name: &str,
        change: impl Fn(&mut Charter) + Send + Sync,
    ) -> Result<(), Failure> {
        let Some(tenant) = self.store.tenant(name).await? else { return Err(no_control_plane().into()) };
        let changed = |tenant: &Tenant| self.planes.record_with_charter(tenant, &change).map(Some);
        self.change_record(&tenant, changed).await?;
        self.planes.forget(name);
        Ok(self.announce(name).await?)
    }

    /// Gives a control plane keys that somebody else keeps. Whatever was issued with others is worth nothing then.
    pub async fn set_keys(&self, name: &str, keys: Keys) -> Result<(), Failure> {
        let Some(tenant) = self.store.tenant(name).await? else { return Err(no_control_plane().into()) };
        if self.change_record(&tenant, |tenant| self.planes.record_with_keys(tenant, &keys)).await? {
            self.planes.forget(name);
            self.announce(name).await?;
        }
        Ok(())
    }

    /// Makes all client certificates of a control plane worthless, once for each generation. Whoever is let in later
    /// has to be given a new one.
    pub async fn replace_authority(&self, name: &str, generation: u64) -> Result<(), Failure> {
        let Some(tenant) = self.store.tenant(name).await? else { return Err(no_control_plane().into()) };
        let change = |tenant: &Tenant| self.planes.record_with_new_authority(tenant, generation, self.now());
        if self.change_record(&tenant, change).await? {
            self.planes.forget(name);
            self.announce(name).await?;
        }
        Ok(())
    }

    /// Changes a key of a control plane. Requests that were let in by what counts no more end at once, also watches.
    pub async fn change_key(&self, name: &str, kind: KeyKind, change: KeyChange) -> Result<(), Failure> {
        let Some(tenant) = self.store.tenant(name).await? else { return Err(no_control_plane().into()) };
        let changed =
            |tenant: &Tenant| self.planes.record_with_key_change(tenant, kind, change, self.now()).map(Some);
        self.change_record(&tenant, changed).await?;
        self.planes.forget(name);
        Ok(self.announce(name).await?)
    }

    /// Takes a control plane away with everything in it. Returns whether there was one.
    pub async fn delete_control_plane(&self, name: &str) -> Result<bool, Failure> {
        let Some(tenant) = self.store.tenant(name).await? else { return Ok(false) };
        let deleted = self.store.delete_tenant(tenant.id).await;
        self.planes.forget(name);
        self.announce(name).await?;
        match deleted {
            Ok(()) => Ok(true),
            Err(StoreError::NoTenant) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A client certificate of a control plane's own authority.
    pub fn issue_client(
        &self,
        plane: &ControlPlane,
        user: &str,
        groups: &[&str],
        lifetime: Duration,
    ) -> Result<Issued, Failure> {
        let issued = plane.authority.issue_client(user, groups, self.now(), lifetime);
        issued.map_err(|error| Status::internal(error).into())
    }

    fn first_entries(
        &self,
        now: jiff::Timestamp,
    ) -> Result<Vec<(store::Key, bytes::Bytes)>, ControlPlaneError> {
        if self.drafts.get().is_none() {
            // Two at once make the same.
            let _ = self.drafts.set(self.make_drafts()?);
        }
        let time = timestamp(now);
        Ok(self.drafts.get().into_iter().flatten().map(|draft| draft.completed(&time)).collect())
    }

    fn make_drafts(&self) -> Result<Vec<Draft>, ControlPlaneError> {
        let surface = Surface::default();
        let mut drafts = Vec::new();
        for mut object in self.first_objects() {
            let gv = objects::GroupVersion::parse(meta::api_version(&object)).unwrap_or_default();
            let Some(row) = surface.row_of_kind(&gv.with_kind(meta::kind(&object))) else { continue };
            row.behaviour.defaults(&mut object);
            row.behaviour.prepare_create(&mut object);
            meta::set(&mut object, "uid", NO_UID);
            meta::set(&mut object, "creationTimestamp", NO_TIME);
            let key = row.key(meta::namespace(&object), meta::name(&object));
            let value = Codec::encode_plain(&key, &object, row.tag())?;
            drafts.push(Draft::new(key, value));
        }
        Ok(drafts)
    }

    fn first_objects(&self) -> Vec<Value> {
        let mut objects = Vec::with_capacity(160);
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
            objects.push(json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace},
            }));
            objects.push(root_certificate(namespace, &self.config.serving_authority));
        }
        objects.extend(api_service(self.config.address));
        objects.extend(auth::bootstrap::objects());
        for (name, value) in
            [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
        {
            objects.push(json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value,
            }));
        }
        objects
    }
}

/// What stands in a draft for the uid and the time of creation: no object has them, and they are as long as real ones.
const NO_UID: &str = "00000000-ffff-0000-ffff-000000000000";
const NO_TIME: &str = "0000-00-00T00:00:00Z";

/// A first object as it is stored, but for its uid and time: made once, since all control planes begin with the same.
pub(crate) struct Draft {
    key: store::Key,
    value: bytes::Bytes,
    uids: Vec<usize>,
    times: Vec<usize>,
}

impl Draft {
    fn new(key: store::Key, value: bytes::Bytes) -> Draft {
        let places = |text: &str| -> Vec<usize> {
            let windows = value.windows(text.len()).enumerate();
            windows.filter(|(_, window)| *window == text.as_bytes()).map(|(place, _)| place).collect()
        };
        let (uids, times) = (places(NO_UID), places(NO_TIME));
        Draft { key, value, uids, times }
    }

    fn completed(&self, time: &str) -> (store::Key, bytes::Bytes) {
        let mut value = self.value.to_vec();
        let mut uid = [0; uuid::fmt::Hyphenated::LENGTH];
        let uid = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut uid).as_bytes();
        for (places, text) in [(&self.uids, uid), (&self.times, time.as_bytes())] {
            for place in places {
                value[*place..*place + text.len()].copy_from_slice(text);
            }
        }
        (self.key.clone(), value.into())
    }
}

/// What pods of a namespace trust the API server by.
pub fn root_certificate(namespace: &str, authority: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "kube-root-ca.crt", "namespace": namespace,
            "annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the \
                kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. \
                No other usage is guaranteed across distributions of Kubernetes clusters."},
        },
        "data": {"ca.crt": authority},
    })
}

/// `default/kubernetes`, and where it leads.
fn api_service(address: std::net::SocketAddr) -> Vec<Value> {
    let metadata = |labels: Value| json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    let (ip, port) = (address.ip().to_string(), address.port());
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": metadata(json!({"component": "apiserver", "provider": "kubernetes"})),
            "spec": {
                "type": "ClusterIP", "clusterIP": API_SERVICE_IP, "clusterIPs": [API_SERVICE_IP],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
            "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": metadata(json!({"kubernetes.io/service-name": "kubernetes"})),
            "addressType": family,
            "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"}, "spec": {"cidrs": [SERVICE_CIDR]},
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {
                "name": API_SERVICE_IP,
                "labels": {
                    "ipaddress.kubernetes.io/ip-family": "IPv4",
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                },
            },
            "spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": "kubernetes"}},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use store::{Revision, Scope};

    use super::*;
    use crate::fixture::Fixture;

    #[tokio::test]
    async fn first_objects_are_whole_and_each_is_its_own() {
        let fixture = Fixture::new().await;
        let engine = &fixture.engine;
        let mut uids = BTreeSet::new();
        let mut count = 0;
        for name in ["one", "two"] {
            let plane = engine.create_control_plane(name).await.map_err(|failure| failure.0).unwrap();
            let page = engine.store.range(plane.id, &Scope::All, None, None, 0).await.unwrap();
            assert!(page.entries.len() > 100, "{}", page.entries.len());
            for entry in page.entries {
                let object = plane.codec.decode(&entry.key, &entry.value, Revision(1)).unwrap();
                let object = object.to_value().unwrap();
                let uid = uuid::Uuid::parse_str(meta::uid(&object)).unwrap();
                assert_eq!(uid.get_version_num(), 4, "{object}");
                let made = objects::time::parse(meta::text(&object, "creationTimestamp")).unwrap();
                assert!(engine.now().duration_since(made).as_secs() < 600, "{object}");
                assert_eq!((meta::name(&object), meta::resource_version(&object)), (&*entry.key.name, "1"));
                uids.insert(uid);
                count += 1;
            }
        }
        assert_eq!(uids.len(), count);
    }
}
