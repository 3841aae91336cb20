//! The host that needs nothing else: control planes are tenants of this process.

use std::sync::Arc;
use std::time::Duration;

use apiserver::control_plane::{Charter, ControlPlane};
use apiserver::service::Failure;
use apiserver::{ApiServer, Beginning, Engine, InProcess};
use async_trait::async_trait;
use auth::pki::Issued;
use auth::user::UserInfo;
use http::HeaderValue;
use store::Revision;

use crate::conditions::Condition;
use crate::furniture::{self, Wanted};
use crate::host::{Doors, Host, HostError, Settings, Subject};
use crate::names;
use crate::plane::Plane;
use crate::types::Hosted;

pub struct Embedded {
    engine: Arc<Engine>,
    settings: Settings,
    /// Whether `NAME.DOMAIN` can be resolved by clients. If not, they are sent to a path of the server's address.
    resolvable: bool,
}

impl Embedded {
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        let resolvable = !is_local(&settings.domain);
        Embedded { engine, settings, resolvable }
    }

    async fn find(&self, name: &str) -> Result<Option<Arc<ControlPlane>>, HostError> {
        self.engine.planes.find(name).await.map_err(|error| HostError::Failed(error.to_string()))
    }

    /// The control plane that was made for this object.
    async fn own(&self, plane: &Plane) -> Result<Arc<ControlPlane>, HostError> {
        let found = self.find(&plane.name).await?.filter(|found| is_of(found, plane));
        found.ok_or_else(|| HostError::Failed(format!("control plane {:?} is not there", plane.name)))
    }

    async fn beginning(&self, plane: &Plane) -> Result<Beginning, HostError> {
        let Some(source) = &plane.spec.source else { return Ok(Beginning::Empty) };
        if source.control_plane == self.engine.config.hosting {
            return Err(HostError::Refused("the hosting control plane cannot be copied".to_owned()));
        }
        let Some(found) = self.find(&source.control_plane).await? else {
            let why =
                format!("spec.source.controlPlane: there is no control plane {:?}", source.control_plane);
            return Err(HostError::Failed(why));
        };
        if let Some(revision) = source.revision {
            let failed = |error: store::StoreError| HostError::Failed(error.to_string());
            let current = self.engine.store.revision(found.id).await.map_err(failed)?.0;
            if revision > current {
                let why = format!(
                    "spec.source.revision: {revision} has not happened yet, the current one is {current}"
                );
                return Err(HostError::Refused(why));
            }
        }
        Ok(Beginning::Fork(found.id, source.revision.map(Revision)))
    }
}

fn is_of(found: &ControlPlane, plane: &Plane) -> bool {
    found.charter.owner.as_deref() == Some(&plane.uid)
}

/// Domains that only some resolvers know names below of.
fn is_local(domain: &str) -> bool {
    domain == "localhost" || domain.ends_with(".localhost")
}

fn failed(failure: Failure) -> HostError {
    match failure.0.code {
        400..500 => HostError::Refused(failure.0.message.clone()),
        _ => HostError::Failed(failure.0.message.clone()),
    }
}

