//! docs/benchmarks.md as a template: rows say which number of which scenario they show, and what it is held against.

use std::fmt::Write;

use serde_json::Value;

use super::Results;

/// How much less CPU than the stock server an operation may take.
const TIMES_LESS: f64 = 10.0;

/// An operation whose CPU time is measured, and what the stock server takes for it.
struct Operation {
    scenario: &'static str,
    what: &'static str,
    /// Measurements are per 1,000 operations; what is large is told for one.
    divisor: f64,
    stock: Option<f64>,
}

const fn per_thousand(scenario: &'static str, what: &'static str, stock: Option<f64>) -> Operation {
    Operation { scenario, what, divisor: 1.0, stock }
}

const fn each(scenario: &'static str, what: &'static str, stock: Option<f64>) -> Operation {
    Operation { scenario, what, divisor: 1_000.0, stock }
}

/// Where the stock server was measured as a range, its better end stands here.
const OPERATIONS: &[Operation] = &[
    per_thousand("create", "1,000 creates", Some(1.8)),
    per_thousand("get", "1,000 gets", Some(0.85)),
    per_thousand("update", "1,000 updates", Some(1.8)),
    per_thousand("merge patch", "1,000 merge patches", Some(2.2)),
    per_thousand("apply, create", "1,000 applies that create", Some(2.9)),
    per_thousand("apply, change", "1,000 applies that change", Some(2.9)),
    per_thousand("apply, no change", "1,000 applies that change nothing", Some(2.5)),
    per_thousand("delete", "1,000 deletes", Some(1.7)),
    each("list", "a list of 10,000", Some(0.3)),
    each("list, from cache", "a list of 10,000 with `resourceVersion=0`", Some(0.3)),
    each("list, one page", "a page of 500 of 10,000", Some(0.021)),
    each("list, all pages", "10,000 in pages of 500", None),
    each("list, by label", "625 of 10,000 by label", None),
    per_thousand("delete collection", "1,000 of 10,000 deleted as a collection", None),
    per_thousand("watch, 100 watchers", "1,000 watch deliveries, 100 watchers", None),
    per_thousand("watch, 1000 watchers", "1,000 watch deliveries, 1,000 watchers", Some(0.05)),
    each("definition to first object", "a definition and its first object", None),
];

/// Something that must stay below a limit.
struct Goal {
    what: &'static str,
    unit: &'static str,
    limit: f64,
    measured: fn(&Results) -> Option<f64>,
}

const GOALS: &[Goal] = &[
    Goal {
        what: "memory of each further tenant, idle, of 10,000",
        unit: "KiB",
        limit: 64.0,
        measured: |results| results.number("engine, 10000 tenants", "/resident_kib_per_tenant"),
    },
    Goal {
        what: "memory of the process with 10,000 tenants",
        unit: "MiB",
        limit: 1_000.0 * 1_000.0 * 1_000.0 / 1_048_576.0,
        measured: |results| results.number("engine, 10000 tenants", "/resident_mib_with"),
    },
    Goal {
        what: "tenant made to first answer, p99, in the engine",
        unit: "ms",
        limit: 50.0,
        measured: |results| results.number("engine, 1000 tenants", "/first_answer_ms/p99"),
    },
    Goal {
        what: "`ControlPlane` created to first answer over a new connection, p50",
        unit: "ms",
        limit: 50.0,
        measured: |results| results.number("tenant to first answer", "/latency_ms/p50"),
    },
    Goal {
        what: "CPU of 1,000 idle tenants in 10 s, beyond that of one",
        unit: "s",
        limit: 0.01, // One tick of the kernel's clock of processes.
        measured: |results| idle_beyond_one(results, "engine, 1000 tenants"),
    },
    Goal {
        what: "CPU of 10,000 idle tenants in 10 s, beyond that of one",
        unit: "s",
        limit: 0.01,
        measured: |results| idle_beyond_one(results, "engine, 10000 tenants"),
    },
    Goal {
        what: "CPU for each of 10,000 control planes made at once (300 a second on 2 cores)",
        unit: "ms",
        limit: 2_000.0 / 300.0,
        measured: |results| results.number("burst", "/cpu_s_per_1000"),
    },
    Goal {
        what: "CPU in 10 s, 10 s after the last of them was Ready",
        unit: "s",
        limit: 0.01,
        measured: |results| results.number("burst", "/idle_cpu_s"),
    },
    Goal {
        what: "memory of each of them",
        unit: "KiB",
        limit: 16.0,
        measured: |results| results.number("burst", "/resident_kib_per_control_plane"),
    },
    Goal {
        what: "disk of each of them",
        unit: "KiB",
        limit: 100.0,
        measured: |results| results.number("burst, restart", "/disk_kib_per_control_plane"),
    },
    Goal {
        what: "CPU of a restart with all of them",
        unit: "s",
        limit: 1.0,
        measured: |results| results.number("burst, restart", "/cpu_s"),
    },
    Goal {
        what: "what is left of the data directory when they are deleted",
        unit: "%",
        limit: 10.0,
        measured: |results| results.number("burst, restart", "/disk_left_percent"),
    },
    Goal {
        what: "definition to first object, p50",
        unit: "ms",
        limit: 2_000.0 / TIMES_LESS,
        measured: |results| results.number("definition to first object", "/latency_ms/p50"),
    },
    Goal {
        what: "copy of a control plane with 10,000 objects, Ready, p50",
        unit: "ms",
        limit: 50.0,
        measured: |results| results.number("copy of a control plane", "/latency_ms/p50"),
    },
    Goal {
        what: "memory of all services of AWS, above a server without",
        unit: "MiB",
        limit: 60.0,
        measured: super::clouds::services_mib,
    },
    Goal {
        what: "cloud object created to the first call about it, p50",
        unit: "ms",
        limit: 10.0,
        measured: |results| results.number("clouds", "/first_call_ms/p50"),
    },
];

