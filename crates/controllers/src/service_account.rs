//! Every namespace has a service account called `default`.

use async_trait::async_trait;
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use serde_json::json;

use crate::resource::{Resource, ensure};

pub struct ServiceAccounts;

const DEFAULT: &str = "default";

#[async_trait]
impl Controller for ServiceAccounts {
    fn name(&self) -> &'static str {
        "service-account-controller"
    }

    fn kinds(&self) -> Kinds {
        Kinds::these(["namespaces", "serviceaccounts"])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let deleted = event.change == Change::Deleted;
        if event.is_of("namespaces") && !deleted {
            triggers.now(event.key.clone());
        } else if event.is_of("serviceaccounts") && deleted && event.key.name == DEFAULT {
            triggers.now(Key::new("namespaces", "", event.key.namespace.clone()));
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let namespace = &request.key.name;
        if !crate::namespace::is_active(context, namespace).await?
            || context.get("serviceaccounts", namespace, DEFAULT).await?.is_some()
        {
            return Ok(Next::Done);
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT, "namespace": namespace},
        });
        ensure(&Resource::core(context.client(), namespace, "serviceaccounts"), &account).await?;
        Ok(Next::Done)
    }
}
