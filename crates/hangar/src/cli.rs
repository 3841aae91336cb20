//! What can be said on the command line: to `hangar`, and to the same file under the name `kflex`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::commands::{
    Program, Session, adopt, aws, check, config, create, ctx, delete, import, init, keys, kubeconfig, list,
    logs, machine, moving, plan, revoke, tf, version, whole,
};
use crate::configuration::UpOptions;
use crate::kubeconfig::Files;
use crate::operator::OperatorCommand;
use crate::progress::Progress;
use crate::serve::ServeOptions;

/// Flags that every command takes.
#[derive(Args, Clone, Debug)]
struct Globals {
    /// path to the kubeconfig file for the KubeFlex hosting cluster. If not specified, and $KUBECONFIG is set, it uses
    /// the value in $KUBECONFIG, otherwise it falls back to ${HOME}/.kube/config
    #[arg(short, long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// chatty status indicator
    #[arg(short = 's', long, value_name = "BOOL", global = true, num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    chatty_status: bool,
    /// log level
    #[arg(short, long, value_name = "LEVEL", global = true, default_value_t = 0)]
    verbosity: i32,
}

/// A Kubernetes control plane for every team, and every cloud behind it.
#[derive(Parser)]
#[command(name = "hangar", version, arg_required_else_help = true)]
struct Hangar {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: HangarCommand,
}

#[derive(Subcommand)]
enum HangarCommand {
    /// Run everything on this machine: control planes, their controllers, and the embedded store
    Up(Box<UpOptions>),
    /// Serve one control plane, or all of a store, and nothing else
    Serve(Box<ServeOptions>),
    /// Keep control planes as pods of an existing Kubernetes
    Operator(Box<OperatorCommand>),
    /// Make a place for control planes: start Hangar on this machine if no cluster is at hand
    Init {
        #[command(flatten)]
        init: init::Init,
        #[command(flatten)]
        extras: Box<init::Extras>,
    },
    /// Say whether Hangar runs on this machine, and how it is
    Status(machine::Where),
    /// Stop what `init` or `up` started on this machine
    Stop(machine::Where),
    /// Check the embedded stores of a data directory for damage, while the server is stopped
    Check(check::Check),
    /// Create a control plane and switch to its context
    Create {
        #[command(flatten)]
        create: create::Create,
        #[command(flatten)]
        extras: create::Extras,
    },
    /// Adopt a cluster that is there already as a control plane
    Adopt {
        #[command(flatten)]
        adopt: adopt::Adopt,
        #[command(flatten)]
        extras: adopt::Extras,
    },
    /// Delete a control plane and its context
    Delete {
        #[command(flatten)]
        delete: delete::Delete,
        #[command(flatten)]
        waiting: create::Waiting,
    },
    /// List all control planes
    List(list::List),
    /// Copy a control plane, as it is or as it was
    Fork(whole::Fork),
    /// Keep a control plane in another store from now on, with everything in it
    Move(moving::Move),
    /// Say what one control plane has other than another
    Diff(whole::Diff),
    /// Write everything in a control plane to a file
    Backup(whole::Backup),
    /// Make a control plane from a file that `backup` wrote
    Restore(whole::Restore),
    /// Bring in what another system keeps: a control plane, or resources of a cloud
    #[command(arg_required_else_help = true)]
    Import {
        #[command(subcommand)]
        command: import::Import,
    },
    /// Say what control planes take
    Top(whole::Top),
    /// Show what would be done about objects of a cloud, without doing it
    Plan(Box<plan::Plan>),
    /// What AWS has to be told
    #[command(arg_required_else_help = true)]
    Aws {
        #[command(subcommand)]
        command: aws::Aws,
    },
    /// Write what an object stands for in the form of another program
    #[command(arg_required_else_help = true)]
    Export {
        #[command(subcommand)]
        command: tf::export::Export,
    },
    /// Show what was asked of a control plane
    Logs(logs::Logs),
    /// Print the kubeconfig of a control plane
    Kubeconfig(kubeconfig::Kubeconfig),
    /// Make all kubeconfigs of a control plane worthless that were handed out so far
    Revoke(revoke::Revoke),
    /// Show and rotate the keys of the installation
    #[command(arg_required_else_help = true)]
    Keys {
        #[command(subcommand)]
        command: keys::Keys,
    },
    /// Switch between control planes, and keep their contexts
    Ctx(ctx::Ctx),
    /// Look after what the kubeconfig knows of control planes
    #[command(arg_required_else_help = true)]
    Config {
        #[command(subcommand)]
        command: config::Hangar,
    },
    /// Print the version
    Version,
    /// Print a shell's completion script
    Completion { shell: clap_complete::Shell },
}

