//! Programs of others as processes that reach nothing of this machine.
//!
//! [`Sandbox::start`] runs a program in its own user, mount, PID, network, IPC and UTS namespaces, with an empty set of
//! capabilities, a filter of system calls, Landlock and resource limits. It sees its own file, libraries if it needs a
//! loader, CA certificates, a few device nodes, and a temporary directory of bounded size. Its only way out is
//! [`egress`]: the kernel redirects each of its TCP connections to a socket of this server, which asks the policy and
//! dials.
//!
//! Rust has no safe code between `fork` and `exec`, so the server starts itself again as a small program, the
//! *launcher*: [`run_as_launcher`] is the first thing that `main` calls. The launcher sets up the namespaces, starts
//! itself once more as the first process of the new PID namespace, and that one becomes the program. The launcher ends
//! the program when the server is gone.

mod confine;
mod control;
mod dns;
mod elf;
mod filter;
mod inner;
mod launcher;
mod mounts;
mod netlink;
mod network;
mod spec;
mod start;

pub use filter::Egress;
pub use launcher::run_as_launcher;
pub use spec::{Limits, Share, Spec, TEMPORARY, Trees};
pub use start::{Inside, Launcher, Parts, Running, Sandbox, StartError, Unavailable};
