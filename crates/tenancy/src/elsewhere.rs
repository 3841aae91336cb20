//! Clients of clusters elsewhere, by kubeconfigs that come out of objects.
//!
//! Whoever may write such an object decides what is in it. A client may therefore be made of what the kubeconfig itself
//! holds and of nothing else: a program that it names would be run by this server, and a file would be this server's.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use objects::Value;

use crate::host::HostError;

/// How long a cluster may take to be there, and to answer.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
pub const CALL_PATIENCE: Duration = Duration::from_secs(15);

/// The fields that are data. Everything else is refused by its name, also what clients learn to read later.
const OF_CLUSTERS: [&str; 6] = [
    "server",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "disable-compression",
    "tls-server-name",
    "extensions",
];
const OF_USERS: [&str; 10] = [
    "username",
    "password",
    "token",
    "client-certificate-data",
    "client-key-data",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
    "extensions",
];

/// A kubeconfig that holds all that it needs.
pub struct Inline {
    config: Kubeconfig,
    value: Value,
}

impl Inline {
    pub fn read(text: &[u8]) -> Result<Inline, HostError> {
        let unreadable = |why: String| HostError::Refused(format!("the kubeconfig cannot be read: {why}"));
        let text = std::str::from_utf8(text).map_err(|error| unreadable(error.to_string()))?;
        // The parser would quote what it met, which may be anybody's secret.
        let config = Kubeconfig::from_yaml(text).map_err(|_| unreadable("it is none".to_owned()))?;
        // What the client has read, not what the text looks like.
        let value = serde_json::to_value(&config).map_err(|error| unreadable(error.to_string()))?;
        for (list, entry, inline) in
            [("clusters", "cluster", &OF_CLUSTERS[..]), ("users", "user", &OF_USERS[..])]
        {
            for one in value[list].as_array().into_iter().flatten() {
                let mut fields = one[entry].as_object().into_iter().flat_map(|fields| fields.keys());
                if let Some(field) = fields.find(|field| !inline.contains(&field.as_str())) {
                    return Err(HostError::Refused(format!(
                        "the kubeconfig cannot be used: {list}[{}].{entry}.{field}: programs, files and proxies \
                         that a kubeconfig names are not used; it has to hold a token or a certificate itself",
                        one["name"]
                    )));
                }
            }
        }
        Ok(Inline { config, value })
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The address of the cluster that its current context leads to.
    pub fn server(&self) -> &str {
        let named = |list: &str, name: &Value| {
            self.value[list].as_array().into_iter().flatten().find(|one| one["name"] == *name)
        };
        let context = named("contexts", &self.value["current-context"]);
        let cluster = context.and_then(|context| named("clusters", &context["context"]["cluster"]));
        cluster.and_then(|cluster| cluster["cluster"]["server"].as_str()).unwrap_or_default()
    }

    pub async fn client(&self) -> Result<kube::Client, HostError> {
        let wrong = |error: String| HostError::Refused(format!("the kubeconfig cannot be used: {error}"));
        let options = KubeConfigOptions::default();
        let made = kube::Config::from_custom_kubeconfig(self.config.clone(), &options).await;
        let mut made = made.map_err(|error| wrong(error.to_string()))?;
        made.connect_timeout = Some(CONNECT_PATIENCE);
        made.read_timeout = Some(CALL_PATIENCE);
        kube::Client::try_from(made).map_err(|error| wrong(error.to_string()))
    }
}

/// What a cluster answered, or what became of the attempt to ask it: the layers of a client say little, what happened
/// is said at the bottom.
pub fn told(error: &runtime::Error) -> String {
    let runtime::Error::Api(inner) = error else { return error.to_string() };
    if matches!(inner, kube::Error::Api(_)) {
        return error.to_string();
    }
    let mut innermost: &dyn std::error::Error = inner;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(cluster: Value, user: Value) -> Result<(), String> {
        let config = json!({
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
        });
        Inline::read(wire::yaml::encode(&config).as_bytes()).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_inside_is_used() {
        let cluster = json!({
            "server": "https://a:1", "insecure-skip-tls-verify": true, "certificate-authority-data": "Q0E=",
            "tls-server-name": "a", "disable-compression": true, "extensions": [{"name": "e", "extension": {}}],
        });
        let user = json!({
            "username": "u", "password": "p", "token": "t", "client-certificate-data": "Q0E=",
            "client-key-data": "Q0E=", "as": "a", "as-uid": "1", "as-groups": ["g"], "as-user-extra": {"k": ["v"]},
        });
        assert_eq!(read(cluster, user), Ok(()));
    }

    #[test]
    fn nothing_is_run_and_no_file_is_read() {
        let server = json!({"server": "https://a:1"});
        for (field, value) in [
            ("exec", json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"})),
            ("auth-provider", json!({"name": "gcp", "config": {"cmd-path": "touch"}})),
            ("tokenFile", json!("/etc/hostname")),
            ("client-certificate", json!("/etc/hostname")),
            ("client-key", json!("/etc/hostname")),
            ("something-new", json!("/etc/hostname")),
        ] {
            // Beside something that would do, too.
            let error = read(server.clone(), json!({"token": "t", field: value})).unwrap_err();
            assert!(error.contains(&format!("users[\"u\"].user.{field}: ")), "{error}");
        }
        for (field, value) in
            [("certificate-authority", json!("/etc/hostname")), ("proxy-url", json!("http://a:1"))]
        {
            let error = read(json!({"server": "https://a:1", field: value}), json!({})).unwrap_err();
            assert!(error.contains(&format!("clusters[\"c\"].cluster.{field}: ")), "{error}");
        }
    }
}
