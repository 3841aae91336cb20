//! Control planes in processes of their own: children of this one, with a store and limits of their own.
//!
//! Each has a [`Room`] on disk, which is all there is to know about it; the process is `hangar serve`, as it runs in pods
//! of a cluster, and is reached through the doors of this process. Why so: docs/decisions/0008.

mod child;
mod news;
mod room;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Body, Door, Elsewhere, status_response};
use async_trait::async_trait;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use jiff::Timestamp;
use objects::{Reason, Status};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::conditions::Condition;
use crate::embedded::ranges;
use crate::host::HostError;
use crate::plane::Plane;
use child::{Sight, Teller};
use news::News;
use room::RoomError;
pub use room::{Charter, Room};

/// How processes are started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program that has `serve`: this one.
    pub program: PathBuf,
    /// Where rooms are.
    pub directory: PathBuf,
    /// What all of them are told alike.
    pub arguments: Vec<String>,
    /// All that they find in their environment: what this process was told by its own is not meant for them.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether each writes an audit log into its room.
    pub audited: bool,
}

/// How long a process may take to say that it is ready, before it is said that it is not.
const PATIENCE: Duration = Duration::from_secs(10);

/// The smallest limit that a control plane without objects runs with.
const LEAST_MEMORY: u64 = 64 << 20;

struct Process {
    /// None when it is to end.
    room: watch::Sender<Option<Arc<Room>>>,
    sight: watch::Receiver<Sight>,
}

pub struct Processes {
    launch: Arc<Launch>,
    running: RwLock<BTreeMap<String, Arc<Process>>>,
    keepers: TaskTracker,
    news: Arc<News>,
    stop: CancellationToken,
}

fn failed(error: RoomError) -> HostError {
    HostError::Failed(error.to_string())
}

impl Processes {
    /// Starts all that there are.
    pub fn open(launch: Launch, stop: CancellationToken) -> Result<Arc<Processes>, RoomError> {
        let rooms = room::all(&launch.directory)?;
        let processes = Processes {
            launch: Arc::new(launch),
            running: RwLock::default(),
            keepers: TaskTracker::new(),
            news: Arc::default(),
            stop,
        };
        for room in rooms {
            processes.start(room);
        }
        Ok(Arc::new(processes))
    }

    /// Resolves when all have ended, after it was told to stop.
    pub async fn ended(&self) {
        self.stop.cancelled().await;
        self.keepers.close();
        self.keepers.wait().await;
    }

    fn start(&self, room: Room) {
        let name = room.name.clone();
        let (room, wanted) = watch::channel(Some(Arc::new(room)));
        let (seen, sight) = watch::channel(Sight::default());
        let teller = Teller { name: name.clone(), sight: seen, news: self.news.clone() };
        self.keepers.spawn(child::keep(self.launch.clone(), wanted, teller, self.stop.clone()));
        self.running.write().insert(name, Arc::new(Process { room, sight }));
    }

