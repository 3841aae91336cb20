//! Many clients that write while as many watch.

use std::fmt::Write;

use super::{Results, told};

/// As the load is told by default.
const CLIENTS: [usize; 3] = [50, 200, 1_000];

pub fn write(page: &mut String, results: &Results) {
    line!(page, "## Watch churn\n");
    line!(
        page,
        "So many clients create, update twice and delete an object each, while as many watch all of it, each on a \
         connection of its own; at a pace of 50,000 deliveries a second, and as fast as they are answered. One failed write, or \
         an event that is missing, repeated or out of order, would have ended the run. The lag is counted from when the writer has its answer to \
         when a watcher has the event; zero is a watcher that knew before.\n"
    );
    line!(
        page,
        "| clients | | writes | writes a second | answered, p99 ms | deliveries a second | lag p50 ms | lag p99 ms | lag max ms |"
    );
    line!(page, "|---:|---|---:|---:|---:|---:|---:|---:|---:|");
    for clients in CLIENTS {
        for pace in ["paced", "unpaced"] {
            let scenario = format!("churn, {clients} clients, {pace}");
            if !results.scenarios.contains_key(&scenario) {
                continue;
            }
            let at = |pointer: &str| told(results.number(&scenario, pointer));
            line!(
                page,
                "| {clients} | {pace} | {} | {} | {} | {} | {} | {} | {} |",
                at("/details/writes"),
                at("/details/writes_per_second"),
                at("/details/answers_ms/p99"),
                at("/operations_per_second"),
                at("/latency_ms/p50"),
                at("/latency_ms/p99"),
                at("/latency_ms/max")
            );
        }
    }
    line!(page, "");
}
