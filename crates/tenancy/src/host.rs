//! Where control planes are made: what the operator asks of a host, whatever it is.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::Moved;
use async_trait::async_trait;
use auth::pki::Issued;
use auth::user::UserInfo;
use futures::stream::BoxStream;

use crate::conditions::Condition;
use crate::furniture::Wanted;
use crate::plane::Plane;
use crate::types::Hosted;

/// How the control planes of an installation are reached, by its `kubeflex-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub domain: String,
    pub external_port: u16,
    pub host_container: String,
    pub is_openshift: bool,
}

impl Settings {
    /// For control planes that are served by this process.
    pub fn new(domain: impl Into<String>, external_port: u16) -> Self {
        Settings {
            domain: domain.into(),
            external_port,
            host_container: "kubeflex-control-plane".to_owned(),
            is_openshift: false,
        }
    }
}

/// Where a control plane is reached from outside, and from inside of the hosting cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doors {
    pub off_cluster: String,
    pub in_cluster: String,
    /// What clients say in the handshake, if that is not the host they ask.
    pub server_name: Option<String>,
}

/// Who a client certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub user: &'a str,
    pub groups: &'a [&'a str],
}

#[derive(thiserror::Error, Debug)]
pub enum HostError {
    /// Somebody has to change something; trying again alone will not help.
    #[error("{0}")]
    Refused(String),
    /// May be different next time.
    #[error("{0}")]
    Failed(String),
}

#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Makes the control plane, or finds that it has made it before and that it is as it should be.
    async fn ensure(&self, plane: &Plane) -> Result<(), HostError>;

    /// Brings it to the store that its spec names, if it is in another one, and settles what an earlier move left
    /// behind. One that is not there yet is none of its business.
    async fn move_to_store(&self, plane: &Plane) -> Result<Option<Moved>, HostError> {
        let _ = plane;
        Ok(None)
    }

    /// The name of the store that it is in, where there may be several.
    async fn store_of(&self, plane: &Plane) -> Result<Option<String>, HostError> {
        let _ = plane;
        Ok(None)
    }

    /// The stores that are away now, of those that are not where the hosting control plane is; by their names, with why.
    async fn stores_away(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Whether there are such stores at all.
    fn has_further_stores(&self) -> bool {
        false
    }

    /// Whether it answers.
    async fn serves(&self, plane: &Plane) -> Result<bool, HostError>;

    /// Takes it away with all that is in it. Nothing happens to one that was made for another object.
    async fn remove(&self, plane: &Plane) -> Result<(), HostError>;

    /// What it has in the hosting control plane beside Secrets: doors, workloads, volumes.
    async fn objects(&self, plane: &Plane, row: &Hosted) -> Result<Vec<Wanted>, HostError>;

    /// Whether workloads only stand for what is done elsewhere, so that their status is the operator's to write.
    fn stands_in(&self) -> bool;

    /// What to say of where it is stored, if that is not what its spec asks for.
    async fn store_note(&self, plane: &Plane) -> Result<Option<Condition>, HostError>;

    /// What to say of the process that it is in, if it has one of its own here.
    fn process_note(&self, plane: &Plane) -> Option<Condition> {
        let _ = plane;
        None
    }

    /// Names of control planes that something happened to which no object shows. Asked once.
    fn news(&self) -> Option<BoxStream<'static, String>> {
        None
    }

    /// Kinds in its namespace that are the operator's to keep right, beside those that every host has.
    fn kinds(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether a change of `kubeflex-config` concerns all control planes.
    fn follows_settings(&self) -> bool {
        false
    }

    async fn doors(&self, plane: &Plane) -> Result<Doors, HostError>;

    /// PEM: whom clients of its doors trust.
    async fn serving_authority(&self, plane: &Plane) -> Result<String, HostError>;

    /// What the Secret `k8s-certs` has to show, if that is for the operator to write.
    async fn certificates(&self, plane: &Plane) -> Result<Vec<(&'static str, String)>, HostError>;

    async fn issue(
        &self,
        plane: &Plane,
        subject: Subject<'_>,
        lifetime: Duration,
    ) -> Result<Issued, HostError>;

    /// Whether a certificate (DER) is this subject's and still will be after a while.
    async fn trusts(
        &self,
        plane: &Plane,
        certificate: &[u8],
        subject: Subject<'_>,
        after: Duration,
    ) -> Result<bool, HostError>;

    /// Makes all client certificates worthless that were issued before this generation; once for each.
    async fn revoke(&self, plane: &Plane, generation: u64) -> Result<(), HostError> {
        let _ = (plane, generation);
        let why =
            "spec.credentials: this host cannot revoke certificates; delete the Secret of its authority";
        Err(HostError::Refused(why.to_owned()))
    }

    /// A client that may do everything in it.
    async fn client(&self, plane: &Plane) -> Result<kube::Client, HostError>;

    /// A client of the hosting control plane that may do what this user may. None where the operator cannot act as others:
    /// there hooks are applied with the operator's own rights, and who writes them is decided by an admission policy.
    fn acting_as(&self, user: &UserInfo) -> Option<kube::Client> {
        let _ = user;
        None
    }

    /// Where the hosting control plane itself is reached with a token, and whom its clients trust (PEM).
    fn hosting_door(&self) -> String;

    fn hosting_authority(&self) -> String;
}
