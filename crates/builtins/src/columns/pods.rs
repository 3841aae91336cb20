//! Pods, whose status is the summary of many.

use objects::{Value, meta};

use super::{
    AGE, Column, NAME, shown, shown::has_condition, shown::seconds, shown::since, shown_at, text_or,
};
use crate::dotted::Dotted;

pub(crate) static POD: [Column; 9] = [
    NAME,
    shown("Ready", |pod| {
        let summary = Summary::of(pod);
        format!("{}/{}", summary.ready, summary.containers)
    }),
    shown("Status", |pod| Summary::of(pod).reason),
    shown_at("Restarts", |pod, now| {
        let summary = Summary::of(pod);
        match summary.restarts {
            Restarts { count, last: Some(_), stamp } if count != 0 => {
                format!("{count} ({} ago)", since(stamp, now))
            }
            Restarts { count, .. } => count.to_string(),
        }
    }),
    AGE,
    shown("IP", |pod| match pod.list("status.podIPs").first().map_or("", |first| first.text("ip")) {
        "" => "<none>".to_owned(),
        ip => ip.to_owned(),
    })
    .wide(),
    text_or("Node", "spec.nodeName", "<none>").wide(),
    text_or("Nominated Node", "status.nominatedNodeName", "<none>").wide(),
    shown("Readiness Gates", readiness_gates).wide(),
];

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.list("spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| has_condition(pod, gate.text("conditionType"))).count();
    format!("{open}/{}", gates.len())
}

/// How often containers were restarted, and when the last of them ended.
#[derive(Default, Clone, Copy)]
struct Restarts<'a> {
    count: i64,
    last: Option<i64>,
    stamp: &'a str,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &'a Value) {
        self.count = self.count.saturating_add(container.number("restartCount"));
        let stamp = container.text("lastState.terminated.finishedAt");
        let ended = seconds(stamp);
        if ended.is_some() && ended > self.last {
            (self.last, self.stamp) = (ended, stamp);
        }
    }
}

struct Summary<'a> {
    ready: usize,
    containers: usize,
    reason: String,
    restarts: Restarts<'a>,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let phase = pod.text("status.phase");
        let mut summary = Summary {
            ready: 0,
            containers: pod.count("spec.containers")
                + pod.list("spec.initContainers").iter().filter(|c| is_sidecar(c)).count(),
            reason: match pod.text("status.reason") {
                "" => phase.to_owned(),
                reason => reason.to_owned(),
            },
            restarts: Restarts::default(),
        };
        let gated = |c: &Value| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
        if pod.list("status.conditions").iter().any(gated) {
            summary.reason = "SchedulingGated".to_owned();
        }
        let (initializing, sidecars) = summary.count_init(pod);
        if !initializing || has_condition(pod, "Initialized") {
            summary.restarts = sidecars;
            summary.count_main(pod);
        }
        if meta::is_deleting(pod) {
            if pod.text("status.reason") == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Failed" | "Succeeded") {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Walks the init containers up to the one that is at work, if any. Also tells the restarts of sidecars.
    fn count_init(&mut self, pod: &'a Value) -> (bool, Restarts<'a>) {
        let specs = pod.list("spec.initContainers");
        let mut sidecars = Restarts::default();
        for (i, container) in pod.list("status.initContainerStatuses").iter().enumerate() {
            let name = container.text("name");
            let sidecar = specs.iter().any(|spec| spec.text("name") == name && is_sidecar(spec));
            self.restarts.add(container);
            if sidecar {
                sidecars.add(container);
            }
            let (waiting, terminated) = (container.at("state.waiting"), container.at("state.terminated"));
            if !terminated.is_null() && terminated.number("exitCode") == 0 {
                continue;
            }
            if sidecar && container.flag("started") {
                self.ready += usize::from(container.flag("ready"));
                continue;
            }
            self.reason = if !terminated.is_null() {
                format!("Init:{}", end_of(terminated))
            } else {
                match waiting.text("reason") {
                    "" | "PodInitializing" => format!("Init:{i}/{}", specs.len()),
                    reason => format!("Init:{reason}"),
                }
            };
            return (true, sidecars);
        }
        (false, sidecars)
    }

    fn count_main(&mut self, pod: &'a Value) {
        let mut running = false;
        let mut failure = None;
        for container in pod.list("status.containerStatuses").iter().rev() {
            self.restarts.add(container);
            let (waiting, terminated) = (container.at("state.waiting"), container.at("state.terminated"));
            if !waiting.text("reason").is_empty() {
                self.reason = waiting.text("reason").to_owned();
            } else if !terminated.is_null() {
                self.reason = end_of(terminated);
                if terminated.number("exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.flag("ready") && container.has("state.running") {
                running = true;
                self.ready += 1;
            }
        }
        // One container that has completed does not complete the pod.
        if self.reason == "Completed" {
            if running && has_condition(pod, "Ready") {
                self.reason = "Running".to_owned();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

/// Why a container ended: its reason, else the signal, else the exit code.
fn end_of(terminated: &Value) -> String {
    match (terminated.text("reason"), terminated.number("signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// An init container that keeps running beside the main ones.
fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}
