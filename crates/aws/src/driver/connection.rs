//! Accounts: whose credentials, which region, which endpoint.
//!
//! A control plane may have credentials of its own, in the Secret `aws-credentials` of its ACK system namespace (keys
//! `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, and perhaps `AWS_SESSION_TOKEN`); else those of the process are used, as
//! far as the operator grants it. Connections and identities are kept in bounded caches.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use egress::Egress;
use objects::meta;
use provision::dialect::ack::OWNER_ACCOUNT_ID;
use provision::dialect::ack::place::{self, Defaults, Wanted};
use provision::{Class, Connection, Facts, Failure, LimitKey, Place, Surroundings};
use quick_cache::sync::Cache;
use serde_json::{Value, json};

use super::Settings;
use crate::client::{CallError, Client, Http, RetryPolicy};
use crate::credentials::{Provider, Role, session_name};
use crate::endpoint;
use crate::grants::{Grant, Grants};
use crate::model;

/// What a control plane's own credentials are in.
const SECRET: &str = "aws-credentials";
/// What sessions of roles are called; those for a tenant also have the name of the control plane.
const SESSION: &str = "hangar";
/// The tag of a session that says which control plane it is for.
const TAG: &str = "hangar.dev/control-plane";
/// Accounts, regions and roles in use at once; others are looked up again.
const CONNECTIONS: usize = 4096;

/// Stands for the credentials of the process.
const PROCESS: [u8; 32] = [0; 32];

/// One account in one region.
pub struct AwsConnection {
    pub(crate) client: Client,
    pub(crate) place: Place,
}

impl Connection for AwsConnection {
    fn limit(&self, facts: &Facts) -> LimitKey {
        LimitKey::of([self.place.account.as_str(), self.place.region.as_str(), facts.service.as_str()])
    }

    fn display(&self) -> String {
        format!("{}/{}", self.place.account, self.place.region)
    }

    fn place(&self) -> Option<&Place> {
        Some(&self.place)
    }
}

/// Who credentials belong to.
#[derive(Clone, Debug)]
struct Identity {
    account: String,
    partition: String,
}

/// What tells connections apart. No secrets: credentials by a fingerprint of theirs.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ConnectionKey {
    credentials: [u8; 32],
    region: String,
    endpoint: Option<String>,
    role: Option<Role>,
    /// Whose policy the endpoint is reached under, where it is not the operator's.
    caller: Option<String>,
}

pub(super) struct Connections {
    http: Arc<Http>,
    own: Provider,
    endpoints: endpoint::Settings,
    defaults: Defaults,
    grants: Arc<dyn Grants>,
    egress: Egress,
    identities: Cache<[u8; 32], Identity>,
    kept: Cache<ConnectionKey, Arc<AwsConnection>>,
}

impl Connections {
    pub fn new(http: Arc<Http>, own: Provider, settings: &Settings) -> Connections {
        Connections {
            http,
            own,
            endpoints: settings.endpoints.clone(),
            defaults: settings.defaults.clone(),
            grants: settings.grants.clone(),
            egress: settings.egress.clone(),
            identities: Cache::new(CONNECTIONS),
            kept: Cache::new(CONNECTIONS),
        }
    }

    pub async fn get(&self, surroundings: &Surroundings<'_>) -> Result<Arc<AwsConnection>, Failure> {
        let (provider, fingerprint, grant) = self.credentials(surroundings).await?;
        let identity = self.identity(&provider, fingerprint).await?;
        let wanted = place::wanted(surroundings, &self.defaults, &identity.account).await?;
        // Whoever may annotate a namespace must not have the process's credentials carried to a host of their own.
        if fingerprint == PROCESS && wanted.endpoint != self.defaults.endpoint {
            let why = format!(
                "an endpoint of the namespace's own needs credentials of the control plane's own, in Secret {}/{SECRET}",
                self.defaults.system_namespace
            );
            return Err(Failure::terminal(why));
        }
        let role = self.role(surroundings.control_plane, &grant, wanted.role.as_deref())?;
        let is_tenants = wanted.endpoint != self.defaults.endpoint;
        let key = ConnectionKey {
            credentials: fingerprint,
            region: wanted.region.to_string(),
            endpoint: wanted.endpoint.clone(),
            role: role.clone(),
            caller: is_tenants.then(|| surroundings.control_plane.to_owned()),
        };
        if let Some(kept) = self.kept.get(&key).filter(|kept| kept.place.role == wanted.selected) {
            return Ok(kept);
        }
        let connection = Arc::new(self.connection(provider, &identity, &wanted, role, key.caller.as_deref()));
        self.kept.insert(key, connection.clone());
        Ok(connection)
    }

