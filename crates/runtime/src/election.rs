//! One process at a time on a cluster elsewhere, by a Lease object, as Kubernetes' own programs elect their leaders.
//!
//! The rules are those of [`crate::Leases`]: whoever wants it waits until it has not been written for as long as it says,
//! by their own clock, and a holder that could not renew it gives up before that.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::lease::Terms;

/// As client-go has them.
const TERMS: Terms = Terms {
    renewal: Duration::from_secs(2),
    giving_up: Duration::from_secs(10),
    expiry: Duration::from_secs(15),
};

/// Somebody who wants to lead.
#[derive(Clone)]
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    holder: String,
}

/// While it leads. Dropping it gives the lease back, sooner or later.
pub struct Leadership {
    /// Cancelled when somebody else may lead.
    pub ended: CancellationToken,
    renewing: DropGuard,
}

impl Leadership {
    /// Gives the lease back, and returns when that is done.
    pub async fn resign(self) {
        let Leadership { ended, renewing } = self;
        drop(renewing);
        ended.cancelled().await;
    }
}

/// What is said in a Lease, as far as it matters here.
struct Held {
    version: String,
    holder: String,
    acquired: Value,
    transitions: i64,
    lasts: Duration,
}

impl Held {
    fn of(lease: &Lease) -> Held {
        let spec = serde_json::to_value(&lease.spec).unwrap_or_default();
        let seconds = spec["leaseDurationSeconds"].as_u64().map_or(TERMS.expiry, Duration::from_secs);
        Held {
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
            holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
            acquired: spec["acquireTime"].clone(),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
            lasts: seconds,
        }
    }
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

fn now() -> Value {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into()
}

impl Candidate {
    /// `holder` names this process among the others.
    pub fn new(client: kube::Client, namespace: &str, name: &str, holder: String) -> Self {
        Candidate { leases: Api::namespaced(client, namespace), name: name.to_owned(), holder }
    }

    /// Waits for as long as it takes; a cluster that does not answer is waited for as well.
    pub async fn lead(&self) -> Leadership {
        let mut seen: Option<(String, Instant)> = None;
        loop {
            match self.take(&mut seen).await {
                Ok(Some((held, since))) => {
                    tracing::info!(lease = self.name, holder = self.holder, "leads");
                    let (ended, renewing) = (CancellationToken::new(), CancellationToken::new());
                    tokio::spawn(self.clone().renew(held, since, ended.clone(), renewing.clone()));
                    return Leadership { ended, renewing: renewing.drop_guard() };
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(lease = self.name, %error, "the lease cannot be asked for"),
            }
            tokio::time::sleep(TERMS.renewal).await;
        }
    }

    /// Takes the lease if it is free. `seen` is the version that was last found, and when it was found first.
    async fn take(
        &self,
        seen: &mut Option<(String, Instant)>,
    ) -> Result<Option<(Held, Instant)>, kube::Error> {
        let began = Instant::now();
        let found = match self.leases.get_opt(&self.name).await? {
            None => {
                let first = self.lease("", now(), 0);
                return match self.leases.create(&PostParams::default(), &first?).await {
                    Ok(made) => Ok(Some((Held::of(&made), began))),
                    Err(error) if code(&error) == 409 => Ok(None),
                    Err(error) => Err(error),
                };
            }
            Some(found) => Held::of(&found),
        };
        let since = match seen {
            Some((version, since)) if *version == found.version => *since,
            _ => seen.insert((found.version.clone(), began)).1,
        };
        if !found.holder.is_empty() && since.elapsed() < found.lasts {
            return Ok(None);
        }
        let taken = self.lease(&found.version, now(), found.transitions + 1)?;
        match self.leases.replace(&self.name, &PostParams::default(), &taken).await {
            Ok(held) => Ok(Some((Held::of(&held), began))),
            Err(error) if matches!(code(&error), 404 | 409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn renew(
        self,
        mut held: Held,
        mut sure: Instant,
        ended: CancellationToken,
        renewing: CancellationToken,
    ) {
        let _ended = ended.drop_guard();
        loop {
            tokio::select! {
                () = tokio::time::sleep(TERMS.renewal) => {}
                () = renewing.cancelled() => return self.give_back(&held).await,
            }
            let asked = Instant::now();
            match tokio::time::timeout_at(sure + TERMS.giving_up, self.renewed(&held)).await {
                Ok(Ok(Some(renewed))) => (held, sure) = (renewed, asked),
                Ok(Ok(None)) => {
                    tracing::warn!(lease = self.name, "somebody else leads");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "the lease could not be renewed"),
                Err(_) => {}
            }
            if sure.elapsed() >= TERMS.giving_up {
                tracing::warn!(lease = self.name, "the lease could not be renewed in time and is given up");
                return;
            }
        }
    }

    /// None when it is somebody else's.
    async fn renewed(&self, held: &Held) -> Result<Option<Held>, kube::Error> {
        let lease = self.lease(&held.version, held.acquired.clone(), held.transitions)?;
        match self.leases.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(renewed) => Ok(Some(Held::of(&renewed))),
            // An earlier renewal may have been written though its answer was lost: the next one finds its version.
            Err(error) if code(&error) == 409 => {
                let found = self.leases.get_opt(&self.name).await?.map(|lease| Held::of(&lease));
                Ok(found.filter(|found| found.holder == self.holder))
            }
            Err(error) if code(&error) == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// If it cannot be given back it runs out.
    async fn give_back(&self, held: &Held) {
        let mut lease = self.lease(&held.version, held.acquired.clone(), held.transitions);
        if let Ok(Lease { spec: Some(spec), .. }) = &mut lease {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        if let Ok(lease) = lease {
            let _ = self.leases.replace(&self.name, &PostParams::default(), &lease).await;
        }
    }

    /// The object as this process holds it.
    fn lease(&self, version: &str, acquired: Value, transitions: i64) -> Result<Lease, kube::Error> {
        let mut lease = json!({
            "metadata": {"name": self.name},
            "spec": {
                "holderIdentity": self.holder, "leaseDurationSeconds": TERMS.expiry.as_secs(),
                "acquireTime": acquired, "renewTime": now(), "leaseTransitions": transitions,
            },
        });
        if !version.is_empty() {
            lease["metadata"]["resourceVersion"] = version.into();
        }
        serde_json::from_value(lease).map_err(kube::Error::SerdeError)
    }
}
