//! The reconciler of `ControlPlane`s.
//!
//! Every pass goes through the same states in the same order, each of which finds its work done or does it:
//!
//! | state | is passed when |
//! |---|---|
//! | finalizer | the object cannot vanish without us |
//! | namespace | `NAME-system` is there and is this object's |
//! | provision | the control plane itself is there (a tenant, or the adopted cluster's account) |
//! | credentials | the kubeconfig Secrets are there and good for months |
//! | doors, workloads | Service, Ingress and stand-ins are as they should be: **Synced** |
//! | serving | the API answers; the stand-ins' status says so |
//! | hooks | all hooks are applied, and in wait mode what they made is ready |
//! | ready | **Ready** |
//!
//! Deletion goes the other way: see `removal`. A pass may end anywhere, by an error or by a kill; the next one begins
//! at the top and comes as far as it can.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use auth::user::UserInfo;
use futures::StreamExt;
use futures::future::try_join_all;
use objects::{CompactString, Value, meta};
use parking_lot::Mutex;
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, News, Next, Request, Triggers};
use serde_json::{Value as Json, json};

use crate::api::{self, Place};
use crate::conditions::{self, Condition};
use crate::events::{self, Severity};
use crate::furniture::Wanted;
use crate::host::Host;
use crate::plane::{Plane, Type};
use crate::sync::{self, SyncError};
use crate::types::{self, Hosted};
use crate::{credentials, embedded, furniture, importing, names, removal, stores};

/// The key under which certificates of all control planes are looked at.
const RENEWAL: &str = "_renewal";
/// The key under which all control planes are looked at: something changed that concerns them all.
const EVERYTHING: &str = "_everything";
/// Often enough: certificates are renewed months before they expire.
const RENEWAL_EVERY: Duration = Duration::from_secs(12 * 3_600);
/// The key under which stores are looked at.
const STORES: &str = "_stores";
/// How often it is looked at whether they are there.
const STORES_EVERY: Duration = Duration::from_secs(3);
/// How long after a change of what belongs to a control plane it is looked at: most changes are the operator's own, come
/// several at a time, and leave nothing to do.
const SETTLED_AFTER: Duration = Duration::from_millis(250);
/// When something refused is tried again although nothing changed that we see.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// When the process of a control plane is asked again that runs and does not answer. That it runs or not, we are told.
const PROCESS_AGAIN: Duration = Duration::from_secs(2);

pub struct Operator {
    pub(crate) host: Arc<dyn Host>,
    hosting: CompactString,
    /// When certificates were last looked at, in seconds.
    renewed: AtomicI64,
    /// Whether stores are looked at.
    looking: AtomicBool,
    /// The stores that were away when they were last looked at.
    away: Mutex<Option<BTreeMap<String, String>>>,
}

impl Operator {
    /// `hosting` is the control plane that `ControlPlane` objects are in.
    pub fn new(host: Arc<dyn Host>, hosting: impl Into<CompactString>) -> Self {
        let (renewed, looking, away) = (AtomicI64::new(0), AtomicBool::new(false), Mutex::default());
        Operator { host, hosting: hosting.into(), renewed, looking, away }
    }
}

/// Kinds of which every change in `NAME-system` concerns the control plane NAME.
const INSIDE: [&str; 10] = [
    "services",
    "secrets",
    "serviceaccounts",
    "configmaps",
    "pods",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "ingresses.networking.k8s.io",
];
/// Kinds without a namespace that may be a control plane's.
const OUTSIDE: [&str; 3] = [
    "namespaces",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
];

