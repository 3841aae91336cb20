//! Clients that read, write and swap, and record what they were told and when.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use end_to_end::Client;
use end_to_end::linearizable::{Action, Operation, Value};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Long histories are hard to judge; a client does not do all it could.
const REST: Duration = Duration::from_millis(10);

/// How long trouble may have consequences.
const RECOVERY: Duration = Duration::from_secs(60);

/// A ConfigMap whose one entry is the value.
pub struct Register {
    name: String,
}

impl Register {
    /// A new one, which holds 0. The trouble of the round before may not be over yet.
    pub fn make(client: &Client, round: usize, number: usize) -> Register {
        let name = format!("register-{round}-{number}");
        let register = json!({"metadata": {"name": name}, "data": {"value": "0"}});
        let began = Instant::now();
        loop {
            let answer =
                client.try_send("POST", MAPS, Some("application/json"), register.to_string().as_bytes());
            match answer.as_ref().map(|answer| answer.code) {
                // It was made by an attempt whose answer was lost.
                Ok(201 | 409) => return Register { name },
                _ => assert!(began.elapsed() < RECOVERY, "{answer:?}"),
            }
            std::thread::sleep(REST);
        }
    }

    fn path(&self) -> String {
        format!("{MAPS}/{}", self.name)
    }
}

fn value_of(object: &Json) -> Value {
    object["data"]["value"].as_str().unwrap().parse().unwrap()
}

pub struct Recorder<'a> {
    number: u64,
    rng: StdRng,
    values: u64,
    /// Counts calls and returns of all clients: what returned before another was called has the lower number.
    clock: &'a AtomicU64,
    /// What each register held when last seen, with its resourceVersion.
    seen: BTreeMap<usize, (Value, String)>,
    recorded: Vec<(usize, Operation)>,
}

impl<'a> Recorder<'a> {
    pub fn new(number: u64, rng: StdRng, clock: &'a AtomicU64) -> Recorder<'a> {
        Recorder { number, rng, values: 0, clock, seen: BTreeMap::new(), recorded: Vec::new() }
    }

    pub fn history(&self, register: usize) -> impl Iterator<Item = Operation> {
        self.recorded.iter().filter(move |(of, _)| *of == register).map(|(_, operation)| *operation)
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Does one thing to one register through one server.
    pub fn act(&mut self, clients: &[Client], registers: &[Register]) {
        let register = self.rng.random_range(0..registers.len());
        let client = &clients[self.rng.random_range(0..clients.len())];
        let path = registers[register].path();
        self.values += 1;
        let fresh = (self.number + 1) * 1_000_000 + self.values;
        match (self.rng.random_range(0..4), self.seen.get(&register).cloned()) {
            (0, _) => self.write(client, register, &path, fresh),
            (1, Some((expected, version))) => {
                self.swap(client, register, &path, expected, &version, fresh);
            }
            (2, _) => self.read_all(client, registers),
            _ => self.read(client, register, &path),
        }
        std::thread::sleep(REST);
    }

    fn read(&mut self, client: &Client, register: usize, path: &str) {
        let call = self.tick();
        let answer = client.try_send("GET", path, None, b"");
        let returned = Some(self.tick());
        let Ok(answer) = answer else { return };
        match answer.code {
            200 => {
                let found = self.see(register, &answer.json());
                self.recorded.push((register, Operation { call, returned, action: Action::Read { found } }));
            }
            429 | 503 | 504 => {}
            code => panic!("GET {path}: {code}: {}", answer.text()),
        }
    }

    /// A list shows all registers at one moment, and is answered from a server's memory when it is not the first.
    fn read_all(&mut self, client: &Client, registers: &[Register]) {
        let call = self.tick();
        let answer = client.try_send("GET", MAPS, None, b"");
        let returned = Some(self.tick());
        let Ok(answer) = answer else { return };
        let list = match answer.code {
            200 => answer.json(),
            429 | 503 | 504 => return,
            code => panic!("GET {MAPS}: {code}: {}", answer.text()),
        };
        for (number, register) in registers.iter().enumerate() {
            let mut items = list["items"].as_array().unwrap().iter();
            let object = items.find(|object| object["metadata"]["name"] == register.name.as_str()).unwrap();
            let found = self.see(number, object);
            self.recorded.push((number, Operation { call, returned, action: Action::Read { found } }));
        }
    }

    /// Where nobody listens, nothing was asked.
    fn write(&mut self, client: &Client, register: usize, path: &str, value: Value) {
        let body = json!({"data": {"value": value.to_string()}}).to_string();
        let call = self.tick();
        let answer = client.try_send("PATCH", path, Some("application/merge-patch+json"), body.as_bytes());
        let returned = self.tick();
        let returned = match answer.map(|answer| (answer.code, answer)) {
            Ok((200, answer)) => {
                self.see(register, &answer.json());
                Some(returned)
            }
            // Others were quicker too often: it was not done, and will not be.
            Ok((409, _)) => return,
            Err(ureq::Error::Io(error)) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok((429 | 503 | 504, _)) | Err(_) => None,
            Ok((code, answer)) => panic!("PATCH {path}: {code}: {}", answer.text()),
        };
        self.recorded.push((register, Operation { call, returned, action: Action::Write { value } }));
    }

    fn swap(
        &mut self,
        client: &Client,
        register: usize,
        path: &str,
        expected: Value,
        version: &str,
        value: Value,
    ) {
        let name = path.rsplit('/').next().unwrap();
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "resourceVersion": version}, "data": {"value": value.to_string()},
        });
        let call = self.tick();
        let answer = client.try_send("PUT", path, Some("application/json"), body.to_string().as_bytes());
        let returned = self.tick();
        let (returned, done) = match answer.map(|answer| (answer.code, answer)) {
            Ok((200, answer)) => {
                self.see(register, &answer.json());
                (Some(returned), true)
            }
            Ok((409, _)) => (Some(returned), false),
            Err(ureq::Error::Io(error)) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok((429 | 503 | 504, _)) | Err(_) => (None, true),
            Ok((code, answer)) => panic!("PUT {path}: {code}: {}", answer.text()),
        };
        let action = Action::Swap { expected, value, done };
        self.recorded.push((register, Operation { call, returned, action }));
    }

    fn see(&mut self, register: usize, object: &Json) -> Value {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let value = value_of(object);
        self.seen.insert(register, (value, version));
        value
    }
}
