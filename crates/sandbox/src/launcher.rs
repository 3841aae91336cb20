//! The launcher: sets up namespaces, starts the first process in them, and ends it when the server is gone.
//!
//! It is a process of its own with one thread. It trusts the server and nobody else.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::control::{receive, send};
use crate::spec::{Failure, INSIDE, Inner, InnerOrder, InnerReport, Job, Order, Report};
use crate::{confine, inner, mounts, network};

/// The first argument of a program that is to be the launcher.
pub(crate) const LAUNCHER: &str = "sandbox-exec";
/// The first argument of the launcher when it is to become the program.
const INNER: &str = "sandbox-exec-inner";
/// When there is no better word for an end by a signal.
const SIGNALLED: u8 = 128;

/// Runs as the launcher if the arguments say so. The first thing that `main` does, before there are threads.
pub fn run_as_launcher(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    match arguments.into_iter().nth(1)?.to_str()? {
        LAUNCHER => Some(launch()),
        INNER => Some(inner::run()),
        _ => None,
    }
}

/// The socket that we have instead of an input.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(control)
}

fn launch() -> ExitCode {
    confine::close_inherited();
    let Ok(control) = control_socket() else { return ExitCode::FAILURE };
    let job = match receive(&control) {
        Ok(Some((Order::Run(job), _))) => *job,
        _ => return ExitCode::FAILURE,
    };
    match prepare(&control, job) {
        Ok(mut started) => supervise(&control, &mut started),
        Err(failure) => {
            let _ = send(&control, &Report::Failed(failure), &[]);
            ExitCode::FAILURE
        }
    }
}

fn prepare(control: &OwnedFd, job: Job) -> Result<Child, Failure> {
    let (spec, isolate) = (&job.spec, job.isolate);
    if !isolate {
        report(control, &Report::Prepared { network: Ok(()) }, &[])?;
        let (program, executable, writable) = (spec.program.clone(), Vec::new(), Vec::new());
        return begin(control, Inner { program, root: None, executable, writable, job });
    }
    let because = |what: &'static str| move |error: io::Error| Failure::of(what, error);
    let mut sources = mounts::Sources::of(&job);
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        // The user of the sandbox may not be able to.
        sources.open()?;
        // The namespace lets nobody change them later.
        set_thread_groups(&[]).map_err(|error| Failure::of("cannot leave the groups", error))?;
    }
    let namespaces = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(namespaces).map_err(|error| Failure::of("cannot make namespaces", error))?;
    report(control, &Report::Unshared, &[])?;
    match receive(control).map_err(because("the server does not answer"))? {
        Some((Order::Mapped, _)) => {}
        _ => return Err(Failure::of("the server does not answer", "no user was mapped")),
    }
    if !is_root {
        sources.open()?;
    }
    become_user().map_err(because("cannot become the user of the sandbox"))?;
    rustix::system::sethostname(b"sandbox")
        .map_err(|error| Failure::of("cannot set the host name", error))?;
    let tree = sources.mount(&job)?;
    let loopback = crate::netlink::loopback_up();
    let sockets = match job.spec.network {
        true => Some(loopback.map_err(|error| error.to_string()).and_then(|()| network::set_up())),
        false => None,
    };
    let mut with = vec![tree.temporary.as_fd()];
    with.extend(sockets.iter().flatten().flat_map(network::Sockets::all));
    let network =
        sockets.as_ref().map_or(Ok(()), |sockets| sockets.as_ref().map(|_| ()).map_err(String::clone));
    report(control, &Report::Prepared { network }, &with)?;
    keep_capabilities().map_err(because("cannot keep capabilities"))?;
    let mounts::Tree { root, program, executable, writable, .. } = tree;
    begin(control, Inner { program, root: Some(root), executable, writable, job })
}

fn report(control: &OwnedFd, report: &Report, with: &[BorrowedFd<'_>]) -> Result<(), Failure> {
    send(control, report, with).map_err(|error| Failure::of("the server is gone", error))
}

/// The only user and group of the namespace. Capabilities stay: in it we are not root, and were not before.
fn become_user() -> io::Result<()> {
    let (user, group) = (rustix::process::Uid::from_raw(INSIDE), rustix::process::Gid::from_raw(INSIDE));
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// What the first process needs to leave the old root and to give up the rest survives that it is executed.
fn keep_capabilities() -> io::Result<()> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP;
    let mut sets = capabilities(None)?;
    sets.inheritable = needed;
    set_capabilities(None, sets)?;
    for one in needed.iter() {
        configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}

/// Starts ourselves as the first process, which becomes the program.
fn begin(control: &OwnedFd, inner: Inner) -> Result<Child, Failure> {
    let because = |what: &'static str| move |error: io::Error| Failure::of(what, error);
    let probe = inner.job.probe;
    let (own, its) = crate::control::pair().map_err(because("cannot make a socket"))?;
    let mut command = Command::new("/proc/self/exe");
    let mut child = command
        .arg(INNER)
        .env_clear()
        .stdin(Stdio::from(its))
        .spawn()
        .map_err(because("cannot start the first process"))?;
    // Outputs are the program's alone.
    drop(command);
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let bind = || -> Result<bool, Failure> {
        let lost = |error: io::Error| Failure::of("the first process does not answer", error);
        let ended = || Failure::of("the first process does not answer", "it ended");
        send(&own, &InnerOrder::Become(Box::new(inner)), &[]).map_err(lost)?;
        loop {
            match receive(&own).map_err(lost)? {
                Some((InnerReport::Bound, _)) => send(&own, &InnerOrder::Go, &[]).map_err(lost)?,
                Some((InnerReport::Confined { landlock }, _)) => {
                    if probe {
                        return Ok(landlock);
                    }
                    // Closed by the kernel when the program has taken its place.
                    return match receive(&own).map_err(lost)? {
                        None => Ok(landlock),
                        Some((InnerReport::Failed(failure), _)) => Err(failure),
                        Some(_) => Err(ended()),
                    };
                }
                Some((InnerReport::Failed(failure), _)) => return Err(failure),
                None => return Err(ended()),
            }
        }
    };
    match bind() {
        Ok(landlock) => {
            report(control, &Report::Started { landlock }, &[])?;
            Ok(child)
        }
        Err(failure) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(failure)
        }
    }
}

/// Waits for the end of the program, or of the server.
fn supervise(control: &OwnedFd, child: &mut Child) -> ExitCode {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(ended) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        let _ = child.kill();
        return ExitCode::FAILURE;
    };
    loop {
        let mut both = [PollFd::new(control, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
        let [asked, over] = both.map(|one| !one.revents().is_empty());
        if over {
            break;
        }
        if asked && !serve(control) {
            // The first process of a namespace takes all others with it.
            let _ = child.kill();
            break;
        }
    }
    match child.wait() {
        Ok(status) => end_like(status),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Does what the server asks for. False if it is gone.
fn serve(control: &OwnedFd) -> bool {
    let Ok(Some((Order::Connect(address), _))) = receive::<Order>(control) else { return false };
    let connected = network::connect(address);
    let with: Vec<_> = connected.iter().map(AsFd::as_fd).collect();
    let report = Report::Connected(connected.as_ref().map(|_| ()).map_err(ToString::to_string));
    send(control, &report, &with).is_ok()
}

/// Ends as the program did, so that whoever waits for us sees how.
fn end_like(status: std::process::ExitStatus) -> ExitCode {
    if let Some(code) = status.code() {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let number = status.signal().unwrap_or_default();
    if let Some(signal) = Signal::from_named_raw(number) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    ExitCode::from(SIGNALLED.saturating_add(u8::try_from(number).unwrap_or_default()))
}