    /// The role as it is assumed for a control plane, if the operator lets it be.
    fn role(&self, control_plane: &str, grant: &Grant, arn: Option<&str>) -> Result<Option<Role>, Failure> {
        let role = |arn: &str| Role { arn: arn.to_owned(), session: SESSION.to_owned(), ..Role::default() };
        let session = || session_name(&format!("{SESSION}-{control_plane}"));
        match (grant, arn) {
            (Grant::Everything, arn) => Ok(arn.map(role)),
            // Whoever owns the credentials is who AWS asks about the role.
            (Grant::Nothing, arn) => Ok(arn.map(|arn| Role { session: session(), ..role(arn) })),
            (Grant::Tenant(grant), None) if grant.direct => Ok(None),
            (Grant::Tenant(_), None) => Err(denied(format!(
                "the operator's AWS credentials serve this control plane only to assume roles: annotate the namespace \
                 with {OWNER_ACCOUNT_ID}, and name the account's role in ConfigMap {}/ack-role-account-map",
                self.defaults.system_namespace
            ))),
            (Grant::Tenant(grant), Some(arn)) if grant.allows(arn) => Ok(Some(Role {
                session: session(),
                external_id: Some(grant.external_id.clone()),
                tags: vec![(TAG.to_owned(), control_plane.to_owned())],
                ..role(arn)
            })),
            (Grant::Tenant(_), Some(arn)) => Err(denied(format!(
                "role {arn} is not listed for this control plane: ask the operator to list it in spec.aws.roles of the \
                 ControlPlane, or by --aws-credentials-for {control_plane}={arn}"
            ))),
        }
    }

    /// `caller` is the control plane whose tenant chose the endpoint, if that is not the operator's.
    fn connection(
        &self,
        provider: Provider,
        identity: &Identity,
        wanted: &Wanted,
        role: Option<Role>,
        caller: Option<&str>,
    ) -> AwsConnection {
        let client = |provider| {
            let client = self.client(provider, &wanted.region, wanted.endpoint.as_deref());
            match caller {
                Some(caller) => client.on_behalf_of(self.egress.caller(caller)),
                None => client,
            }
        };
        let base = client(provider);
        let client = match role {
            Some(role) => client(Provider::of_role(base, role)),
            None => base,
        };
        let partition = match endpoint::partition(&wanted.region) {
            "" => identity.partition.as_str(),
            partition => partition,
        };
        let place = Place {
            account: wanted.account.clone(),
            region: wanted.region.clone(),
            partition: partition.into(),
            role: wanted.selected.clone(),
        };
        AwsConnection { client, place }
    }

    fn client(&self, provider: Provider, region: &str, url: Option<&str>) -> Client {
        let mut endpoints = self.endpoints.clone();
        if let Some(url) = url {
            endpoints.url = Some(url.to_owned());
        }
        // Too many calls are slowed down for all objects of an account at once, by the engine.
        let policy = RetryPolicy { throttled: false, ..RetryPolicy::default() };
        Client::new(self.http.clone(), provider, region, endpoints).with_policy(policy)
    }

    /// The credentials for a control plane, a fingerprint of them, and what they may be used for if they are the process's.
    async fn credentials(
        &self,
        surroundings: &Surroundings<'_>,
    ) -> Result<(Provider, [u8; 32], Grant), Failure> {
        let namespace = &self.defaults.system_namespace;
        let Some(secret) = surroundings.reader.get("secrets", namespace, SECRET).await? else {
            return match self.grants.of(surroundings.control_plane).await {
                Grant::Nothing => Err(denied(format!(
                    "this control plane has no AWS credentials: put them into Secret {namespace}/{SECRET}, or ask the \
                     operator to list it by spec.aws of the ControlPlane or --aws-credentials-for {}",
                    surroundings.control_plane
                ))),
                grant => Ok((self.own.clone(), PROCESS, grant)),
            };
        };
        let text = |key: &str| {
            let encoded = secret.get("data")?.get(key)?.as_str()?;
            String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(|text| text.trim().to_owned())
        };
        let (Some(access), Some(hidden)) = (text("AWS_ACCESS_KEY_ID"), text("AWS_SECRET_ACCESS_KEY")) else {
            let why =
                format!("Secret {namespace}/{SECRET} needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
            return Err(denied(why));
        };
        let token = text("AWS_SESSION_TOKEN").filter(|token| !token.is_empty());
        let version = format!("{}/{}/{access}", meta::uid(&secret), meta::resource_version(&secret));
        let given = Provider::given(&access, &hidden, token.as_deref());
        Ok((given, fingerprint(&version), Grant::Nothing))
    }

    /// Asked once for each set of credentials.
    async fn identity(&self, provider: &Provider, fingerprint: [u8; 32]) -> Result<Identity, Failure> {
        if let Some(known) = self.identities.get(&fingerprint) {
            return Ok(known);
        }
        let region =
            if self.defaults.region.is_empty() { "us-east-1" } else { self.defaults.region.as_str() };
        let client = self.client(provider.clone(), region, self.defaults.endpoint.as_deref());
        let sts = model::service("sts").map_err(|error| Failure::terminal(error.to_string()))?;
        let answer = client.call(sts, "GetCallerIdentity", &json!({})).await.map_err(unknown)?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let identity = Identity {
            account: text("Account"),
            partition: text("Arn").split(':').nth(1).unwrap_or("aws").to_owned(),
        };
        self.identities.insert(fingerprint, identity.clone());
        Ok(identity)
    }
}

fn denied(why: String) -> Failure {
    Failure::new(Class::Denied, "CredentialsUnavailable", why)
}

fn unknown(error: CallError) -> Failure {
    let class = match error.is_denied() {
        true => Class::Denied,
        false if error.throttled => Class::Throttled,
        false => Class::Recoverable,
    };
    Failure::new(
        class,
        error.code,
        format!("the account of the AWS credentials cannot be found out: {}", error.message),
    )
}

fn fingerprint(text: &str) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(text.as_bytes()).into()
}
