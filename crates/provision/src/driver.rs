//! What a driver answers: which kinds there are, what is there, what would change, and make it so.
//!
//! The engine calls a driver in this order, in one pass over one object: [`Driver::facts`], [`Driver::connect`],
//! (references and secrets are resolved), [`Driver::prepare`], [`Driver::identify`] if it is being adopted,
//! [`Driver::recover`] if an intent is open or [`Driver::observe`] if not, [`Driver::plan`], one of
//! [`Driver::create`], [`Driver::update`] and [`Driver::delete`], and [`Driver::late_initialization`].
//!
//! A driver writes nothing to the object itself: what is to be written there it returns, and the engine writes it
//! at the right moment. Every call to the cloud goes through [`Calls::make`], so that it is limited and counted.
//! Dropping a driver's future at any await must be safe; that is what a crash looks like.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use objects::field::ErrorList;
use objects::{CompactString, Value};
use runtime::Key;

use crate::calls::Calls;
use crate::facts::Facts;
use crate::failure::Failure;
use crate::intent::Intent;
use crate::limits::LimitKey;
use crate::plan::Plan;
use crate::reading::Reader;
use crate::secrets::Secrets;

/// Where a resource lives, for clouds that have accounts and regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub account: CompactString,
    pub region: CompactString,
    pub partition: CompactString,
    /// Why this role was taken, if a selector chose it.
    pub role: Option<RoleSelected>,
}

/// A role that a selector chose for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSelected {
    pub arn: String,
    pub selector: String,
    pub resource_version: String,
}

/// What calls are made with: an account with credentials, or a configured provider. Shared between passes; the
/// driver keeps and drops it.
pub trait Connection: Send + Sync + 'static {
    /// Calls under the same key share one limit, whatever kind or tenant they are for.
    fn limit(&self, facts: &Facts) -> LimitKey;

    /// For logs and plans, such as `123456789012/eu-west-1`. No secrets.
    fn display(&self) -> String;

    fn place(&self) -> Option<&Place> {
        None
    }
}

/// What is around an object before anything of it is resolved.
pub struct Surroundings<'a> {
    pub control_plane: &'a str,
    pub facts: &'a Arc<Facts>,
    /// The object as it is stored.
    pub object: &'a Value,
    /// Other objects of the same control plane. What is read by [`Reader::get`] wakes this object when it changes.
    pub reader: &'a Reader<'a>,
    pub now: Timestamp,
}

/// One object in one pass, with everything resolved.
pub struct Subject<'a, C> {
    pub control_plane: &'a str,
    pub facts: &'a Arc<Facts>,
    /// The object as it is stored.
    pub object: &'a Value,
    /// The same with references replaced by values (the reference fields are taken out), after
    /// [`Driver::prepare`] and [`Driver::identify`]. Secret fields still hold their reference.
    pub desired: &'a Value,
    /// Values of the secret fields, by path.
    pub secrets: &'a Secrets,
    pub connection: &'a Arc<C>,
    pub calls: &'a Calls,
    pub reader: &'a Reader<'a>,
    /// For other objects that the driver keeps (never for this one); none while only a plan is asked for, and then
    /// nothing may be written anywhere.
    pub client: Option<&'a kube::Client>,
    pub now: Timestamp,
}

/// How far a resource is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Settled: it can be compared and changed.
    Ready,
    /// On its way (being created, modified, deleted by others): not to be touched. Looked at again after the time, or
    /// after the engine's own if none is given.
    Busy { message: String, after: Option<Duration> },
    /// Can be compared and changed, but does not do what it should (yet).
    NotReady { message: String, after: Option<Duration> },
    /// Has failed, and does not recover by itself: somebody has to change something.
    Failed { message: String },
}

/// A resource as it is.
#[derive(Clone, Debug)]
pub struct Observed<N> {
    /// In the shape of the object's spec, without what the cloud or the engine adds (such as system tags). Written
    /// to the object only when the resource is adopted.
    pub spec: Value,
    /// In the shape of the object's status: the whole of what the driver knows. No conditions.
    pub status: Value,
    pub arn: Option<String>,
    pub readiness: Readiness,
    /// For the driver itself: what later calls of this pass need.
    pub note: N,
}

pub enum Observation<N> {
    Absent,
    Present(Box<Observed<N>>),
}

/// What a call that made or changed something wants written on the object: merge patches of spec, status and
/// annotations. Fields that come from references and secrets are taken out by the engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub spec: Value,
    pub status: Value,
    pub annotations: BTreeMap<String, Option<String>>,
    pub arn: Option<String>,
}

impl Record {
    /// Puts another record over this one, but for its status.
    pub(crate) fn add(&mut self, other: Record) {
        if other.spec.is_object() {
            combine(&mut self.spec, other.spec);
        }
        self.annotations.extend(other.annotations);
    }

