//! FlowSchema and PriorityLevelConfiguration: which of a control plane's requests share which of its seats.
//!
//! The definitions are upstream's: `k8s.io/apiserver/pkg/util/flowcontrol`. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

use auth::user::{SERVICE_ACCOUNT_PREFIX, UserInfo};
use http::HeaderValue;
use objects::Value;
use serde::Deserialize;

use super::seats::LevelId;
use crate::route::{Action, Target};

/// Storage types that a [`FlowControl`] is made of.
pub const FLOW_KINDS: [&str; 2] =
    ["flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"];

/// Flow schemas of a control plane beyond these are not looked at: every request looks at all of them.
const MAX_SCHEMAS: usize = 256;
/// Shares of what upstream's own levels have together. Here they are one level.
const DEFAULT_SHARES: u32 = 245;

/// The flow schemas of a control plane, in the order in which they are tried. Most have none.
#[derive(Debug, Default)]
pub struct FlowControl {
    schemas: Vec<Schema>,
    /// Of all levels together.
    shares: u32,
}

#[derive(Debug)]
struct Schema {
    marks: Marks,
    spec: SchemaSpec,
    level: Level,
}

/// What answers tell of the objects that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    pub flow_schema: HeaderValue,
    pub priority_level: HeaderValue,
}

/// A priority level of a control plane's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub id: LevelId,
    /// Requests take no seat.
    pub exempt: bool,
    pub shares: u32,
    /// Requests that may wait; none are to wait if this is zero.
    pub queue: u32,
}