/// A flexible and scalable solution for running Kubernetes control plane APIs
#[derive(Parser)]
#[command(name = "kflex", arg_required_else_help = true)]
struct Kflex {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: KflexCommand,
}

#[derive(Subcommand)]
enum KflexCommand {
    /// Adopt a control plane from an external cluster
    Adopt(adopt::Adopt),
    /// Generate the autocompletion script for the specified shell
    Completion { shell: clap_complete::Shell },
    /// Configure kubeflex
    #[command(arg_required_else_help = true)]
    Config {
        #[command(subcommand)]
        command: config::Kflex,
    },
    /// Create a control plane instance
    Create(create::Create),
    /// Switch or get kubeconfig context
    Ctx(ctx::Ctx),
    /// Delete a control plane instance
    Delete(delete::Delete),
    /// Initialize kubeflex
    Init(init::Init),
    /// List all control planes
    List,
    /// Provide version info
    Version,
}

/// A command of either program.
enum Command {
    Up(Box<UpOptions>),
    Serve(Box<ServeOptions>),
    Operator(Box<OperatorCommand>),
    Init(init::Init, Box<init::Extras>),
    Status(machine::Where),
    Stop(machine::Where),
    Check(check::Check),
    Create(create::Create, create::Extras),
    Adopt(adopt::Adopt, adopt::Extras),
    Delete(delete::Delete, create::Waiting),
    List(list::List),
    Whole(whole::Command),
    Import(import::Import),
    Move(moving::Move),
    Plan(Box<plan::Plan>),
    Aws(aws::Aws),
    Export(tf::export::Export),
    Logs(logs::Logs),
    Kubeconfig(kubeconfig::Kubeconfig),
    Revoke(revoke::Revoke),
    Keys(keys::Keys),
    Ctx(ctx::Ctx),
    Config(config::Hangar),
    Version,
    Completion(clap_complete::Shell),
}

impl From<HangarCommand> for Command {
    fn from(command: HangarCommand) -> Self {
        match command {
            HangarCommand::Up(options) => Command::Up(options),
            HangarCommand::Serve(options) => Command::Serve(options),
            HangarCommand::Operator(command) => Command::Operator(command),
            HangarCommand::Init { init, extras } => Command::Init(init, extras),
            HangarCommand::Status(place) => Command::Status(place),
            HangarCommand::Stop(place) => Command::Stop(place),
            HangarCommand::Check(check) => Command::Check(check),
            HangarCommand::Create { create, extras } => Command::Create(create, extras),
            HangarCommand::Adopt { adopt, extras } => Command::Adopt(adopt, extras),
            HangarCommand::Delete { delete, waiting } => Command::Delete(delete, waiting),
            HangarCommand::List(list) => Command::List(list),
            HangarCommand::Fork(fork) => Command::Whole(whole::Command::Fork(fork)),
            HangarCommand::Move(wanted) => Command::Move(wanted),
            HangarCommand::Diff(diff) => Command::Whole(whole::Command::Diff(diff)),
            HangarCommand::Backup(backup) => Command::Whole(whole::Command::Backup(backup)),
            HangarCommand::Restore(restore) => Command::Whole(whole::Command::Restore(restore)),
            HangarCommand::Import { command } => Command::Import(command),
            HangarCommand::Top(top) => Command::Whole(whole::Command::Top(top)),
            HangarCommand::Plan(plan) => Command::Plan(plan),
            HangarCommand::Aws { command } => Command::Aws(command),
            HangarCommand::Export { command } => Command::Export(command),
            HangarCommand::Logs(logs) => Command::Logs(logs),
            HangarCommand::Kubeconfig(kubeconfig) => Command::Kubeconfig(kubeconfig),
            HangarCommand::Revoke(revoke) => Command::Revoke(revoke),
            HangarCommand::Keys { command } => Command::Keys(command),
            HangarCommand::Ctx(ctx) => Command::Ctx(ctx),
            HangarCommand::Config { command } => Command::Config(command),
            HangarCommand::Version => Command::Version,
            HangarCommand::Completion { shell } => Command::Completion(shell),
        }
    }
}

