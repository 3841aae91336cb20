//! Who owns which field: the bridge from a call to `apply`.

use std::borrow::Cow;
use std::sync::LazyLock;

use apply::{FieldSet, Versions, Write};
use builtins::StatusSplit;
use objects::Value;
use schemas::Cursor;

use crate::call::Call;
use crate::surface::Source;
use crate::write::{Part, WriteOptions};

static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(["status"]));

/// The fields an endpoint does not write, of an object that was and will be.
fn reset(call: &Call, part: Part, live: Option<&Value>, new: &Value) -> Cow<'static, FieldSet> {
    match part {
        Part::Main if call.row.behaviour.has_status() => Cow::Borrowed(&*STATUS),
        Part::Status => {
            let written: &[&str] = match call.row.behaviour.status {
                StatusSplit::StatusOnly => &["status"],
                _ => &["status", "metadata"],
            };
            Cow::Owned(FieldSet::all_but(written, live.into_iter().chain([new])))
        }
        _ => Cow::Borrowed(&*NOTHING),
    }
}

/// Records in `new` who owns what after this write.
pub fn track(call: &Call, live: Option<&Value>, new: &mut Value, options: &WriteOptions, part: Part) {
    let reset = reset(call, part, live, new);
    with_write(call, &options.manager, part, &reset, |write| {
        apply::track_update(live, new, write, &RowVersions(call));
    });
}

/// Merges a configuration into what is there.
pub fn apply(
    call: &Call,
    live: Option<&Value>,
    config: &Value,
    force: bool,
    manager: &str,
    part: Part,
) -> Result<Value, apply::ApplyError> {
    let reset = reset(call, part, live, config);
    let applied = with_write(call, manager, part, &reset, |write| {
        apply::apply(live, config, force, write, &RowVersions(call))
    })?;
    Ok(applied.object)
}

fn with_write<T>(
    call: &Call,
    manager: &str,
    part: Part,
    reset: &FieldSet,
    act: impl FnOnce(&Write<'_>) -> T,
) -> T {
    let now = call.timestamp();
    act(&Write {
        manager,
        api_version: &call.row.api_version,
        subresource: subresource(call, part),
        now: &now,
        reset,
    })
}

/// A scale is written as a change of the object itself, and is recorded as what it was.
fn subresource(call: &Call, part: Part) -> &'static str {
    match (part, call.target.subresource.as_str()) {
        (Part::Main, "scale") => "scale",
        _ => part.subresource(),
    }
}

/// The versions of the call's kind that need no one else to convert between them.
struct RowVersions<'a>(&'a Call);

impl Versions for RowVersions<'_> {
    fn cursor(&self, api_version: &str) -> Option<Cursor<'_>> {
        let call = self.0;
        if api_version == call.row.api_version {
            return call.row.cursor();
        }
        let version = objects::GroupVersion::parse(api_version)?;
        let row = call.surface.row(&version.group, &version.version, &call.row.ty.plural)?;
        (row.storage_kind == call.row.storage_kind).then(|| row.cursor())?
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        match &self.0.row.source {
            Source::BuiltIn(_) => {
                let version = objects::GroupVersion::parse(api_version)?;
                builtins::convert(object, &version.with_kind(self.0.row.ty.kind.clone()))
            }
            Source::Custom(custom) => {
                let strategy = custom.definition.object.pointer("/spec/conversion/strategy")?.as_str()?;
                // What a webhook would make of it is not known here; ownership recorded elsewhere is kept as it is.
                if strategy != "None" {
                    return None;
                }
                let mut object = object.clone();
                object["apiVersion"] = api_version.into();
                Some(object)
            }
        }
    }
}

/// Whether two records of ownership say the same, times apart.
pub fn same_ownership(new: Option<&Value>, old: Option<&Value>) -> bool {
    let entries = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    let (new, old) = (entries(new), entries(old));
    new.len() == old.len() && new.iter().zip(&old).all(|(a, b)| same_entry(a, b))
}

fn same_entry(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return false };
    let same = |field: &str| a.get(field) == b.get(field);
    ["manager", "operation", "apiVersion", "subresource", "fieldsV1"].into_iter().all(same)
}

/// The name of the manager a call writes as.
pub fn manager(call: &Call, given: &str) -> String {
    if given.is_empty() { call.head.default_manager().to_owned() } else { given.to_owned() }
}
