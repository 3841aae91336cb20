//! The host that needs nothing else: control planes are tenants of this process, or of children of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::control_plane::{Charter, ControlPlane};
use apiserver::service::Failure;
use apiserver::{ApiServer, Beginning, DEDICATED_STORE, DEFAULT_STORE, Engine, Engines, InProcess, Moved};
use async_trait::async_trait;
use auth::pki::{Authority, Issued};
use auth::user::UserInfo;
use futures::stream::BoxStream;
use http::HeaderValue;
use objects::Value;
use store::{Revision, StoreError};

use crate::conditions::Condition;
use crate::furniture::{self, Wanted};
use crate::host::{Doors, Host, HostError, Settings, Subject};
use crate::plane::Plane;
use crate::processes::{Processes, Room};
use crate::types::Hosted;
use crate::{apart, names};

pub struct Embedded {
    engines: Engines,
    settings: Settings,
    /// Whether `NAME.DOMAIN` can be resolved by clients. If not, they are sent to a path of the server's address.
    resolvable: bool,
    /// Where control planes have processes of their own, if they may.
    processes: Option<Arc<Processes>>,
}

/// A control plane that was made for an object, as far as its keys go.
enum Own {
    Tenant(Arc<ControlPlane>),
    Apart(Arc<Room>),
}

impl Own {
    fn authority(&self) -> &Authority {
        match self {
            Own::Tenant(plane) => &plane.authority,
            Own::Apart(room) => &room.authority,
        }
    }

    fn token_keys(&self) -> Value {
        match self {
            Own::Tenant(plane) => plane.issuer.keys_document(),
            Own::Apart(room) => room.token_keys(),
        }
    }
}

impl Embedded {
    pub fn new(engines: impl Into<Engines>, settings: Settings, processes: Option<Arc<Processes>>) -> Self {
        let resolvable = !is_local(&settings.domain);
        Embedded { engines: engines.into(), settings, resolvable, processes }
    }

    /// Where this control plane has a process of its own, if it is to have one.
    fn apart(&self, plane: &Plane) -> Option<&Arc<Processes>> {
        self.processes.as_ref().filter(|_| plane.spec.is_apart())
    }

    /// Where a control plane is, and what is held of it there.
    async fn find(&self, name: &str) -> Result<Option<(&Arc<Engine>, Arc<ControlPlane>)>, HostError> {
        self.engines.find(name).await.map_err(failed)
    }

    fn engine(&self) -> &Arc<Engine> {
        self.engines.default_store()
    }

    /// The control plane that was made for this object.
    async fn own(&self, plane: &Plane) -> Result<Own, HostError> {
        let found = match self.apart(plane) {
            Some(processes) => processes.room(plane).map(Own::Apart),
            None => self.tenant(plane).await?.map(|(_, found)| Own::Tenant(found)),
        };
        found.ok_or_else(|| HostError::Failed(format!("control plane {:?} is not there", plane.name)))
    }

    /// The same, of those that are in a store of this process.
    async fn tenant(&self, plane: &Plane) -> Result<Option<(&Arc<Engine>, Arc<ControlPlane>)>, HostError> {
        Ok(self.find(&plane.name).await?.filter(|(_, found)| is_of(found, plane)))
    }

    /// The store that it is to be kept in: the one that is named, else one of its own, if it wants that and there can be one.
    fn wanted_store(&self, plane: &Plane) -> Result<&Arc<Engine>, HostError> {
        if plane.spec.store.is_empty() && plane.spec.backend == "dedicated" {
            let dedicated = self.engines.named(DEDICATED_STORE);
            return Ok(dedicated.unwrap_or_else(|| self.engines.default_store()));
        }
        self.engines.named(&plane.spec.store).ok_or_else(|| {
            let known = self.engines.names().join(", ");
            let why = format!("spec.store: there is no store {:?}; there is {known}", plane.spec.store);
            HostError::Refused(why)
        })
    }

