//! `metadata.managedFields`: who owns which fields, as it is stored and sent.

use compact_str::CompactString;
use objects::meta;
use serde_json::{Map, Value};

use crate::fields_v1::FieldsError;
use crate::set::FieldSet;

/// How many Update entries an object may have before the oldest are joined.
const MAX_UPDATERS: usize = 10;

/// Who the joined entries belong to.
const ANCIENT: &str = "ancient-changes";

/// How somebody came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One owner and what it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub manager: CompactString,
    pub operation: Operation,
    pub api_version: CompactString,
    pub subresource: CompactString,
    /// RFC 3339 in UTC, whole seconds.
    pub time: Option<CompactString>,
    pub fields: FieldSet,
}

/// Why an entry cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("managedFields must be a list of objects")]
    Shape,
    #[error("{0} must be a string")]
    NotText(&'static str),
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    NoVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {kind:?} in managed fields entry {index}")]
    FieldsType { kind: String, index: usize },
    #[error("time {0:?} is not RFC 3339")]
    Time(String),
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

impl Entry {
    /// Whether two entries are the same owner's: an updater is another one in each version, an applier is not.
    pub fn same_owner(&self, other: &Entry) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Orders owners as their identifiers sort upstream.
    pub(crate) fn identity(&self) -> (&str, Operation, &str, &str) {
        let version = if self.operation == Operation::Apply { "" } else { self.api_version.as_str() };
        (&self.manager, self.operation, version, &self.subresource)
    }

    fn read(value: &Value, index: usize) -> Result<Entry, EntryError> {
        let entry = value.as_object().ok_or(EntryError::Shape)?;
        let text = |name: &'static str| match entry.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(EntryError::NotText(name)),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(EntryError::Operation),
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() {
            return Err(EntryError::NoVersion);
        }
        match text("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(EntryError::NoFieldsType(index)),
            kind => return Err(EntryError::FieldsType { kind: kind.to_owned(), index }),
        }
        let fields = entry.get("fieldsV1").map(FieldSet::from_value).transpose()?.unwrap_or_default();
        Ok(Entry {
            manager: text("manager")?.into(),
            operation,
            api_version: api_version.into(),
            subresource: text("subresource")?.into(),
            time: Some(text("time")?).filter(|time| !time.is_empty()).map(normal_time).transpose()?,
            fields,
        })
    }

    fn to_value(&self) -> Value {
        let mut entry = Map::new();
        let mut put = |name: &str, text: &str| {
            if !text.is_empty() {
                entry.insert(name.to_owned(), Value::String(text.to_owned()));
            }
        };
        put("manager", &self.manager);
        put("operation", self.operation.as_str());
        put("apiVersion", &self.api_version);
        put("time", self.time.as_deref().unwrap_or_default());
        put("fieldsType", "FieldsV1");
        entry.insert("fieldsV1".to_owned(), self.fields.to_value());
        if !self.subresource.is_empty() {
            entry.insert("subresource".to_owned(), Value::String(self.subresource.to_string()));
        }
        Value::Object(entry)
    }
}

/// UTC in whole seconds, which is how times are written and what makes their text sort like time.
fn normal_time(text: &str) -> Result<CompactString, EntryError> {
    let is_normal = text.len() == 20
        && text.bytes().enumerate().all(|(i, byte)| match i {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            19 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    if is_normal {
        return Ok(text.into());
    }
    let time: jiff::Timestamp = text.parse().map_err(|_| EntryError::Time(text.to_owned()))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into())
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    pub entries: Vec<Entry>,
}

impl ManagedFields {
    /// Reads `metadata.managedFields`; null is no entries. Of two entries of one owner the later counts.
    pub fn read(value: &Value) -> Result<Self, EntryError> {
        let list = match value {
            Value::Null => return Ok(Self::default()),
            Value::Array(list) => list,
            _ => return Err(EntryError::Shape),
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            entries.push(Entry::read(value, index)?);
        }
        let mut by_owner: Vec<usize> = (0..entries.len()).collect();
        by_owner.sort_by(|a, b| entries[*a].identity().cmp(&entries[*b].identity()));
        let mut earlier = vec![false; entries.len()];
        for run in by_owner.chunk_by(|a, b| entries[*a].same_owner(&entries[*b])) {
            run.iter().rev().skip(1).for_each(|at| earlier[*at] = true);
        }
        keep_where(&mut entries, |at| !earlier[at]);
        Ok(ManagedFields { entries })
    }

    /// The entries of an object as it stands.
    pub fn of(object: &Value) -> Result<Self, EntryError> {
        raw(object).map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// Applies first, then by time, then by who; null when there are none.
    pub fn to_value(&mut self) -> Value {
        if self.entries.is_empty() {
            return Value::Null;
        }
        fn key(entry: &Entry) -> (Operation, Option<&str>, &str, &str, &str) {
            (entry.operation, entry.time.as_deref(), &entry.manager, &entry.api_version, &entry.subresource)
        }
        self.entries.sort_by(|a, b| key(a).cmp(&key(b)));
        Value::Array(self.entries.iter().map(Entry::to_value).collect())
    }

    /// Joins the oldest updaters of each version, until there are no more than ten.
    pub(crate) fn cap_updaters(&mut self) {
        let mut updaters: Vec<usize> =
            (0..self.entries.len()).filter(|at| self.entries[*at].operation == Operation::Update).collect();
        if updaters.len() <= MAX_UPDATERS {
            return;
        }
        fn age(entry: &Entry) -> (Option<&str>, (&str, Operation, &str, &str)) {
            (entry.time.as_deref(), entry.identity())
        }
        updaters.sort_by(|a, b| age(&self.entries[*a]).cmp(&age(&self.entries[*b])));

        let mut excess = updaters.len() - MAX_UPDATERS;
        let mut gone = vec![false; self.entries.len()];
        // For each version that was met, the entry that its others are joined to.
        let mut buckets: Vec<Bucket> = Vec::new();
        for at in updaters {
            if excess == 0 {
                break;
            }
            let version = self.entries[at].api_version.clone();
            let Some(bucket) = buckets.iter_mut().find(|bucket| bucket.version == version) else {
                let is_ancient = |entry: &Entry| {
                    (entry.manager == ANCIENT && entry.api_version == version)
                        && (entry.operation == Operation::Update && entry.subresource.is_empty())
                };
                let ancient = self.entries.iter().position(is_ancient);
                buckets.push(Bucket { version, into: ancient.unwrap_or(at), oldest: at });
                continue;
            };
            // Should the bucket itself be met, it takes the oldest, which was spared until now.
            let from = if at == bucket.into { bucket.oldest } else { at };
            let time = self.entries[at].time.clone();
            let fields = std::mem::take(&mut self.entries[from].fields);
            gone[from] = true;
            let joined = &mut self.entries[bucket.into];
            joined.manager = CompactString::const_new(ANCIENT);
            joined.subresource = CompactString::default();
            joined.fields.absorb(fields);
            // The later of the two times, since they are met in the order of time.
            joined.time = time;
            excess -= 1;
        }
        keep_where(&mut self.entries, |at| !gone[at]);
    }
}

fn keep_where(entries: &mut Vec<Entry>, keep: impl Fn(usize) -> bool) {
    let mut next = 0..;
    entries.retain(|_| next.next().is_some_and(&keep));
}

/// Where the joined updaters of a version go.
struct Bucket {
    version: CompactString,
    /// The entry that takes the others' fields.
    into: usize,
    /// The first that was met.
    oldest: usize,
}

/// The entries of an object, unread.
pub(crate) fn raw(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Takes the entries out of an object.
pub(crate) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Puts entries into an object; null takes them away.
pub(crate) fn put(object: &mut Value, entries: Value) {
    if entries.is_null() {
        take(object);
    } else {
        meta::set(object, "managedFields", entries);
    }
}

/// Whether a client asks to forget all owners: an empty list, or a list of one empty entry.
pub(crate) fn is_reset(sent: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(is_empty),
        _ => false,
    }
}

/// All that a manager owns, by whatever operation and in whatever version; nothing if the entries cannot be read.
pub fn owned_by(object: &Value, manager: &str) -> FieldSet {
    let mut owned = FieldSet::new();
    for entry in ManagedFields::of(object).unwrap_or_default().entries {
        if entry.manager == manager {
            owned.absorb(entry.fields);
        }
    }
    owned
}
