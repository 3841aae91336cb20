//! What a controller is: which changes concern it, and what it does about them.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use auth::user::UserInfo;
use futures::stream::BoxStream;
use objects::{CompactString, Value};
use parking_lot::Mutex;
use store::Key;

use crate::aside::Place;
use crate::event::Event;
use crate::fleet::{Fleet, FleetError, Identity};

/// Kinds a controller looks at, by the names they are stored under, such as `roles.rbac.authorization.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Every kind of every control plane, those of its own definitions too.
    All,
    These(BTreeSet<CompactString>),
}

impl Kinds {
    pub fn these<const N: usize>(kinds: [&str; N]) -> Kinds {
        Kinds::These(kinds.into_iter().map(CompactString::from).collect())
    }

    pub fn contains(&self, kind: &str) -> bool {
        match self {
            Kinds::All => true,
            Kinds::These(kinds) => kinds.contains(kind),
        }
    }

    /// Those of these that are not in `before`.
    #[must_use]
    pub fn without(&self, before: &Kinds) -> Kinds {
        match (self, before) {
            (_, Kinds::All) => Kinds::These(BTreeSet::new()),
            (Kinds::All, Kinds::These(_)) => Kinds::All,
            (Kinds::These(kinds), Kinds::These(before)) => Kinds::These(kinds - before),
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Kinds::These(kinds) if kinds.is_empty())
    }

    #[must_use]
    pub fn and(self, other: Kinds) -> Kinds {
        match (self, other) {
            (Kinds::These(mut kinds), Kinds::These(others)) => {
                kinds.extend(others);
                Kinds::These(kinds)
            }
            _ => Kinds::All,
        }
    }
}

/// Keys that an event means work on, for the controller that is asked.
#[derive(Default)]
pub struct Triggers {
    pub(crate) keys: Vec<(Key, Duration)>,
    /// Kinds of which everything in the same control plane is to be looked at.
    pub(crate) kinds: Vec<CompactString>,
}

impl Triggers {
    pub fn now(&mut self, key: Key) {
        self.keys.push((key, Duration::ZERO));
    }

    /// Not before this time has passed, unless something asks for it earlier.
    pub fn after(&mut self, key: Key, delay: Duration) {
        self.keys.push((key, delay));
    }
}

/// What to reconcile. The key is whatever the controller named; most name the object itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    pub control_plane: CompactString,
    pub key: Key,
}

/// What a reconcile has at hand.
pub struct Context {
    pub now: jiff::Timestamp,
    pub(crate) client: OnceLock<kube::Client>,
    pub(crate) identity: Identity,
    pub(crate) control_plane: CompactString,
    pub(crate) fleet: Arc<dyn Fleet>,
    pub(crate) more: Mutex<Triggers>,
    pub(crate) place: Place,
}

impl Context {
    /// Of the request's control plane, as the controller itself. Made when it is first needed: most looks find
    /// nothing to do.
    pub fn client(&self) -> &kube::Client {
        self.client.get_or_init(|| self.fleet.client(&self.control_plane, &self.identity))
    }

    /// One object as it is stored. Needs no right of the controller's, as upstream's caches need none.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.fleet.get(&self.control_plane, &Key::new(kind, namespace, name)).await?)
    }

    /// All objects of a kind, in one namespace or (empty) in all.
    pub async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>, Error> {
        Ok(self.fleet.list(&self.control_plane, kind, namespace).await?)
    }

    /// Waits for something foreign that may take its time. If it does, others have the worker meanwhile; the key itself
    /// stays taken. `behind` names what is waited for, such as an account.
    pub async fn aside<T>(&self, behind: &str, call: impl Future<Output = T>) -> T {
        self.place.aside(behind, call).await
    }

    /// Whether as many wait behind the same already as may: who would be one more should come later.
    pub fn is_crowded(&self, behind: &str) -> bool {
        self.place.is_crowded(behind)
    }

    /// More work in the same control plane for the same controller, queued when this reconcile has ended well.
    pub fn enqueue(&self, key: Key) {
        self.more.lock().now(key);
    }

    /// Has every object of a kind in the same control plane looked at by the same controller, as if it had just been
    /// found, when this reconcile has ended well. They are read as there is room for them, however many there are.
    pub fn look_at_all(&self, kind: &str) {
        self.more.lock().kinds.push(kind.into());
    }
}

/// When a key is to be looked at again, changes aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Done,
    /// There is more to do, but others have their turn first.
    Again,
    After(Duration),
    /// It could not be done, and that has been told where it belongs: again after a wait that grows from time to
    /// time, or as soon as a change asks for it.
    Backoff,
}

#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// What was expected of the control plane does not hold (yet).
    #[error("{0}")]
    Failed(String),
}

/// What the control plane said, without the machinery that it said it by.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

impl Error {
    pub fn failed(why: impl std::fmt::Display) -> Error {
        Error::Failed(why.to_string())
    }

    /// The HTTP code of an answer, if that is what failed.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

/// One loop of a control plane, written for all of them at once. Level-triggered: a key says where to look, never
/// what happened, and a reconcile may run any number of times.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// As upstream calls it: also the name of its service account in `kube-system`, by which it has its rights.
    fn name(&self) -> &'static str;

    fn identity(&self) -> UserInfo {
        UserInfo::service_account("kube-system", self.name(), "").authenticated()
    }

    /// Asked once, and again after [`crate::Handle::kinds_changed`].
    fn kinds(&self) -> Kinds;

    /// Called for every change of its kinds, of all control planes, in order: must be quick.
    fn triggers(&self, event: &Event, triggers: &mut Triggers);

    /// Work that no change tells of, such as about a process that ended. Asked once, by the runtime it runs in.
    fn news(&self) -> Option<News> {
        None
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error>;
}

/// What happens elsewhere than in control planes and is to be looked at.
pub type News = BoxStream<'static, Request>;
