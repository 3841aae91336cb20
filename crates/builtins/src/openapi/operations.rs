//! Which paths a resource has and what can be done there, in the words of neither dialect.

use objects::{GroupVersion, GroupVersionKind, ResourceType, Subresource, Verb};

use super::definitions::META;

pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// A path with its operations.
pub(super) struct Entry {
    pub path: String,
    /// Of all its operations: those in the path first.
    pub parameters: Vec<Parameter>,
    pub operations: Vec<Operation>,
}

pub(super) struct Operation {
    pub method: &'static str,
    pub id: String,
    pub tag: String,
    /// `x-kubernetes-action` and `x-kubernetes-group-version-kind`, for what is done to a resource.
    pub subject: Option<(&'static str, GroupVersionKind)>,
    pub parameters: &'static [Parameter],
    pub body: Body,
    pub codes: &'static [(&'static str, &'static str)],
    pub answer: Answer,
    pub consumes: &'static [&'static str],
    pub produces: &'static [&'static str],
}

pub(super) enum Body {
    None,
    Optional(String),
    Required(String),
}

pub(super) enum Answer {
    /// The definition of this name
    Definition(String),
    Text,
}

#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub kind: &'static str,
    pub in_path: bool,
}

const fn text(name: &'static str) -> Parameter {
    Parameter { name, kind: "string", in_path: false }
}

const fn integer(name: &'static str) -> Parameter {
    Parameter { name, kind: "integer", in_path: false }
}

const fn boolean(name: &'static str) -> Parameter {
    Parameter { name, kind: "boolean", in_path: false }
}

const fn segment(name: &'static str) -> Parameter {
    Parameter { name, kind: "string", in_path: true }
}

const PRETTY: Parameter = text("pretty");
const WRITE: &[Parameter] = &[text("dryRun"), text("fieldManager"), text("fieldValidation")];
const PATCH: &[Parameter] =
    &[text("dryRun"), text("fieldManager"), text("fieldValidation"), boolean("force")];
const DELETE: &[Parameter] = &[
    text("dryRun"),
    integer("gracePeriodSeconds"),
    boolean("ignoreStoreReadErrorWithClusterBreakingPotential"),
    boolean("orphanDependents"),
    text("propagationPolicy"),
];
const LIST: &[Parameter] = &[
    boolean("allowWatchBookmarks"),
    text("continue"),
    text("fieldSelector"),
    text("labelSelector"),
    integer("limit"),
    text("resourceVersion"),
    text("resourceVersionMatch"),
    boolean("sendInitialEvents"),
    integer("timeoutSeconds"),
    boolean("watch"),
];
const DELETE_COLLECTION: &[Parameter] = &[
    text("continue"),
    text("dryRun"),
    text("fieldSelector"),
    integer("gracePeriodSeconds"),
    boolean("ignoreStoreReadErrorWithClusterBreakingPotential"),
    text("labelSelector"),
    integer("limit"),
    boolean("orphanDependents"),
    text("propagationPolicy"),
    text("resourceVersion"),
    text("resourceVersionMatch"),
    boolean("sendInitialEvents"),
    integer("timeoutSeconds"),
];
const ATTACH: &[Parameter] =
    &[text("container"), boolean("stderr"), boolean("stdin"), boolean("stdout"), boolean("tty")];
const EXEC: &[Parameter] = &[
    text("command"),
    text("container"),
    boolean("stderr"),
    boolean("stdin"),
    boolean("stdout"),
    boolean("tty"),
];
const LOG: &[Parameter] = &[
    text("container"),
    boolean("follow"),
    boolean("insecureSkipTLSVerifyBackend"),
    integer("limitBytes"),
    boolean("previous"),
    integer("sinceSeconds"),
    text("stream"),
    integer("tailLines"),
    boolean("timestamps"),
];

/// What a connection to a part of a resource is asked with.
const CONNECT: &[(&str, &[Parameter])] =
    &[("attach", ATTACH), ("exec", EXEC), ("portforward", &[integer("ports")]), ("proxy", &[text("path")])];

const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

const OBJECTS: &[&str] = &["application/json", "application/yaml"];
const LISTS: &[&str] = &["application/json", "application/json;stream=watch", "application/yaml"];
const ANYTHING: &[&str] = &["*/*"];
/// Custom resources have no strategic merge patch.
const CUSTOM_PATCHES: &[&str] =
    &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// How a verb is asked for.
struct Call {
    verb: Verb,
    method: &'static str,
    action: &'static str,
    /// How its operation is called, before and after the group and version.
    id: (&'static str, &'static str),
    parameters: &'static [Parameter],
    codes: &'static [(&'static str, &'static str)],
}