#[async_trait]
impl Controller for Operator {
    fn name(&self) -> &'static str {
        names::COMPONENT
    }

    fn identity(&self) -> UserInfo {
        embedded::operator()
    }

    fn kinds(&self) -> Kinds {
        let kinds = INSIDE.iter().chain(&OUTSIDE).chain(&[names::CONTROL_PLANES, names::HOOKS]).copied();
        Kinds::These(kinds.chain(self.host.kinds()).map(CompactString::from).collect())
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        if event.control_plane != self.hosting {
            return;
        }
        if self.host.has_further_stores() && !self.looking.swap(true, Ordering::Relaxed) {
            triggers.now(Key::new(STORES, "", ""));
        }
        let key = &event.key;
        if event.is_of(names::CONTROL_PLANES) || event.is_of(names::HOOKS) {
            match only_status_changed(event) {
                true => triggers.after(key.clone(), SETTLED_AFTER),
                false => triggers.now(key.clone()),
            }
            return;
        }
        if key.namespace == names::SYSTEM_NAMESPACE
            && key.name == names::SYSTEM_CONFIG
            && self.host.follows_settings()
        {
            triggers.now(Key::new(EVERYTHING, "", ""));
            return;
        }
        let concerned = match key.namespace.as_str() {
            // Where the command line puts the kubeconfigs that clusters are adopted with.
            names::SYSTEM_NAMESPACE => key.name.strip_suffix("-bootstrap").map(str::to_owned),
            "" if event.is_of("namespaces") => names::control_plane_of(&key.name).map(str::to_owned),
            "" => owner(event),
            namespace => names::control_plane_of(namespace).map(str::to_owned),
        };
        if let Some(name) = concerned {
            let key = Key::new(names::CONTROL_PLANES, "", name);
            match event.change {
                Change::Created | Change::Updated => triggers.after(key, SETTLED_AFTER),
                // What was deleted is waited for, or missed.
                Change::Deleted | Change::Existing => triggers.now(key),
            }
        }
    }

    fn news(&self) -> Option<News> {
        let hosting = self.hosting.clone();
        let request = move |name: String| Request {
            control_plane: hosting.clone(),
            key: Key::new(names::CONTROL_PLANES, "", name),
        };
        Some(self.host.news()?.map(request).boxed())
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        match request.key.kind.as_str() {
            RENEWAL => Ok(self.renew(context)),
            STORES => self.look_at_stores(context).await,
            EVERYTHING => {
                context.look_at_all(names::CONTROL_PLANES);
                Ok(Next::Done)
            }
            names::HOOKS => crate::hooks::changed(context, &request.key.name).await,
            _ => self.control_plane(context, &request.key.name).await,
        }
    }
}

/// Whether neither the specification nor the metadata that a person writes are what changed.
fn only_status_changed(event: &Event) -> bool {
    let (Some(before), Some(now)) = (event.previous(), event.object()) else { return false };
    let same = |field: &str| before["metadata"].get(field) == now["metadata"].get(field);
    before.get("spec") == now.get("spec")
        && ["generation", "labels", "annotations", "deletionTimestamp"].into_iter().all(same)
}

/// The control plane that something without a namespace belongs to.
fn owner(event: &Event) -> Option<String> {
    if !event.mentions(names::GROUP) && !event.mentions(names::RELEASE_NAMESPACE) {
        return None;
    }
    let object = event.object()?;
    let by_reference = meta::owner_references(object).iter().find(|owner| owner["kind"] == "ControlPlane");
    if let Some(name) = by_reference.and_then(|owner| owner["name"].as_str()) {
        return Some(name.to_owned());
    }
    names::control_plane_of(meta::annotation(object, names::RELEASE_NAMESPACE)?).map(str::to_owned)
}

/// Where a control plane's object is.
pub(crate) fn place(name: &str) -> Place {
    Place::new(names::API_VERSION, "controlplanes", "", name)
}

impl Operator {
    async fn control_plane(&self, context: &Context, name: &str) -> Result<Next, Error> {
        let Some(object) = context.get(names::CONTROL_PLANES, "", name).await? else { return Ok(Next::Done) };
        let mut plane = Plane::read(object).map_err(Error::failed)?;
        if meta::is_deleting(&plane.object) {
            return removal::remove(self.host.as_ref(), context, &plane).await;
        }
        if !plane.has_finalizer() {
            plane.object = add_finalizer(context, &plane).await?;
        }
        if let Some(next) = importing::awaited(context, &plane).await? {
            return Ok(next);
        }
        self.renew_in_time(context);
        let before = plane.object.get("status").cloned().unwrap_or_default();
        let mut status = if before.is_object() { before.clone() } else { json!({}) };
        status["observedGeneration"] = meta::generation(&plane.object).into();

        let next = match self.synchronise(context, &plane, &mut status).await {
            Ok(next) => {
                conditions::remove(&mut status, conditions::REFUSED);
                if conditions::set(&mut status, &Condition::synced(), context.now) {
                    events::record(context, &plane.object, Severity::Normal, "SyncSuccess", "").await?;
                }
                self.finish(context, &plane, &before, &mut status).await?.unwrap_or(next)
            }
            Err(error) if error.is_conflict() => return Err(Error::failed(error)),
            Err(error) => {
                let why = error.to_string();
                if conditions::set(&mut status, &Condition::not_synced(&why), context.now) {
                    events::record(context, &plane.object, Severity::Warning, "SyncFail", &why).await?;
                }
                if error.is_final() {
                    conditions::set(&mut status, &Condition::refused(&why), context.now);
                } else {
                    conditions::remove(&mut status, conditions::REFUSED);
                }
                if let Some(why) = self.store_is_away(&status).await {
                    conditions::set(&mut status, &Condition::store_away(why), context.now);
                }
                write_status(context, &plane, &before, &status).await?;
                match error {
                    SyncError::Waiting(_) => Next::Backoff,
                    error if error.is_final() => Next::After(REFUSED_AGAIN),
                    _ => return Err(Error::failed(why)),
                }
            }
        };
        Ok(next)
    }

