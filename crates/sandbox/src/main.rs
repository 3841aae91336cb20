//! The launcher as a program of its own, for tests of crates that have no other.

fn main() -> std::process::ExitCode {
    sandbox::run_as_launcher(std::env::args_os()).unwrap_or(std::process::ExitCode::FAILURE)
}
