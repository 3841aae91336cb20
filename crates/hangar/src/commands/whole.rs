//! What is done with whole control planes: copied, compared, taken out, put back, weighed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::create::{self, Extras, Waiting, check_name, check_new_name};
use super::moment::Moment;
use super::{Session, ctx, list, type_of};
use crate::{api, files};

/// Where the hosting control plane answers for whole control planes.
pub const ROOT: &str = "/hangar/v1/control-planes";

/// Types of control planes that can be made of a backup.
const HOSTED: [&str; 4] = ["k8s", "k3s", "ocm", "vcluster"];

/// How long requests are counted for a rate.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

pub enum Command {
    Fork(Fork),
    Diff(Diff),
    Backup(Backup),
    Restore(Restore),
    Top(Top),
}

#[derive(Args, Clone, Debug)]
pub struct Fork {
    /// the control plane to copy
    source: String,
    /// the name of the copy
    name: String,
    /// copy it as it was: at a revision (a resourceVersion), at a time like 2026-01-31T12:00:00Z, or -5m; history is
    /// kept for a while only
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    at: Option<Moment>,
    /// the store to keep the copy in, where the server has several [default: that of the original]
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
    #[command(flatten)]
    entering: Entering,
}

#[derive(Args, Clone, Debug)]
pub struct Diff {
    one: String,
    other: String,
    /// json
    #[arg(short, long, value_name = "FORMAT", default_value = "")]
    output: String,
}

#[derive(Args, Clone, Debug)]
pub struct Backup {
    name: String,
    /// where to write it; - is standard output
    file: PathBuf,
    /// as it was: at a revision (a resourceVersion), at a time like 2026-01-31T12:00:00Z, or -5m
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    at: Option<Moment>,
}

#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// the name of the control plane to make
    name: String,
    /// what `backup` wrote; - is standard input
    file: PathBuf,
    /// the type of the control plane to make [default: that of the one that was backed up]
    #[arg(short, long, value_name = "TYPE", value_parser = HOSTED)]
    r#type: Option<String>,
    /// the store to keep it in, where the server has several
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
    #[command(flatten)]
    entering: Entering,
}

#[derive(Args, Clone, Debug)]
pub struct Top {
    /// json
    #[arg(short, long, value_name = "FORMAT", default_value = "")]
    output: String,
}

/// What becomes of the kubeconfig.
#[derive(Args, Clone, Debug)]
pub struct Entering {
    #[command(flatten)]
    waiting: Waiting,
    /// leave the current context as it is
    #[arg(long)]
    no_switch: bool,
}

impl From<Entering> for Extras {
    fn from(entering: Entering) -> Self {
        Extras { waiting: entering.waiting, no_switch: entering.no_switch, ..Extras::default() }
    }
}

pub async fn run(session: &Session, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Fork(fork) => self::fork(session, fork).await,
        Command::Diff(diff) => self::diff(session, diff).await,
        Command::Backup(backup) => self::backup(session, backup).await,
        Command::Restore(restore) => self::restore(session, restore).await,
        Command::Top(top) => self::top(session, top).await,
    }
}

async fn fork(session: &Session, fork: Fork) -> anyhow::Result<()> {
    check_name(&fork.source)?;
    check_new_name(&fork.name)?;
    let hosting = session.hosting(&session.files.load()?).await?;
    let source = ctx::on_server(&hosting.api, &fork.source).await?;
    if matches!(type_of(&source), "host" | "external") {
        bail!("control plane {:?} is of type {}: it is not ours to copy", fork.source, type_of(&source));
    }
    let mut copied = json!({"controlPlane": fork.source});
    if let Some(at) = fork.at {
        copied["revision"] = at.revision(&hosting.api, ROOT, &fork.source).await?.into();
    }
    let mut object = json!({
        "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1",
        "kind": "ControlPlane",
        "metadata": {"name": fork.name},
        "spec": {"type": type_of(&source), "source": copied},
    });
    for kept in ["store", "backend", "quota"] {
        if let Some(value) = source["spec"].get(kept) {
            object["spec"][kept] = value.clone();
        }
    }
    if let Some(store) = fork.store {
        object["spec"]["store"] = store.into();
    }
    create::create_object(session, &fork.name, &object, &fork.entering.into()).await
}

