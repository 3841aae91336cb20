//! One watch over many lives of the server, and everything it saw.

use std::collections::BTreeMap;
use std::time::Duration;

use end_to_end::{Client, Watch};
use serde_json::Value;

use super::kinds::{Kind, Place, SELECTOR, Version};

/// A killed server's connections end at once.
const END: Duration = Duration::from_secs(20);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub what: String,
    pub namespace: String,
    pub name: String,
    pub revision: u64,
    pub mark: u64,
}

impl Seen {
    fn of(event: &Value) -> Seen {
        let object = &event["object"];
        assert_ne!(event["type"], "ERROR", "{event:#}");
        let Version { revision, mark } = Version::of(object);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        Seen { what: text(&event["type"]), namespace, name, revision, mark }
    }
}

pub struct History {
    collection: &'static str,
    /// What was there before it began.
    start: u64,
    events: Vec<Seen>,
    compared: usize,
    /// What the events add up to.
    state: BTreeMap<(String, String), Version>,
    watch: Option<Watch>,
}

impl History {
    pub fn from(collection: &'static str, start: u64) -> History {
        History { collection, start, events: Vec::new(), compared: 0, state: BTreeMap::new(), watch: None }
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn events(&self) -> impl Iterator<Item = &Seen> {
        self.events.iter()
    }

    /// Where it stands.
    pub fn last(&self) -> u64 {
        self.events.last().map_or(self.start, |event| event.revision)
    }

    fn open(&self, client: &Client, from: u64) -> Watch {
        // Addresses are made by the server and carry no label of ours; at the start, there are none but the API's.
        let ours = if self.collection.ends_with("ipaddresses") {
            String::new()
        } else {
            format!("&labelSelector={SELECTOR}")
        };
        client.watch(&format!("{}?watch=true&resourceVersion={from}{ours}", self.collection))
    }

    /// Goes on from the last event of the last life.
    pub fn resume(&mut self, client: &Client) {
        self.watch = Some(self.open(client, self.last()));
    }

    /// Reads up to this revision, which has to come.
    pub fn read_until(&mut self, revision: u64) {
        while self.last() < revision {
            let event = self.watch.as_ref().expect("a watch was resumed").next();
            self.push(&event);
        }
        assert_eq!(self.last(), revision, "{}: the event that was waited for", self.collection);
    }

    /// Reads what came before the server was killed.
    pub fn read_to_end(&mut self) {
        let watch = self.watch.take().expect("a watch was resumed");
        for event in watch.to_end(END) {
            self.push(&event);
        }
    }

    /// Each event comes once, in order, and is of the type that what came before demands.
    fn push(&mut self, event: &Value) {
        let seen = Seen::of(event);
        assert!(seen.revision > self.last(), "{}: {seen:?} after revision {}", self.collection, self.last());
        let key = (seen.namespace.clone(), seen.name.clone());
        let version = Version { revision: seen.revision, mark: seen.mark };
        let before = match seen.what.as_str() {
            "DELETED" => self.state.remove(&key),
            _ => self.state.insert(key, version),
        };
        assert_eq!(
            before.is_none(),
            seen.what == "ADDED",
            "{}: {seen:?}, where was {before:?}",
            self.collection
        );
        self.events.push(seen);
    }

    /// What was seen adds up to what is there.
    pub fn check_state(&self, kind: Kind, listed: &BTreeMap<Place, Version>) {
        let state = self.state.iter().map(|((namespace, name), version)| {
            (Place { kind, namespace: namespace.clone(), name: name.clone() }, *version)
        });
        assert_eq!(
            &state.collect::<BTreeMap<_, _>>(),
            listed,
            "{}: all events, and the list",
            self.collection
        );
    }

    /// What was seen since the last time this was asked.
    pub fn take_new(&mut self) -> &[Seen] {
        let from = std::mem::replace(&mut self.compared, self.events.len());
        &self.events[from..]
    }

    /// A new watch from an earlier revision sees the same once more.
    pub fn check_watch_from(&self, client: &Client, index: usize) {
        let watch = self.open(client, self.events[index].revision);
        for expected in &self.events[index + 1..] {
            assert_eq!(
                &Seen::of(&watch.next()),
                expected,
                "{} again, from an earlier revision",
                self.collection
            );
        }
    }
}
