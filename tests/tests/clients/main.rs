//! The libraries that people write their programs with, unchanged, with nothing but a kubeconfig.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "what a script said is shown where it failed")]

mod kube_rs;
mod python;
mod tenant;