fn check_output(output: &str) -> anyhow::Result<()> {
    match output {
        "" | "json" => Ok(()),
        other => bail!("unsupported output format: {other:?} (only 'json' is supported)"),
    }
}

async fn diff(session: &Session, diff: Diff) -> anyhow::Result<()> {
    check_output(&diff.output)?;
    for name in [&diff.one, &diff.other] {
        check_name(name)?;
    }
    let hosting = session.hosting(&session.files.load()?).await?;
    let found = hosting.api.get_path(&format!("{ROOT}/{}/diff/{}", diff.one, diff.other)).await;
    let found = found.context("error comparing control planes")?;
    match diff.output.as_str() {
        "json" => list::print(&format!("{found:#}\n")),
        _ => list::print(&differences(&found)),
    }
}

/// A line per object: `+` only in the second, `-` only in the first, `~` in both but not the same.
fn differences(found: &Value) -> String {
    let mut text = String::new();
    for item in found["items"].as_array().into_iter().flatten() {
        let field = |key: &str| item[key].as_str().unwrap_or_default();
        let sign = match field("change") {
            "added" => '+',
            "removed" => '-',
            _ => '~',
        };
        let slash = if field("namespace").is_empty() { "" } else { "/" };
        let _ = write!(text, "{sign} {} {}{slash}{}", field("resource"), field("namespace"), field("name"));
        for path in item["paths"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let _ = write!(text, " {path}");
        }
        text.push('\n');
    }
    text
}

async fn backup(session: &Session, backup: Backup) -> anyhow::Result<()> {
    check_name(&backup.name)?;
    let hosting = session.hosting(&session.files.load()?).await?;
    let at = match backup.at {
        Some(at) => format!("?revision={}", at.revision(&hosting.api, ROOT, &backup.name).await?),
        None => String::new(),
    };
    let path = format!("{ROOT}/{}/export{at}", backup.name);
    let failed = "error backing up";
    if backup.file == Path::new("-") {
        let mut out = std::io::stdout();
        hosting.api.download(&path, &mut out).await.context(failed)?;
        return out.flush().context(failed);
    }
    // A directory that is not there is more often misspelt than wanted.
    let directory = backup.file.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        bail!("cannot write {}: there is no directory {}", backup.file.display(), directory.display());
    }
    let step = session.progress.step(format!("Backing up control plane {}...", backup.name));
    // Beside the file and then in its place: there is never half a backup under its name.
    let mut contents = files::Replacement::begin(&backup.file)?;
    hosting.api.download(&path, contents.file()).await.context(failed)?;
    contents.finish()?;
    step.done();
    Ok(())
}

