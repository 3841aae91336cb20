//! A cloud in memory: resources by id, calls that are counted, and faults at the calls they are set for.

use std::collections::BTreeMap;

use objects::Value;
use parking_lot::Mutex;
use serde_json::{Map, json};
use tokio::sync::Notify;

use crate::failure::{Class, Failure};

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before the call is carried out, or after it.
    CrashBefore,
    CrashAfter,
    /// Carried out, but the answer is lost.
    Lost,
    /// Neither carried out nor answered.
    Unreached,
    Throttled,
    Internal,
    Denied,
}

pub const FAULTS: [Fault; 4] = [Fault::Lost, Fault::Unreached, Fault::Throttled, Fault::Internal];

/// Everything that is called, of the cloud and of the control plane, is counted here; one of them can be the last.
#[derive(Default)]
pub struct Tripwire {
    state: Mutex<Armed>,
    crashed: Notify,
}

#[derive(Default)]
struct Armed {
    passed: usize,
    at: Option<(usize, Fault)>,
    /// Since it was armed.
    dead: bool,
}

impl Tripwire {
    /// The fault happens at the call after so many others.
    pub fn arm(&self, calls: usize, fault: Fault) {
        *self.state.lock() = Armed { passed: 0, at: Some((calls, fault)), dead: false };
    }

    pub fn disarm(&self) {
        *self.state.lock() = Armed::default();
    }

    /// Whether the call that was armed for has been made.
    pub fn is_sprung(&self) -> bool {
        self.state.lock().at.is_none()
    }

    pub fn pass(&self) -> Option<Fault> {
        let mut state = self.state.lock();
        state.passed += 1;
        let (_, fault) = state.at.filter(|(calls, _)| state.passed == calls + 1)?;
        state.at = None;
        Some(fault)
    }

    /// The process is as good as dead: whoever waits for it kills it.
    pub async fn crash(&self) -> ! {
        self.state.lock().dead = true;
        self.crashed.notify_one();
        std::future::pending().await
    }

