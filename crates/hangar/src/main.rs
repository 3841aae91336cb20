//! The binary: command line, configuration, and the composition of everything else.
//!
//! Nothing below this crate reads configuration or environment.

#![allow(clippy::print_stdout, reason = "a command line talks to its user")]

mod api;
mod cli;
mod clouds;
mod commands;
mod configuration;
mod controlling;
mod files;
mod health;
mod hosting;
mod installing;
mod kubeconfig;
mod logs;
mod numbers;
mod operator;
mod process;
mod progress;
mod serve;
mod stores;
mod up;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
