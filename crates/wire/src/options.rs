//! The options of each verb, read from the query (or, for deletes, the body) and checked as upstream checks them.
//!
//! Mirrors `metav1.ListOptions` and its kin: 400 for what cannot be read, 422 with causes for what must not be combined.

use objects::field::{Error, ErrorList};
use objects::selector::{fields, labels};
use objects::{GroupKind, Path, Status, Value, metadata};

use crate::negotiate::PatchType;
use crate::query::Query;

/// 422 about an options kind, where there is anything to say.
fn checked(kind: &str, errors: &[Error]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: kind.into() };
    Err(Status::invalid(&kind, "", errors))
}

fn forbidden(field: &str, detail: &str) -> Error {
    Error::forbidden(&Path::new(field), detail)
}

/// How a list relates to the revision that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    Exact,
    NotOlderThan,
}

/// list, watch and deletecollection
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: labels::Selector,
    pub field_selector: fields::Selector,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    /// As given: empty, `0`, or a revision.
    pub resource_version: String,
    pub resource_version_match: Option<ResourceVersionMatch>,
    pub timeout_seconds: Option<i64>,
    /// `None` where there is none, zero, or less.
    pub limit: Option<u64>,
    pub continue_token: String,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        let bad = |error: objects::selector::SelectorError| Status::bad_request(error.to_string());
        let mut options = ListOptions {
            label_selector: labels::Selector::parse(query.text("labelSelector")).map_err(bad)?,
            field_selector: fields::Selector::parse(query.text("fieldSelector")).map_err(bad)?,
            watch: query.flag("watch").unwrap_or(false),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: query.text("resourceVersion").to_owned(),
            resource_version_match: None,
            timeout_seconds: query.number("timeoutSeconds")?,
            limit: query
                .number("limit")?
                .and_then(|limit| u64::try_from(limit).ok())
                .filter(|limit| *limit > 0),
            continue_token: query.text("continue").to_owned(),
            send_initial_events: query.flag("sendInitialEvents"),
        };
        let wanted = query.text("resourceVersionMatch");
        options.resource_version_match = match wanted {
            "Exact" => Some(ResourceVersionMatch::Exact),
            "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
            _ => None,
        };
        let errors = if options.watch { options.watch_errors(wanted) } else { options.list_errors(wanted) };
        checked("ListOptions", &errors)?;
        Ok(options)
    }

    fn list_errors(&self, wanted: &str) -> ErrorList {
        const MATCH: &str = "resourceVersionMatch";
        let mut errors = ErrorList::new();
        if !wanted.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
            }
            match self.resource_version_match {
                None => {
                    let supported = ["Exact", "NotOlderThan", ""];
                    errors.push(Error::not_supported(&Path::new(MATCH), wanted, &supported));
                }
                Some(ResourceVersionMatch::Exact) if self.resource_version == "0" => {
                    let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    errors.push(forbidden(MATCH, detail));
                }
                Some(_) => {}
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self, wanted: &str) -> ErrorList {
        const MATCH: &str = "resourceVersionMatch";
        let mut errors = ErrorList::new();
        let not_older = self.resource_version_match == Some(ResourceVersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(forbidden(MATCH, detail));
        }
        if !wanted.is_empty() {
            if self.send_initial_events.is_none() {
                let detail =
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(forbidden(MATCH, detail));
            }
            if !not_older {
                errors.push(Error::not_supported(&Path::new(MATCH), wanted, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                errors.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
            }
        }
        errors
    }
}

/// get
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    pub resource_version: String,
}

impl GetOptions {
    pub fn from_query(query: &Query) -> Self {
        GetOptions { resource_version: query.text("resourceVersion").to_owned() }
    }
}

/// What happens to unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// create and update, and what patches share with them
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// Empty where the client did not say.
    pub field_manager: String,
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    pub fn for_create(query: &Query) -> Result<Self, Status> {
        let (options, errors) = Self::read(query);
        checked("CreateOptions", &errors)?;
        Ok(options)
    }

    pub fn for_update(query: &Query) -> Result<Self, Status> {
        let (options, errors) = Self::read(query);
        checked("UpdateOptions", &errors)?;
        Ok(options)
    }

    fn read(query: &Query) -> (Self, ErrorList) {
        let field_manager = query.text("fieldManager").to_owned();
        let mut errors = metadata::field_manager(&field_manager, &Path::new("fieldManager"));
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let wanted = query.text("fieldValidation");
        let field_validation = match wanted {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            _ => {
                let path = Path::new("fieldValidation");
                errors.push(Error::not_supported(&path, wanted, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::default()
            }
        };
        (WriteOptions { dry_run, field_manager, field_validation }, errors)
    }
}

/// `All` is the only stage that can be run dry.
fn dry_run<'v>(values: impl Iterator<Item = &'v str>, errors: &mut ErrorList) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        errors.push(Error::not_supported(&Path::new("dryRun"), Value::from(values.as_slice()), &["All"]));
    }
    !values.is_empty()
}

