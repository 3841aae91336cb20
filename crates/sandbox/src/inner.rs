//! The first process of a sandbox: gives up everything that the program must not have, and becomes the program.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::confine;
use crate::control::{receive, send};
use crate::launcher::control_socket;
use crate::spec::{Failure, Inner, InnerOrder, InnerReport};

pub(crate) fn run() -> ExitCode {
    let Ok(launcher) = control_socket() else { return ExitCode::FAILURE };
    let Ok(Some((InnerOrder::Become(inner), _))) = receive(&launcher) else { return ExitCode::FAILURE };
    if let Err(failure) = become_program(&launcher, &inner) {
        let _ = send(&launcher, &InnerReport::Failed(failure), &[]);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns only if it fails, or if there is nothing to become.
fn become_program(launcher: &OwnedFd, inner: &Inner) -> Result<(), Failure> {
    let because = |what: &'static str| move |error: io::Error| Failure::of(what, error);
    let spec = &inner.job.spec;
    // From here on we end with the launcher, if it is still there to answer.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::of("cannot end with the launcher", error))?;
    send(launcher, &InnerReport::Bound, &[]).map_err(because("the launcher is gone"))?;
    match receive(launcher).map_err(because("the launcher is gone"))? {
        Some((InnerOrder::Go, _)) => {}
        _ => return Err(Failure::of("the launcher is gone", "it ended")),
    }
    let mut landlock = false;
    if let Some(root) = &inner.root {
        enter(root).map_err(because("cannot enter the new root"))?;
        confine::drop_capabilities().map_err(because("cannot drop capabilities"))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(|error| Failure::of("cannot set no_new_privs", error))?;
    if inner.root.is_some() {
        landlock = confine::landlock(&inner.executable, &inner.writable)
            .map_err(|error| Failure::of("cannot use Landlock", error))?;
        confine::filter_calls().map_err(|error| Failure::of("cannot filter system calls", error))?;
    }
    if !inner.job.probe {
        std::env::set_current_dir(&spec.directory).map_err(because("cannot enter the working directory"))?;
    }
    let confined = InnerReport::Confined { landlock };
    send(launcher, &confined, &[]).map_err(because("the launcher is gone"))?;
    if inner.job.probe {
        return Ok(());
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let text =
        |bytes: &[u8]| CString::new(bytes).map_err(|error| Failure::of("cannot pass an argument", error));
    let program = text(inner.program.as_os_str().as_bytes())?;
    let arguments = std::iter::once(Ok(program.clone()));
    let arguments = arguments.chain(spec.arguments.iter().map(|one| text(one.as_bytes())));
    let arguments: Vec<CString> = arguments.collect::<Result<_, _>>()?;
    let environment = spec.environment.iter().map(|(name, value)| text(format!("{name}={value}").as_bytes()));
    let environment: Vec<CString> = environment.collect::<Result<_, _>>()?;
    // Last: a program may get less memory than we have taken.
    confine::limit(&spec.limits, inner.root.is_some()).map_err(because("cannot limit resources"))?;
    // Not by the standard library, which gives what it cannot execute to a shell.
    let Err(error) = nix::unistd::execve(&program, &arguments, &environment);
    let what = match error {
        Errno::ENOENT if inner.program.exists() => {
            "its loader or interpreter is not in the sandbox: name the directory as a path of the provider"
                .to_owned()
        }
        error => return Err(Failure { what: error.to_string(), code: Some(error as i32) }),
    };
    Err(Failure { what, code: None })
}

/// Makes it the root, and forgets the old one.
fn enter(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)?;
    nix::unistd::pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")?;
    let flags =
        MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)?;
    Ok(())
}