#[rustfmt::skip]
const CALLS: &[Call] = &[
    Call { verb: Verb::Create,           method: "post",   action: "post",             id: ("create", ""),            parameters: WRITE,             codes: &[OK, CREATED, ACCEPTED] },
    Call { verb: Verb::Delete,           method: "delete", action: "delete",           id: ("delete", ""),            parameters: DELETE,            codes: &[OK, ACCEPTED] },
    Call { verb: Verb::DeleteCollection, method: "delete", action: "deletecollection", id: ("delete", "Collection"),  parameters: DELETE_COLLECTION, codes: &[OK] },
    Call { verb: Verb::Get,              method: "get",    action: "get",              id: ("read", ""),              parameters: &[],               codes: &[OK] },
    Call { verb: Verb::List,             method: "get",    action: "list",             id: ("list", ""),              parameters: LIST,              codes: &[OK] },
    Call { verb: Verb::Patch,            method: "patch",  action: "patch",            id: ("patch", ""),             parameters: PATCH,             codes: &[OK, CREATED] },
    Call { verb: Verb::Update,           method: "put",    action: "put",              id: ("replace", ""),           parameters: WRITE,             codes: &[OK, CREATED] },
];

/// Verbs that are asked of a collection; the others are asked of one object.
const OF_COLLECTION: [Verb; 3] = [Verb::Create, Verb::DeleteCollection, Verb::List];

impl Entry {
    /// The definitions it refers to.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().flat_map(|operation| {
            let body = match &operation.body {
                Body::None => None,
                Body::Optional(name) | Body::Required(name) => Some(name.as_str()),
            };
            let answer = match &operation.answer {
                Answer::Definition(name) => Some(name.as_str()),
                Answer::Text => None,
            };
            body.into_iter().chain(answer)
        })
    }
}

/// `/api/v1`, `/apis/apps/v1`
pub(super) fn base_path(version: &GroupVersion) -> String {
    if version.group.is_empty() { format!("/api/{}", version.version) } else { format!("/apis/{version}") }
}

/// The paths of a built-in resource. What has no published definition is left out.
pub(super) fn builtin_entries(
    row: &ResourceType,
    name_of: impl Fn(&GroupVersionKind) -> Option<String>,
) -> Vec<Entry> {
    Resource { row, patches: PATCHES, name_of: &name_of }.entries()
}

/// The paths of a custom resource.
pub(super) fn custom_entries(row: &ResourceType) -> Vec<Entry> {
    let name_of = |kind: &GroupVersionKind| {
        let is_scale = kind.group == "autoscaling" && kind.kind == "Scale";
        Some(if is_scale { SCALE.to_owned() } else { super::custom::name_of(kind) })
    };
    Resource { row, patches: CUSTOM_PATCHES, name_of: &name_of }.entries()
}

struct Resource<'a> {
    row: &'a ResourceType,
    patches: &'static [&'static str],
    name_of: &'a dyn Fn(&GroupVersionKind) -> Option<String>,
}