    /// The death that it is armed for. Nobody may have waited for an earlier one, whose notice is still there then.
    pub async fn death(&self) {
        while !self.state.lock().dead {
            self.crashed.notified().await;
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    pub name: String,
    pub token: String,
    /// The uid of the object that it belongs to.
    pub mark: String,
    pub fields: Map<String, Value>,
    pub password: String,
    /// Reads until it is gone.
    pub going: Option<u32>,
}

type Resources = BTreeMap<String, Resource>;

#[derive(Default)]
struct State {
    resources: Resources,
    made: u64,
    calls: Vec<String>,
    /// What reads still see, and how often.
    stale: Option<(Resources, u32)>,
    /// How many reads after a write do not see it.
    lag: u32,
    /// No read shows anything.
    hidden: bool,
}

#[derive(Default)]
pub struct Cloud {
    state: Mutex<State>,
    pub tripwire: Tripwire,
    /// Deletions take a few reads.
    pub slow: std::sync::atomic::AtomicBool,
}

fn not_found(what: &str) -> Failure {
    Failure::new(Class::NotFound, "NotFound", format!("{what} is not there"))
}

impl Cloud {
    async fn call<T>(
        &self,
        operation: &str,
        run: impl FnOnce(&mut State) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let fault = self.tripwire.pass();
        self.state.lock().calls.push(operation.to_owned());
        match fault {
            None => run(&mut self.state.lock()),
            Some(Fault::CrashBefore) => self.tripwire.crash().await,
            Some(Fault::CrashAfter) => {
                let _ = run(&mut self.state.lock());
                self.tripwire.crash().await
            }
            Some(Fault::Lost) => {
                let _ = run(&mut self.state.lock());
                Err(Failure::lost("the connection was closed"))
            }
            Some(Fault::Unreached) => Err(Failure::lost("the connection was closed")),
            Some(Fault::Throttled) => Err(Failure::new(Class::Throttled, "Throttling", "slow down")),
            Some(Fault::Internal) => {
                let failure = Failure::new(Class::Recoverable, "InternalError", "try again");
                Err(Failure { ambiguous: true, ..failure })
            }
            Some(Fault::Denied) => Err(Failure::new(Class::Denied, "AccessDenied", "you may not")),
        }
    }

    fn write(state: &mut State) -> &mut Resources {
        if state.lag > 0 {
            state.stale = Some((state.resources.clone(), state.lag));
        }
        &mut state.resources
    }

    fn read(state: &mut State) -> Resources {
        if state.hidden {
            return Resources::new();
        }
        match &mut state.stale {
            Some((before, reads)) => {
                let seen = before.clone();
                *reads -= 1;
                if *reads == 0 {
                    state.stale = None;
                }
                seen
            }
            None => state.resources.clone(),
        }
    }

    pub async fn create(&self, resource: Resource, unique_name: bool) -> Result<String, Failure> {
        self.call("Create", |state| {
            if let Some((id, _)) =
                state.resources.iter().find(|(_, one)| !one.token.is_empty() && one.token == resource.token)
            {
                return Ok(id.clone());
            }
            if unique_name && state.resources.values().any(|one| one.name == resource.name) {
                return Err(Failure::new(
                    Class::Exists,
                    "AlreadyExists",
                    format!("{} is taken", resource.name),
                ));
            }
            if resource.fields.get("size") == Some(&json!(-1)) {
                return Err(Failure::new(Class::Terminal, "InvalidSize", "size must not be negative"));
            }
            state.made += 1;
            let id = format!("id-{}", state.made);
            let mut resource = resource;
            let zone = if resource.fields.get("color") == Some(&json!("odd")) {
                "zone-much-too-long"
            } else {
                "zone-a"
            };
            resource.fields.entry("zone").or_insert(zone.into());
            // The cloud has a spelling of its own.
            if let Some(Value::String(text)) = resource.fields.get_mut("fixed") {
                *text = text.to_lowercase();
            }
            Self::write(state).insert(id.clone(), resource);
            Ok(id)
        })
        .await
    }

    /// By id, or by name where those are unique.
    pub async fn get(&self, id: &str, by_name: bool) -> Result<(String, Resource), Failure> {
        self.call("Get", |state| {
            if let Some(reads) = state.resources.get_mut(id).and_then(|one| one.going.as_mut()) {
                *reads = reads.saturating_sub(1);
                if *reads == 0 {
                    state.resources.remove(id);
                }
            }
            let seen = Self::read(state);
            let found = match by_name {
                true => seen.into_iter().find(|(_, one)| one.name == id),
                false => seen.get(id).map(|one| (id.to_owned(), one.clone())),
            };
            found.ok_or_else(|| not_found(id))
        })
        .await
    }

    pub async fn find(&self, wanted: impl Fn(&Resource) -> bool) -> Result<Option<String>, Failure> {
        self.call("List", |state| {
            Ok(Self::read(state).into_iter().find(|(_, one)| wanted(one)).map(|(id, _)| id))
        })
        .await
    }

    pub async fn set(&self, id: &str, field: &str, value: Value) -> Result<(), Failure> {
        self.call(&format!("Set {field}"), |state| {
            let resource = Self::write(state).get_mut(id).ok_or_else(|| not_found(id))?;
            match field {
                "password" => resource.password = value.as_str().unwrap_or("").to_owned(),
                // The cloud knows better.
                "grumpy" => {}
                _ if value.is_null() => drop(resource.fields.remove(field)),
                _ => drop(resource.fields.insert(field.to_owned(), value)),
            }
            Ok(())
        })
        .await
    }

    /// Whether it is gone at once.
    pub async fn delete(&self, id: &str) -> Result<bool, Failure> {
        let slow = self.slow.load(std::sync::atomic::Ordering::SeqCst);
        self.call("Delete", |state| {
            let resource = state.resources.get_mut(id).ok_or_else(|| not_found(id))?;
            if resource.fields.get("protected") == Some(&json!(true)) {
                return Err(Failure::recoverable("deletion protection is on"));
            }
            if slow {
                resource.going.get_or_insert(3);
                return Ok(false);
            }
            Self::write(state).remove(id);
            Ok(true)
        })
        .await
    }

    // What tests do behind the engine's back.

    pub fn put(&self, id: &str, resource: Resource) {
        self.state.lock().resources.insert(id.to_owned(), resource);
    }

    pub fn change(&self, name: &str, change: impl FnOnce(&mut Resource)) {
        let mut state = self.state.lock();
        change(state.resources.values_mut().find(|one| one.name == name).expect("it is there"));
    }

    pub fn lose(&self, name: &str) {
        self.state.lock().resources.retain(|_, one| one.name != name);
    }

    pub fn hide(&self, hidden: bool) {
        self.state.lock().hidden = hidden;
    }

    pub fn lag(&self, reads: u32) {
        self.state.lock().lag = reads;
    }

    pub fn of(&self, name: &str) -> Vec<Resource> {
        self.state.lock().resources.values().filter(|one| one.name == name).cloned().collect()
    }

    pub fn only(&self, name: &str) -> Resource {
        let mut all = self.of(name);
        assert_eq!(all.len(), 1, "exactly one {name}: {all:?}");
        all.remove(0)
    }

    /// Calls since the last time this was asked.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().calls)
    }
}
