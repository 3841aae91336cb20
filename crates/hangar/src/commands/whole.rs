//! What is done with whole control planes: copied, compared, taken out, put back, weighed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::create::{self, Extras, Waiting, check_name};
use super::moment::Moment;
use super::{Session, ctx, list, type_of};
use crate::files;

/// Where the hosting control plane answers for whole control planes.
pub const ROOT: &str = "/hangar/v1/control-planes";

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
    for name in [&fork.source, &fork.name] {
        check_name(name)?;
    }
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
    let store = fork.store.as_deref().or(source["spec"]["store"].as_str());
    if let Some(store) = store {
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
    check_name(name)?;
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
    let step = session.progress.step(format!("Restoring control plane {name}..."));
    let restored = hosting.api.upload(&import_path(name, restore.store.as_deref())?, contents).await;
    let restored = restored.context("error restoring")?;
    step.done();
    create::settle(session, &hosting, name, restored, &restore.entering.into()).await
}

/// Where a control plane is made of what is sent there.
pub fn import_path(name: &str, store: Option<&str>) -> anyhow::Result<String> {
    let path = format!("{ROOT}/{name}/import");
    let Some(store) = store else { return Ok(path) };
    if let Some(why) = objects::names::dns1123_label(store).first() {
        bail!("{store:?} cannot be the name of a store: {why}");
    }
    Ok(format!("{path}?store={store}"))
}

async fn top(session: &Session, top: Top) -> anyhow::Result<()> {
    check_output(&top.output)?;
    let hosting = session.hosting(&session.files.load()?).await?;
    let found = hosting.api.get_path(ROOT).await.context("error asking what control planes take")?;
    match top.output.as_str() {
        "json" => list::print(&format!("{found:#}\n")),
        _ => list::print(&weights(&found)),
    }
}

fn weights(found: &Value) -> String {
    let mut text =
        format!("{:<30} {:>10} {:>12} {:>10} {:>10}\n", "NAME", "OBJECTS", "BYTES", "REQUESTS", "WATCHES");
    for item in found["items"].as_array().into_iter().flatten() {
        let number = |key: &str| item[key].as_u64().unwrap_or_default();
        let _ = writeln!(
            text,
            "{:<30} {:>10} {:>12} {:>10} {:>10}",
            item["name"].as_str().unwrap_or_default(),
            number("objects"),
            number("bytes"),
            number("requests"),
            number("watches"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