    /// The status of an object with that of the record in it.
    pub fn merged_status(&self, object: &Value) -> Value {
        let mut status = object.get("status").filter(|status| status.is_object()).cloned();
        let status = status.get_or_insert_with(|| Value::Object(Default::default()));
        if self.status.is_object() {
            objects::patch::merge(status, &self.status);
        }
        std::mem::take(status)
    }
}

/// Makes one merge patch of two: what either takes away is still taken away.
fn combine(patch: &mut Value, other: Value) {
    match (patch, other) {
        (Value::Object(fields), Value::Object(others)) => {
            for (field, value) in others {
                combine(fields.entry(field).or_insert(Value::Null), value);
            }
        }
        (patch, other) => *patch = other,
    }
}

/// What became of a creating call. The record must hold everything by which the resource is found again; it is
/// written before anything else is done.
pub struct Made {
    pub record: Record,
    /// The resource is there, and something went wrong after that.
    pub failure: Option<Failure>,
}

impl From<Record> for Made {
    fn from(record: Record) -> Made {
        Made { record, failure: None }
    }
}

/// What became of an updating call.
pub struct Updated<N> {
    pub record: Record,
    /// The resource as it is now, if the driver knows it without asking; else the engine observes it again.
    pub observed: Option<Box<Observed<N>>>,
    /// More is to be done: look again after this time.
    pub after: Option<Duration>,
}

/// What became of a deleting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Gone,
    /// It goes by itself; look again after this time whether it is gone.
    Going(Duration),
}

/// What became of an intent whose outcome is not known.
pub enum Recovery {
    /// The resource was made, and this is what to record of it.
    Made(Record),
    /// Surely nothing was made: it may be tried again, with the same token.
    NotMade,
    /// It cannot be looked for, but making it again with the same token (or name) gives the same resource. Unlike
    /// after `NotMade`, an object that is being deleted makes it again, to have something to delete.
    Repeat,
    /// It cannot be said yet, such as while reads may be stale.
    NotYet(Duration),
    /// It will never be known: the message tells a user how to find out and what to do. Nothing is made meanwhile.
    Unknown(String),
}

/// Values that the cloud chose where the user chose none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LateInitialization {
    /// A merge patch of the spec, empty (or null) if there is nothing to fill in.
    pub spec: Value,
    /// Fields that should get a value and have none yet: looked at again soon.
    pub missing: Vec<String>,
    /// Whether the kind has such fields at all.
    pub applies: bool,
}