fn idle_beyond_one(results: &Results, scenario: &str) -> Option<f64> {
    let one = results.number("engine, 1 tenants", "/idle_cpu_s")?;
    Some((results.number(scenario, "/idle_cpu_s")? - one).max(0.0))
}

pub fn write(results: &Results, command: &str, tenants: &[usize], existing: &[usize]) -> String {
    let mut page = String::new();
    head(&mut page, results, command);
    goals(&mut page, results);
    operations(&mut page, results);
    latencies(&mut page, results);
    churn::write(&mut page, results);
    if !tenants.is_empty() {
        engine(&mut page, results, tenants);
    }
    served(&mut page, results);
    control_planes(&mut page, results, existing);
    keeping::write(&mut page, results);
    page
}

/// A string takes whatever is written.
macro_rules! line {
    ($page:expr, $($what:tt)*) => {{ let _ = writeln!($page, $($what)*); }};
}

// After the macro, which they use.
mod churn;
mod keeping;

fn head(page: &mut String, results: &Results, command: &str) {
    let machine = &results.machine;
    line!(page, "# Benchmarks on {}\n", results.store.name());
    line!(page, "<!-- Written by `cargo xtask bench`; edit xtask/src/bench/page.rs instead. -->\n");
    line!(page, "    {command}\n");
    line!(page, "| | |\n|---|---|");
    line!(page, "| date | {} |", machine.date);
    line!(page, "| commit | {} |", machine.commit);
    line!(page, "| compiler | {}, profile {} |", machine.compiler, results.profile);
    line!(
        page,
        "| machine | {} cores of {}, {:.0} GiB, {} |",
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.kernel
    );
    line!(
        page,
        "| 4 KiB made durable | p50 {:.2} ms, slowest of 100 {:.2} ms |",
        machine.sync_ms.0,
        machine.sync_ms.1
    );
    line!(page, "| load average before | {} |", machine.load_average);
    line!(
        page,
        "| start to \"is up\", empty data directory | {:.0} ms |\n",
        results.startup.as_secs_f64() * 1e3
    );
    line!(
        page,
        "One server on this machine with everything it has: TLS, HTTP/2, RBAC, audit off, controllers, {}. ConfigMaps of about 1 kB; 16 workers on 4 connections, each sends \
         its next request when the last is answered. CPU is user and system time of the whole server process, the \
         median of the rounds. The load generator (benches/load) runs on the same machine, so rates and latencies \
         include what it takes away; CPU time does not.\n",
        results.store.told()
    );
    line!(
        page,
        "The stock server is kube-apiserver with etcd and its controller manager, measured with the same scenarios \
         at the same concurrency on 2 cores. The goal for every operation is a tenth of its CPU time.\n"
    );
}

fn goals(page: &mut String, results: &Results) {
    line!(page, "## Goals\n\n| | goal | measured | |\n|---|---:|---:|---|");
    for operation in OPERATIONS {
        let Some(stock) = operation.stock else { continue };
        let limit = stock / TIMES_LESS;
        let what = format!("CPU of {}", operation.what);
        goal(page, &what, "s", limit, operation.measured(results));
    }
    for Goal { what, unit, limit, measured } in GOALS {
        goal(page, what, unit, *limit, measured(results));
    }
    line!(page, "");
}

