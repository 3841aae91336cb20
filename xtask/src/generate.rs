//! `cargo xtask generate`: committed data, made again from what others publish.

mod aws;
mod builtins;
mod go;
mod protobuf;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Write nothing; fail if the committed data is not what would be written
    #[arg(long, global = true)]
    check: bool,
}

#[derive(Subcommand)]
enum What {
    /// The models of AWS's services (needs python3 with pip, and a package index)
    Aws,
    /// The definitions of the built-in kinds (needs python3 with pip, and a package index)
    Builtins,
    /// The protobuf messages of the built-in kinds (needs git, and Kubernetes' repositories)
    Protobuf,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let root = workspace_root();
    let (path, content) = match args.what {
        What::Aws => return aws::settle(&root, args.check),
        What::Builtins => ("crates/builtins/data/definitions.jsonl", builtins::definitions()?),
        What::Protobuf => ("crates/wire/data/messages.txt", protobuf::messages(&root)?),
    };
    settle(&root.join(path), &content, args.check)
}

/// Writes the file, or compares it.
fn settle(path: &Path, content: &str, check: bool) -> anyhow::Result<()> {
    let current = std::fs::read_to_string(path).unwrap_or_default();
    if current == content {
        println!("{} is up to date", path.display());
        return Ok(());
    }
    if check {
        bail!("{} is stale; run the same command without --check", path.display());
    }
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} is written ({} bytes)", path.display(), content.len());
    Ok(())
}

fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