    async fn ensure_apart(&self, plane: &Plane) -> Result<(), HostError> {
        let refused = |why: &str| Err(HostError::Refused(why.to_owned()));
        let Some(processes) = &self.processes else {
            return refused(
                "spec.isolation: only a server with an embedded store has processes for control planes",
            );
        };
        if !matches!(plane.spec.store.as_str(), "" | DEFAULT_STORE) {
            return refused("spec.store: a control plane with a process of its own has a store of its own");
        }
        if plane.spec.source.is_some() {
            return refused(
                "spec.source: a control plane with a process of its own does not begin as a copy",
            );
        }
        if self.find(&plane.name).await?.is_some() {
            return Err(taken(plane));
        }
        let (processes, plane) = (processes.clone(), plane.clone());
        let ensured = tokio::task::spawn_blocking(move || processes.ensure(&plane)).await;
        ensured.map_err(|error| HostError::Failed(error.to_string()))?
    }

    async fn beginning(&self, plane: &Plane, store: &Arc<Engine>) -> Result<Beginning, HostError> {
        let Some(source) = &plane.spec.source else { return Ok(Beginning::Empty) };
        if source.control_plane == store.config.hosting {
            return Err(HostError::Refused("the hosting control plane cannot be copied".to_owned()));
        }
        let at = source.revision.map(Revision);
        if let Some(room) =
            self.processes.as_ref().and_then(|processes| processes.named(&source.control_plane))
        {
            let backup = apart::backup(self.engine(), &room, at).await.map_err(|status| {
                let why = format!("spec.source: {}", status.message);
                if status.code < 500 { HostError::Refused(why) } else { HostError::Failed(why) }
            })?;
            return Ok(Beginning::Export(backup));
        }
        let Some((engine, found)) = self.find(&source.control_plane).await? else {
            let why =
                format!("spec.source.controlPlane: there is no control plane {:?}", source.control_plane);
            return Err(HostError::Failed(why));
        };
        if let Some(revision) = source.revision {
            let failed = |error: StoreError| HostError::Failed(error.to_string());
            let current = engine.store.revision(found.id).await.map_err(failed)?.0;
            if revision > current {
                let why = format!(
                    "spec.source.revision: {revision} has not happened yet, the current one is {current}"
                );
                return Err(HostError::Refused(why));
            }
        }
        if Arc::ptr_eq(engine, store) {
            return Ok(Beginning::Fork(found.id, at));
        }
        let export = engine.store.export_tenant(found.id, at).await;
        let export = export.map_err(|error| failed(error.into()))?;
        Ok(Beginning::Export(apiserver::backup::opened(export, found.codec.clone())))
    }
}

fn taken(plane: &Plane) -> HostError {
    let why = format!("the name {:?} is taken by a control plane that is not this object's", plane.name);
    HostError::Refused(why)
}

fn is_of(found: &ControlPlane, plane: &Plane) -> bool {
    found.charter.owner.as_deref() == Some(&plane.uid)
}

/// Domains that only some resolvers know names below of.
/// Returns true if a domain is resolved on each machine to that machine alone.
pub fn is_local(domain: &str) -> bool {
    domain == "localhost" || domain.ends_with(".localhost")
}

fn failed(failure: Failure) -> HostError {
    match failure.0.code {
        400..500 => HostError::Refused(failure.0.message.clone()),
        _ => HostError::Failed(failure.0.message.clone()),
    }
}

/// What its object says about it, in the place of what was decided before.
fn charter(plane: &Plane, before: &Charter) -> Result<Charter, HostError> {
    Ok(Charter {
        owner: before.owner.clone().or_else(|| Some(plane.uid.clone())),
        quota: plane.spec.quota,
        egress: ranges(plane)?,
        aws: plane.spec.aws.clone(),
        generation: before.generation,
    })
}

/// What it may have the server connect to.
pub(crate) fn ranges(plane: &Plane) -> Result<egress::Ranges, HostError> {
    plane.spec.egress.ranges().map_err(|error| HostError::Refused(format!("spec.egress.allow: {error}")))
}

#[async_trait]
impl Host for Embedded {
    async fn ensure(&self, plane: &Plane) -> Result<(), HostError> {
        if plane.spec.is_apart() {
            return self.ensure_apart(plane).await;
        }
        let store = self.wanted_store(plane)?;
        match self.find(&plane.name).await? {
            Some((_, found)) if !is_of(&found, plane) => Err(taken(plane)),
            Some((engine, found)) => {
                let wanted = charter(plane, &found.charter)?;
                match wanted == found.charter {
                    true => Ok(()),
                    false => {
                        let changed =
                            engine.change_charter(&plane.name, |charter| *charter = wanted.clone()).await;
                        changed.map_err(failed)
                    }
                }
            }
            None => {
                let charter = charter(plane, &Charter::default())?;
                let beginning = self.beginning(plane, store).await?;
                let made = store.establish(&plane.name, charter, beginning).await.map(drop);
                made.map_err(|failure| match failure.0.reason {
                    objects::Reason::Expired => {
                        let why = "spec.source.revision: what was at that revision is no longer kept";
                        HostError::Refused(why.to_owned())
                    }
                    _ => failed(failure),
                })
            }
        }
    }