    /// Everything up to Synced.
    async fn synchronise(
        &self,
        context: &Context,
        plane: &Plane,
        status: &mut Json,
    ) -> Result<Next, SyncError> {
        sync::ensure(context, plane, &furniture::namespace(plane)).await?;
        match types::hosted(plane.spec.r#type) {
            Some(row) => {
                self.hosted(context, plane, row, status).await?;
                status["secretRef"] = json!({
                    "namespace": plane.namespace, "name": row.secret,
                    "key": row.key, "inClusterKey": row.in_cluster_key,
                });
                status["endpoint"] = self.host.doors(plane).await?.off_cluster.into();
                let notes = [self.host.store_note(plane).await?, self.host.process_note(plane)];
                limits(row, &notes, status, context.now);
                Ok(Next::Done)
            }
            None if plane.spec.r#type == Type::Host => {
                crate::adopted::hosting(self.host.as_ref(), context, plane, status).await
            }
            None => crate::adopted::external(context, plane, status).await,
        }
    }

    async fn hosted(
        &self,
        context: &Context,
        plane: &Plane,
        row: &Hosted,
        status: &mut Json,
    ) -> Result<(), SyncError> {
        let host = self.host.as_ref();
        if let Some(moved) = host.move_to_store(plane).await? {
            status["lastMove"] = stores::shown(&moved, context.now);
            let message = stores::sentence(&moved);
            events::record(context, &plane.object, Severity::Normal, "Moved", &message).await?;
        }
        host.ensure(plane).await?;
        if let Some(store) = host.store_of(plane).await? {
            status["store"] = store.into();
        }
        let generation = plane.spec.credentials.generation;
        let in_force = status.get("credentialsGeneration").and_then(Json::as_u64).unwrap_or(0);
        if generation > in_force {
            // Before the Secrets are looked at: what is in them is not trusted any more, and is written anew.
            host.revoke(plane, generation).await?;
        }
        let wanted = host.objects(plane, row).await?;
        let objects = try_join_all(wanted.iter().map(|one| sync::ensure(context, plane, one)));
        let (_, made) = futures::try_join!(credentials::ensure(host, context, plane, row), objects)?;
        if generation > in_force {
            status["credentialsGeneration"] = generation.into();
            let message = format!("client certificates before generation {generation} are worth nothing");
            events::record(context, &plane.object, Severity::Normal, "Revoked", &message).await?;
        }
        if !host.stands_in() {
            return Ok(());
        }
        let serving = host.serves(plane).await?;
        let workloads =
            row.workloads.iter().zip(wanted.iter().zip(&made)).map(|(workload, (wanted, live))| {
                (wanted, live, furniture::workload_status(*workload, live, serving, context.now))
            });
        let is_claim = |wanted: &Wanted| wanted.place.plural == "persistentvolumeclaims";
        let claims = wanted.iter().zip(&made).filter(|(wanted, _)| is_claim(wanted));
        let claims = claims.map(|(wanted, live)| (wanted, live, furniture::claim_status()));
        try_join_all(workloads.chain(claims).map(async |(wanted, live, status)| {
            if live.get("status") != Some(&status) {
                api::replace_status(context.client(), &wanted.place, &status).await?;
            }
            Ok::<_, SyncError>(())
        }))
        .await?;
        Ok(())
    }

    /// Everything after Synced. Returns when to look again, if that is not up to what came before.
    async fn finish(
        &self,
        context: &Context,
        plane: &Plane,
        before: &Json,
        status: &mut Json,
    ) -> Result<Option<Next>, Error> {
        let serving = match types::hosted(plane.spec.r#type) {
            Some(_) => self.host.serves(plane).await.map_err(Error::failed)?,
            None => !conditions::find(status, "Reachable").is_some_and(|one| one["status"] == "False"),
        };
        if !serving {
            conditions::set(status, &Condition::unavailable(), context.now);
            write_status(context, plane, before, status).await?;
            let again = if plane.spec.is_apart() { PROCESS_AGAIN } else { Duration::from_secs(15) };
            return Ok(Some(Next::After(again)));
        }
        if let Some(row) = types::hosted(plane.spec.r#type) {
            self.furnish_inside(plane, row).await?;
        }
        let outcome = crate::hooks::run(self.host.as_ref(), context, plane, status).await?;
        let ready = if plane.spec.wait_for_post_create_hooks && !outcome.completed {
            Condition::waiting_for_hooks()
        } else {
            Condition::available()
        };
        conditions::set(status, &ready, context.now);
        write_status(context, plane, before, status).await?;
        Ok(outcome.again.map(Next::After))
    }

    /// What a control plane of its type has inside from the beginning.
    async fn furnish_inside(&self, plane: &Plane, row: &Hosted) -> Result<(), Error> {
        let host = self.host.as_ref();
        if row.cluster_info {
            let inside = host.client(plane).await.map_err(Error::failed)?;
            let doors = host.doors(plane).await.map_err(Error::failed)?;
            let authority = host.serving_authority(plane).await.map_err(Error::failed)?;
            crate::cluster_info::ensure(&inside, &doors, &authority).await?;
        }
        if plane.spec.r#type == Type::Ocm {
            crate::hub::ensure(&host.client(plane).await.map_err(Error::failed)?).await?;
        }
        Ok(())
    }

    /// Certificates are looked at from time to time by one key for all, so that an idle control plane has no timer.
    fn renew_in_time(&self, context: &Context) {
        let (now, last) = (context.now.as_second(), self.renewed.load(Ordering::Relaxed));
        if last == 0 && self.renewed.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            context.enqueue(Key::new(RENEWAL, "", ""));
        }
    }

    fn renew(&self, context: &Context) -> Next {
        let (now, last) = (context.now.as_second(), self.renewed.load(Ordering::Relaxed));
        let due = last.saturating_add_unsigned(RENEWAL_EVERY.as_secs());
        if now < due {
            return Next::After(Duration::from_secs(due.abs_diff(now)));
        }
        self.renewed.store(now, Ordering::Relaxed);
        context.look_at_all(names::CONTROL_PLANES);
        Next::After(RENEWAL_EVERY)
    }
}