async fn restore(session: &Session, restore: Restore) -> anyhow::Result<()> {
    let name = restore.name.as_str();
    check_new_name(name)?;
    let contents = if restore.file == Path::new("-") {
        let mut contents = Vec::new();
        std::io::copy(&mut std::io::stdin().lock(), &mut contents).context("cannot read standard input")?;
        contents
    } else {
        std::fs::read(&restore.file).with_context(|| format!("cannot read {}", restore.file.display()))?
    };
    let kubeconfig = session.files.load()?;
    if let Some(why) = kubeconfig.taken(name) {
        bail!("{why}: choose another name");
    }
    let hosting = session.hosting(&kubeconfig).await?;
    let path = import_path(name, restore.r#type.as_deref(), restore.store.as_deref())?;
    let step = session.progress.step(format!("Restoring control plane {name}..."));
    // Before all of the backup is sent for nothing.
    if hosting.api.get(api::CONTROL_PLANES, "", name).await.context("error restoring")?.is_some() {
        bail!("error restoring: control plane {name:?} already exists");
    }
    let restored = hosting.api.upload(&path, contents).await;
    let restored = restored.context("error restoring")?;
    step.done();
    create::settle(session, &hosting, name, restored, &restore.entering.into()).await
}

/// Where a control plane is made of what is sent there.
pub fn import_path(name: &str, r#type: Option<&str>, store: Option<&str>) -> anyhow::Result<String> {
    if let Some(store) = store
        && let Some(why) = objects::names::dns1123_label(store).first()
    {
        bail!("{store:?} cannot be the name of a store: {why}");
    }
    let said = [("type", r#type), ("store", store)];
    let said: Vec<String> =
        said.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect();
    Ok(format!("{ROOT}/{name}/import?{}", said.join("&")))
}

async fn top(session: &Session, top: Top) -> anyhow::Result<()> {
    check_output(&top.output)?;
    let hosting = session.hosting(&session.files.load()?).await?;
    let ask = async || hosting.api.get_path(ROOT).await.context("error asking what control planes take");
    let found = ask().await?;
    if top.output == "json" {
        return list::print(&format!("{found:#}\n"));
    }
    // Nobody keeps rates of control planes; they are what comes in between two looks.
    tokio::time::sleep(BETWEEN_LOOKS).await;
    list::print(&weights(&found, &ask().await?, BETWEEN_LOOKS))
}

/// What control planes take now; rates are since an earlier look.
fn weights(before: &Value, found: &Value, between: Duration) -> String {
    let number = |item: &Value, key: &str| item[key].as_u64().unwrap_or_default();
    let asked: BTreeMap<&str, u64> =
        items(before).map(|item| (name(item), number(item, "requests"))).collect();
    let mut text = format!(
        "{:<30} {:>10} {:>12} {:>10} {:>9} {:>9}\n",
        "NAME", "OBJECTS", "BYTES", "REQUESTS", "PER-SEC", "WATCHES"
    );
    for item in items(found) {
        let requests = number(item, "requests");
        // One that was not there, or was put aside meanwhile, began anew.
        let since = asked.get(name(item)).copied().filter(|asked| *asked <= requests).unwrap_or_default();
        let _ = writeln!(
            text,
            "{:<30} {:>10} {:>12} {:>10} {:>9.1} {:>9}",
            name(item),
            number(item, "objects"),
            number(item, "bytes"),
            requests,
            (requests - since) as f64 / between.as_secs_f64(),
            number(item, "watches"),
        );
    }
    text
}

fn items(found: &Value) -> impl Iterator<Item = &Value> {
    found["items"].as_array().into_iter().flatten()
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_counts_and_rates() {
        let item = |name: &str, requests: u64| json!({"name": name, "objects": 3, "bytes": 40, "requests": requests, "watches": 1});
        let before = json!({"items": [item("a", 10), item("idle", 7), item("anew", 100)]});
        let found = json!({"items": [item("a", 15), item("anew", 4), item("idle", 7), item("new", 2)]});
        let text = weights(&before, &found, Duration::from_secs(2));
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["NAME", "OBJECTS", "BYTES", "REQUESTS", "PER-SEC", "WATCHES"]);
        assert_eq!(rows[1], ["a", "3", "40", "15", "2.5", "1"]);
        assert_eq!(rows[2][3..5], ["4", "2.0"]);
        assert_eq!(rows[3][3..5], ["7", "0.0"]);
        assert_eq!(rows[4][3..5], ["2", "1.0"]);
    }

    #[test]
    fn differences_read_as_lines() {
        let found = json!({"items": [
            {"resource": "namespaces", "name": "x", "change": "added"},
            {"resource": "deployments.apps", "namespace": "default", "name": "d", "change": "removed"},
            {"resource": "configmaps", "namespace": "default", "name": "m", "change": "changed", "paths": ["/data/v", "/data/w"]},
        ]});
        assert_eq!(
            differences(&found),
            "+ namespaces x\n- deployments.apps default/d\n~ configmaps default/m /data/v /data/w\n"
        );
        assert_eq!(differences(&json!({"items": []})), "");
    }
}
