//! The part of the page about Terraform providers.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use super::Results;

/// Objects, kinds and tenants.
pub const FULL: [&str; 3] = ["1000", "2000", "1000"];
pub const QUICK: [&str; 3] = ["100", "200", "50"];

/// A look at a resource may take so much of our CPU.
const LOOK_MS: f64 = 2.0;
/// What a stock API server takes for each definition, in MiB.
const STOCK_MIB: f64 = 2.5;

/// The lines that the example prints.
pub fn measure(release: &Path, amounts: [&str; 3]) -> anyhow::Result<String> {
    let mut cost = Command::new(release.join("examples/cost"));
    let output = cost.args(amounts).output()?;
    if !output.status.success() {
        bail!("{cost:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The section; nothing where nothing was measured.
pub fn section(results: &Results) -> String {
    let number = |scenario: &str, pointer: &str| results.number(scenario, pointer);
    let Some(look) = number("terraform, look", "/cpu_ms") else { return String::new() };
    let held = |value: f64, limit: f64| if value < limit { "yes" } else { "**no**" };
    let get = |scenario: &str, pointer: &str| number(scenario, pointer).unwrap_or(f64::NAN);
    let (objects, kinds) = ("terraform, objects", "terraform, kinds");
    let (count, tenants) = (get(kinds, "/kinds"), get(kinds, "/tenants"));
    let memory = get(kinds, "/resident_mib");
    let rows = [
        (
            format!("a warm look (Read and Plan): our CPU, goal below {LOOK_MS} ms"),
            format!("{look:.2} ms ({})", held(look, LOOK_MS)),
        ),
        ("the same, until it is done".to_owned(), format!("{:.2} ms", get("terraform, look", "/wall_ms"))),
        (
            format!(
                "{} objects of one provider, in {} process of its own, until all are as desired; an account is given 200 calls a second",
                get(objects, "/objects"),
                get(objects, "/processes")
            ),
            format!("{:.1} s", get(objects, "/seconds")),
        ),
        (
            "the same: our CPU for each, creation and all".to_owned(),
            format!("{:.1} ms", get(objects, "/cpu_ms_each")),
        ),
        ("the same: memory they add".to_owned(), format!("{:.0} MiB", get(objects, "/resident_mib"))),
        (
            format!("{count} kinds in each of {tenants} tenants, all asked for them: memory they add"),
            format!("{memory:.0} MiB (a stock server: about {:.0} MiB for one tenant)", count * STOCK_MIB),
        ),
        (
            "the same: from the start of the program to kinds that are served".to_owned(),
            format!("{:.0} ms", get(kinds, "/ready_ms")),
        ),
        (
            "the same: discovery of a tenant, p50 and p99".to_owned(),
            format!("{:.1} and {:.1} ms", get(kinds, "/discovery_ms/p50"), get(kinds, "/discovery_ms/p99")),
        ),
    ];
    let mut text = "\n## Terraform providers\n\nWith the provider of the tests (`crates/terraform/examples/shelf`), whose own time is not counted.\n\n| | |\n|---|---|\n".to_owned();
    rows.iter().for_each(|(what, value)| text += &format!("| {what} | {value} |\n"));
    text
}
