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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use http::Request;
    use serde_json::{Value, json};

    use crate::fixture::{Fixture, administrator, text};

    const PATH: &str = "/api/v1/namespaces/default/configmaps/x";

    async fn patch(f: &Fixture, manager: &str, kind: &str, body: String) -> (u16, Value) {
        let path = if kind.contains("apply") {
            format!("{PATH}?fieldManager={manager}&force=true")
        } else {
            format!("{PATH}?fieldManager={manager}")
        };
        let request = Request::patch(path).header("content-type", kind);
        let answer = f.send(administrator("a"), request, body).await;
        (answer.status().as_u16(), serde_json::from_str(&text(answer).await).unwrap())
    }

    const APPLY: &str = "application/apply-patch+yaml";
    const MERGE: &str = "application/merge-patch+json";

    /// Managers that a client makes up cost what they take in its request; those who update are joined, as upstream.
    #[tokio::test]
    async fn an_object_with_ten_thousand_managers_is_one_that_can_be_worked_with() {
        let f = Fixture::new().await;
        let managers: Vec<Value> = (0..10_000)
            .map(|number| {
                json!({
                    "manager": format!("m{number}"), "operation": "Apply", "apiVersion": "v1",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}},
                })
            })
            .collect();
        let object = json!({"metadata": {"name": "x", "managedFields": managers}, "data": {"a": "1"}});
        let path = "/api/v1/namespaces/default/configmaps";
        let (code, answer) = f.ask("a", "POST", path, &object.to_string()).await;
        assert_eq!(code, 201, "{}", &answer[..answer.len().min(500)]);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "2"}}).to_string();
        let (code, applied) = patch(&f, "one", APPLY, body).await;
        assert_eq!(code, 200);
        // It took the field from all of them.
        assert!(applied["metadata"]["managedFields"].as_array().unwrap().len() < 10);
        let mut last = Value::Null;
        for number in 0..20 {
            let body = json!({"data": {format!("k{number}"): "v"}}).to_string();
            let (code, updated) = patch(&f, &format!("u{number}"), MERGE, body).await;
            assert_eq!(code, 200);
            last = updated;
        }
        let entries = last["metadata"]["managedFields"].as_array().unwrap();
        assert!(entries.iter().filter(|entry| entry["operation"] == "Update").count() <= 10);
    }

    #[tokio::test]
    async fn managers_do_not_grow_an_object_without_end() {
        let f = Fixture::new().await;
        let mut data = String::new();
        (0..50_000).for_each(|number| write!(data, "\"key-{number}\":\"\",").unwrap());
        let data = data.trim_end_matches(',');
        let body = format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "data": {{{data}}}}}"#);
        let mut codes = Vec::new();
        for number in 0..12 {
            let (code, said) = patch(&f, &format!("m{number}"), APPLY, body.clone()).await;
            codes.push(code);
            if code == 413 {
                assert_eq!(said["reason"], "RequestEntityTooLarge");
                break;
            }
            assert!(matches!(code, 200 | 201), "{said}");
        }
        assert_eq!(codes.last(), Some(&413), "{codes:?}");
        // What is there can still be read, and made smaller.
        assert_eq!(f.ask("a", "GET", PATH, "").await.0, 200);
        assert_eq!(
            patch(&f, "admin", MERGE, r#"{"metadata": {"managedFields": [{}]}}"#.to_owned()).await.0,
            200
        );
    }
}
