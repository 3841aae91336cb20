//! What a store does beside answering: nothing for those who ask nothing, and dropping history.

use std::fmt::Write;

use super::{Results, told};

pub fn write(page: &mut String, results: &Results) {
    line!(page, "\n## Idleness and compaction\n");
    let at = |pointer: &str| told(results.number("idle control planes", pointer));
    if results.scenarios.contains_key("idle control planes") {
        line!(
            page,
            "In {} s in which nobody asks the server anything, the server asks the database {} times with the hosting \
             control plane alone, and {} times with {} more, as the database counts.\n",
            at("/seconds"),
            at("/asked_with_one"),
            at("/asked_with_many"),
            at("/control_planes")
        );
    }
    line!(
        page,
        "Writes of 1 kB by 16 writers to the engine alone, while nothing is compacted, and while all history is dropped \
         twice a second (a server drops what is older than ten minutes, twice a minute):\n"
    );
    line!(page, "| | writes | p50 ms | p99 ms | p99.9 ms | compactions |\n|---|---:|---:|---:|---:|---:|");
    for scenario in ["writes without compaction", "writes under compaction"] {
        let at = |pointer: &str| told(results.number(scenario, pointer));
        line!(
            page,
            "| {scenario} | {} | {} | {} | {} | {} |",
            at("/operations"),
            at("/latency_ms/p50"),
            at("/latency_ms/p99"),
            at("/latency_ms/p999"),
            at("/compactions")
        );
    }
}
