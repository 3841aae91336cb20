//! A provider for tests: things on a shelf, each a file in a directory.
//!
//! It is what a Go provider looks like from outside: protocol 5, gRPC over a unix socket, mutual TLS with P-521 keys,
//! every field of the handshake. The gRPC is written out here on hyper, so that host and provider do not share their
//! mistakes. It misbehaves on demand: `FAULT` in its environment for the time before it is configured, and the file
//! `fault` on the shelf for any call after. Calls are noted in the file `calls`, so that one of them can be its last
//! whichever process gets it: `die` or `die-after` with the number of the call in the file `last`. With `IDENTITY` in its
//! environment its things have identities, of that version, and are listed by them; with `GENERATE` it says how they could have been written.

// It talks to its host on standard output; where it cannot go on, it ends, and that is for the host to bear.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod attempts;
mod beside;
mod identity;
mod key;
mod listing;
mod serve;
mod thing;

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serve::{Identity, Reply};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let fault = std::env::var("FAULT").unwrap_or_default();
    if std::env::var("TF_PLUGIN_MAGIC_COOKIE").is_err() {
        eprintln!("This is a plugin, and not meant to be run by hand.");
        std::process::exit(1);
    }
    match fault.as_str() {
        "hang-start" => std::future::pending::<()>().await,
        "exit" => {
            eprintln!("the shelf is closed");
            std::process::exit(3);
        }
        "not-a-plugin" => {
            println!("Hello, world!");
            std::future::pending::<()>().await;
        }
        "protocol-4" => {
            println!("1|4|unix|/nowhere|grpc|");
            std::future::pending::<()>().await;
        }
        "flood" => {
            std::thread::spawn(|| {
                let line = "x".repeat(1 << 16);
                loop {
                    if writeln!(std::io::stderr(), "{line}").is_err() || writeln!(std::io::stdout()).is_err()
                    {
                        return;
                    }
                }
            });
        }
        _ => {}
    }
    let directory = PathBuf::from(std::env::var("PLUGIN_UNIX_SOCKET_DIR").expect("a directory for sockets"));
    let path = directory.join("shelf.sock");
    let listener = tokio::net::UnixListener::bind(&path).expect("a socket");
    let identity = Identity::generate(&std::env::var("PLUGIN_CLIENT_CERT").expect("a client certificate"));
    // With flooding this is not the first line on its own; a lock makes it one.
    let handshake = format!("1|5|unix|{}|grpc|{}\n", path.display(), identity.announced());
    std::io::stdout().lock().write_all(handshake.as_bytes()).expect("a host");
    let shelf = Arc::new(Shelf { directory: OnceLock::new(), fault, stopped: Default::default() });
    serve::serve(listener, identity, move |method, body| {
        let shelf = shelf.clone();
        async move { shelf.answer(&method, body).await }
    })
    .await;
}

/// The provider: where its things are, once it is configured.
pub struct Shelf {
    directory: OnceLock<PathBuf>,
    fault: String,
    stopped: tokio::sync::Notify,
}

impl Shelf {
    /// What goes wrong in this call, if anything: `fault` holds lines of `Method: fault`.
    fn fault_of(&self, method: &str) -> Option<String> {
        let file = self.directory.get().map(|directory| directory.join("fault"));
        let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        let faults = text.lines().chain(self.fault.lines()).filter_map(|line| line.split_once(": "));
        faults.filter(|(name, _)| *name == method).map(|(_, fault)| fault.to_owned()).next()
    }

    /// Notes a call; what the file `last` says, if this is the call it names.
    fn last(&self, method: &str) -> Option<String> {
        let directory = self.directory.get()?;
        let calls = directory.join("calls");
        let mut log = std::fs::OpenOptions::new().create(true).append(true).open(&calls).ok()?;
        writeln!(log, "{method}").ok()?;
        let last = std::fs::read_to_string(directory.join("last")).ok()?;
        let (fault, number) = last.trim().split_once(' ')?;
        let so_far = std::fs::read_to_string(&calls).ok()?.lines().count();
        (number.parse() == Ok(so_far)).then(|| fault.to_owned())
    }

    async fn answer(&self, method: &str, body: Vec<u8>) -> Reply {
        let fault = self.last(method).or_else(|| self.fault_of(method));
        if method == "Stop" {
            self.stopped.notify_waiters();
        }
        match fault.as_deref() {
            Some("until-stopped") => self.stopped.notified().await,
            Some("slow") => tokio::time::sleep(std::time::Duration::from_secs(3)).await,
            Some("hang") => std::future::pending::<()>().await,
            Some("die") => std::process::exit(42),
            Some("panic") => panic!("the shelf fell down"),
            Some("fail") => return Reply::Failure(13, "the shelf is out of order".into()),
            Some("attempts") => {
                let directory = self.directory.get().cloned().unwrap_or_default();
                return Reply::Failure(13, attempts::outcomes(&directory));
            }
            Some("garbage") => return Reply::Message(vec![0xff; 40]),
            Some("huge") => return Reply::Message(vec![0x0a; 100 << 20]),
            _ => {}
        }
        let reply = thing::answer(self, method, &body, fault.as_deref());
        let creates = method == "ApplyResourceChange" && thing::creates(&body);
        if fault.as_deref() == Some("die-after") || (creates && fault.as_deref() == Some("die-after-create"))
        {
            std::process::exit(43);
        }
        reply
    }
}
