//! What a hostile program tries in a sandbox: each argument is one attempt, and each line of the output what came of it.

#![allow(clippy::print_stdout, reason = "its output is what the tests read")]

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::net::{AddressFamily, SocketType, socket};

type Outcome = Result<String, Box<dyn std::error::Error>>;

fn main() {
    for attempt in std::env::args().skip(1) {
        let (what, with) = attempt.split_once(' ').unwrap_or((&attempt, ""));
        match tried(what, with) {
            Ok(said) => println!("{attempt}: done: {said}"),
            Err(error) => println!("{attempt}: refused: {error}"),
        }
    }
}

fn tried(what: &str, with: &str) -> Outcome {
    match what {
        "read" => Ok(std::fs::read_to_string(with)?.trim().replace('\n', "|")),
        "list" => {
            let mut names: Vec<_> = std::fs::read_dir(with)?
                .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                .collect::<Result<_, _>>()?;
            names.sort();
            Ok(names.join(" "))
        }
        "write" => Ok(std::fs::write(with, "written").map(|()| String::new())?),
        "make" => Ok(std::fs::create_dir(with).map(|()| String::new())?),
        "run" => Ok(std::process::Command::new(with).arg("-c").status()?.to_string()),
        "connect" => {
            let mut stream = TcpStream::connect(with)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(b"ping")?;
            let mut answer = [0; 4];
            stream.read_exact(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer).into_owned())
        }
        "datagram" => {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            socket.connect(with)?;
            socket.send(b"ping")?;
            let mut answer = [0; 4];
            Ok(socket.recv(&mut answer)?.to_string())
        }
        "resolve" => Ok(format!("{:?}", (with, 80).to_socket_addrs()?.next().map(|address| address.ip()))),
        "threads" => {
            let most: usize = with.parse()?;
            let waiting = || std::thread::sleep(Duration::from_secs(3_600));
            for number in 0..most {
                if let Err(error) = std::thread::Builder::new().stack_size(16 << 10).spawn(waiting) {
                    return Err(format!("after {number}: {error}").into());
                }
            }
            Ok(String::new())
        }
        "fill" => {
            let mut file = std::fs::File::create(with)?;
            for _ in 0..1 << 16 {
                file.write_all(&[1; 1 << 10])?;
            }
            Ok(String::new())
        }
        "allocate" => {
            let mut bytes: Vec<u8> = Vec::new();
            bytes.try_reserve_exact(with.parse()?)?;
            Ok(String::new())
        }
        // Which can be closed; the outputs are needed still.
        "descriptors" => {
            let open = (3..256).filter(|one: &i32| nix::unistd::close(*one).is_ok());
            Ok(open.map(|one| one.to_string()).collect::<Vec<_>>().join(" "))
        }
        "capabilities" => Ok(format!("{:?}", rustix::thread::capabilities(None)?.permitted.bits())),
        "privileges" => Ok(rustix::thread::no_new_privs()?.to_string()),
        "user" => Ok(format!("{} {}", rustix::process::getuid().as_raw(), rustix::process::getpid())),
        "namespace" => Ok(unshare(CloneFlags::CLONE_NEWUSER).map(|()| String::new())?),
        "mount" => Ok(rustix::mount::mount_bind("/", "/tmp").map(|()| String::new())?),
        "packets" => Ok(socket(AddressFamily::PACKET, SocketType::DGRAM, None).map(|_| String::new())?),
        "signal" => {
            let pid: i32 = with.parse()?;
            let pid = rustix::process::Pid::from_raw(pid).ok_or("no process")?;
            Ok(rustix::process::test_kill_process(pid).map(|()| String::new())?)
        }
        "environment" => Ok(std::env::vars().map(|(name, _)| name).collect::<Vec<_>>().join(" ")),
        "wait" => {
            println!("waiting");
            std::thread::sleep(Duration::from_secs(3_600));
            Ok(String::new())
        }
        _ => Err("what?".into()),
    }
}