impl Operator {
    /// Why a control plane cannot be used, if that is because its store is away.
    async fn store_is_away(&self, status: &Json) -> Option<String> {
        if !self.host.has_further_stores() {
            return None;
        }
        self.host.stores_away().await.remove(status["store"].as_str()?)
    }

    /// Has the control planes of stores that went away or came back looked at.
    async fn look_at_stores(&self, context: &Context) -> Result<Next, Error> {
        if !self.host.has_further_stores() {
            return Ok(Next::Done);
        }
        let now = self.host.stores_away().await;
        let before = self.away.lock().clone();
        if before.as_ref() != Some(&now) {
            let known = before.as_ref();
            let concerned = |status: &Json| match (status["store"].as_str(), known) {
                (None, _) => false,
                // Somebody else may have seen it go.
                (Some(store), None) => now.contains_key(store) || !conditions::is_true(status, "Synced"),
                (Some(store), Some(before)) => now.contains_key(store) != before.contains_key(store),
            };
            for plane in context.list(names::CONTROL_PLANES, "").await? {
                if concerned(&plane["status"]) {
                    context.enqueue(Key::new(names::CONTROL_PLANES, "", meta::name(&plane)));
                }
            }
            *self.away.lock() = Some(now);
        }
        Ok(Next::After(STORES_EVERY))
    }
}

/// What may be said of a store that is not what was asked for, and of a process.
const NOTES: [&str; 3] = ["StoreDedicated", "StoreShared", crate::processes::CONDITION];

/// Says plainly what a control plane of this type does not do, and which wishes are not granted.
fn limits(row: &Hosted, notes: &[Option<Condition>], status: &mut Json, now: jiff::Timestamp) {
    match row.missing {
        Some(what) => {
            let condition = Condition::new("WorkloadsSupported", false, "NotImplemented", what);
            conditions::set(status, &condition, now);
        }
        None => conditions::remove(status, "WorkloadsSupported"),
    }
    for r#type in NOTES {
        match notes.iter().flatten().find(|note| note.r#type == r#type) {
            Some(note) => {
                conditions::set(status, note, now);
            }
            None => conditions::remove(status, r#type),
        }
    }
}

async fn add_finalizer(context: &Context, plane: &Plane) -> Result<Value, Error> {
    let mut finalizers: Vec<Value> = meta::finalizers(&plane.object).map(Value::from).collect();
    finalizers.push(names::FINALIZER.into());
    // The version guards the list: nobody else's finalizer gets lost.
    let version = meta::resource_version(&plane.object);
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
    api::merge(context.client(), &place(&plane.name), "", &patch).await
}

/// Writes a status if it is another than before.
pub(crate) async fn write_status(
    context: &Context,
    plane: &Plane,
    before: &Json,
    status: &Json,
) -> Result<(), Error> {
    if before == status {
        return Ok(());
    }
    api::optional(api::replace_status(context.client(), &place(&plane.name), status).await).map(drop)
}
