//! Clients that write, try again when they are told to, and know exactly what they did.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use end_to_end::Answer;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::load::{Doors, map, mark, revision};

const OBJECTS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

pub struct Writer {
    number: u64,
    rng: StdRng,
    marks: u64,
    /// What is there, which nobody else writes.
    pub known: BTreeMap<String, u64>,
    /// By their revisions: of which object, and the mark.
    pub acknowledged: BTreeMap<u64, (String, u64)>,
    /// The highest revision it was told.
    newest: u64,
    pub written: usize,
    pub refused: usize,
    pub cut: usize,
    /// From the first try to the acknowledgement.
    pub longest: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Intent {
    Create(u64),
    Replace(u64),
    Delete,
}

impl Writer {
    pub fn new(number: usize, rng: StdRng) -> Writer {
        Writer {
            number: number as u64,
            rng,
            marks: 0,
            known: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            newest: 0,
            written: 0,
            refused: 0,
            cut: 0,
            longest: Duration::ZERO,
        }
    }

    /// One write to one of its objects, whatever it takes, and a look at it through every server.
    pub fn write(&mut self, doors: &Doors) {
        let name = format!("w{}-{}", self.number, self.rng.random_range(0..OBJECTS));
        let deletes = self.rng.random_ratio(1, 5);
        let intent = match self.known.contains_key(&name) {
            true if deletes => Intent::Delete,
            true => Intent::Replace(self.next_mark()),
            false => Intent::Create(self.next_mark()),
        };
        self.carry_out(doors, &name, intent);
        for number in 0..doors.len() {
            self.look(doors, number, &name);
        }
    }

    pub fn create(&mut self, doors: &Doors, name: &str) {
        let intent = Intent::Create(self.next_mark());
        self.carry_out(doors, name, intent);
    }

    fn next_mark(&mut self) -> u64 {
        self.marks += 1;
        self.number * 1_000_000 + self.marks
    }

    fn carry_out(&mut self, doors: &Doors, name: &str, intent: Intent) {
        let (began, mut tried) = (Instant::now(), false);
        loop {
            let door = self.rng.random_range(0..doors.len());
            match send(doors, door, name, intent) {
                Err(_) => self.cut += 1,
                Ok(answer) => match answer.code {
                    200..300 => return self.enter(name, intent, &answer, began, tried),
                    429 | 503 | 504 => self.refused += 1,
                    // What was tried before was done after all.
                    404 if tried && intent == Intent::Delete && is_of_an_object(&answer) => {
                        return self.enter(name, intent, &answer, began, tried);
                    }
                    409 if tried && self.is_done(doors, name, intent) => {
                        return self.enter(name, intent, &answer, began, tried);
                    }
                    code => panic!("{name}: {code}: {}", answer.text()),
                },
            }
            tried = true;
            assert!(began.elapsed() < PATIENCE, "{name} cannot be written for {PATIENCE:?}");
            std::thread::sleep(PAUSE);
        }
    }

    fn is_done(&mut self, doors: &Doors, name: &str, intent: Intent) -> bool {
        let found = self.read(doors, 0, name);
        found.is_some_and(|answer| intent == Intent::Create(mark(&answer.json())))
    }

    fn enter(&mut self, name: &str, intent: Intent, answer: &Answer, began: Instant, tried: bool) {
        self.longest = self.longest.max(began.elapsed());
        self.written += 1;
        let mark = match intent {
            Intent::Delete => {
                self.known.remove(name);
                return;
            }
            Intent::Create(mark) | Intent::Replace(mark) => mark,
        };
        self.known.insert(name.to_owned(), mark);
        if answer.code == 409 {
            return;
        }
        let revision = revision(&answer.json());
        // The same written twice is one write.
        let forward = revision > self.newest || (tried && revision == self.newest);
        assert!(forward, "{name}: revision {revision} after {}", self.newest);
        self.newest = revision;
        self.acknowledged.insert(revision, (name.to_owned(), mark));
    }

    /// What was acknowledged is there, and is no older.
    fn look(&mut self, doors: &Doors, number: usize, name: &str) {
        let found = self.read(doors, number, name).map(|answer| answer.json());
        assert_eq!(found.as_ref().map(mark), self.known.get(name).copied(), "{name} through server {number}");
    }

    /// None where there is none.
    fn read(&mut self, doors: &Doors, number: usize, name: &str) -> Option<Answer> {
        let began = Instant::now();
        loop {
            match doors.client(number).try_send("GET", &doors.map(name), None, b"") {
                Err(_) => {}
                Ok(answer) => match answer.code {
                    200 => return Some(answer),
                    404 => {
                        assert!(is_of_an_object(&answer), "{name}: {}", answer.text());
                        return None;
                    }
                    429 | 503 | 504 => {}
                    code => panic!("{name}: {code}: {}", answer.text()),
                },
            }
            assert!(began.elapsed() < PATIENCE, "{name} cannot be read for {PATIENCE:?}");
            std::thread::sleep(PAUSE);
        }
    }
}

/// A 404 of the object, not of the control plane.
fn is_of_an_object(answer: &Answer) -> bool {
    answer.text().contains("configmaps")
}

fn send(doors: &Doors, door: usize, name: &str, intent: Intent) -> Result<Answer, ureq::Error> {
    let (client, json) = (doors.client(door), Some("application/json"));
    match intent {
        Intent::Create(mark) => {
            client.try_send("POST", doors.maps(), json, map(name, mark, "yes").to_string().as_bytes())
        }
        Intent::Replace(mark) => {
            client.try_send("PUT", &doors.map(name), json, map(name, mark, "yes").to_string().as_bytes())
        }
        Intent::Delete => client.try_send("DELETE", &doors.map(name), None, b""),
    }
}
