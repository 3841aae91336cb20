//! The binary: command line, configuration, and the composition of everything else.
//!
//! Nothing below this crate reads configuration or environment.

#![allow(clippy::print_stdout, reason = "a command line talks to its user")]

mod cli;
mod configuration;
mod files;
mod kubeconfig;
mod logs;
mod up;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // One plain line, whatever went wrong and however deep.
            eprintln!("hangar: {}", format!("{error:#}").replace('\n', " "));
            std::process::ExitCode::FAILURE
        }
    }
}
