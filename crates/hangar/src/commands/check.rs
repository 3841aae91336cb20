//! Checks the embedded stores of a data directory, record by record, while no server uses them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use store::embedded::{self, MAX_FINDINGS, Report};

use super::list::print;
use super::machine;

#[derive(Args, Clone, Debug)]
pub struct Check {
    #[command(flatten)]
    place: machine::Where,
    /// go on without acknowledged changes that are missing at the end of a log: no revision is given out twice, and
    /// clients list again
    #[arg(long)]
    accept_loss: bool,
    /// make damaged databases anew with everything in them that can be read; the old file is kept beside the new one
    #[arg(long)]
    repair: bool,
    /// output format: json, or one line for each finding
    #[arg(short, long, value_name = "FORMAT", default_value = "")]
    output: String,
}

pub fn run(check: Check) -> anyhow::Result<()> {
    if !matches!(check.output.as_str(), "" | "json") {
        bail!("unsupported output format: {:?} (use json)", check.output);
    }
    let directory = check.place.dir()?;
    if let Some(process) = machine::running(&directory)? {
        bail!("{} is in use by process {process}: stop the server first", directory.display());
    }
    let mut stores = Vec::new();
    find(&directory, DEPTH, &mut stores)?;
    if stores.is_empty() {
        bail!("no embedded store found in {}", directory.display());
    }
    stores.sort();
    let mut reports = Vec::new();
    let mut findings = 0;
    for store in &stores {
        let shown = store.strip_prefix(&directory).unwrap_or(store);
        let accepted = if check.accept_loss { embedded::accept_loss(store)? } else { 0 };
        if check.repair {
            repair(store, shown)?;
        }
        // One that cannot be opened is a finding, and the others are looked at.
        let report = embedded::check(store).map_err(|error| error.to_string());
        findings += report.as_ref().map_or(1, |report| report.findings.len());
        reports.push((shown, accepted, report));
    }
    let shown = match check.output.as_str() {
        "json" => {
            let stores: Vec<Value> =
                reports.iter().map(|(path, lost, report)| as_json(path, *lost, report)).collect();
            format!("{:#}\n", json!({ "stores": stores }))
        }
        _ => reports.iter().map(|(path, lost, report)| as_text(path, *lost, report)).collect(),
    };
    print(&shown)?;
    match findings {
        0 => Ok(()),
        1 => bail!("1 finding: see docs/integrity.md"),
        _ => bail!("{findings} findings: see docs/integrity.md"),
    }
}

/// Makes a database anew if there is something to repair.
fn repair(store: &Path, shown: &Path) -> anyhow::Result<()> {
    if embedded::check(store)?.findings.is_empty() {
        return Ok(());
    }
    let (report, kept) = embedded::repair(store)?;
    let shown = shown.display();
    for finding in &report.findings {
        eprintln!("{shown}: left out: {finding}");
    }
    eprintln!("{shown}: made anew; the damaged database is {}", kept.display());
    Ok(())
}

/// Stores lie at most so deep: `processes/NAME/stores/NAME`.
const DEPTH: usize = 4;

/// Directories that hold a store, or what is left of one.
fn find(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if embedded::was_in(directory) {
        found.push(directory.to_owned());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let failed = || format!("cannot read {}", directory.display());
    for entry in std::fs::read_dir(directory).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        // Symbolic links lead elsewhere.
        if entry.file_type().with_context(failed)?.is_dir() {
            find(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

fn as_text(path: &Path, lost: u64, report: &Result<Report, String>) -> String {
    let path = path.display();
    let mut text = String::new();
    if lost > 0 {
        text.push_str(&format!("{path}: goes on without {lost} changes\n"));
    }
    match report {
        Err(error) => text.push_str(&format!("{path}: {error}\n")),
        Ok(report) => {
            for finding in &report.findings {
                text.push_str(&format!("{path}: {finding}\n"));
            }
            if report.findings.len() >= MAX_FINDINGS {
                text.push_str(&format!("{path}: and more\n"));
            }
            let Report { tenants, entries, changes, .. } = report;
            text.push_str(&format!(
                "{path}: checked {tenants} tenants, {entries} objects, {changes} changes\n"
            ));
        }
    }
    text
}

fn as_json(path: &Path, lost: u64, report: &Result<Report, String>) -> Value {
    let mut value = json!({ "path": path, "acceptedLoss": lost });
    match report {
        Err(error) => value["error"] = json!(error),
        Ok(report) => {
            value["tenants"] = json!(report.tenants);
            value["entries"] = json!(report.entries);
            value["changes"] = json!(report.changes);
            let findings = report.findings.iter().map(|finding| {
                let key = finding.key.as_ref();
                json!({
                    "tenant": finding.tenant,
                    "resource": key.map(|key| &key.kind),
                    "namespace": key.map(|key| &key.namespace),
                    "name": key.map(|key| &key.name),
                    "message": finding.why,
                })
            });
            value["findings"] = findings.collect();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(directory: &Path, accept_loss: bool, repair: bool) -> anyhow::Result<()> {
        run(Check {
            place: machine::Where { data_dir: Some(directory.to_owned()) },
            accept_loss,
            repair,
            output: String::new(),
        })
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_directory_is_well_or_it_is_an_error() {
        use store::Store as _;
        let directory = tempfile::tempdir().unwrap();
        assert!(check(directory.path(), false, false).unwrap_err().to_string().contains("no embedded store"));
        for name in ["store", "stores/far", "dedicated/7"] {
            let place = directory.path().join(name);
            std::fs::create_dir_all(&place).unwrap();
            let store = store::Embedded::open(&place, Default::default()).unwrap();
            let tenant = store.create_tenant("team-a", Default::default(), vec![]).await.unwrap().id;
            let put = |name: &str| store::Operation::Put {
                key: store::Key::new("configmaps", "default", name),
                expect: store::Expect::Any,
                value: format!("the value of {name}").into(),
            };
            store.write(tenant, vec![put("one"), put("two")]).await.unwrap();
            store.close().await;
        }
        check(directory.path(), false, false).unwrap();
        let far = directory.path().join("stores/far/hangar.db");
        let mut bytes = std::fs::read(&far).unwrap();
        let value = b"the value of two";
        let at = bytes.windows(value.len()).rposition(|window| window == value).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&far, bytes).unwrap();
        let error = check(directory.path(), false, false).unwrap_err().to_string();
        assert!(error.contains("1 finding"), "{error}");
        let report = embedded::check(far.parent().unwrap()).unwrap();
        let text = as_text(Path::new("stores/far"), 0, &Ok(report));
        assert!(text.starts_with("stores/far: team-a: configmaps default/two: "), "{text}");

        // The database is gone, and what it had is known.
        std::fs::remove_file(directory.path().join("dedicated/7/hangar.db")).unwrap();
        let error = check(directory.path(), false, false).unwrap_err().to_string();
        assert!(error.contains("2 findings"), "{error}");
        let error = check(directory.path(), true, false).unwrap_err().to_string();
        assert!(error.contains("1 finding"), "{error}");

        check(directory.path(), false, true).unwrap();
        check(directory.path(), false, false).unwrap();
    }
}