fn goal(page: &mut String, what: &str, unit: &str, limit: f64, measured: Option<f64>) {
    let verdict = match measured {
        None => "not measured in this run".to_owned(),
        // As it is shown: differences of clock ticks are not exact.
        Some(measured) if measured <= limit || number(measured) == number(limit) => "met".to_owned(),
        Some(measured) => format!("**missed** by {:.0} %", (measured / limit - 1.0) * 100.0),
    };
    line!(page, "| {what} | ≤ {} {unit} | {} | {verdict} |", number(limit), with_unit(measured, unit));
}

impl Operation {
    fn measured(&self, results: &Results) -> Option<f64> {
        Some(results.number(self.scenario, "/cpu_s_per_1000")? / self.divisor)
    }
}

fn operations(page: &mut String, results: &Results) {
    line!(
        page,
        "## CPU time\n\n| CPU seconds for | stock | Hangar | less by | least and most of the rounds |\n|---|---:|---:|---:|---|"
    );
    for operation in OPERATIONS {
        let measured = operation.measured(results);
        let less = operation.stock.zip(measured).map(|(stock, measured)| format!("{:.1}×", stock / measured));
        let rounds = results.scenarios.get(operation.scenario).map(|line| &line["cpu_s_per_1000_of_rounds"]);
        let rounds = rounds.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let rounds = rounds.iter().filter_map(|round| Some(round.as_f64()? / operation.divisor));
        let (least, most) = (rounds.clone().reduce(f64::min), rounds.reduce(f64::max));
        line!(
            page,
            "| {} | {} | {} | {} | {} to {} |",
            operation.what,
            told(operation.stock),
            told(measured),
            less.unwrap_or_else(|| "–".to_owned()),
            told(least),
            told(most)
        );
    }
    line!(page, "");
}

fn latencies(page: &mut String, results: &Results) {
    line!(page, "## Rates, latencies, memory\n");
    line!(page, "| | per second | p50 ms | p90 ms | p99 ms | max ms | resident after, MiB |");
    line!(page, "|---|---:|---:|---:|---:|---:|---:|");
    for Operation { scenario, .. } in OPERATIONS {
        let at = |pointer: &str| told(results.number(scenario, pointer));
        line!(
            page,
            "| {scenario} | {} | {} | {} | {} | {} | {} |",
            at("/operations_per_second"),
            at("/latency_ms/p50"),
            at("/latency_ms/p90"),
            at("/latency_ms/p99"),
            at("/latency_ms/max"),
            at("/resident_mib")
        );
    }
    line!(page, "");
    line!(
        page,
        "A watch delivery is timed from before the write is sent to when the watcher has read the event; 5,000 \
         deliveries are offered each second, or 50 events if that is less. Five seconds after the collection is \
         deleted the server has {} MiB. A definition is `Established` after {} ms (p50) and keeps {} KiB; the stock \
         server takes 49 ms, accepts the first object after 2,035 ms, and keeps 1,229 KiB.\n",
        told(results.number("after delete collection", "/resident_mib")),
        told(results.number("definition to first object", "/details/established_ms/p50")),
        told(results.number("definition to first object", "/details/resident_kib_per_definition")),
    );
}

/// What is shown of tenants in the engine: a row for each number.
const ENGINE: &[(&str, &str)] = &[
    ("made to first answer, p50 ms", "/first_answer_ms/p50"),
    ("made to first answer, p99 ms", "/first_answer_ms/p99"),
    ("made, per second", "/made_per_second"),
    ("CPU s for 1,000 made", "/made_cpu_s_per_1000"),
    ("deleted, per second", "/deleted_per_second"),
    ("CPU s for 1,000 deleted", "/deleted_cpu_s_per_1000"),
    ("resident before, MiB", "/resident_mib_before"),
    ("resident with all of them idle, MiB", "/resident_mib_with"),
    ("resident after all are deleted, MiB", "/resident_mib_after"),
    ("KiB for each", "/resident_kib_per_tenant"),
    ("CPU s in 10 s of idleness", "/idle_cpu_s"),
];

fn engine(page: &mut String, results: &Results, tenants: &[usize]) {
    line!(page, "## Tenants in the engine\n");
    line!(
        page,
        "In a process without sockets and controllers: each tenant is made with keys and first objects of its own, \
         durably, and asked for one object; the first 200 one at a time, the others 16 at a time. Each further \
         control plane of the stock server takes 357 MiB and 2 CPU seconds a minute.\n"
    );
    let head: String = tenants.iter().fold(String::new(), |row, count| format!("{row} {count} |"));
    line!(page, "| tenants |{head}\n|---|{}", "---:|".repeat(tenants.len()));
    for (what, pointer) in ENGINE {
        let row = tenants.iter().fold(String::new(), |row, count| {
            format!("{row} {} |", told(results.number(&format!("engine, {count} tenants"), pointer)))
        });
        line!(page, "| {what} |{row}");
    }
    line!(page, "");
}

