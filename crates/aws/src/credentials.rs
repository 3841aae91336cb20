//! Credentials: given ones, the usual chain, or those of a role.
//!
//! The chain (environment, profiles, web identity, container, instance metadata) is that of the `aws-config`
//! crate over our own HTTP. Whatever expires is kept until shortly before and fetched by one caller at a time.

mod chain;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use serde_json::json;
use tokio::sync::Mutex;

use crate::client::{CallError, Client};
use crate::value::{Value, moment};
pub use chain::default_chain;

/// There are no credentials to sign with. The message says why, without secrets.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CredentialsError {
    #[error(
        "no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role ({reason})"
    )]
    Chain { reason: String },
    #[error("role {role} cannot be assumed: {reason}")]
    Role { role: String, reason: String },
}

/// Where credentials come from. Clones share what is kept.
#[derive(Clone)]
pub struct Provider {
    source: Arc<Source>,
}

struct Source {
    kind: Kind,
    kept: Mutex<Option<Credentials>>,
}

enum Kind {
    Given,
    Chain(SharedCredentialsProvider),
    Role { client: Box<Client>, role: Role },
}

/// A role to be assumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Role {
    pub arn: String,
    /// What the session is called; see [`session_name`].
    pub session: String,
    pub external_id: Option<String>,
    /// Tags of the session.
    pub tags: Vec<(String, String)>,
}

/// A name that AWS accepts: letters, digits and `+=,.@_-`, at most 64 of them.
pub fn session_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
    text.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect()
}

/// New ones are fetched this long before the old ones end.
const EARLY: Duration = Duration::from_secs(300);

impl Provider {
    fn of(kind: Kind, kept: Option<Credentials>) -> Provider {
        Provider { source: Arc::new(Source { kind, kept: Mutex::new(kept) }) }
    }

    /// Fixed keys.
    pub fn given(access_key: &str, secret_key: &str, session_token: Option<&str>) -> Provider {
        let token = session_token.map(str::to_owned);
        let credentials = Credentials::new(access_key, secret_key, token, None, "given");
        Provider::of(Kind::Given, Some(credentials))
    }

    /// Those of a role, assumed with the credentials of a client.
    pub fn of_role(client: Client, role: Role) -> Provider {
        Provider::of(Kind::Role { client: Box::new(client), role }, None)
    }

    fn of_chain(provider: SharedCredentialsProvider) -> Provider {
        Provider::of(Kind::Chain(provider), None)
    }

    /// Credentials that are good for a while.
    pub async fn get(&self) -> Result<Credentials, CredentialsError> {
        let mut kept = self.source.kept.lock().await;
        if let Some(credentials) = kept.as_ref().filter(|credentials| is_fresh(credentials)) {
            return Ok(credentials.clone());
        }
        let fetched = Box::pin(self.fetch()).await;
        match (fetched, kept.as_ref()) {
            (Ok(credentials), _) => {
                *kept = Some(credentials.clone());
                Ok(credentials)
            }
            // The old ones may do for another while; if they do not, AWS says so.
            (Err(_), Some(old)) if old.expiry().is_none_or(|end| end > SystemTime::now()) => Ok(old.clone()),
            (Err(error), _) => Err(error),
        }
    }

    async fn fetch(&self) -> Result<Credentials, CredentialsError> {
        match &self.source.kind {
            // What is given is kept and does not end.
            Kind::Given => Err(CredentialsError::Chain { reason: "none were given".to_owned() }),
            Kind::Chain(provider) => provider.provide_credentials().await.map_err(|error| {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                CredentialsError::Chain { reason: cause.unwrap_or_else(|| error.to_string()) }
            }),
            Kind::Role { client, role } => assume(client, role).await.map_err(|error| {
                CredentialsError::Role { role: role.arn.clone(), reason: error.to_string() }
            }),
        }
    }
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.source.kind {
            Kind::Given => formatter.write_str("Provider(given)"),
            Kind::Chain(_) => formatter.write_str("Provider(chain)"),
            Kind::Role { role, .. } => write!(formatter, "Provider({})", role.arn),
        }
    }
}

fn is_fresh(credentials: &Credentials) -> bool {
    credentials.expiry().is_none_or(|end| end > SystemTime::now() + EARLY)
}

async fn assume(client: &Client, role: &Role) -> Result<Credentials, CallError> {
    let sts = crate::model::service("sts")
        .map_err(|error| CallError::local("UnknownOperation", error.to_string()))?;
    let mut input = json!({"RoleArn": role.arn, "RoleSessionName": role.session});
    if let Some(id) = &role.external_id {
        input["ExternalId"] = json!(id);
    }
    if !role.tags.is_empty() {
        let tags = role.tags.iter().map(|(key, value)| json!({"Key": key, "Value": value}));
        input["Tags"] = tags.collect();
    }
    let answer = client.call(sts, "AssumeRole", &input).await?;
    let found = &answer["Credentials"];
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let expiry = found.get("Expiration").and_then(moment).map(SystemTime::from);
    if text("AccessKeyId").is_empty() || text("SecretAccessKey").is_empty() {
        return Err(CallError::local("UnreadableResponse", "AssumeRole answered without keys".to_owned()));
    }
    Ok(Credentials::new(
        text("AccessKeyId"),
        text("SecretAccessKey"),
        Some(text("SessionToken")).filter(|token| !token.is_empty()),
        expiry,
        "role",
    ))
}
