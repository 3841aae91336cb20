//! Every namespace has the certificate by which its pods trust the API server, as it should be.

use async_trait::async_trait;
use objects::Value;
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};

use crate::resource::{Resource, ensure};

const NAME: &str = "kube-root-ca.crt";

pub struct RootCertificates {
    authority: String,
}

impl RootCertificates {
    /// `authority` is the PEM of whoever signed the server's certificate.
    pub fn new(authority: String) -> Self {
        RootCertificates { authority }
    }
}

#[async_trait]
impl Controller for RootCertificates {
    fn name(&self) -> &'static str {
        "root-ca-cert-publisher"
    }

    fn kinds(&self) -> Kinds {
        Kinds::these(["namespaces", "configmaps"])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        if event.is_of("namespaces") && event.change != Change::Deleted {
            triggers.now(event.key.clone());
        } else if event.is_of("configmaps") && event.key.name == NAME && event.change != Change::Created {
            triggers.now(Key::new("namespaces", "", event.key.namespace.clone()));
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let namespace = &request.key.name;
        if !crate::namespace::is_active(context, namespace).await? {
            return Ok(Next::Done);
        }
        let wanted = apiserver::root_certificate(namespace, &self.authority);
        let maps = Resource::core(context.client(), namespace, "configmaps");
        let Some(mut found) = context.get("configmaps", namespace, NAME).await? else {
            ensure(&maps, &wanted).await?;
            return Ok(Next::Done);
        };
        let description = "/metadata/annotations/kubernetes.io~1description";
        let described =
            found.pointer(description).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if found["data"] == wanted["data"] && described {
            return Ok(Next::Done);
        }
        found["data"] = wanted["data"].clone();
        if let Some(text) = wanted.pointer(description) {
            found["metadata"]["annotations"]["kubernetes.io/description"] = text.clone();
        }
        maps.replace(NAME, "", &found).await?;
        Ok(Next::Done)
    }
}