/// The same, asked for as users do.
fn served(page: &mut String, results: &Results) {
    line!(page, "## Tenants over the wire\n");
    let Some(tenants) = results.scenarios.get("tenants") else { return };
    if let Some(why) = tenants["skipped"].as_str() {
        return line!(page, "Not measured: {why}.");
    }
    line!(
        page,
        "With the whole server: a `ControlPlane` is created, its kubeconfig is waited for, and the new control plane \
         is asked for one object over a connection of its own; 20 one at a time, the others 16 at a time. {} of them.\n",
        told(results.number("tenants", "/tenants"))
    );
    line!(page, "| | per second | p50 ms | p99 ms | CPU s for 1,000 |\n|---|---:|---:|---:|---:|");
    for scenario in ["tenant to first answer", "tenants made", "tenants deleted"] {
        let at = |pointer: &str| told(results.number(scenario, pointer));
        line!(
            page,
            "| {scenario} | {} | {} | {} | {} |",
            at("/operations_per_second"),
            at("/latency_ms/p50"),
            at("/latency_ms/p99"),
            at("/cpu_s_per_1000")
        );
    }
    let at = |pointer: &str| told(results.number("tenants", pointer));
    line!(
        page,
        "\nResident before {} MiB, with all of them idle {} MiB ({} KiB for each), after they are deleted {} MiB; {} CPU s \
         in {} s of idleness.",
        at("/resident_mib_before"),
        at("/resident_mib_with"),
        at("/resident_kib_per_tenant"),
        at("/resident_mib_after"),
        at("/idle_cpu_s"),
        at("/idle_seconds")
    );
}

/// One more among many, all of them, and copies.
fn control_planes(page: &mut String, results: &Results, existing: &[usize]) {
    line!(page, "\n## Control planes\n");
    let Some(all) = results.scenarios.get("control planes") else { return };
    if let Some(why) = all["skipped"].as_str() {
        return line!(page, "Not measured: {why}.");
    }
    line!(page, "From the request to the condition Ready, one at a time, while so many others exist:\n");
    line!(
        page,
        "| existing | p50 ms | p99 ms | CPU s for 1,000 | resident MiB |\n|---:|---:|---:|---:|---:|"
    );
    for level in existing {
        let scenario = format!("control plane ready, {level} existing");
        let at = |pointer: &str| told(results.number(&scenario, pointer));
        line!(
            page,
            "| {level} | {} | {} | {} | {} |",
            at("/latency_ms/p50"),
            at("/latency_ms/p99"),
            at("/cpu_s_per_1000"),
            at("/resident_mib")
        );
    }
    let at = |pointer: &str| told(results.number("control planes", pointer));
    line!(
        page,
        "\n{} were made in {} s (16 at a time, {} a second) and deleted in {} s. Resident before {} MiB, with all of them \
         {} MiB ({} KiB for each), after they are deleted {} MiB.",
        at("/control_planes"),
        at("/made_in_s"),
        at("/made_per_second"),
        at("/deleted_in_s"),
        at("/resident_mib_before"),
        at("/resident_mib_with"),
        at("/resident_kib_per_control_plane"),
        at("/resident_mib_after")
    );
    let at = |pointer: &str| told(results.number("copy of a control plane", pointer));
    line!(
        page,
        "\nA copy (`spec.source`) of a control plane with {} objects is Ready after {} ms (p50), {} ms (p99).",
        at("/details/objects"),
        at("/latency_ms/p50"),
        at("/latency_ms/p99")
    );
}

pub fn told(measured: Option<f64>) -> String {
    measured.map_or_else(|| "–".to_owned(), number)
}

fn with_unit(measured: Option<f64>, unit: &str) -> String {
    measured.map_or_else(|| "–".to_owned(), |measured| format!("{} {unit}", number(measured)))
}

/// Three digits that mean something.
fn number(number: f64) -> String {
    let digits = match number.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (given, expected) in [
            (0.0, "0"),
            (0.03, "0.03"),
            (0.01234, "0.0123"),
            (0.1876, "0.188"),
            (2.0, "2"),
            (12.34, "12.3"),
            (954.7, "955"),
        ] {
            assert_eq!(number(given), expected);
        }
    }
}
