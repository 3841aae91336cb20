//! What a hostile provider tries: one attempt a line in the file `attempts` on the shelf, and what came of each is the
//! message of the failure.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

pub fn outcomes(shelf: &Path) -> String {
    let attempts = std::fs::read_to_string(shelf.join("attempts")).unwrap_or_default();
    let outcome = |attempt: &str| {
        let (what, with) = attempt.split_once(' ')?;
        Some(match tried(what, with) {
            Ok(said) => format!("{what} done {said}"),
            Err(_) => format!("{what} refused"),
        })
    };
    attempts.lines().filter_map(outcome).collect::<Vec<_>>().join("; ")
}

fn tried(what: &str, with: &str) -> std::io::Result<String> {
    match what {
        "read" => Ok(std::fs::read(with)?.len().to_string()),
        "run" => Ok(std::process::Command::new(with).status()?.to_string()),
        "connect" => {
            let mut stream = TcpStream::connect(with)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            stream.read_exact(&mut [0])?;
            Ok(String::new())
        }
        "fork" => {
            let mut children = Vec::new();
            // With an address of its own, as a bomb has it.
            let own = std::env::args().next().unwrap_or_default();
            let outcome = (0..2_000).try_for_each(|_| {
                let child = std::process::Command::new(&own).env("FAULT", "hang-start").spawn()?;
                children.push(child);
                Ok(())
            });
            for mut child in children {
                let _ = child.kill();
                let _ = child.wait();
            }
            outcome.map(|()| String::new())
        }
        "fill" => {
            let mut file = std::fs::File::create(with)?;
            (0..1_024).try_for_each(|_| file.write_all(&vec![1; 1 << 20])).map(|()| String::new())
        }
        _ => Err(std::io::ErrorKind::Unsupported.into()),
    }
}
