//! Everybody who uses the control plane at once, and the comparison of all they know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use end_to_end::chance::{self, SetWhenDropped};
use end_to_end::{Client, Server};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::several::Plane;
use crate::watchers::{self, Seen};
use crate::writers::Writer;

const WRITERS: usize = 4;
/// Kills where nothing else is said.
const FEW: usize = 4;
const MANY: usize = 100;
const FILLERS: usize = 8;
/// The last object, after which there is nothing to wait for.
pub const FENCE: &str = "fence";

pub fn kills_wanted() -> usize {
    chance::kills_wanted(if chance::is_long() { MANY } else { FEW })
}

/// A control plane through one server or several.
pub struct Doors {
    clients: Vec<Client>,
    maps: String,
}

impl Doors {
    pub fn client(&self, number: usize) -> &Client {
        &self.clients[number % self.clients.len()]
    }

    pub fn len(&self) -> usize {
        self.clients.len()
    }

    pub fn maps(&self) -> &str {
        &self.maps
    }

    pub fn map(&self, name: &str) -> String {
        format!("{}/{name}", self.maps)
    }
}

pub struct Load {
    plane: Plane,
    doors: Arc<Doors>,
    objects: u64,
    writers: Vec<Writer>,
    watchers: Vec<JoinHandle<Seen>>,
}

impl Load {
    /// A control plane with so many objects that stay as they are.
    pub fn begin(server: &Server, objects: u64, rng: &mut StdRng) -> Load {
        let plane = Plane::create(server);
        let maps = plane.path("/api/v1/namespaces/default/configmaps");
        let doors = Arc::new(Doors { clients: vec![plane.client(server)], maps });
        fill(&doors, objects);
        let writers = (0..WRITERS).map(|i| Writer::new(i, StdRng::seed_from_u64(rng.random()))).collect();
        Load { plane, doors, objects, writers, watchers: Vec::new() }
    }

    /// From now on through this server as well.
    pub fn also_through(&mut self, server: &Server) {
        let mut clients = self.doors.clients.clone();
        clients.push(self.plane.client(server));
        self.doors = Arc::new(Doors { clients, maps: self.doors.maps.clone() });
    }

    /// Writes and watches for as long as something else takes.
    pub fn write_while(&mut self, meanwhile: impl FnOnce(&Plane)) {
        let watch = |number| {
            let doors = self.doors.clone();
            std::thread::spawn(move || watchers::watch(&doors, number))
        };
        self.watchers = (0..2).map(watch).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                let (doors, over) = (&self.doors, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::SeqCst) {
                        writer.write(doors);
                    }
                });
            }
            // Also when it fails: the scope ends only when all have ended.
            let _ends = SetWhenDropped(&over);
            meanwhile(&self.plane);
        });
    }

    /// Holds what was seen against what was written, and both against what is there.
    pub fn finish(self, server: &Server) {
        let mut writers = self.writers;
        writers[0].create(&self.doors, FENCE);
        let mut known = BTreeMap::new();
        writers.iter().for_each(|writer| known.extend(writer.known.clone()));
        for (number, watcher) in self.watchers.into_iter().enumerate() {
            let seen = watcher.join().unwrap();
            assert_eq!(seen.there, known, "what watcher {number} saw last, and what was written last");
            let written: usize = writers.iter().map(|writer| seen.compare(&writer.acknowledged)).sum();
            println!("watcher {number}: {} lists, {written} writes seen as events", seen.lists);
        }
        let client = self.plane.client(server);
        let listed = client.get(&format!("{}?labelSelector=moving%3Dyes", self.doors.maps)).ok();
        assert_eq!(marks(&listed), known, "what is there, and what was written last");
        let kept = client.get(&format!("{}?labelSelector=moving%3Dno", self.doors.maps)).ok();
        let expected: BTreeMap<String, u64> = (0..self.objects).map(|i| (format!("kept-{i}"), i)).collect();
        assert!(
            marks(&kept) == expected,
            "of {} that nobody writes, {} are there",
            expected.len(),
            marks(&kept).len()
        );
        let longest = writers.iter().map(|writer| writer.longest).max().unwrap();
        let count = |of: fn(&Writer) -> usize| writers.iter().map(of).sum::<usize>();
        println!(
            "{} writes, {} refused, {} cut off; the longest took {longest:?}",
            count(|writer| writer.written),
            count(|writer| writer.refused),
            count(|writer| writer.cut),
        );
    }
}

fn fill(doors: &Doors, objects: u64) {
    std::thread::scope(|scope| {
        for first in 0..FILLERS as u64 {
            scope.spawn(move || {
                for number in (first..objects).step_by(FILLERS) {
                    let name = format!("kept-{number}");
                    doors.client(0).post(doors.maps(), &map(&name, number, "no")).ok();
                }
            });
        }
    });
}

pub fn map(name: &str, mark: u64, written: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"moving": written}},
        "data": {"mark": mark.to_string()},
    })
}

pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap()
}

/// Of the write that made it so; none write the same.
pub fn mark(object: &Value) -> u64 {
    object["data"]["mark"].as_str().and_then(|text| text.parse().ok()).unwrap()
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

pub fn marks(list: &Value) -> BTreeMap<String, u64> {
    list["items"].as_array().unwrap().iter().map(|object| (name(object), mark(object))).collect()
}