    async fn serves(&self, plane: &Plane) -> Result<bool, HostError> {
        if let Some(processes) = self.apart(plane) {
            return Ok(processes.serves(plane).await);
        }
        let Some((engine, found)) = self.find(&plane.name).await? else { return Ok(false) };
        // Its keys have been read. What requests need beyond that is read by the first request.
        Ok(engine.store.revision(found.id).await.is_ok())
    }

    async fn remove(&self, plane: &Plane) -> Result<(), HostError> {
        if let Some(processes) = self.apart(plane) {
            return processes.remove(plane).await;
        }
        self.engines.remove(&plane.name, &plane.uid).await.map(drop).map_err(failed)
    }

    async fn move_to_store(&self, plane: &Plane) -> Result<Option<Moved>, HostError> {
        if plane.spec.is_apart() {
            return Ok(None);
        }
        let store = self.wanted_store(plane)?;
        self.engines.settle(&plane.name, Some(&plane.uid)).await.map_err(failed)?;
        match self.tenant(plane).await? {
            Some(_) => self.engines.move_to(&plane.name, store).await.map_err(failed),
            None => Ok(None),
        }
    }

    async fn store_of(&self, plane: &Plane) -> Result<Option<String>, HostError> {
        if plane.spec.is_apart() {
            return Ok(None);
        }
        Ok(self.tenant(plane).await?.map(|(engine, _)| engine.name.to_string()))
    }

    async fn stores_away(&self) -> BTreeMap<String, String> {
        let asked = self.engines.others().map(async |engine| match engine.store.position().await {
            Err(error @ StoreError::Unavailable(_)) => Some((engine.name.to_string(), error.to_string())),
            _ => None,
        });
        futures::future::join_all(asked).await.into_iter().flatten().collect()
    }

    fn has_further_stores(&self) -> bool {
        // Those that can be away: databases of their own are on this machine.
        self.engines.others().any(|engine| engine.name != DEDICATED_STORE)
    }

    async fn objects(&self, plane: &Plane, row: &Hosted) -> Result<Vec<Wanted>, HostError> {
        let workloads = row.workloads.iter().map(|workload| furniture::workload(plane, row, *workload));
        // No node ports, where KubeFlex has them: there are no nodes here, and a few thousand of them at most.
        let services = furniture::services(plane, row, "ClusterIP");
        let ingress = furniture::ingress(plane, row, &self.settings);
        Ok(workloads.chain(services).chain([ingress]).chain(furniture::belongings(plane, row)).collect())
    }

    fn stands_in(&self) -> bool {
        true
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["persistentvolumeclaims"]
    }

    async fn store_note(&self, plane: &Plane) -> Result<Option<Condition>, HostError> {
        if plane.spec.backend != "dedicated" || plane.spec.is_apart() {
            return Ok(None);
        }
        let store = &self.wanted_store(plane)?.name;
        let (reason, message) = match store.as_str() {
            DEDICATED_STORE => return Ok(None),
            _ if plane.spec.store.is_empty() => (
                "SharedStore",
                "the server is on a database that others may serve too, where no control plane has one of its own; it has a \
                 range of keys of its own there"
                    .to_owned(),
            ),
            store => ("StoreNamed", format!("spec.store names {store}, which it shares with others")),
        };
        Ok(Some(Condition::new("StoreDedicated", false, reason, message)))
    }

    fn process_note(&self, plane: &Plane) -> Option<Condition> {
        Some(self.apart(plane)?.note(plane))
    }

