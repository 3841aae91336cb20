//! `FieldExport`: a field of a resource, copied into a ConfigMap or a Secret whenever it changes.
//!
//! The target has to be there, and the data stays when the export goes. Nothing is kept in memory: when a source
//! changes, the exports of its namespace are looked through.

use std::sync::Arc;

use async_trait::async_trait;
use auth::user::{MASTERS, UserInfo};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use objects::{CompactString, Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use serde_json::json;

use super::conditions::{self, RECOVERABLE, SYNCED, TERMINAL};
use super::query::Query;
use crate::driver::Driver;
use crate::failure::{Class, Failure};
use crate::writing;

/// As it is stored.
pub const KIND: &str = "fieldexports.services.k8s.aws";
/// Upstream writes it; there is nothing to be done when an export goes.
const FINALIZER: &str = "finalizers.services.k8s.aws/FieldExport";
/// Keys of sources have this before their kind.
const SOURCE: &str = "source:";

/// Exports of the kinds of one driver.
pub struct FieldExports<D: Driver> {
    driver: Arc<D>,
    cross_namespace: bool,
}

impl<D: Driver> FieldExports<D> {
    pub fn new(driver: Arc<D>, cross_namespace: bool) -> Self {
        FieldExports { driver, cross_namespace }
    }

    /// How a kind of a group is stored.
    fn stored_kind(&self, group: &str, kind: &str) -> Option<CompactString> {
        let mut all = self
            .driver
            .kinds()
            .into_iter()
            .filter(|one| one.split_once('.').is_some_and(|(_, g)| g == group));
        all.find(|one| self.driver.facts(one).is_some_and(|facts| facts.kind == kind))
    }

    async fn export(&self, context: &Context, export: &Value) -> Result<(), Failure> {
        let text = |pointer: &str| export.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let own = meta::namespace(export);
        let query = Query::parse(text("/spec/from/path"))
            .map_err(|error| Failure::terminal(error.to_string()).at("spec.from.path"))?;
        let (group, kind, name) = (
            text("/spec/from/resource/group"),
            text("/spec/from/resource/kind"),
            text("/spec/from/resource/name"),
        );
        let Some(stored) = self.stored_kind(group, kind) else {
            return Err(
                Failure::terminal(format!("there is no kind {kind} in {group}")).at("spec.from.resource")
            );
        };
        let Some(source) = context.get(&stored, own, name).await? else {
            return Err(Failure::recoverable(format!("{kind} {own}/{name} does not exist")));
        };
        if conditions::status(&source, SYNCED) != Some("True") {
            return Err(Failure::recoverable(format!("{kind} {own}/{name} is not synced yet")));
        }
        let found = query.first(&source).map_err(|error| Failure::recoverable(error.to_string()))?;
        let value = match found {
            Some(Value::String(text)) => text,
            Some(Value::Bool(truth)) => truth.to_string(),
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => number.to_string(),
            Some(_) => {
                return Err(Failure::recoverable("only texts, booleans and whole numbers are exported"));
            }
            None => {
                return Err(Failure::recoverable(format!("{} has no value yet", text("/spec/from/path"))));
            }
        };
        let target = Target {
            secret: text("/spec/to/kind").eq_ignore_ascii_case("secret"),
            namespace: Some(text("/spec/to/namespace")).filter(|text| !text.is_empty()).unwrap_or(own),
            name: text("/spec/to/name"),
            key: match text("/spec/to/key") {
                "" => format!("{own}.{}", meta::name(export)),
                key => key.to_owned(),
            },
        };
        if target.namespace != own && !self.cross_namespace {
            return Err(
                Failure::terminal("the target is in another namespace, which is not allowed").at("spec.to")
            );
        }
        target.put(context, &value).await
    }

    /// Only a change of conditions is written.
    async fn tell(&self, context: &Context, export: &Value, failure: Option<&Failure>) -> Result<(), Error> {
        let told = failure.map(|failure| conditions::Condition {
            kind: if failure.class == Class::Terminal { TERMINAL } else { RECOVERABLE },
            status: "True",
            reason: String::new(),
            message: failure.to_string(),
        });
        let before = export.pointer("/status/conditions");
        let told: Vec<conditions::Condition> = told.into_iter().collect();
        let list = conditions::merged(before, &told, context.now);
        if before.cloned().unwrap_or_else(|| json!([])) == list {
            return Ok(());
        }
        let place = writing::Place::of(export, "fieldexports");
        let patch = json!({"metadata": {"uid": meta::uid(export)}, "status": {"conditions": list}});
        writing::patch(context.client(), &place, "status", &patch).await.map(drop)
    }
}

struct Target<'a> {
    secret: bool,
    namespace: &'a str,
    name: &'a str,
    key: String,
}

