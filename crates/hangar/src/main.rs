//! The binary: command line, configuration, and the composition of everything else.
//!
//! Nothing below this crate reads configuration or environment.

#![allow(clippy::print_stdout, reason = "a command line talks to its user")]

mod admin;
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
mod keys;
mod kms;
mod kubeconfig;
mod limits;
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
    // Before anything else: the launcher has one thread.
    if let Some(ended) = sandbox::run_as_launcher(std::env::args_os()) {
        return ended;
    }
    give_memory_back_in_small_pages();
    cli::run(std::env::args_os())
}

/// The allocator asks for huge pages where the kernel leaves the choice to programs. With them a heap of many small
/// objects keeps two megabytes wherever a few bytes are left: a server that has been busy had twice what it used.
fn give_memory_back_in_small_pages() {
    // A kernel that knows no huge pages does not have to be told.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
