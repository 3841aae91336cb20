//! `ctx`: which control plane is spoken to.

use std::io::{BufRead, Write};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::create::PATIENCE;
use super::{Session, type_of, waiting};
use crate::api::{self, Api};
use crate::hosting::{Found, NotFound};
use crate::kubeconfig::{Kubeconfig, List};

#[derive(Args, Clone, Debug)]
pub struct Ctx {
    #[command(subcommand)]
    command: Option<Command>,
    /// control plane, or any other context, to switch to; without it, the hosting cluster context
    name: Option<String>,
    /// Overwrite of hosting cluster context with new control plane context
    #[arg(short, long)]
    overwrite_existing_context: bool,
    /// Set current context as hosting cluster context
    #[arg(short = 'c', long)]
    set_current_for_hosting: bool,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Get the current context
    Get,
    /// List all available contexts
    List,
    /// Rename a context
    Rename {
        context: String,
        new_context: String,
        /// switch to context after renaming process
        #[arg(short = 'S', long)]
        switch: bool,
    },
    /// Delete a context
    Delete {
        context: String,
        /// Force deletion without confirmation
        #[arg(short, long)]
        force: bool,
    },
}

pub async fn run(session: &Session, ctx: Ctx) -> anyhow::Result<()> {
    match (ctx.command, ctx.name) {
        (Some(_), Some(name)) => {
            bail!("unknown command {name:?} for {:?}", format!("{} ctx", session.program.name()))
        }
        (Some(Command::Get), None) => {
            super::list::print(&format!("{}\n", session.files.load_existing()?.current()))
        }
        (Some(Command::List), None) => super::list::print(&listed(&session.files.load_existing()?)),
        (Some(Command::Rename { context, new_context, switch }), None) => {
            rename(session, &context, &new_context, switch)
        }
        (Some(Command::Delete { context, force }), None) => delete(session, &context, force),
        (None, None) => to_hosting(session, ctx.set_current_for_hosting).await,
        (None, Some(name)) => to_context(session, &name, ctx.overwrite_existing_context).await,
    }
}

async fn to_hosting(session: &Session, set_current: bool) -> anyhow::Result<()> {
    let now = Timestamp::now();
    if set_current {
        session.files.change_existing(|kubeconfig| {
            let current = kubeconfig.current().to_owned();
            kubeconfig.set_hosting(&current, now).map_err(|why| anyhow!("error on ExecuteCtx: {why}"))
        })?;
    }
    let kubeconfig = session.files.load()?;
    match session.hosting(&kubeconfig).await {
        Ok(hosting) => {
            let step = session.progress.step(match hosting.found {
                Found::Current => "Current context accesses the hosting cluster, using it",
                Found::Stored | Found::Embedded(_) => "Switching to hosting cluster context...",
            });
            session.files.change(|kubeconfig| {
                hosting.record(kubeconfig, now)?;
                kubeconfig.set_current(&hosting.context);
                Ok(())
            })?;
            step.done();
            Ok(())
        }
        Err(unknown @ (NotFound::Unknown(_) | NotFound::NoFile(_) | NotFound::NoAnswer { .. })) => {
            Err(unknown.into())
        }
        // It may be down, and is where to go all the same.
        Err(NotFound::Unusable { context, why }) => {
            let step = session.progress.step("Switching to hosting cluster context...");
            session.files.change(|kubeconfig| match kubeconfig.hosting() {
                Ok(hosting) => {
                    kubeconfig.set_current(&hosting);
                    eprintln!("warning: {why}");
                    Ok(())
                }
                Err(invalid) if kubeconfig.stored_hosting().is_some() => {
                    eprintln!("warning: saved hosting cluster context is invalid, ignoring it: {invalid}");
                    Ok(())
                }
                Err(_) => Err(NotFound::Unusable { context, why }.into()),
            })?;
            step.done();
            Ok(())
        }
    }
}

