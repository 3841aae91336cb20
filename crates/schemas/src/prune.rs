//! Dropping, or only naming, what a schema does not know.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/pruning` and, for nulls, `.../defaulting/prunenulls.go`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::schema::{Additional, Cursor};

#[derive(Clone, Copy, Debug)]
pub struct PruneOptions {
    /// Whether the paths of dropped fields are wanted; without them pruning allocates nothing.
    pub report: bool,
}

impl Default for PruneOptions {
    fn default() -> Self {
        PruneOptions { report: true }
    }
}

/// Drops unknown fields, and nulls where neither null is a value nor a default would replace it. Returns the
/// dropped unknown fields as the strict decoder names them: `spec.containers[0].bar`. (Nulls are known fields.)
pub fn prune(cursor: Cursor<'_>, value: &mut Value, options: PruneOptions) -> Vec<String> {
    let mut walk = Walk { path: String::new(), found: Vec::new(), report: options.report };
    walk.prune(At::new(Some(cursor)), value);
    prune_nulls(cursor, value);
    walk.found
}

/// The unknown fields that [`prune`] would drop, with the value left alone.
#[must_use]
pub fn unknown_fields(cursor: Cursor<'_>, value: &Value) -> Vec<String> {
    let mut walk = Walk { path: String::new(), found: Vec::new(), report: true };
    walk.look(At::new(Some(cursor)), value);
    walk.found
}

/// Drops the nulls of fields that are neither nullable nor defaulted: for them null is another way to say
/// nothing. Nulls in lists stay, as they are refused later.
pub fn prune_nulls(cursor: Cursor<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let Some(known) = cursor.field(name) else { return true };
            let node = known.node();
            if field.is_null() && !node.nullable && node.default.is_none() && !is_any(known) {
                return false;
            }
            prune_nulls(known, field);
            true
        }),
        Value::Array(items) => {
            let Some(known) = cursor.items() else { return };
            items.iter_mut().for_each(|item| prune_nulls(known, item));
        }
        _ => {}
    }
}

/// Untyped and free form: null is as good a value as any. Only built-in kinds have such fields.
fn is_any(cursor: Cursor<'_>) -> bool {
    cursor.is_free_form() && matches!(cursor.node().additional, Additional::Any)
}

/// A place in the schema, as pruning sees it.
#[derive(Clone, Copy)]
struct At<'a> {
    /// `None` where nothing is known: below `additionalProperties: true`, or a list without items.
    cursor: Option<Cursor<'a>>,
    /// Whether unknown fields stay, by what this place says or by the list it is an item of.
    preserves: bool,
}

impl<'a> At<'a> {
    fn new(cursor: Option<Cursor<'a>>) -> Self {
        At { cursor, preserves: cursor.is_some_and(|cursor| cursor.node().preserve_unknown) }
    }

    fn field(self, name: &str) -> Known<'a> {
        let Some(cursor) = self.cursor else { return Known::No };
        match cursor.field(name) {
            Some(field) => Known::Yes(At::new(Some(field))),
            None if self.preserves => Known::Preserved,
            None if cursor.node().additional == Additional::Any => Known::Yes(At::new(None)),
            None => Known::No,
        }
    }

    /// The items of a list, `None` if whatever is in them is kept.
    fn items(self) -> Option<At<'a>> {
        let cursor = self.cursor.and_then(Cursor::items);
        if self.preserves && cursor.is_none() {
            return None;
        }
        let mut items = At::new(cursor);
        items.preserves |= self.preserves;
        Some(items)
    }
}

/// What a schema says of a field by its name.
enum Known<'a> {
    Yes(At<'a>),
    /// Unknown, and kept with all that is in it.
    Preserved,
    No,
}

struct Walk {
    path: String,
    found: Vec<String>,
    report: bool,
}

impl Walk {
    fn prune(&mut self, at: At<'_>, value: &mut Value) {
        match value {
            Value::Object(fields) => fields.retain(|name, field| match at.field(name) {
                Known::Yes(within) => {
                    self.within_field(name, |walk| walk.prune(within, field));
                    true
                }
                Known::Preserved => true,
                Known::No => {
                    self.within_field(name, Walk::record);
                    false
                }
            }),
            Value::Array(list) => {
                let Some(within) = at.items() else { return };
                for (i, item) in list.iter_mut().enumerate() {
                    self.within_item(i, |walk| walk.prune(within, item));
                }
            }
            _ => {}
        }
    }

    fn look(&mut self, at: At<'_>, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    match at.field(name) {
                        Known::Yes(within) => self.within_field(name, |walk| walk.look(within, field)),
                        Known::Preserved => {}
                        Known::No => self.within_field(name, Walk::record),
                    }
                }
            }
            Value::Array(list) => {
                let Some(within) = at.items() else { return };
                for (i, item) in list.iter().enumerate() {
                    self.within_item(i, |walk| walk.look(within, item));
                }
            }
            _ => {}
        }
    }

    fn record(&mut self) {
        if self.report {
            self.found.push(self.path.clone());
        }
    }

    fn within_field(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if self.report {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
        visit(self);
        self.path.truncate(length);
    }

    fn within_item(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if self.report {
            let _ = write!(self.path, "[{index}]");
        }
        visit(self);
        self.path.truncate(length);
    }
}
