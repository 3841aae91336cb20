//! Who is asking: a name, a uid, groups and extra facts; and the names that mean something by themselves.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The group that may do everything, whatever the policy says.
pub const MASTERS: &str = "system:masters";
/// Everybody who proved to be somebody.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of a request without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of kubelets; their users are called [`NODE_PREFIX`] and the node's name.
pub const NODES: &str = "system:nodes";
pub const NODE_PREFIX: &str = "system:node:";
pub const MONITORING: &str = "system:monitoring";
pub const BOOTSTRAP_PREFIX: &str = "system:bootstrap:";
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
pub const KUBE_CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
pub const KUBE_SCHEDULER: &str = "system:kube-scheduler";
pub const KUBE_PROXY: &str = "system:kube-proxy";
pub const APISERVER: &str = "system:apiserver";

/// Keys of `extra` that the server itself fills in.
pub const EXTRA_CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
pub const EXTRA_POD_NAME: &str = "authentication.kubernetes.io/pod-name";
pub const EXTRA_POD_UID: &str = "authentication.kubernetes.io/pod-uid";
pub const EXTRA_NODE_NAME: &str = "authentication.kubernetes.io/node-name";
pub const EXTRA_NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// An authenticated (or anonymous) requester.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        UserInfo { name: name.into(), groups, ..UserInfo::default() }
    }

    /// A request without credentials.
    pub fn anonymous() -> Self {
        UserInfo::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// A service account with the groups all of its kind and all of its namespace have.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let groups = [SERVICE_ACCOUNTS.to_owned(), service_accounts_of(namespace)];
        UserInfo { uid: uid.to_owned(), ..UserInfo::new(service_account_name(namespace, name), groups) }
    }

    /// The server itself, for what its own controllers ask in process.
    pub fn apiserver() -> Self {
        UserInfo::new(APISERVER, [MASTERS])
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Adds the group of the authenticated, once; the anonymous stay what they are.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The name of the node whose kubelet this is.
    pub fn node(&self) -> Option<&str> {
        let node = self.name.strip_prefix(NODE_PREFIX)?;
        (!node.is_empty() && self.is_in(NODES)).then_some(node)
    }

    /// As `authentication.k8s.io` writes it in a review: empty fields are left out.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        if !self.name.is_empty() {
            fields.insert("username".to_owned(), json!(self.name));
        }
        if !self.uid.is_empty() {
            fields.insert("uid".to_owned(), json!(self.uid));
        }
        if !self.groups.is_empty() {
            fields.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            fields.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(fields)
    }

    /// Reads the form of `authentication.k8s.io`; what is missing or of the wrong type is empty.
    pub fn from_value(value: &Value) -> Self {
        UserInfo::from_fields(value, "username")
    }

    /// The same fields with the user under another key: a SubjectAccessReview calls it `user`.
    pub(crate) fn from_fields(value: &Value, name_field: &str) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let extra = value.get("extra").and_then(Value::as_object);
        UserInfo {
            name: text(name_field),
            uid: text("uid"),
            groups: strings(value.get("groups")),
            extra: extra
                .into_iter()
                .flatten()
                .map(|(key, list)| (key.clone(), strings(Some(list))))
                .collect(),
        }
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `system:serviceaccount:NAMESPACE:NAME`
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// `system:serviceaccounts:NAMESPACE`
pub fn service_accounts_of(namespace: &str) -> String {
    format!("{SERVICE_ACCOUNTS}:{namespace}")
}

/// Namespace and name of the service account that a user name stands for.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let named = objects::names::dns1123_label(namespace).is_empty()
        && objects::names::dns1123_subdomain(name).is_empty();
    named.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_names() {
        fn check(user: &str, expected: Option<(&str, &str)>) {
            assert_eq!(split_service_account(user), expected, "{user}");
        }
        check("system:serviceaccount:ns:sa", Some(("ns", "sa")));
        check("system:serviceaccount:ns:sa.with.dots", Some(("ns", "sa.with.dots")));
        check("system:serviceaccount:ns:", None);
        check("system:serviceaccount::sa", None);
        check("system:serviceaccount:ns", None);
        check("system:serviceaccount:ns:a:b", None);
        check("system:serviceaccount:Ns:a", None);
        check("somebody", None);
    }

    #[test]
    fn values_round_trip() {
        let mut user = UserInfo::service_account("ns", "sa", "u-1").authenticated();
        user.extra.insert("scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(UserInfo::from_value(&user.to_value()), user);
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
        );
        assert_eq!(UserInfo::from_value(&json!({"username": 3, "groups": "x"})), UserInfo::default());
    }

    #[test]
    fn authenticated_once() {
        let user = UserInfo::new("a", [AUTHENTICATED]).authenticated();
        assert_eq!(user.groups, [AUTHENTICATED]);
        assert_eq!(UserInfo::anonymous().authenticated(), UserInfo::anonymous());
    }

    #[test]
    fn nodes() {
        assert_eq!(UserInfo::new("system:node:n1", [NODES]).node(), Some("n1"));
        assert_eq!(UserInfo::new("system:node:n1", [MASTERS]).node(), None);
        assert_eq!(UserInfo::new("system:node:", [NODES]).node(), None);
        assert_eq!(UserInfo::new("n1", [NODES]).node(), None);
    }
}