/// patch
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    pub write: WriteOptions,
    /// Take fields over from other managers; for apply only.
    pub force: bool,
}

impl PatchOptions {
    pub fn from_query(query: &Query, kind: PatchType) -> Result<Self, Status> {
        let force = query.flag("force");
        let mut errors = ErrorList::new();
        match kind {
            PatchType::Apply if query.text("fieldManager").is_empty() => {
                errors.push(Error::required(&Path::new("fieldManager"), "is required for apply patch"));
            }
            PatchType::Apply => {}
            _ if force.is_some() => {
                errors.push(forbidden("force", "may not be specified for non-apply patch"))
            }
            _ => {}
        }
        let (write, wrong) = WriteOptions::read(query);
        errors.extend(wrong);
        checked("PatchOptions", &errors)?;
        Ok(PatchOptions { write, force: force.unwrap_or(false) })
    }
}

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// delete and deletecollection
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub dry_run: bool,
    /// As given. Less than zero means one second.
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    /// Deprecated way to say `Orphan`; never together with `propagation`.
    pub orphan_dependents: Option<bool>,
    /// `preconditions.uid`
    pub uid: Option<String>,
    /// `preconditions.resourceVersion`
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// For a request without a body; with one, the query does not count.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        let grace_period_seconds = query.number("gracePeriodSeconds")?;
        let mut errors = ErrorList::new();
        let orphan_dependents = query.flag("orphanDependents");
        let propagation = propagation(query.get("propagationPolicy"), orphan_dependents, &mut errors);
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        checked("DeleteOptions", &errors)?;
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds,
            propagation,
            orphan_dependents,
            ..Default::default()
        })
    }

    /// From a decoded `DeleteOptions` body.
    pub fn from_body(body: &Value) -> Result<Self, Status> {
        if !body.is_object() {
            return Err(Status::bad_request("expected a DeleteOptions object"));
        }
        let kind = body.get("kind").and_then(Value::as_str).unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(Status::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: {kind}"
            )));
        }
        let precondition =
            |field: &str| typed(body, &format!("/preconditions/{field}"), Value::as_str, "string");
        let grace_period_seconds = typed(body, "/gracePeriodSeconds", Value::as_i64, "int64")?;
        let orphan_dependents = typed(body, "/orphanDependents", Value::as_bool, "bool")?;
        let policy = typed(body, "/propagationPolicy", Value::as_str, "v1.DeletionPropagation")?;
        let dry = typed(body, "/dryRun", Value::as_array, "[]string")?;
        let mut errors = ErrorList::new();
        let propagation = propagation(policy, orphan_dependents, &mut errors);
        let dry_run = dry_run(dry.into_iter().flatten().map(|v| v.as_str().unwrap_or_default()), &mut errors);
        checked("DeleteOptions", &errors)?;
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds,
            propagation,
            orphan_dependents,
            uid: precondition("uid")?.map(str::to_owned),
            resource_version: precondition("resourceVersion")?.map(str::to_owned),
        })
    }
}

/// A field of a body, or 400 if it is there with another type.
fn typed<'v, T>(
    body: &'v Value,
    pointer: &str,
    read: impl Fn(&'v Value) -> Option<T>,
    go_type: &str,
) -> Result<Option<T>, Status> {
    let Some(value) = body.pointer(pointer).filter(|value| !value.is_null()) else { return Ok(None) };
    let field = pointer.trim_start_matches('/').replace('/', ".");
    read(value).map(Some).ok_or_else(|| {
        Status::bad_request(format!(
            "json: cannot unmarshal {value} into Go struct field DeleteOptions.{field} of type {go_type}"
        ))
    })
}