impl Target<'_> {
    async fn put(&self, context: &Context, value: &str) -> Result<(), Failure> {
        let plural = if self.secret { "secrets" } else { "configmaps" };
        let place = format!("{plural} {}/{}", self.namespace, self.name);
        let Some(target) = context.get(plural, self.namespace, self.name).await? else {
            return Err(Failure::recoverable(format!("{place} does not exist; exports do not create it")));
        };
        let value = if self.secret { BASE64_STANDARD.encode(value) } else { value.to_owned() };
        if target.get("data").and_then(|data| data.get(&self.key)).and_then(Value::as_str) == Some(&value) {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": meta::uid(&target)}, "data": {&self.key: value}});
        let place = writing::Place::of(&target, plural);
        writing::patch(context.client(), &place, "", &patch).await?;
        Ok(())
    }
}

#[async_trait]
impl<D: Driver> Controller for FieldExports<D> {
    fn name(&self) -> &'static str {
        "field-exports"
    }

    fn identity(&self) -> UserInfo {
        UserInfo::new("hangar:field-exports", [MASTERS]).authenticated()
    }

    fn kinds(&self) -> Kinds {
        Kinds::These(self.driver.kinds().into_iter().chain([KIND.into()]).collect())
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let own_write = || {
            let before = event.previous().map(meta::generation);
            event.change == Change::Updated
                && before.is_some()
                && before == event.object().map(meta::generation)
        };
        if event.is_of(KIND) {
            let deleting = event.object().is_some_and(meta::is_deleting);
            if deleting || !own_write() {
                triggers.now(event.key.clone());
            }
        } else if event.change != Change::Deleted && event.change != Change::Existing {
            let Key { kind, namespace, name } = event.key.clone();
            triggers.now(Key { kind: format!("{SOURCE}{kind}").into(), namespace, name });
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Key { kind, namespace, name } = &request.key;
        if let Some(source) = kind.strip_prefix(SOURCE) {
            for export in context.list(KIND, namespace).await? {
                let from = |field: &str| export["spec"]["from"]["resource"][field].as_str().unwrap_or("");
                if from("name") == name
                    && self.stored_kind(from("group"), from("kind")).is_some_and(|kind| kind == source)
                {
                    context.enqueue(Key::new(KIND, namespace.clone(), meta::name(&export)));
                }
            }
            return Ok(Next::Done);
        }
        let Some(export) = context.get(KIND, namespace, name).await? else { return Ok(Next::Done) };
        if meta::is_deleting(&export) {
            let others: Vec<&str> = meta::finalizers(&export).filter(|one| *one != FINALIZER).collect();
            if others.len() < meta::list(&export, "finalizers").len() {
                let patch = json!({"metadata": {"resourceVersion": meta::resource_version(&export), "finalizers": others}});
                writing::patch(context.client(), &writing::Place::of(&export, "fieldexports"), "", &patch)
                    .await?;
            }
            return Ok(Next::Done);
        }
        let exported = self.export(context, &export).await;
        self.tell(context, &export, exported.as_ref().err()).await?;
        Ok(match exported {
            Ok(()) => Next::Done,
            Err(failure) if failure.class == Class::Terminal => Next::Done,
            Err(_) => Next::Backoff,
        })
    }
}