impl From<KflexCommand> for Command {
    fn from(command: KflexCommand) -> Self {
        match command {
            KflexCommand::Init(init) => Command::Init(init, Box::default()),
            KflexCommand::Create(create) => Command::Create(create, create::Extras::default()),
            KflexCommand::Adopt(adopt) => Command::Adopt(adopt, adopt::Extras::default()),
            KflexCommand::Delete(delete) => Command::Delete(delete, create::Waiting::as_kubeflex()),
            KflexCommand::List => Command::List(list::List::default()),
            KflexCommand::Ctx(ctx) => Command::Ctx(ctx),
            KflexCommand::Config { command } => Command::Config(command.into()),
            KflexCommand::Version => Command::Version,
            KflexCommand::Completion { shell } => Command::Completion(shell),
        }
    }
}

/// Parses and runs what was typed; every failure is one line on standard error and exit code 1.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let program = program(arguments.first());
    let parsed = match program {
        Program::Hangar => Hangar::try_parse_from(&arguments).map(|cli| (cli.globals, cli.command.into())),
        Program::Kflex => Kflex::try_parse_from(&arguments).map(|cli| (cli.globals, cli.command.into())),
    };
    let (globals, command) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return misspoken(program, &error),
    };
    match execute(program, globals, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(program, &format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// By the name of the file it was called as.
fn program(called: Option<&OsString>) -> Program {
    let name = called.and_then(|path| Path::new(path).file_stem());
    if name.is_some_and(|name| name == "kflex") { Program::Kflex } else { Program::Hangar }
}

fn complain(program: Program, message: &str) {
    // One plain line, whatever went wrong and however deep.
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match program {
        Program::Hangar => eprintln!("hangar: {message}"),
        Program::Kflex => eprintln!("Error: {message}"),
    }
}

/// Help that was asked for is no failure, nor is saying nothing at all.
fn misspoken(program: Program, error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = crate::commands::list::print(&error.render().to_string());
            ExitCode::SUCCESS
        }
        _ => {
            let rendered = error.render().to_string();
            let (what, usage) = rendered.split_once("\n\n").unwrap_or((&rendered, ""));
            complain(program, what.strip_prefix("error: ").unwrap_or(what));
            if program == Program::Kflex {
                // KubeFlex shows how it would have been right.
                eprintln!("{}", usage.trim_end());
            }
            ExitCode::FAILURE
        }
    }
}

