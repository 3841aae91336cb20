//! What can be measured: a row for each scenario.

mod arrivals;
mod burst;
mod churn;
mod clouds;
mod definitions;
mod lists;
mod neighbours;
mod objects;
mod planes;
mod tenants;
mod watches;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use crate::Settings;
use crate::report::Report;
use crate::target::{Connection, Request, Target};
use crate::work::{self, Done};

pub struct Scenario {
    pub name: &'static str,
    pub run: fn(&Session) -> BoxFuture<'_, anyhow::Result<()>>,
}

/// In the order in which they are run: each leaves the server as it found it.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "objects", run: |session| objects::run(session).boxed() },
    Scenario { name: "lists", run: |session| lists::run(session).boxed() },
    Scenario { name: "watches", run: |session| watches::run(session).boxed() },
    Scenario { name: "churn", run: |session| churn::run(session).boxed() },
    Scenario { name: "definitions", run: |session| definitions::run(session).boxed() },
    Scenario { name: "tenants", run: |session| tenants::run(session).boxed() },
    Scenario { name: "planes", run: |session| planes::run(session).boxed() },
    // What these two leave behind and find is each other's.
    Scenario { name: "burst", run: |session| burst::run(session).boxed() },
    Scenario { name: "burst-after", run: |session| burst::after(session).boxed() },
    Scenario { name: "neighbours", run: |session| neighbours::run(session).boxed() },
    Scenario { name: "clouds", run: |session| clouds::run(session).boxed() },
];

/// What scenarios share.
pub struct Session {
    pub target: Arc<Target>,
    pub settings: Settings,
    pub report: Report,
    /// For the workers of a closed loop.
    pub connections: Vec<Connection>,
    /// For everything that is not measured.
    pub aside: Connection,
    /// Where the objects of this run are.
    pub namespace: String,
    /// Different in every run, for names that must not be taken.
    pub run: u64,
}

impl Session {
    pub async fn open(target: Arc<Target>, settings: Settings, report: Report) -> anyhow::Result<Session> {
        let mut connections = Vec::with_capacity(settings.connections);
        for _ in 0..settings.connections.max(1) {
            connections.push(target.connect().await?);
        }
        let aside = target.connect().await?;
        let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() % 1_000_000;
        let session =
            Session { target, settings, report, connections, aside, namespace: format!("load-{run}"), run };
        session.make_namespace(&session.namespace).await?;
        Ok(session)
    }

    pub async fn leave(&self) -> anyhow::Result<()> {
        self.remove_namespace(&self.namespace).await
    }

    pub async fn make_namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.aside.succeed(Request::post("/api/v1/namespaces", &namespace)).await.map(drop)
    }

    pub async fn remove_namespace(&self, name: &str) -> anyhow::Result<()> {
        self.aside.succeed(Request::delete(format!("/api/v1/namespaces/{name}"))).await.map(drop)
    }

    /// One round of work by this number of workers.
    pub async fn round<M>(&self, workers: usize, count: usize, make: M) -> anyhow::Result<Done>
    where
        M: Fn(usize) -> Request + Send + Sync + 'static,
    {
        work::closed_loop(&self.connections, workers, count, make).await
    }

    /// Measures work in rounds; `make` is given the round and the number in it.
    pub async fn rounds<M>(&self, scenario: &str, make: M) -> anyhow::Result<()>
    where
        M: Fn(usize, usize) -> Request + Send + Sync + 'static,
    {
        let make = Arc::new(make);
        let mut measurement = self.report.measurement(scenario);
        for round in 0..self.settings.rounds {
            let (make, began) = (make.clone(), self.report.begin()?);
            let (workers, count) = (self.settings.workers, self.settings.operations);
            let done = self.round(workers, count, move |number| make(round, number)).await?;
            measurement.add(&began, done)?;
        }
        measurement.tell()
    }

    /// Measures one thing done again and again by one client, a round each time.
    pub async fn repeat(&self, scenario: &str, times: usize, request: Request) -> anyhow::Result<()> {
        let mut measurement = self.report.measurement(scenario);
        for _ in 0..self.settings.rounds {
            let (began, request) = (self.report.begin()?, request.clone());
            measurement.add(&began, self.round(1, times, move |_| request.clone()).await?)?;
        }
        measurement.tell()
    }

    pub fn configmaps(&self, namespace: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/configmaps")
    }
}

/// What is written and read: as much data as asked for, and a number that tells one from another.
pub fn configmap(name: &str, payload: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "load", "shard": format!("s{}", number % 16)}},
        "data": {"payload": payload, "number": number.to_string()},
    })
}

/// One thing that was waited for.
pub fn done_once(began: Instant) -> Done {
    let mut done = Done { operations: 1, took: began.elapsed(), ..Done::default() };
    done.latencies.push(done.took);
    done
}
