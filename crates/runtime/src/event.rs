//! A change of one object in one control plane, decoded no more than once for all who look at it.

use std::sync::OnceLock;

use apiserver::codec::Codec;
use bytes::Bytes;
use memchr::memmem;
use objects::{CompactString, Value};
use store::{Key, Position, Revision};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Found by a sweep: nothing is known of what happened to it.
    Existing,
    Created,
    Updated,
    /// The object is its last state.
    Deleted,
}

/// What a fleet that is followed tells.
#[allow(clippy::large_enum_variant, reason = "nearly all are events")]
pub enum Told {
    Event(Event),
    /// Up to here nothing else was this fleet's: told from time to time, so that who has nothing to do comes on as well.
    UpTo(Position),
}

/// What happened, where, and the object as far as anybody asks for it.
pub struct Event {
    pub control_plane: CompactString,
    pub key: Key,
    pub change: Change,
    pub position: Position,
    /// The revision of its control plane; 0 where that is not known.
    pub(crate) revision: Revision,
    now: Body,
    before: Option<Body>,
}

enum Source {
    Stored { codec: Codec, value: Bytes, revision: Revision },
    Plain,
}

struct Body {
    source: Source,
    json: OnceLock<Option<Bytes>>,
    object: OnceLock<Option<Value>>,
}

impl Body {
    fn stored(codec: &Codec, value: Bytes, revision: Revision) -> Body {
        let source = Source::Stored { codec: codec.clone(), value, revision };
        Body { source, json: OnceLock::new(), object: OnceLock::new() }
    }

    fn json(&self, key: &Key) -> Option<&Bytes> {
        let decode = || match &self.source {
            Source::Stored { codec, value, revision } => match codec.decode(key, value, *revision) {
                Ok(stored) => Some(stored.raw().clone()),
                Err(error) => {
                    tracing::error!(?key, %error, "an object in the store cannot be read");
                    None
                }
            },
            Source::Plain => Some(Bytes::from(self.object.get()?.as_ref()?.to_string())),
        };
        self.json.get_or_init(decode).as_ref()
    }

    fn object(&self, key: &Key) -> Option<&Value> {
        self.object.get_or_init(|| serde_json::from_slice(self.json(key)?).ok()).as_ref()
    }
}

impl Event {
    /// A change as the store has it.
    pub(crate) fn stored(control_plane: CompactString, codec: &Codec, event: &store::Event) -> Event {
        Event {
            control_plane,
            key: event.key.clone(),
            change: match event.change {
                store::Change::Created => Change::Created,
                store::Change::Updated => Change::Updated,
                store::Change::Deleted => Change::Deleted,
            },
            position: event.position,
            revision: event.revision,
            now: Body::stored(codec, event.value.clone(), event.revision),
            before: event.previous.clone().map(|previous| Body::stored(codec, previous, Revision(0))),
        }
    }

    /// What a sweep of the store found.
    pub(crate) fn existing(
        control_plane: CompactString,
        codec: &Codec,
        entry: store::Entry,
        position: Position,
    ) -> Event {
        let now = Body::stored(codec, entry.value, entry.modified);
        let (key, change, revision) = (entry.key, Change::Existing, Revision(0));
        Event { control_plane, key, change, position, revision, now, before: None }
    }

    /// A change of an object that is already at hand.
    pub fn plain(
        control_plane: CompactString,
        key: Key,
        change: Change,
        position: Position,
        object: Value,
    ) -> Event {
        let now = Body { source: Source::Plain, json: OnceLock::new(), object: OnceLock::from(Some(object)) };
        Event { control_plane, key, change, position, revision: Revision(0), now, before: None }
    }

    /// The object, without its `resourceVersion`; none if it cannot be read.
    pub fn object(&self) -> Option<&Value> {
        self.now.object(&self.key)
    }

    /// The object before an update, where the fleet knows it.
    pub fn previous(&self) -> Option<&Value> {
        self.before.as_ref()?.object(&self.key)
    }

    /// Whether the fleet says what an object was before: if not, who needs it has to remember it.
    pub fn tells_previous(&self) -> bool {
        matches!(self.now.source, Source::Stored { .. })
    }

    /// Whether these bytes stand anywhere in the object's JSON: far cheaper than parsing it.
    pub fn mentions(&self, text: &str) -> bool {
        self.now.json(&self.key).is_some_and(|json| memmem::find(json, text.as_bytes()).is_some())
    }

    pub fn is_of(&self, kind: &str) -> bool {
        self.key.kind == kind
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?} in {:?}", self.change, self.key, self.control_plane)
    }
}
