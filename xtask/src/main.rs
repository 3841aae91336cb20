//! The project's own tools: what is not cargo's job. One file per command.

// A tool for people: it talks on standard output.
#![allow(clippy::print_stdout)]

mod bench;
mod generate;
mod test;
mod tidy;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Hangar's own tools")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the server and write docs/benchmarks.md
    Bench(bench::Args),
    /// Write the data tables that are made from published material
    Generate(generate::Args),
    /// Install what the tests need, then check and test everything
    Test(test::Args),
    /// Check what must hold of the house itself
    Tidy,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Generate(args) => generate::run(args),
        Command::Test(args) => test::run(&args),
        Command::Tidy => tidy::run(),
    }
}
