//! `cargo xtask test`: installs what the tests need, then checks and runs everything.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

#[derive(clap::Args)]
pub struct Args {
    /// Only install what the tests need
    #[arg(long)]
    tools_only: bool,
    /// Long: 100 kills in place of a few, more rounds, more clients at once
    #[arg(long)]
    long: bool,
}

/// Environments of Python, each with what is installed in it; pinned, so that a red run is our doing. Clients that the
/// end-to-end tests drive a control plane with, emulators of AWS, the framework of a Terraform provider, and a whole provider on
/// another, with everything that the newest protocol has.
const PYTHON: [(&str, &[&str]); 4] = [
    ("venv", &["kubernetes==37.0.2", "kopf==1.45.2", "lightkube==1.0.1"]),
    ("emulators", &["moto[server]==5.2.1", "ministack==1.5.33"]),
    ("provider-venv", &["tf==1.2.0", "pg8000==1.31.6", "grpcio-tools==1.71.2"]),
    ("pyvider-venv", &["pyvider==0.8.1", "pyvider-components==0.8.1"]),
];
/// Debian's packages, and what is wanted of them: the oldest kubectl that must work, an etcd to store in, and an sshd to
/// fetch modules from, with a library that it needs.
const DEBIAN_PROGRAMS: [(&str, &str); 4] = [
    ("kubernetes-client", "usr/bin/kubectl"),
    ("etcd-server", "usr/bin/etcd"),
    ("openssh-server", "usr/sbin/sshd"),
    ("libwrap0", "usr/lib"),
];

pub fn run(args: &Args) -> anyhow::Result<()> {
    let tools = tools_dir()?;
    for (name, packages) in PYTHON {
        python(&tools.join(name), packages)?;
    }
    DEBIAN_PROGRAMS.iter().for_each(|(package, program)| debian_program(&tools, package, program));
    postgresql();
    foreign_provider(&tools)?;
    if args.tools_only {
        return Ok(());
    }
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step("tidy", Ok(())).and_then(|()| crate::tidy::run())?;
    step(
        "lint",
        cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]),
    )?;
    if installed("cargo-deny") {
        step("dependencies", cargo(&["deny", "check", "bans", "licenses", "sources"]))?;
    } else {
        println!("dependencies: not checked, cargo-deny is not installed");
    }
    advisories()?;
    // The program that the end-to-end tests drive, built with what it is tested with: with a selection of its own, cargo
    // would choose other features of what it depends on, and build all of that twice.
    step("build", cargo(&["build", "--workspace", "--all-features", "--all-targets"]))?;
    // Last, so that its summary is what a person sees.
    let runner: &[&str] = if installed("cargo-nextest") { &["nextest", "run"] } else { &["test"] };
    let mut tests = Command::new("cargo");
    tests.args(runner).args(["--workspace", "--all-features"]);
    if args.long {
        tests.env("HANGAR_LONG", "1");
    }
    run_command(&mut tests)
}

/// Whether a dependency has a published vulnerability. The database of these is fetched from GitHub; where it cannot be had, that
/// is said, and is no failure.
fn advisories() -> anyhow::Result<()> {
    if !installed("cargo-deny") {
        println!("advisories: skipped, cargo-deny is not installed");
        return Ok(());
    }
    let fetched =
        Command::new("cargo").args(["deny", "fetch", "db"]).output().context("cannot run cargo deny")?;
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("cargo deny fetch failed");
        println!("advisories: skipped, the database cannot be fetched: {}", why.trim());
        return Ok(());
    }
    step("advisories", cargo(&["deny", "check", "advisories"]))
}

fn step(name: &str, done: anyhow::Result<()>) -> anyhow::Result<()> {
    done.with_context(|| format!("{name} failed"))?;
    println!("{name}: ok");
    Ok(())
}

fn installed(program: &str) -> bool {
    let argument = "--version";
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ cargo {}", arguments.join(" "));
    run_command(Command::new("cargo").args(arguments))
}

fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// Where tools for tests are kept between runs: with the build, so that `cargo clean` takes them too.
fn tools_dir() -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let dir = target.join("test-tools");
    std::fs::create_dir_all(&dir)?;
    Ok(dir.canonicalize()?)
}

fn python(venv: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let marker = venv.join(".complete");
    if marker.exists() {
        return Ok(());
    }
    println!("$ python3 -m venv {}", venv.display());
    run_command(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
    let mut pip = Command::new(venv.join("bin/pip"));
    run_command(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
    std::fs::write(marker, "")?;
    Ok(())
}

/// PostgreSQL wants files in places of its own, and so to be installed. Tests say so when it is missing.
fn postgresql() {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    if versions.map(|version| version.path().join("bin/postgres")).any(|server| server.exists()) {
        return;
    }
    let install = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "-y", "-qq", "--no-install-recommends", "postgresql"]);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let installed = run_command(&mut install()).or_else(|_| {
        run_command(Command::new("apt-get").args(["update", "-qq"]))?;
        run_command(&mut install())
    });
    if let Err(error) = installed {
        println!("Debian's postgresql is not at hand: {error:#}");
    }
}

/// A Terraform provider on a published framework, which shares neither code nor a lock file with its host. The
/// framework compiles its messages with protoc, which a package of Python's has.
fn foreign_provider(tools: &Path) -> anyhow::Result<()> {
    let target = tools.join("providers");
    let protoc = tools.join("protoc");
    let python = tools.join("provider-venv/bin/python");
    std::fs::write(&protoc, format!("#!/bin/sh\nexec {} -m grpc_tools.protoc \"$@\"\n", python.display()))?;
    std::fs::set_permissions(&protoc, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let manifest = "crates/terraform/tests/frameworks/memo/Cargo.toml";
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir"]).arg(target);
    run_command(cargo.env("PROTOC", protoc))
}

/// A program of Debian's beside whatever the machine has: unpacked, not installed. Tests say so when it is missing.
fn debian_program(tools: &Path, package: &str, program: &str) {
    let root = tools.join(package);
    if root.join(program).exists() {
        return;
    }
    let unpacked = (|| -> anyhow::Result<()> {
        let scratch = tools.join("deb").join(package);
        std::fs::create_dir_all(&scratch)?;
        let download = || {
            let mut command = Command::new("apt-get");
            command.args(["download", "-qq", package]).current_dir(&scratch);
            command
        };
        if !download().status()?.success() {
            run_command(Command::new("apt-get").args(["update", "-qq"]))?;
            run_command(&mut download())?;
        }
        let archive = std::fs::read_dir(&scratch)?.flatten().map(|entry| entry.path());
        let archive = archive.filter(|path| path.extension().is_some_and(|e| e == "deb")).last();
        let archive = archive.context("no package was downloaded")?;
        run_command(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&root))
    })();
    if let Err(error) = unpacked {
        println!("Debian's {package} is not at hand: {error:#}");
    }
}