#[async_trait]
pub trait Driver: Send + Sync + 'static {
    type Connection: Connection;
    /// What the driver wants to remember from one call of a pass to the next; never leaves the pass.
    type Note: Send + Sync + 'static;

    /// Also the name of the controller: `aws`, `terraform`.
    fn name(&self) -> &'static str;

    /// Kinds that objects are read of by [`Reader::get`] beside those that references name.
    fn watched(&self) -> Vec<CompactString> {
        vec!["secrets".into(), "configmaps".into()]
    }

    /// Keys of Secrets that the driver writes what it learns into. Who reads such a Secret by [`Reader::get_inputs`] does
    /// not look again when only these change.
    fn written_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// The kinds that are served now, as they are stored. If they change while running, tell the engine by
    /// [`runtime::Handle::kinds_changed`].
    fn kinds(&self) -> Vec<CompactString>;

    /// All kinds that are there: also those that cannot be looked after yet.
    fn known_kinds(&self) -> Vec<CompactString> {
        self.kinds()
    }

    /// None if the kind is not (or no longer) served.
    fn facts(&self, kind: &str) -> Option<Arc<Facts>>;

    /// What is wrong with an object that its schema lets pass, by what is known without asking anybody; it is refused.
    fn invalid(&self, object: &Value) -> ErrorList {
        let _ = object;
        ErrorList::new()
    }

    /// Objects that an object takes values from, beside those that the references of its kind name.
    fn refers_to(&self, object: &Value) -> Vec<Key> {
        let _ = object;
        Vec::new()
    }

    /// Names in [`Driver::refers_to`] that an object shares with others. It goes after those that refer to it by such a
    /// name if they go too; otherwise it may be one of those that are left that they mean.
    fn also_known_as(&self, object: &Value) -> Vec<Key> {
        let _ = object;
        Vec::new()
    }

    /// Whether [`Driver::refers_to`] may name anything: then objects of all kinds are asked for it.
    fn refers_freely(&self) -> bool {
        false
    }

    /// What calls for an object have to go through, such as an account or a provider's configuration, by what the object
    /// itself says. While too many calls hang there, only objects that say the same wait.
    fn behind(&self, facts: &Facts, object: &Value) -> CompactString {
        let _ = object;
        facts.service.clone()
    }

    /// The longest that a change of this object may take because it says so itself.
    fn patience(&self, object: &Value) -> Duration {
        let _ = object;
        Duration::ZERO
    }

    /// Finds account, region, credentials or provider configuration for an object, and what to call them with.
    /// Called in every pass: keep connections, and drop those that nobody asked for in a while.
    async fn connect(&self, surroundings: &Surroundings<'_>) -> Result<Arc<Self::Connection>, Failure>;

    /// The last word on what is desired, in memory only: default tags, more references of the driver's own, values
    /// from Secrets that belong to no single field. `Class::Waiting` if something is not there yet.
    async fn prepare(
        &self,
        surroundings: &Surroundings<'_>,
        connection: &Arc<Self::Connection>,
        desired: &mut Value,
    ) -> Result<(), Failure> {
        let _ = (surroundings, connection, desired);
        Ok(())
    }

    /// Puts the fields by which a resource that is to be adopted is found into the object, such as from the
    /// annotation `adoption-fields`. A terminal failure names the field that is missing.
    fn identify(
        &self,
        facts: &Facts,
        fields: &BTreeMap<String, String>,
        desired: &mut Value,
    ) -> Result<(), Failure>;

    /// The resource as it is. Without enough to find it by (it was never made), `Absent` without a call.
    async fn observe(
        &self,
        subject: &Subject<'_, Self::Connection>,
    ) -> Result<Observation<Self::Note>, Failure>;

    /// Whether the driver itself remembers that this resource is this object's, whatever the object says: it may have
    /// been replaced by a manifest that knows nothing of it.
    fn is_ours(&self, subject: &Subject<'_, Self::Connection>, observed: &Observed<Self::Note>) -> bool {
        let _ = (subject, observed);
        false
    }

    /// What would have to be done: changes by field, and the calls that make them. Changes nothing.
    async fn plan(
        &self,
        subject: &Subject<'_, Self::Connection>,
        observed: Option<&Observed<Self::Note>>,
    ) -> Result<Plan<Self::Note>, Failure>;

    /// Makes the resource. The intent is on the object already; its token is the idempotency token. An error means
    /// that nothing was made (or, if it is ambiguous, that nobody knows): once the resource is there, what else
    /// goes wrong comes with its record. What can be done by an update later is better left to that.
    async fn create(
        &self,
        subject: &Subject<'_, Self::Connection>,
        intent: &Intent,
        plan: &Plan<Self::Note>,
    ) -> Result<Made, Failure>;

    /// Makes the changes of the plan, and no others: the engine may have taken some out.
    async fn update(
        &self,
        subject: &Subject<'_, Self::Connection>,
        observed: &Observed<Self::Note>,
        plan: &Plan<Self::Note>,
    ) -> Result<Updated<Self::Note>, Failure>;

    /// Deletes the resource; `NotFound` is as good as `Gone`.
    async fn delete(
        &self,
        subject: &Subject<'_, Self::Connection>,
        observed: &Observed<Self::Note>,
    ) -> Result<Deleted, Failure>;

    /// What became of an open intent: by its token, by the name, by an owner mark. If the object's record names the
    /// resource already, it was made, and the record may be empty.
    async fn recover(
        &self,
        subject: &Subject<'_, Self::Connection>,
        intent: &Intent,
    ) -> Result<Recovery, Failure>;

    /// The resource as the record of the object alone names it, without a look at it: for the deletion of what no read
    /// shows. None if the record does not name it.
    fn recorded(&self, subject: &Subject<'_, Self::Connection>) -> Option<Observed<Self::Note>> {
        let _ = subject;
        None
    }

    /// What to find the old resource by, when a new one is made before it goes. No secrets. None if this kind cannot
    /// be replaced that way; the old one goes first then.
    fn deposed(&self, subject: &Subject<'_, Self::Connection>) -> Option<Value> {
        let _ = subject;
        None
    }

    /// Deletes what [`Driver::deposed`] named.
    async fn delete_deposed(
        &self,
        subject: &Subject<'_, Self::Connection>,
        deposed: &Value,
    ) -> Result<Deleted, Failure> {
        let _ = (subject, deposed);
        Ok(Deleted::Gone)
    }

    /// The record that says that there is no resource any more, written between the two halves of a replacement.
    fn forgotten(&self, subject: &Subject<'_, Self::Connection>) -> Record {
        let _ = subject;
        Record::default()
    }

    /// What the object is to show of the resource beside its status, such as the last known state in the spec:
    /// written whenever the resource is settled and the object shows something else.
    fn shown(&self, subject: &Subject<'_, Self::Connection>, observed: &Observed<Self::Note>) -> Record {
        let _ = (subject, observed);
        Record::default()
    }

    fn late_initialization(
        &self,
        subject: &Subject<'_, Self::Connection>,
        observed: &Observed<Self::Note>,
    ) -> LateInitialization {
        let _ = (subject, observed);
        LateInitialization::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_patches_as_one() {
        for (patch, other, expected) in [
            (json!(null), json!({"a": null}), json!({"a": null})),
            (
                json!({"a": 1, "b": {"c": 1}}),
                json!({"b": {"d": null}}),
                json!({"a": 1, "b": {"c": 1, "d": null}}),
            ),
            (json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": null})),
            (json!({"a": null}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        ] {
            let mut made = patch.clone();
            combine(&mut made, other);
            assert_eq!(made, expected, "{patch}");
        }
    }
}
