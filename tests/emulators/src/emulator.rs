//! An emulator of AWS on a port of its own.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A program that answers like AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Moto,
    Ministack,
}

impl Program {
    /// The file to run: what a variable names, what `cargo xtask test` installed, or what is in the PATH.
    pub fn file(self) -> Option<PathBuf> {
        let (variable, name) = match self {
            Program::Moto => ("HANGAR_MOTO_SERVER", "moto_server"),
            Program::Ministack => ("HANGAR_MINISTACK", "ministack"),
        };
        let told = std::env::var_os(variable).map(PathBuf::from);
        let own = std::env::current_exe().ok();
        let installed = || {
            let mut above = own.as_deref()?.ancestors().map(|folder| folder.join("test-tools/emulators/bin"));
            above.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found =
            || std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
        told.or_else(installed).or_else(found)
    }

    fn command(self, port: u16) -> Option<Command> {
        let mut command = Command::new(self.file()?);
        match self {
            Program::Moto => command
                .args(["-H", "127.0.0.1", "-p", &port.to_string()])
                .env("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
                .env("MOTO_IAM_LOAD_MANAGED_POLICIES", "true"),
            Program::Ministack => command.env("BIND_HOST", "127.0.0.1").env("GATEWAY_PORT", port.to_string()),
        };
        Some(command)
    }
}

pub struct Emulator {
    process: Child,
    url: String,
}

impl Emulator {
    /// Starts it and waits until it listens.
    pub fn start(program: Program) -> Result<Emulator, String> {
        let text = |error: std::io::Error| error.to_string();
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(text)?.port();
        let mut command = program.command(port).ok_or("it is not installed")?;
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(text)?;
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(Emulator { process, url: format!("http://127.0.0.1:{port}") });
            }
            if let Ok(Some(ended)) = process.try_wait() {
                return Err(format!("{program:?} ended with {ended}"));
            }
            sleep(Duration::from_millis(100));
        }
        let _ = process.kill();
        let _ = process.wait();
        Err(format!("{program:?} does not listen"))
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
