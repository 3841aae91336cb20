//! What can be said on the command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::configuration::UpOptions;

/// A Kubernetes control plane for every team, and every cloud behind it.
#[derive(Parser)]
#[command(name = "hangar", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything on this machine: control planes, their controllers, and the embedded store
    Up(Box<UpOptions>),
    /// Print a shell's completion script
    Completion { shell: clap_complete::Shell },
    /// Print the version
    Version,
}

impl Cli {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Up(options) => crate::up::run(*options),
            Command::Completion { shell } => {
                clap_complete::generate(shell, &mut Cli::command(), "hangar", &mut std::io::stdout());
                Ok(())
            }
            Command::Version => {
                println!("hangar {}", env!("CARGO_PKG_VERSION"));
                Ok(())
            }
        }
    }
}