#[async_trait]
impl Host for Embedded {
    async fn ensure(&self, plane: &Plane) -> Result<(), HostError> {
        if plane.spec.isolation == "process" {
            let why = "spec.isolation: control planes in processes of their own are not part of this version";
            return Err(HostError::Refused(why.to_owned()));
        }
        if !plane.spec.store.is_empty() {
            let why = format!(
                "spec.store: there is no store {:?}; leave it empty for the one there is",
                plane.spec.store
            );
            return Err(HostError::Refused(why));
        }
        match self.find(&plane.name).await? {
            Some(found) if !is_of(&found, plane) => {
                let why = format!(
                    "the name {:?} is taken by a control plane that is not this object's",
                    plane.name
                );
                Err(HostError::Refused(why))
            }
            Some(found) if found.charter.quota != plane.spec.quota => {
                self.engine.set_quota(&plane.name, plane.spec.quota).await.map_err(failed)
            }
            Some(_) => Ok(()),
            None => {
                let charter =
                    Charter { owner: Some(plane.uid.clone()), quota: plane.spec.quota, ..Charter::default() };
                let beginning = self.beginning(plane).await?;
                let made = self.engine.establish(&plane.name, charter, beginning).await.map(drop);
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
        let Some(found) = self.find(&plane.name).await? else { return Ok(false) };
        // What discovery is made from, and the rights of everybody in it.
        Ok(self.engine.planes.surface(&found).await.is_ok()
            && self.engine.planes.policy(&found).await.is_ok())
    }

    async fn remove(&self, plane: &Plane) -> Result<(), HostError> {
        match self.find(&plane.name).await? {
            Some(found) if is_of(&found, plane) => {
                self.engine.delete_control_plane(&plane.name).await.map(drop).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    async fn objects(&self, plane: &Plane, row: &Hosted) -> Result<Vec<Wanted>, HostError> {
        let doors = [furniture::service(plane, row), furniture::ingress(plane, row, &self.settings)];
        let workloads = row.workloads.iter().map(|workload| furniture::workload(plane, *workload));
        Ok(workloads.chain(doors).collect())
    }

    fn stands_in(&self) -> bool {
        true
    }

    async fn store_note(&self, plane: &Plane) -> Result<Option<Condition>, HostError> {
        let message = "the store is shared; the control plane has a range of keys of its own in it";
        let note = Condition::new("StoreDedicated", false, "SharedStore", message);
        Ok((plane.spec.backend == "dedicated").then_some(note))
    }

    async fn doors(&self, plane: &Plane) -> Result<Doors, HostError> {
        let Settings { domain, external_port, .. } = &self.settings;
        let door = if self.resolvable {
            format!("https://{}.{domain}:{external_port}", plane.name)
        } else {
            format!("{}/control-planes/{}", self.hosting_door(), plane.name)
        };
        // There is no cluster to be inside of: what is on this machine uses the same door.
        Ok(Doors { in_cluster: door.clone(), off_cluster: door })
    }

    async fn serving_authority(&self, _: &Plane) -> Result<String, HostError> {
        Ok(self.hosting_authority())
    }

    async fn certificates(&self, plane: &Plane) -> Result<Vec<(&'static str, String)>, HostError> {
        let own = self.own(plane).await?;
        // Public halves only: who can read this Secret needs no means to become anybody.
        Ok(vec![
            ("ca.crt", self.hosting_authority()),
            ("client-ca.crt", own.authority.certificate_pem()),
            ("jwks.json", own.issuer.keys_document().to_string()),
        ])
    }

    async fn issue(
        &self,
        plane: &Plane,
        subject: Subject<'_>,
        lifetime: Duration,
    ) -> Result<Issued, HostError> {
        let own = self.own(plane).await?;
        self.engine.issue_client(&own, subject.user, subject.groups, lifetime).map_err(failed)
    }

    async fn trusts(
        &self,
        plane: &Plane,
        certificate: &[u8],
        subject: Subject<'_>,
        after: Duration,
    ) -> Result<bool, HostError> {
        let own = self.own(plane).await?;
        let later = self.engine.now() + after;
        Ok(own.authority.verify_client(&[certificate], later).is_ok_and(|user| {
            user.name == subject.user && subject.groups.iter().all(|group| user.is_in(group))
        }))
    }

    async fn revoke(&self, plane: &Plane, generation: u64) -> Result<(), HostError> {
        self.own(plane).await?;
        self.engine.replace_authority(&plane.name, generation).await.map_err(failed)
    }

    async fn client(&self, plane: &Plane) -> Result<kube::Client, HostError> {
        self.own(plane).await?;
        Ok(client(&self.engine, &plane.name))
    }

    fn hosting_door(&self) -> String {
        format!("https://{}", self.engine.config.address)
    }

    fn hosting_authority(&self) -> String {
        self.engine.config.serving_authority.clone()
    }
}

/// The operator's client for any control plane of this process.
pub fn client(engine: &Arc<Engine>, control_plane: &str) -> kube::Client {
    let (user, agent) = (Arc::new(operator()), HeaderValue::from_static(names::HOOK_MANAGER));
    kube::Client::new(InProcess::new(ApiServer::new(engine.clone()), control_plane, user, agent), "default")
}

/// Whom the operator acts as: hooks may make anything, so it may do everything.
pub fn operator() -> UserInfo {
    let account = UserInfo::service_account(names::SYSTEM_NAMESPACE, names::OPERATOR_ACCOUNT, "");
    let groups = account.groups.iter().cloned().chain([auth::user::MASTERS.to_owned()]);
    UserInfo::new(account.name.clone(), groups).authenticated()
}
