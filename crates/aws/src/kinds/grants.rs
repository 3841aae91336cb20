//! Who may do what with a bucket: AWS takes a canned list, or a text for each permission, and shows neither.

use serde_json::Value;

/// Whom the canned lists of S3 let do what, beside the owner, who may do everything.
const CANNED: &[(&str, &[(&str, &str)])] = &[
    ("private", &[]),
    ("bucket-owner-read", &[]),
    ("bucket-owner-full-control", &[]),
    ("public-read", &[("AllUsers", "READ")]),
    ("public-read-write", &[("AllUsers", "READ"), ("AllUsers", "WRITE")]),
    ("authenticated-read", &[("AuthenticatedUsers", "READ")]),
    ("log-delivery-write", &[("LogDelivery", "READ_ACP"), ("LogDelivery", "WRITE")]),
];

fn grants(reply: &Value) -> impl Iterator<Item = &Value> {
    reply["Grants"].as_array().into_iter().flatten()
}

/// The canned list that the grants of a bucket come from: the wanted one, if it could be.
pub(super) fn shown_acl(wanted: &Value, reply: &Value) -> Value {
    let is_owner = |grant: &&Value| {
        grant["Grantee"]["ID"] == reply["Owner"]["ID"] && grant["Permission"] == "FULL_CONTROL"
    };
    let others = grants(reply).filter(|grant| !is_owner(grant));
    let mut granted: Vec<(&str, &str)> = others
        .map(|grant| {
            let group = grant["Grantee"]["URI"].as_str().unwrap_or_default();
            (group.rsplit('/').next().unwrap_or_default(), grant["Permission"].as_str().unwrap_or_default())
        })
        .collect();
    granted.sort_unstable();
    let mut fitting = CANNED.iter().filter(|(_, grants)| *grants == granted).map(|(name, _)| *name);
    let first = fitting.clone().next();
    fitting.find(|name| wanted == name).or(first).map(Value::from).unwrap_or_default()
}

/// Those who have a permission, as a request names them: the wanted text, if it names the same. Whoever asked for nothing is
/// shown nothing that a canned list says as well, because no request may have both.
fn shown_grantees(permission: &str, wanted: &Value, reply: &Value) -> Value {
    if wanted.is_null() && !shown_acl(&Value::Null, reply).is_null() {
        return Value::Null;
    }
    let granted = grants(reply).filter(|grant| grant["Permission"] == permission);
    let found: Vec<Grantee<'_>> = granted.filter_map(|grant| Grantee::shown(&grant["Grantee"])).collect();
    match wanted.as_str() {
        Some(text) if is_same(named(text), &found) => wanted.clone(),
        _ if found.is_empty() => Value::Null,
        _ => found.iter().copied().map(Grantee::to_text).collect::<Vec<_>>().join(",").into(),
    }
}

pub(super) fn shown_full_control(wanted: &Value, reply: &Value) -> Value {
    shown_grantees("FULL_CONTROL", wanted, reply)
}

pub(super) fn shown_read(wanted: &Value, reply: &Value) -> Value {
    shown_grantees("READ", wanted, reply)
}

pub(super) fn shown_read_acp(wanted: &Value, reply: &Value) -> Value {
    shown_grantees("READ_ACP", wanted, reply)
}

pub(super) fn shown_write(wanted: &Value, reply: &Value) -> Value {
    shown_grantees("WRITE", wanted, reply)
}

pub(super) fn shown_write_acp(wanted: &Value, reply: &Value) -> Value {
    shown_grantees("WRITE_ACP", wanted, reply)
}

/// Somebody who may do something: `id="…"`, `uri="…"` or `emailAddress="…"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grantee<'a> {
    by: &'a str,
    name: &'a str,
}

impl<'a> Grantee<'a> {
    fn shown(grantee: &'a Value) -> Option<Grantee<'a>> {
        let by = |by: &'a str, member: &str| Some(Grantee { by, name: grantee[member].as_str()? });
        by("uri", "URI").or_else(|| by("id", "ID"))
    }

    fn to_text(self) -> String {
        format!("{}=\"{}\"", self.by, self.name)
    }
}

/// Those whom a text names.
fn named(text: &str) -> Vec<Grantee<'_>> {
    let parts = text.split(',').filter_map(|part| part.split_once('='));
    parts.map(|(by, name)| Grantee { by: by.trim(), name: name.trim().trim_matches('"') }).collect()
}

/// Whether these are the ones who were found. AWS shows an id for whoever is named by an address.
fn is_same(wanted: Vec<Grantee<'_>>, found: &[Grantee<'_>]) -> bool {
    let (addresses, names): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|one| one.by.eq_ignore_ascii_case("emailAddress"));
    let is_named = |found: &Grantee<'_>| {
        names.iter().any(|one| one.by.eq_ignore_ascii_case(found.by) && one.name == found.name)
    };
    let unnamed = found.iter().filter(|one| !is_named(one)).count();
    unnamed == addresses.len() && found.len() - unnamed == names.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner() -> Value {
        json!({"Grantee": {"ID": "o"}, "Permission": "FULL_CONTROL"})
    }

    fn to(group: &str, permission: &str) -> Value {
        let uri = format!("http://acs.amazonaws.com/groups/global/{group}");
        json!({"Grantee": {"URI": uri}, "Permission": permission})
    }

    #[test]
    fn canned_lists() {
        let acl = |grants: Vec<Value>, wanted: &str, expected: Value| {
            let reply = json!({"Owner": {"ID": "o"}, "Grants": grants});
            assert_eq!(shown_acl(&wanted.into(), &reply), expected, "{reply}");
        };
        acl(vec![owner()], "public-read", json!("private"));
        acl(vec![owner()], "bucket-owner-read", json!("bucket-owner-read"));
        acl(vec![owner(), to("AllUsers", "READ")], "private", json!("public-read"));
        acl(vec![to("AllUsers", "WRITE"), owner(), to("AllUsers", "READ")], "", json!("public-read-write"));
        acl(vec![owner(), to("AllUsers", "WRITE")], "private", Value::Null);
    }

    #[test]
    fn texts_for_permissions() {
        let read = |grants: Vec<Value>, wanted: Value, expected: Value| {
            let reply = json!({"Owner": {"ID": "o"}, "Grants": grants});
            assert_eq!(shown_read(&wanted, &reply), expected, "{reply}");
        };
        let other = || json!({"Grantee": {"ID": "p"}, "Permission": "READ"});
        let text = r#"uri="http://acs.amazonaws.com/groups/global/AllUsers""#;
        // However it is written, and in whatever order.
        for wanted in [r#"id="p",id=q"#, "id=q, id=\"p\"", r#"emailAddress="p@example.com",id="q""#] {
            let second = json!({"Grantee": {"ID": "q"}, "Permission": "READ"});
            read(vec![other(), second], json!(wanted), json!(wanted));
        }
        read(vec![to("AllUsers", "READ")], json!(text), json!(text));
        read(vec![other(), to("AllUsers", "READ")], json!(text), json!(format!("id=\"p\",{text}")));
        read(vec![owner()], json!(text), Value::Null);
        // What a canned list says is not said once more; what none says is.
        read(vec![owner(), to("AllUsers", "READ")], Value::Null, Value::Null);
        read(vec![owner(), other()], Value::Null, json!(r#"id="p""#));
    }
}
