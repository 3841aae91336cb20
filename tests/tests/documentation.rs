//! Every shell block of the README and of the getting-started page runs as written.
//!
//! The blocks of a page are one shell session in a network namespace of its own, so that documented ports are free, with an
//! empty home directory. A word after `sh` on the fence says how a block is run:
//!
//! - nothing: the block must succeed
//! - `background`: the block starts a server in the foreground; the session continues when the server is ready
//! - `install`: the block builds or installs what the test already has; it is not run
//! - `reference`: the block describes a command with placeholders; it is not run

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "skipped tests are reported")]

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use end_to_end::{binary, tools_dir};

struct Block {
    line: usize,
    mode: String,
    text: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match &mut open {
            None => {
                let Some(mode) = line.strip_prefix("```sh") else { continue };
                open = Some(Block { line: number + 1, mode: mode.trim().to_owned(), text: String::new() });
            }
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some(block) => writeln!(block.text, "{line}").unwrap(),
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// The script of a session. Each block prints its position first, so that a failure can be found.
fn script(name: &str, blocks: &[Block]) -> String {
    let mut script = String::from("set -euo pipefail\nip link set lo up\n");
    for block in blocks {
        let position = format!("{name}:{}", block.line);
        match block.mode.as_str() {
            "install" | "reference" => continue,
            "background" => {
                let ready = "until curl --silent --fail --insecure https://127.0.0.1:6443/readyz > /dev/null; do \
                             kill -0 $!; sleep 0.2; done";
                writeln!(script, "echo '== {position}'\n( {} ) &\n{ready}", block.text.trim_end()).unwrap();
            }
            "" => writeln!(script, "echo '== {position}'\n{}", block.text).unwrap(),
            other => panic!("{position}: unknown mode {other:?}"),
        }
    }
    script
}

/// A directory with the programs that pages name: `hangar`, and `cargo run --release --` in its place.
fn programs(dir: &Path) {
    std::fs::create_dir(dir).unwrap();
    symlink(binary(), dir.join("hangar")).unwrap();
    let cargo = "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] || exit 2\nshift 3\nexec hangar \"$@\"\n";
    // The emulators are installed already.
    let pip = "#!/bin/sh\n[ \"$1\" = install ]\n";
    for (name, text) in [("cargo", cargo), ("pip", pip)] {
        let file = dir.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

fn can_unshare() -> bool {
    let tried = Command::new("unshare")
        .args(["-Urnp", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"])
        .output();
    tried.is_ok_and(|output| output.status.success())
}

fn run(page: &str, select: impl Fn(&str) -> bool) {
    if !can_unshare() {
        println!("skipped: no network namespace can be made here (unshare, ip)");
        return;
    }
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let mut blocks = blocks(&text);
    blocks.retain(|block| select(&block.text));
    assert!(blocks.iter().any(|block| block.mode.is_empty()), "{page} has no block to run");
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    programs(&bin);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{}:{path}", bin.display(), tools_dir().join("emulators/bin").display());
    let output = Command::new("unshare")
        .args(["-Urnp", "--fork", "--kill-child", "--mount-proc", "bash", "-c", &script(page, &blocks)])
        .env("HOME", home.path())
        .env("PATH", path)
        .env_remove("KUBECONFIG")
        .current_dir(home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{page}: {}\n{out}\n{err}", output.status);
}

#[test]
fn getting_started() {
    run("docs/getting-started.md", |_| true);
}

#[test]
fn readme_first_control_plane() {
    run("README.md", |block| !block.contains("moto"));
}

#[test]
fn readme_aws() {
    run("README.md", |block| block.contains("moto"));
}
