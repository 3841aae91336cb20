//! What `kubectl get` shows of each built-in kind: one row here is one column there.
//!
//! Names, order, types and priorities are those of upstream's printers
//! (`pkg/printers/internalversion`): people and scripts read them by position and by name.

mod access;
mod admission;
mod cluster;
mod devices;
mod network;
mod pods;
mod shown;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use objects::{Value, meta};

pub(crate) use self::access::*;
pub(crate) use self::admission::*;
pub(crate) use self::cluster::*;
pub(crate) use self::devices::*;
pub(crate) use self::network::*;
pub(crate) use self::pods::*;
pub(crate) use self::storage::*;
pub(crate) use self::workloads::*;
use crate::dotted::Dotted;

/// The columns of a kind.
pub type Columns = [Column];

/// One column: how it is announced, and how its cell is read from an object.
pub struct Column {
    pub name: &'static str,
    /// The JSON type of its cells as announced: `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// `name` for the column that names the object; empty otherwise.
    pub format: &'static str,
    /// Zero is always shown; one only in wide output.
    pub priority: i32,
    cell: Cell,
}

/// How a cell is read.
enum Cell {
    /// The text at a path, or something else where there is none.
    Text(&'static str, &'static str),
    Number(&'static str),
    Flag(&'static str),
    /// How many things are in the list or map.
    Count(&'static str),
    /// How long ago the time at a path was.
    Since(&'static str, &'static str),
    Shown(fn(&Value) -> String),
    ShownAt(fn(&Value, i64) -> String),
    Made(fn(&Value) -> Value),
}

impl Column {
    /// The cell of an object. `now` is in seconds since the epoch.
    pub fn cell(&self, object: &Value, now: i64) -> Value {
        match self.cell {
            Cell::Text(path, absent) => match object.text(path) {
                "" => absent.into(),
                text => text.into(),
            },
            Cell::Number(path) => object.number(path).into(),
            Cell::Flag(path) => object.flag(path).into(),
            Cell::Count(path) => object.count(path).into(),
            Cell::Since(path, absent) => match object.text(path) {
                "" => absent.into(),
                stamp => shown::since(stamp, now).into(),
            },
            Cell::Shown(read) => read(object).into(),
            Cell::ShownAt(read) => read(object, now).into(),
            Cell::Made(read) => read(object),
        }
    }

    /// Shown in wide output only.
    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// Announced as another type than its cells have: upstream does so in places.
    const fn announced(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }
}

const fn column(name: &'static str, kind: &'static str, cell: Cell) -> Column {
    Column { name, kind, format: "", priority: 0, cell }
}

const fn text(name: &'static str, path: &'static str) -> Column {
    column(name, "string", Cell::Text(path, ""))
}

const fn text_or(name: &'static str, path: &'static str, absent: &'static str) -> Column {
    column(name, "string", Cell::Text(path, absent))
}

const fn number(name: &'static str, path: &'static str) -> Column {
    column(name, "integer", Cell::Number(path))
}

const fn flag(name: &'static str, path: &'static str) -> Column {
    column(name, "boolean", Cell::Flag(path))
}

const fn count(name: &'static str, path: &'static str) -> Column {
    column(name, "integer", Cell::Count(path))
}

const fn since(name: &'static str, path: &'static str, absent: &'static str) -> Column {
    column(name, "string", Cell::Since(path, absent))
}

const fn shown(name: &'static str, read: fn(&Value) -> String) -> Column {
    column(name, "string", Cell::Shown(read))
}

const fn shown_at(name: &'static str, read: fn(&Value, i64) -> String) -> Column {
    column(name, "string", Cell::ShownAt(read))
}

const fn made(name: &'static str, kind: &'static str, read: fn(&Value) -> Value) -> Column {
    column(name, kind, Cell::Made(read))
}

const fn named(name: &'static str, cell: Cell) -> Column {
    Column { name, kind: "string", format: "name", priority: 0, cell }
}

const NAME: Column = named("Name", Cell::Text("metadata.name", ""));
const AGE: Column = since("Age", "metadata.creationTimestamp", "<unknown>");

/// The columns of a kind that has none of its own.
pub(crate) static PLAIN: [Column; 2] = [NAME, AGE];

/// Some kinds are shown with the time they were made, not how long ago that was.
pub(crate) static CREATED: [Column; 2] =
    [NAME, made("Created At", "date", |object| object.at("metadata.creationTimestamp").clone())];

/// The name, marked when an annotation says that it is the default of its kind.
fn name_or_default(object: &Value, annotations: &[&str]) -> String {
    let marked = annotations.iter().any(|key| meta::annotation(object, key) == Some("true"));
    format!("{}{}", meta::name(object), if marked { " (default)" } else { "" })
}