impl Resource<'_> {
    fn entries(&self) -> Vec<Entry> {
        let row = self.row;
        let base = base_path(&row.group_version());
        let mut root = format!("{base}/{}", row.plural);
        let mut entries = Vec::new();
        if row.is_namespaced() {
            let operations = self.calls(&[Verb::List], "", &row.gvk(), "ForAllNamespaces");
            entries.push(Entry { path: root, parameters: vec![PRETTY], operations });
            root = format!("{base}/namespaces/{{namespace}}/{}", row.plural);
        }
        let mut parameters = vec![PRETTY];
        if row.is_namespaced() {
            parameters.insert(0, segment("namespace"));
        }
        let operations = self.calls(&OF_COLLECTION, "", &row.gvk(), "");
        entries.push(Entry { path: root.clone(), parameters: parameters.clone(), operations });
        parameters.insert(0, segment("name"));
        let one = format!("{root}/{{name}}");
        let single = [Verb::Delete, Verb::Get, Verb::Patch, Verb::Update];
        let operations = self.calls(&single, "", &row.gvk(), "");
        entries.push(Entry { path: one.clone(), parameters: parameters.clone(), operations });
        for sub in &row.subresources {
            let path = format!("{one}/{}", sub.name);
            entries.push(Entry { path, parameters: parameters.clone(), operations: self.part(sub) });
        }
        entries.retain(|entry| !entry.operations.is_empty());
        entries
    }

    /// The operations of a subresource.
    fn part(&self, sub: &Subresource) -> Vec<Operation> {
        if sub.kind.kind.ends_with("Options") {
            return self.connections(sub);
        }
        let verbs = [Verb::Create, Verb::Get, Verb::Patch, Verb::Update];
        let mut operations = self.calls(&verbs, &sub.name, &sub.kind, "");
        if sub.name == "log" {
            for operation in &mut operations {
                operation.parameters = LOG;
                operation.answer = Answer::Text;
                operation.produces = &["text/plain", "application/json", "application/yaml"];
            }
        }
        operations
    }

    fn calls(&self, verbs: &[Verb], part: &str, kind: &GroupVersionKind, suffix: &str) -> Vec<Operation> {
        let allowed = match self.row.subresource(part) {
            Some(sub) => sub.verbs,
            None => self.row.verbs,
        };
        let wanted = CALLS.iter().filter(|call| verbs.contains(&call.verb) && allowed.has(call.verb));
        wanted.filter_map(|call| self.operation(call, part, kind, suffix)).collect()
    }

    fn operation(&self, call: &Call, part: &str, kind: &GroupVersionKind, suffix: &str) -> Option<Operation> {
        let own = (self.name_of)(kind)?;
        let row = self.row;
        let meta = |name: &str| format!("{META}.{name}");
        let (body, consumes) = match call.verb {
            Verb::Create | Verb::Update => (Body::Required(own.clone()), ANYTHING),
            Verb::Patch => (Body::Required(meta("Patch")), self.patches),
            Verb::Delete | Verb::DeleteCollection => (Body::Optional(meta("DeleteOptions")), ANYTHING),
            _ => (Body::None, ANYTHING),
        };
        let answer = match call.verb {
            Verb::Delete | Verb::DeleteCollection => meta("Status"),
            Verb::List => (self.name_of)(&row.group_version().with_kind(row.list_kind.clone()))?,
            _ => own,
        };
        Some(Operation {
            method: call.method,
            id: self.id(call.id.0, call.id.1, part, suffix),
            tag: tag(&row.group_version()),
            subject: Some((call.action, kind.clone())),
            parameters: call.parameters,
            body,
            codes: call.codes,
            answer: Answer::Definition(answer),
            consumes,
            produces: if call.verb == Verb::List { LISTS } else { OBJECTS },
        })
    }

    /// Streams and proxies: every method is the same connection.
    fn connections(&self, sub: &Subresource) -> Vec<Operation> {
        let parameters = CONNECT.iter().find(|(name, _)| *name == sub.name).map_or(&[][..], |(_, all)| *all);
        let wanted = CALLS.iter().filter(|call| sub.verbs.has(call.verb));
        let operation = |call: &Call| Operation {
            method: call.method,
            id: self.id("connect", &capitalized(call.method), &sub.name, ""),
            tag: tag(&self.row.group_version()),
            subject: Some(("connect", sub.kind.clone())),
            parameters,
            body: Body::None,
            codes: &[OK],
            answer: Answer::Text,
            consumes: ANYTHING,
            produces: ANYTHING,
        };
        wanted.map(operation).collect()
    }

    /// `readAppsV1NamespacedDeploymentStatus`
    fn id(&self, verb: &str, middle: &str, part: &str, suffix: &str) -> String {
        let row = self.row;
        let scope = if row.is_namespaced() && suffix.is_empty() { "Namespaced" } else { "" };
        let group = words(trimmed(&row.group), true);
        let version = words(&row.version, true);
        format!("{verb}{group}{version}{middle}{scope}{}{}{suffix}", row.kind, capitalized(part))
    }
}

/// The list of a version's resources: `/apis/apps/v1/`.
pub(super) fn resource_list_entry(version: &GroupVersion) -> Entry {
    let id =
        format!("get{}{}APIResources", words(trimmed(&version.group), true), words(&version.version, true));
    plain(format!("{}/", base_path(version)), id, tag(version), format!("{META}.APIResourceList"))
}

/// The description of a group: `/apis/apps/`.
pub(super) fn group_entry(group: &str) -> Entry {
    let id = format!("get{}APIGroup", words(trimmed(group), true));
    plain(format!("/apis/{group}/"), id, words(trimmed(group), false), format!("{META}.APIGroup"))
}

/// What is not of any group, with the document it is described in.
pub(super) fn root_entries() -> [(&'static str, Entry); 3] {
    let version = "io.k8s.apimachinery.pkg.version.Info".to_owned();
    [
        (
            "api",
            plain("/api/".into(), "getCoreAPIVersions".into(), "core".into(), format!("{META}.APIVersions")),
        ),
        (
            "apis",
            plain("/apis/".into(), "getAPIVersions".into(), "apis".into(), format!("{META}.APIGroupList")),
        ),
        ("version", plain("/version/".into(), "getCodeVersion".into(), "version".into(), version)),
    ]
}

fn plain(path: String, id: String, tag: String, answer: String) -> Entry {
    let operation = Operation {
        method: "get",
        id,
        tag,
        subject: None,
        parameters: &[],
        body: Body::None,
        codes: &[OK],
        answer: Answer::Definition(answer),
        consumes: OBJECTS,
        produces: OBJECTS,
    };
    Entry { path, parameters: Vec::new(), operations: vec![operation] }
}

fn trimmed(group: &str) -> &str {
    match group {
        "" => "core",
        _ => group.strip_suffix(".k8s.io").unwrap_or(group),
    }
}

/// `apps_v1`, `rbacAuthorization_v1`
fn tag(version: &GroupVersion) -> String {
    format!("{}_{}", words(trimmed(&version.group), false), words(&version.version, false))
}

/// Camel case of what stands between punctuation.
fn words(text: &str, mut capitalize: bool) -> String {
    let mut joined = String::with_capacity(text.len());
    for (i, letter) in text.char_indices() {
        if letter.is_alphabetic() || letter == '_' || (i > 0 && letter.is_ascii_digit()) {
            joined.push(if capitalize { letter.to_ascii_uppercase() } else { letter });
            capitalize = false;
        } else {
            capitalize = true;
        }
    }
    joined
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}