fn execute(program: Program, globals: Globals, command: Command) -> anyhow::Result<()> {
    let command = match command {
        Command::Up(options) => return crate::up::run(*options),
        Command::Serve(options) => return crate::serve::run(*options),
        Command::Operator(command) => {
            return crate::operator::run(*command, globals.kubeconfig.as_deref(), globals.verbosity);
        }
        Command::Check(check) => return check::run(check),
        Command::Plan(plan) => return plan::run(*plan, globals.kubeconfig.as_deref()),
        Command::Aws(command) => return aws::run(command, globals.kubeconfig.as_deref()),
        Command::Import(import::Import::Terraform(import)) => {
            return tf::resource::run(*import, globals.kubeconfig.as_deref());
        }
        Command::Import(import::Import::Tfstate(import)) => {
            return tf::state::run(*import, globals.kubeconfig.as_deref());
        }
        Command::Export(command) => return tf::export::run(command, globals.kubeconfig.as_deref()),
        Command::Completion(shell) => return completion(program, shell),
        command => command,
    };
    let session = Session {
        program,
        files: Files::find(globals.kubeconfig.as_deref())?,
        progress: Progress::new(globals.chatty_status),
        verbosity: globals.verbosity,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(Box::pin(perform(&session, command)))
}

async fn perform(session: &Session, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(_)
        | Command::Serve(_)
        | Command::Operator(_)
        | Command::Check(_)
        | Command::Plan(_)
        | Command::Aws(_)
        | Command::Export(_)
        | Command::Completion(_) => Ok(()),
        Command::Init(init, extras) => init::run(session, init, *extras).await,
        Command::Status(place) => machine::status(session, place).await,
        Command::Stop(place) => machine::stop(session, place).await,
        Command::Create(create, extras) => create::run(session, create, extras).await,
        Command::Adopt(adopt, extras) => adopt::run(session, adopt, extras).await,
        Command::Delete(delete, waiting) => delete::run(session, delete, waiting).await,
        Command::List(list) => list::run(session, list).await,
        Command::Whole(command) => whole::run(session, command).await,
        Command::Import(import) => import::run(session, import).await,
        Command::Move(wanted) => moving::run(session, wanted).await,
        Command::Logs(logs) => logs::run(session, logs).await,
        Command::Kubeconfig(command) => kubeconfig::run(session, command).await,
        Command::Revoke(revoke) => revoke::run(session, revoke).await,
        Command::Keys(command) => keys::run(session, command).await,
        Command::Ctx(ctx) => ctx::run(session, ctx).await,
        Command::Config(command) => config::run(session, command).await,
        Command::Version => version::run(session).await,
    }
}

fn completion(program: Program, shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut command = match program {
        Program::Hangar => Hangar::command(),
        Program::Kflex => Kflex::command(),
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, program.name(), &mut script);
    crate::commands::list::print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_command_lines_are_sound() {
        Hangar::command().debug_assert();
        Kflex::command().debug_assert();
    }

    #[test]
    fn the_name_it_is_called_by() {
        let check =
            |name: &str, expected: Program| assert_eq!(program(Some(&name.into())), expected, "{name}");
        check("hangar", Program::Hangar);
        check("/usr/bin/kflex", Program::Kflex);
        check("./bin/kflex", Program::Kflex);
        check("kflex-2", Program::Hangar);
        assert_eq!(program(None), Program::Hangar);
    }

    #[test]
    fn what_kflex_is_told() {
        let good = |line: &str| {
            let parsed = Kflex::try_parse_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
        };
        good("kflex init");
        good("kflex init name -c -d example.com -n container -p 9443");
        good("kflex create cp1 --type k8s -b shared -p hook -e a=b --set c=d");
        good("kflex create cp1 -s=false");
        good("kflex create cp1 --chatty-status=false -v 2");
        good("kflex create -s cp1");
        good("kflex -k file create cp1");
        good("kflex create cp1 -k file");
        good(
            "kflex adopt --adopted-context kind-ext --url-override https://ext:6443 ext --postcreate-hook h",
        );
        good("kflex adopt ext -a file -c ctx -u https://a -x 60 -p h -e a=b");
        good("kflex ctx");
        good("kflex ctx cp1 -o");
        good("kflex ctx -c");
        good("kflex ctx get");
        good("kflex ctx -k file list");
        good("kflex ctx rename a b -S");
        good("kflex ctx delete a --force");
        good("kflex config set-hosting a");
        good("kflex config diagnose -o json");
        good("kflex list");
        good("kflex version");
        good("kflex completion bash");
        for bad in [
            "kflex up",
            "kflex stop",
            "kflex create",
            "kflex create a b",
            "kflex list -o json",
            "kflex nonsense",
        ] {
            assert!(Kflex::try_parse_from(bad.split_whitespace()).is_err(), "{bad}");
        }
    }
}
