//! Secrets that hold a service account's token for as long as they are there.
//!
//! Such a Secret is filled when it is made, and goes with its account.

use std::sync::Arc;

use apiserver::Engine;
use async_trait::async_trait;
use auth::tokens::Reference;
use auth::user::{KUBE_CONTROLLER_MANAGER, UserInfo};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use serde_json::json;

use crate::resource::{Delete, Resource};

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// A key of this kind is about a Secret that is gone, and the account that may list it: `account/secret`.
const UNLINK: &str = "_unlink";

pub struct LegacyTokens {
    engine: Arc<Engine>,
}

impl LegacyTokens {
    pub fn new(engine: Arc<Engine>) -> Self {
        LegacyTokens { engine }
    }
}

#[async_trait]
impl Controller for LegacyTokens {
    fn name(&self) -> &'static str {
        "tokens-controller"
    }

    /// As upstream, it comes before all service accounts and cannot be one.
    fn identity(&self) -> UserInfo {
        UserInfo::new(KUBE_CONTROLLER_MANAGER, [] as [&str; 0]).authenticated()
    }

    fn kinds(&self) -> Kinds {
        Kinds::these(["secrets", "serviceaccounts"])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let gone = event.change == Change::Deleted;
        if event.is_of("serviceaccounts") {
            if gone {
                triggers.now(event.key.clone());
            }
        } else if event.mentions(TYPE) {
            if !gone {
                triggers.now(event.key.clone());
            } else if let Some(account) =
                event.object().and_then(|secret| meta::annotation(secret, ACCOUNT_NAME))
            {
                let name = format!("{account}/{}", event.key.name);
                triggers.now(Key::new(UNLINK, event.key.namespace.clone(), name));
            }
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let key = &request.key;
        match key.kind.as_str() {
            "secrets" => {
                if let Some(secret) =
                    context.get("secrets", &key.namespace, &key.name).await?.filter(is_token)
                {
                    self.secret(context, request, secret).await?;
                }
            }
            "serviceaccounts" => account_is_gone(context, key).await?,
            _ => unlink(context, key).await?,
        }
        Ok(Next::Done)
    }
}

fn is_token(secret: &Value) -> bool {
    secret.get("type").and_then(Value::as_str) == Some(TYPE) && !meta::is_deleting(secret)
}

/// The account that a Secret is for, if it is (still) that one.
async fn account_of(context: &Context, secret: &Value) -> Result<Option<Value>, Error> {
    let name = meta::annotation(secret, ACCOUNT_NAME).unwrap_or_default();
    let uid = meta::annotation(secret, ACCOUNT_UID).unwrap_or_default();
    let account = context.get("serviceaccounts", meta::namespace(secret), name).await?;
    Ok(account.filter(|account| uid.is_empty() || meta::uid(account) == uid))
}

impl LegacyTokens {
    async fn secret(&self, context: &Context, request: &Request, mut secret: Value) -> Result<(), Error> {
        let (namespace, name) = (meta::namespace(&secret).to_owned(), meta::name(&secret).to_owned());
        let Some(account) = account_of(context, &secret).await? else {
            return delete(context, &secret).await;
        };
        let Some(plane) = self.engine.planes.find(&request.control_plane).await.map_err(Error::failed)?
        else {
            return Ok(());
        };
        let before = secret.clone();
        let authority = &self.engine.config.serving_authority;
        let mut put =
            |field: &str, bytes: &[u8]| secret["data"][field] = BASE64_STANDARD.encode(bytes).into();
        put("ca.crt", authority.as_bytes());
        put("namespace", namespace.as_bytes());
        if before.pointer("/data/token").and_then(Value::as_str).is_none_or(str::is_empty) {
            let reference = Reference::new(meta::name(&account), meta::uid(&account));
            let token = plane.issuer.issue_legacy(&namespace, &reference, &name).map_err(Error::failed)?;
            put("token", token.expose().as_bytes());
        }
        secret["metadata"]["annotations"][ACCOUNT_NAME] = meta::name(&account).into();
        secret["metadata"]["annotations"][ACCOUNT_UID] = meta::uid(&account).into();
        if secret != before {
            Resource::core(context.client(), &namespace, "secrets").replace(&name, "", &secret).await?;
        }
        Ok(())
    }
}

async fn delete(context: &Context, secret: &Value) -> Result<(), Error> {
    let secrets = Resource::core(context.client(), meta::namespace(secret), "secrets");
    let options = Delete { uid: Some(meta::uid(secret)), ..Delete::default() };
    secrets.delete(meta::name(secret), &options).await.map(drop)
}

/// All tokens of an account that is gone go too; those of another that took its name stay.
async fn account_is_gone(context: &Context, key: &Key) -> Result<(), Error> {
    for secret in context.list("secrets", &key.namespace).await? {
        let named = meta::annotation(&secret, ACCOUNT_NAME) == Some(&key.name);
        if named && is_token(&secret) && account_of(context, &secret).await?.is_none() {
            delete(context, &secret).await?;
        }
    }
    Ok(())
}

/// An account forgets a token that is gone.
async fn unlink(context: &Context, key: &Key) -> Result<(), Error> {
    let Some((account, secret)) = key.name.split_once('/') else { return Ok(()) };
    if context.get("secrets", &key.namespace, secret).await?.is_some() {
        return Ok(());
    }
    let Some(mut found) = context.get("serviceaccounts", &key.namespace, account).await? else {
        return Ok(());
    };
    let Some(listed) = found.get("secrets").and_then(Value::as_array) else { return Ok(()) };
    let kept: Vec<Value> = listed.iter().filter(|one| one["name"] != secret).cloned().collect();
    if kept.len() == listed.len() {
        return Ok(());
    }
    found["secrets"] = json!(kept);
    let accounts = Resource::core(context.client(), &key.namespace, "serviceaccounts");
    accounts.replace(account, "", &found).await.map(drop)
}