/// The schema that a request matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    pub level: Level,
    pub marks: Marks,
    /// What tells the flows of the schema apart.
    pub flow: String,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Object<S> {
    metadata: Metadata,
    spec: S,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Metadata {
    name: String,
    uid: String,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct SchemaSpec {
    priority_level_configuration: Name,
    matching_precedence: Option<i64>,
    distinguisher_method: Option<Distinguisher>,
    rules: Vec<Rules>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Name {
    namespace: String,
    name: String,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Distinguisher {
    r#type: String,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Rules {
    subjects: Vec<Subject>,
    resource_rules: Vec<ResourceRule>,
    non_resource_rules: Vec<NonResourceRule>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Subject {
    user: Option<Name>,
    group: Option<Name>,
    service_account: Option<Name>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct ResourceRule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    cluster_scope: bool,
    namespaces: Vec<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct NonResourceRule {
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    urls: Vec<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct LevelSpec {
    r#type: String,
    limited: Option<Limited>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Limited {
    nominal_concurrency_shares: Option<u32>,
    limit_response: LimitResponse,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct LimitResponse {
    r#type: String,
    queuing: Queuing,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Queuing {
    queues: Option<u32>,
    queue_length_limit: Option<u32>,
}

impl FlowControl {
    /// Of the objects of both kinds. A schema whose level is not there does not match, as upstream.
    pub fn new(schemas: &[Value], levels: &[Value]) -> FlowControl {
        let levels = levels.iter().filter_map(|level| Object::<LevelSpec>::deserialize(level).ok());
        let levels: Vec<(Metadata, Level)> = levels.map(level).collect();
        let shares = levels.iter().map(|(_, level)| level.shares).fold(DEFAULT_SHARES, u32::saturating_add);
        let schemas = schemas.iter().filter_map(|schema| Object::<SchemaSpec>::deserialize(schema).ok());
        let mut found: Vec<(i64, String, Schema)> = schemas
            .filter_map(|Object { metadata, spec }| {
                let wanted = &spec.priority_level_configuration.name;
                let (of_level, level) = levels.iter().find(|(metadata, _)| metadata.name == *wanted)?;
                let marks = Marks {
                    flow_schema: HeaderValue::from_str(&metadata.uid).ok()?,
                    priority_level: HeaderValue::from_str(&of_level.uid).ok()?,
                };
                let precedence = spec.matching_precedence.unwrap_or(1_000);
                Some((precedence, metadata.name, Schema { marks, spec, level: *level }))
            })
            .collect();
        found.sort_by(|(one, name, _), (other, other_name, _)| (one, name).cmp(&(other, other_name)));
        found.truncate(MAX_SCHEMAS);
        FlowControl { schemas: found.into_iter().map(|(_, _, schema)| schema).collect(), shares }
    }

    pub fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// The seats of a level, of those that a control plane has; at least one.
    pub fn seats(&self, level: Option<&Level>, all: u32) -> u32 {
        let own = level.map_or(DEFAULT_SHARES, |level| level.shares);
        let seats = u64::from(all) * u64::from(own) / u64::from(self.shares.max(DEFAULT_SHARES));
        // No more than `all`.
        u32::try_from(seats).unwrap_or(all).max(1)
    }

    /// The first schema that a request matches.
    pub fn classify(&self, user: &UserInfo, verb: &str, target: &Target) -> Option<Matched> {
        let schema = self.schemas.iter().find(|schema| schema.spec.matches(user, verb, target))?;
        let distinguisher = schema.spec.distinguisher_method.as_ref().map(|method| method.r#type.as_str());
        let flow = match (distinguisher, target) {
            (Some("ByUser"), _) => user.name.as_str(),
            (Some("ByNamespace"), Target::Resource(target)) => target.namespace.as_str(),
            _ => "",
        };
        let flow = format!("{}/{flow}", schema.marks.flow_schema.to_str().unwrap_or_default());
        Some(Matched { level: schema.level, marks: schema.marks.clone(), flow })
    }
}

fn level(object: Object<LevelSpec>) -> (Metadata, Level) {
    let Object { metadata, spec } = object;
    let mut hasher = DefaultHasher::new();
    metadata.name.hash(&mut hasher);
    // Those that are built in have small numbers.
    let id = hasher.finish() | 1 << 63;
    let limited = spec.limited.unwrap_or_default();
    let queuing = limited.limit_response.queuing;
    let queue = match limited.limit_response.r#type.as_str() {
        "Queue" => queuing.queues.unwrap_or(64).saturating_mul(queuing.queue_length_limit.unwrap_or(50)),
        _ => 0,
    };
    let exempt = spec.r#type == "Exempt";
    let shares = if exempt { 0 } else { limited.nominal_concurrency_shares.unwrap_or(30) };
    (metadata, Level { id, exempt, shares, queue })
}

/// Returns true if a list names something, or everything.
fn names(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

impl SchemaSpec {
    fn matches(&self, user: &UserInfo, verb: &str, target: &Target) -> bool {
        self.rules.iter().any(|rules| {
            rules.subjects.iter().any(|subject| subject.matches(user))
                && match target {
                    Target::Resource(_) => rules.resource_rules.iter().any(|rule| rule.matches(verb, target)),
                    Target::Path(path) => {
                        rules.non_resource_rules.iter().any(|rule| rule.matches(verb, path))
                    }
                }
        })
    }
}

impl Subject {
    fn matches(&self, user: &UserInfo) -> bool {
        let is = |name: &Name, wanted: &str| name.name == "*" || name.name == wanted;
        self.user.as_ref().is_some_and(|name| is(name, &user.name))
            || self.group.as_ref().is_some_and(|name| user.groups.iter().any(|group| is(name, group)))
            || self.service_account.as_ref().is_some_and(|account| {
                let name =
                    user.name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|name| name.split_once(':'));
                name.is_some_and(|(namespace, name)| account.namespace == namespace && is(account, name))
            })
    }
}

impl ResourceRule {
    fn matches(&self, verb: &str, target: &Target) -> bool {
        let Target::Resource(target) = target else { return false };
        let resource = match target.subresource.as_str() {
            "" => target.resource.to_string(),
            subresource => format!("{}/{subresource}", target.resource),
        };
        let scope = match target.namespace.as_str() {
            "" => self.cluster_scope,
            namespace => names(&self.namespaces, namespace),
        };
        scope
            && names(&self.verbs, verb)
            && names(&self.api_groups, &target.group)
            && names(&self.resources, &resource)
    }
}

impl NonResourceRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        let is = |url: &String| match url.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == url,
        };
        names(&self.verbs, verb) && self.urls.iter().any(is)
    }
}

/// The verb of a request, as rules name it.
pub fn verb(method: &http::Method, target: &Target, wants_watch: bool) -> String {
    let action = match target {
        Target::Resource(target) => Action::of(method, target, wants_watch),
        Target::Path(_) => None,
    };
    action.map_or_else(|| method.as_str().to_ascii_lowercase(), |action| action.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flow_control() -> FlowControl {
        let resources = json!([{
            "verbs": ["list", "get"], "apiGroups": [""], "resources": ["pods", "pods/log"], "namespaces": ["a", "b"],
        }]);
        let everything = json!([{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
        }]);
        let schema = |name: &str, precedence: u32, level: &str, method: &str, rules: Value| {
            json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {
                "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level},
                "distinguisherMethod": {"type": method}, "rules": [rules],
            }})
        };
        let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
        let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
        let account = json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "ci", "name": "*"}});
        let level = |name: &str, limited: Value| {
            json!({"metadata": {"name": name, "uid": format!("uid-{name}")},
                "spec": {"type": "Limited", "limited": limited}})
        };
        FlowControl::new(
            &[
                schema(
                    "late",
                    900,
                    "slow",
                    "ByUser",
                    json!({"subjects": [group("*")], "resourceRules": everything}),
                ),
                schema(
                    "pods",
                    100,
                    "slow",
                    "ByNamespace",
                    json!({"subjects": [user("eve")], "resourceRules": resources}),
                ),
                schema(
                    "lost",
                    1,
                    "not-there",
                    "ByUser",
                    json!({"subjects": [user("*")], "resourceRules": everything}),
                ),
                schema(
                    "ci",
                    200,
                    "free",
                    "ByUser",
                    json!({"subjects": [account], "resourceRules": everything, "nonResourceRules": [
                        {"verbs": ["get"], "nonResourceURLs": ["/version", "/openapi/*"]},
                    ]}),
                ),
            ],
            &[
                level("slow", json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})),
                json!({"metadata": {"name": "free", "uid": "uid-free"}, "spec": {"type": "Exempt"}}),
            ],
        )
    }

    fn check(user: &UserInfo, verb: &str, path: &str, expected: Option<&str>) {
        let matched = flow_control().classify(user, verb, &Target::parse(path));
        assert_eq!(matched.map(|matched| matched.flow).as_deref(), expected, "{} {verb} {path}", user.name);
    }

    #[test]
    fn the_first_schema_that_matches_decides() {
        let eve = UserInfo::new("eve", ["staff"]);
        let ci = UserInfo::service_account("ci", "builder", "1");
        check(&eve, "list", "/api/v1/namespaces/a/pods", Some("uid-pods/a"));
        check(&eve, "get", "/api/v1/namespaces/b/pods/x/log", Some("uid-pods/b"));
        check(&eve, "list", "/api/v1/namespaces/c/pods", Some("uid-late/eve"));
        check(&eve, "list", "/api/v1/pods", Some("uid-late/eve"));
        check(&eve, "create", "/api/v1/namespaces/a/pods", Some("uid-late/eve"));
        check(&eve, "get", "/version", None);
        check(&ci, "list", "/api/v1/namespaces/a/pods", Some("uid-ci/system:serviceaccount:ci:builder"));
        check(&ci, "get", "/version", Some("uid-ci/system:serviceaccount:ci:builder"));
        check(&ci, "get", "/openapi/v3/api", Some("uid-ci/system:serviceaccount:ci:builder"));
        check(&ci, "get", "/metrics", None);
        let other = UserInfo::service_account("cd", "builder", "1");
        check(&other, "list", "/api/v1/pods", Some("uid-late/system:serviceaccount:cd:builder"));
    }

    #[test]
    fn levels_have_shares_of_the_seats() {
        let flow_control = flow_control();
        let eve = UserInfo::new("eve", ["staff"]);
        let matched = flow_control.classify(&eve, "list", &Target::parse("/api/v1/pods")).unwrap();
        assert_eq!((matched.level.exempt, matched.level.queue), (false, 0));
        assert_eq!(flow_control.seats(Some(&matched.level), 600), 12);
        assert_eq!(flow_control.seats(None, 600), 588);
        assert_eq!(FlowControl::default().seats(None, 600), 600);
    }
}
