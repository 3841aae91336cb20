//! An emulator of AWS on a port of its own.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

pub struct Emulator {
    process: Child,
    url: String,
}

impl Emulator {
    /// Starts it and waits until it listens; nothing if there is none.
    pub fn start() -> Option<Emulator> {
        let program = std::env::var("HANGAR_MOTO_SERVER").unwrap_or_else(|_| "moto_server".to_owned());
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let mut process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .env("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
            .env("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Emulator { process, url: format!("http://127.0.0.1:{port}") });
            }
            if process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return None;
            }
            sleep(Duration::from_millis(100));
        }
        let _ = process.kill();
        None
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