fn propagation(policy: Option<&str>, orphan: Option<bool>, errors: &mut ErrorList) -> Option<Propagation> {
    let (policy, path) = (policy?, Path::new("propagationPolicy"));
    if orphan.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(Error::invalid(&path, policy, detail));
    }
    match policy {
        "Orphan" => Some(Propagation::Orphan),
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        _ => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(Error::not_supported(&path, policy, &supported));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused<T: std::fmt::Debug>(read: Result<T, Status>, code: u16, message: &str) {
        let status = read.unwrap_err();
        assert_eq!(status.code, code);
        assert!(status.message.contains(message), "{}", status.message);
    }

    fn list(query: &str) -> Result<ListOptions, Status> {
        ListOptions::from_query(&Query::parse(query))
    }

    #[test]
    fn lists() {
        let read = list(
            "labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=500&continue=tok&resourceVersion=7",
        )
        .unwrap();
        assert_eq!(read.label_selector.to_string(), "a=b");
        assert_eq!(read.field_selector.exact("metadata.name"), Some("x"));
        assert_eq!(
            (read.limit, read.continue_token.as_str(), read.resource_version.as_str()),
            (Some(500), "tok", "7")
        );
        assert_eq!(list("limit=-1").unwrap().limit, None);
        assert_eq!(list("").unwrap(), ListOptions::default());
        refused(
            list("labelSelector=a%20b"),
            400,
            "unable to parse requirement: found 'b', expected: in, notin",
        );
        refused(list("fieldSelector=a"), 400, "invalid selector: 'a'; can't understand 'a'");
        refused(list("limit=x"), 400, "strconv.ParseInt: parsing \"x\": invalid syntax");
        refused(
            list("resourceVersionMatch=Exact"),
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        );
        refused(
            list("resourceVersionMatch=Exact&resourceVersion=0"),
            422,
            "forbidden for resourceVersion \"0\"",
        );
        refused(
            list("resourceVersionMatch=Exact&resourceVersion=1&continue=x"),
            422,
            "forbidden when continue is provided",
        );
        refused(
            list("resourceVersionMatch=Odd&resourceVersion=1"),
            422,
            "Unsupported value: \"Odd\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        );
        refused(list("sendInitialEvents=true"), 422, "sendInitialEvents is forbidden for list");
        assert!(list("resourceVersionMatch=NotOlderThan&resourceVersion=0").is_ok());
    }

    #[test]
    fn watches() {
        let read =
            list("watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
                .unwrap();
        assert!(read.watch && read.allow_watch_bookmarks);
        assert_eq!(read.send_initial_events, Some(true));
        refused(
            list("watch=1&sendInitialEvents=true"),
            422,
            "requires setting resourceVersionMatch to NotOlderThan",
        );
        refused(
            list("watch=1&resourceVersionMatch=NotOlderThan"),
            422,
            "forbidden for watch unless sendInitialEvents is provided",
        );
        refused(
            list("watch=1&sendInitialEvents=1&resourceVersionMatch=Exact"),
            422,
            "supported values: \"NotOlderThan\"",
        );
    }

    #[test]
    fn writes() {
        let create = |query: &str| WriteOptions::for_create(&Query::parse(query));
        let read = create("dryRun=All&fieldManager=me&fieldValidation=Strict").unwrap();
        assert_eq!(
            (read.dry_run, read.field_manager.as_str(), read.field_validation),
            (true, "me", FieldValidation::Strict)
        );
        refused(
            create("dryRun=Some"),
            422,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value",
        );
        refused(create("fieldValidation=Loud"), 422, "fieldValidation: Unsupported value: \"Loud\"");
        refused(
            create(&format!("fieldManager={}", "x".repeat(129))),
            422,
            "fieldManager: Too long: may not be more than 128 bytes",
        );
        let patch = |query: &str, kind| PatchOptions::from_query(&Query::parse(query), kind);
        assert!(patch("fieldManager=me&force=true", PatchType::Apply).unwrap().force);
        refused(
            patch("", PatchType::Apply),
            422,
            "fieldManager: Required value: is required for apply patch",
        );
        refused(
            patch("force=true", PatchType::Merge),
            422,
            "force: Forbidden: may not be specified for non-apply patch",
        );
    }

    #[test]
    fn deletes() {
        let query = |text: &str| DeleteOptions::from_query(&Query::parse(text));
        let read = query("gracePeriodSeconds=0&propagationPolicy=Foreground").unwrap();
        assert_eq!((read.grace_period_seconds, read.propagation), (Some(0), Some(Propagation::Foreground)));
        refused(
            query("propagationPolicy=Odd"),
            422,
            "Unsupported value: \"Odd\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        );
        refused(query("propagationPolicy=Orphan&orphanDependents=true"), 422, "cannot be both set");
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"], "preconditions": {"uid": "u"}});
        let read = DeleteOptions::from_body(&body).unwrap();
        assert_eq!((read.dry_run, read.uid.as_deref()), (true, Some("u")));
        refused(
            DeleteOptions::from_body(&json!({"gracePeriodSeconds": "x"})),
            400,
            "DeleteOptions.gracePeriodSeconds of type int64",
        );
        refused(DeleteOptions::from_body(&json!({"kind": "Pod"})), 400, "DeleteOptions");
        refused(DeleteOptions::from_body(&json!([])), 400, "expected a DeleteOptions");
    }
}
