//! Cluster roles that are made of others have the rules of those others.

use async_trait::async_trait;
use auth::rbac::aggregation::aggregate;
use objects::meta;
use runtime::{Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use serde_json::json;

use crate::resource::Resource;

const KIND: &str = "clusterroles.rbac.authorization.k8s.io";

pub struct RoleAggregation;

#[async_trait]
impl Controller for RoleAggregation {
    fn name(&self) -> &'static str {
        "clusterrole-aggregation-controller"
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([KIND])
    }

    /// Any role may be part of any other: they are looked at together.
    fn triggers(&self, _: &Event, triggers: &mut Triggers) {
        triggers.now(Key::new(KIND, "", ""));
    }

    async fn reconcile(&self, context: &Context, _: &Request) -> Result<Next, Error> {
        let roles = context.list(KIND, "").await?;
        let resource = Resource::new(context.client(), "rbac.authorization.k8s.io/v1", "", "clusterroles");
        for role in &roles {
            let rules = match aggregate(role, &roles) {
                Some(Ok(rules)) => json!(rules),
                Some(Err(error)) => {
                    tracing::debug!(role = meta::name(role), %error, "a role cannot be aggregated");
                    continue;
                }
                None => continue,
            };
            if role.get("rules").unwrap_or(&json!([])) == &rules {
                continue;
            }
            // What this changes may be part of another: the change is an event, and brings us back.
            let patch =
                json!({"metadata": {"resourceVersion": meta::resource_version(role)}, "rules": rules});
            resource.patch(meta::name(role), "", &patch).await?;
        }
        Ok(Next::Done)
    }
}