    fn news(&self) -> Option<BoxStream<'static, String>> {
        Some(self.processes.as_ref()?.news())
    }

    async fn doors(&self, plane: &Plane) -> Result<Doors, HostError> {
        let Settings { domain, external_port, .. } = &self.settings;
        let name = format!("{}.{domain}", plane.name);
        let (door, server_name) = if self.resolvable {
            (format!("https://{name}:{external_port}"), None)
        } else {
            // Some clients leave the path out where somebody gives them a whole one, as `kubectl get --raw` does. The name in
            // the handshake is enough then; those that do not say it have the path.
            (format!("{}/control-planes/{}", self.hosting_door(), plane.name), Some(name))
        };
        // There is no cluster to be inside of: what is on this machine uses the same door.
        Ok(Doors { in_cluster: door.clone(), off_cluster: door, server_name })
    }

    async fn serving_authority(&self, _: &Plane) -> Result<String, HostError> {
        Ok(self.hosting_authority())
    }

    async fn certificates(&self, plane: &Plane) -> Result<Vec<(&'static str, String)>, HostError> {
        let own = self.own(plane).await?;
        // Public halves only: who can read this Secret needs no means to become anybody.
        Ok(vec![
            ("ca.crt", self.hosting_authority()),
            ("client-ca.crt", own.authority().certificate_pem()),
            ("jwks.json", own.token_keys().to_string()),
        ])
    }

    async fn issue(
        &self,
        plane: &Plane,
        subject: Subject<'_>,
        lifetime: Duration,
    ) -> Result<Issued, HostError> {
        let own = self.own(plane).await?;
        let issued =
            own.authority().issue_client(subject.user, subject.groups, self.engine().now(), lifetime);
        issued.map_err(|error| HostError::Failed(error.to_string()))
    }

    async fn trusts(
        &self,
        plane: &Plane,
        certificate: &[u8],
        subject: Subject<'_>,
        after: Duration,
    ) -> Result<bool, HostError> {
        let own = self.own(plane).await?;
        let later = self.engine().now() + after;
        // One of an earlier authority counts, and is to be replaced.
        Ok(own.authority().verify_own_client(&[certificate], later).is_ok_and(|user| {
            user.name == subject.user && subject.groups.iter().all(|group| user.is_in(group))
        }))
    }

    async fn revoke(&self, plane: &Plane, generation: u64) -> Result<(), HostError> {
        if let Some(processes) = self.apart(plane) {
            return processes.revoke(plane, generation);
        }
        let own = self.tenant(plane).await?;
        let gone = || HostError::Failed(format!("control plane {:?} is not there", plane.name));
        let (engine, _) = own.ok_or_else(gone)?;
        engine.replace_authority(&plane.name, generation).await.map_err(failed)
    }

    async fn client(&self, plane: &Plane) -> Result<kube::Client, HostError> {
        match self.own(plane).await? {
            Own::Tenant(_) => Ok(client(self.engines.clone(), &plane.name)),
            Own::Apart(room) => {
                let service = apart::certified(self.engine(), &room);
                let service = service.map_err(|error| HostError::Failed(error.to_string()))?;
                Ok(kube::Client::new(service, "default"))
            }
        }
    }

    fn acting_as(&self, user: &UserInfo) -> Option<kube::Client> {
        Some(client_of(self.engines.clone(), &self.engine().config.hosting, user))
    }

    fn hosting_door(&self) -> String {
        format!("https://{}", self.engine().config.address)
    }

    fn hosting_authority(&self) -> String {
        self.engine().config.serving_authority.clone()
    }
}

/// The operator's client for any control plane of this process.
pub fn client(engines: impl Into<Engines>, control_plane: &str) -> kube::Client {
    client_of(engines, control_plane, &operator())
}

/// The client of somebody whom a control plane of this process has found to be who they are.
pub fn client_of(engines: impl Into<Engines>, control_plane: &str, user: &UserInfo) -> kube::Client {
    let (user, agent) = (Arc::new(user.clone()), HeaderValue::from_static(names::HOOK_MANAGER));
    kube::Client::new(InProcess::new(ApiServer::new(engines), control_plane, user, agent), "default")
}

/// Whom the operator acts as. What hooks make in the hosting control plane is made as their authors instead.
pub fn operator() -> UserInfo {
    let account = UserInfo::service_account(names::SYSTEM_NAMESPACE, names::OPERATOR_ACCOUNT, "");
    let groups = account.groups.iter().cloned().chain([auth::user::MASTERS.to_owned()]);
    UserInfo::new(account.name.clone(), groups).authenticated()
}