async fn to_context(session: &Session, name: &str, overwrite: bool) -> anyhow::Result<()> {
    let switched = !overwrite
        && session.files.change(|kubeconfig| {
            let there = kubeconfig.has_context(name);
            if there {
                kubeconfig.set_current(name);
            }
            Ok(there)
        })?;
    if switched {
        session.progress.note(format!("Switching to context {name}..."));
        return Ok(());
    }
    if overwrite {
        session.progress.note("Overwriting existing context for control plane");
        if session.verbosity > 0 {
            eprintln!("info: trying to load a fresh context {name} from server...");
        }
    } else {
        eprintln!(
            "kubeconfig context {name} not found (context {name} not found), trying to load from server..."
        );
    }
    super::create::check_name(name)?;
    let kubeconfig = session.files.load()?;
    if let Some(why) = kubeconfig.taken(name) {
        bail!("error loading kubeconfig context from server: {why}");
    }
    let step = session.progress.step(format!("Switching to context {name}..."));
    let hosting =
        session.hosting(&kubeconfig).await.context("error switching back to hosting cluster context")?;
    let object =
        on_server(&hosting.api, name).await.context("error loading kubeconfig context from server")?;
    let access = match type_of(&object) {
        "host" => None,
        _ => {
            let ready = waiting::usable(&hosting.api, name, Some(object), false, PATIENCE).await?;
            Some(
                waiting::access(&hosting.api, &ready)
                    .await
                    .context("error loading and merging kubeconfig")?,
            )
        }
    };
    let now = Timestamp::now();
    session.files.change(|kubeconfig| {
        hosting.record(kubeconfig, now)?;
        match &access {
            Some(access) => {
                kubeconfig.admit(name, access, now);
                kubeconfig.set_current(name);
            }
            None => kubeconfig.set_current(&hosting.context),
        }
        Ok(())
    })?;
    step.done();
    if access.is_none() {
        eprintln!(
            "control plane {name} is of type 'host', using hosting cluster context ({})",
            hosting.context
        );
    }
    Ok(())
}

pub async fn on_server(api: &Api, name: &str) -> anyhow::Result<serde_json::Value> {
    let found = api.get(api::CONTROL_PLANES, "", name).await.context("control plane not found on server")?;
    found.with_context(|| {
        format!("control plane not found on server: controlplanes.tenancy.kflex.kubestellar.org {name:?} not found")
    })
}

fn listed(kubeconfig: &Kubeconfig) -> String {
    let names = kubeconfig.names(List::Contexts);
    if names.is_empty() {
        return "No contexts found.\n".to_owned();
    }
    let head = format!("{:<30} {:<18} {:<15}\n", "CONTEXT", "MANAGED BY KFLEX", "CONTROLPLANE");
    let rows = names.into_iter().map(|name| {
        let mark = if name == kubeconfig.current() { "*" } else { " " };
        let control_plane = kubeconfig.control_plane_of(name);
        let managed = control_plane.map_or("", |_| "yes");
        format!("{mark} {name:<28} {managed:<18} {:<15}\n", control_plane.unwrap_or_default())
    });
    std::iter::once(head).chain(rows).collect()
}

fn rename(session: &Session, old: &str, new: &str, switch: bool) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let said = session.files.change_existing(|kubeconfig| {
        let was_current = kubeconfig.current() == old;
        let renamed = kubeconfig.rename(old, new, now).map_err(anyhow::Error::msg)?;
        let mut said = Vec::new();
        said.extend(renamed.cluster.map(|cluster| format!("renaming cluster to {cluster}")));
        said.extend(renamed.user.map(|user| format!("renaming user to {user}")));
        said.push(format!("renaming context from {old} to {new}"));
        said.push(format!("context {old} is deleted"));
        match kubeconfig.hosting() {
            Ok(hosting) if was_current && !switch => {
                said.push("switching to hosting cluster context".to_owned());
                kubeconfig.set_current(&hosting);
            }
            // With nowhere else to go, it stays current under its new name.
            _ if was_current || switch => {
                said.push(format!("switching context to {new}"));
                kubeconfig.set_current(new);
            }
            _ => {}
        }
        Ok(said)
    })?;
    super::list::print(&format!("{}\n", said.join("\n")))
}

fn delete(session: &Session, name: &str, force: bool) -> anyhow::Result<()> {
    let failed = |why: String| anyhow!("error deleting context {name} from kubeconfig: {why}");
    let kubeconfig = session.files.load_existing()?;
    if !kubeconfig.has_context(name) {
        return Err(failed(format!("context {name} not found for control plane {name}")));
    }
    if !kubeconfig.is_managed(name) && !force && !confirmed(name)? {
        println!("Deletion cancelled.");
        return Ok(());
    }
    let step = session.progress.step("Deleting context");
    session.files.change_existing(|kubeconfig| kubeconfig.forget(name).map_err(failed))?;
    step.done();
    Ok(())
}

fn confirmed(name: &str) -> anyhow::Result<bool> {
    println!("Warning: Context '{name}' is not managed by KubeFlex.");
    print!("Are you sure you want to delete this context? (y/N): ");
    std::io::stdout().flush().context("error reading user input")?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer).context("error reading user input")?;
    if read == 0 {
        bail!("error reading user input: EOF");
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_contexts() {
        let check = |text: &str, expected: &str| {
            assert_eq!(listed(&Kubeconfig::parse(text.as_bytes()).unwrap()), expected);
        };
        check("", "No contexts found.\n");
        check(
            "current-context: cp1
contexts:
- {name: kind, context: {}}
- {name: cp1, context: {extensions: [{name: kubeflex, extension: {data: {controlplane-name: cp1}}}]}}",
            "CONTEXT                        MANAGED BY KFLEX   CONTROLPLANE   \n\
             * cp1                          yes                cp1            \n\
             \x20 kind                                                           \n",
        );
    }
}
