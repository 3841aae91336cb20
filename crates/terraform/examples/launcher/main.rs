//! The launcher of sandboxes for the tests of this package, which have no program of their own.

fn main() -> std::process::ExitCode {
    sandbox::run_as_launcher(std::env::args_os()).unwrap_or(std::process::ExitCode::FAILURE)
}