    /// Names of those that have started or ended since they were last told.
    pub fn news(&self) -> BoxStream<'static, String> {
        self.news.clone().read()
    }

    fn find(&self, name: &str) -> Option<Arc<Process>> {
        self.running.read().get(name).cloned()
    }

    fn directory(&self, plane: &Plane) -> PathBuf {
        self.launch.directory.join(Path::new(&plane.name))
    }

    pub fn has(&self, name: &str) -> bool {
        self.running.read().contains_key(name)
    }

    pub fn names(&self) -> Vec<String> {
        self.running.read().keys().cloned().collect()
    }

    pub fn named(&self, name: &str) -> Option<Arc<Room>> {
        self.find(name)?.room.borrow().clone()
    }

    /// The room that was made for this object.
    pub fn room(&self, plane: &Plane) -> Option<Arc<Room>> {
        self.named(&plane.name).filter(|room| room.charter.owner == plane.uid)
    }

    /// Makes it, or makes it as it should be.
    pub fn ensure(&self, plane: &Plane) -> Result<(), HostError> {
        let now = Timestamp::now();
        let wanted = |generation| {
            Ok::<_, HostError>(Charter {
                owner: plane.uid.clone(),
                quota: plane.spec.quota,
                egress: ranges(plane)?,
                aws: plane.spec.aws.clone(),
                memory_limit: memory_limit(plane)?,
                generation,
            })
        };
        match self.room(plane) {
            Some(room) => {
                let wanted = wanted(room.charter.generation)?;
                if room.charter != wanted { self.change(plane, &room, &wanted, now) } else { Ok(()) }
            }
            None if self.has(&plane.name) => {
                let why = format!("a process of an earlier control plane {:?} still runs", plane.name);
                Err(HostError::Failed(why))
            }
            None => {
                let made = Room::make(&self.directory(plane), &wanted(0)?, now);
                self.start(made.map_err(failed)?);
                Ok(())
            }
        }
    }

    fn change(&self, plane: &Plane, room: &Room, to: &Charter, now: Timestamp) -> Result<(), HostError> {
        let changed = Arc::new(room.change(to, now).map_err(failed)?);
        if let Some(process) = self.find(&plane.name) {
            process.room.send_replace(Some(changed));
        }
        Ok(())
    }

    /// Another authority for its clients; once for each generation.
    pub fn revoke(&self, plane: &Plane, generation: u64) -> Result<(), HostError> {
        match self.room(plane) {
            Some(room) if room.charter.generation < generation => {
                let to = Charter { generation, ..room.charter.clone() };
                self.change(plane, &room, &to, Timestamp::now())
            }
            Some(_) => Ok(()),
            None => Err(HostError::Failed(format!("control plane {:?} is not there", plane.name))),
        }
    }

    /// Whether it answers, and is ready.
    pub async fn serves(&self, plane: &Plane) -> bool {
        let Some(relay) = self.find(&plane.name).and_then(|process| running(&process)) else { return false };
        let door = Door::of(plane.name.as_str());
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut request = Request::new(body);
        *request.uri_mut() = http::Uri::from_static("/readyz");
        let asked = tokio::time::timeout(PATIENCE, relay.ask(&door, request)).await;
        matches!(asked, Ok(Ok(response)) if response.status().is_success())
    }

    /// What to say of it.
    pub fn note(&self, plane: &Plane) -> Condition {
        let sight = self.find(&plane.name).map(|process| process.sight.borrow().clone()).unwrap_or_default();
        let before = match sight.ends {
            0 => String::new(),
            times => format!("; times it had to be started again: {times}, the last time {}", sight.why),
        };
        match sight.running {
            Some((id, _)) => Condition::new(CONDITION, true, "Running", format!("process {id}{before}")),
            None => Condition::new(CONDITION, false, "Ended", format!("no process runs{before}")),
        }
    }

    /// Ends its process and takes away all there is of it. Nothing happens to one that was made for another object.
    pub async fn remove(&self, plane: &Plane) -> Result<(), HostError> {
        let found = self.find(&plane.name);
        if found.is_some() && self.room(plane).is_none() {
            return Ok(());
        }
        if let Some(process) = found {
            process.room.send_replace(None);
            // An error is a keeper that is gone, and with it its process.
            let _ = process.sight.clone().wait_for(|sight| sight.over).await;
        }
        // Also of one that was only half made, or half removed.
        let directory = self.directory(plane);
        let removed = tokio::task::spawn_blocking(move || room::remove(&directory)).await;
        let removed = removed.map_err(|error| HostError::Failed(error.to_string()))?;
        removed.map_err(failed)?;
        self.running.write().remove(&plane.name);
        Ok(())
    }
}

/// Whether the process of a control plane runs, in its status.
pub const CONDITION: &str = "ProcessRunning";

fn running(process: &Process) -> Option<listener::relay::Relay> {
    process.sight.borrow().running.as_ref().map(|(_, relay)| relay.clone())
}

fn memory_limit(plane: &Plane) -> Result<Option<u64>, HostError> {
    let Some(text) = &plane.spec.process.memory_limit else { return Ok(None) };
    let parsed = objects::Quantity::parse(text).ok().and_then(|size| u64::try_from(size.value()).ok());
    match parsed {
        Some(bytes) if bytes >= LEAST_MEMORY => Ok(Some(bytes)),
        _ => {
            let why = format!("spec.process.memoryLimit: {text:?} is not a size of at least 64Mi");
            Err(HostError::Refused(why))
        }
    }
}

#[async_trait]
impl Elsewhere for Processes {
    fn serves(&self, control_plane: &str) -> bool {
        self.has(control_plane)
    }

    async fn answer(&self, door: Door, request: Request<Body>) -> Response<Body> {
        let name = &door.control_plane;
        if door.identity.is_some() {
            // Who is known here is not known there.
            return status_response(&Status::internal("a caller in this process has to prove who it is"));
        }
        let asked = match self.find(name).and_then(|process| running(&process)) {
            Some(relay) => relay.ask(&door, request).await.map_err(|error| error.to_string()),
            None => Err("it is being started".to_owned()),
        };
        asked.unwrap_or_else(|why| {
            let message = format!("the process of control plane {name:?} does not answer: {why}");
            status_response(&Status::new(Reason::ServiceUnavailable, message).retry_after(1))
        })
    }
}
