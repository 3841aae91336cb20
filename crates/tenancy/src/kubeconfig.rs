//! Kubeconfigs: written for Secrets, and read back to see whether they are still good.

use auth::pki::Issued;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::Value;
use serde_json::json;

/// One cluster, one user, one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub cluster: &'a str,
    pub user: &'a str,
    pub context: &'a str,
    pub server: &'a str,
    /// What is said in the handshake, if that is not the host of the server.
    pub server_name: Option<&'a str>,
    /// PEM; empty leaves it to the client whom to trust.
    pub authority: &'a str,
}

pub enum Credential<'a> {
    Certificate(&'a Issued),
    Token(&'a str),
}

impl Entry<'_> {
    fn cluster(&self) -> Value {
        let mut cluster = json!({"server": self.server});
        if let Some(name) = self.server_name {
            cluster["tls-server-name"] = name.into();
        }
        if !self.authority.is_empty() {
            cluster["certificate-authority-data"] = STANDARD.encode(self.authority).into();
        }
        cluster
    }

    pub fn write(&self, credential: &Credential<'_>) -> String {
        let user = match credential {
            Credential::Certificate(issued) => json!({
                "client-certificate-data": STANDARD.encode(&issued.certificate),
                "client-key-data": STANDARD.encode(issued.key.expose()),
            }),
            Credential::Token(token) => json!({"token": token}),
        };
        wire::yaml::encode(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.cluster, "cluster": self.cluster()}],
            "users": [{"name": self.user, "user": user}],
            "contexts": [{"name": self.context, "context": {
                "cluster": self.cluster, "user": self.user, "namespace": "default",
            }}],
            "current-context": self.context,
        }))
    }

    /// The cluster alone: nobody's secret.
    pub fn write_public(&self) -> String {
        wire::yaml::encode(&json!({
            "apiVersion": "v1", "kind": "Config", "preferences": {},
            "clusters": [{"name": self.cluster, "cluster": self.cluster()}],
            "users": [], "contexts": [], "current-context": "",
        }))
    }

    /// The user of a kubeconfig that is otherwise what this entry would write.
    pub fn user_in(&self, text: &[u8]) -> Option<Value> {
        let config = wire::yaml::decode(text).ok()?.value;
        let same = config["current-context"] == self.context
            && config["clusters"] == json!([{"name": self.cluster, "cluster": self.cluster()}])
            && config.pointer("/contexts/0/name")? == self.context
            && config.pointer("/contexts/0/context/cluster")? == self.cluster
            && config.pointer("/contexts/0/context/user")? == self.user
            && config.pointer("/users/0/name")? == self.user;
        same.then(|| config.pointer("/users/0/user").cloned()).flatten()
    }
}

/// DER of the certificate in a kubeconfig's user.
pub fn certificate_of(user: &Value) -> Option<Vec<u8>> {
    let text = STANDARD.decode(user["client-certificate-data"].as_str()?).ok()?;
    let key = STANDARD.decode(user["client-key-data"].as_str()?).ok()?;
    pem::parse(key).ok()?;
    Some(pem::parse(text).ok()?.into_contents())
}

/// One value of a Secret, decoded.
pub fn secret_value(secret: &Value, key: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret["data"][key].as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_recognised_and_nothing_else() {
        let entry = Entry {
            cluster: "a-cluster",
            user: "a-admin",
            context: "a",
            server: "https://h:1/x",
            server_name: None,
            authority: "CA",
        };
        let text = entry.write(&Credential::Token("t"));
        assert_eq!(entry.user_in(text.as_bytes()), Some(json!({"token": "t"})));
        for other in [
            Entry { server: "https://h:2/x", ..entry.clone() },
            Entry { server_name: Some("x.h"), ..entry.clone() },
            Entry { authority: "other", ..entry.clone() },
            Entry { context: "b", ..entry.clone() },
            Entry { user: "b", ..entry.clone() },
            Entry { cluster: "b", ..entry.clone() },
        ] {
            assert_eq!(other.user_in(text.as_bytes()), None, "{other:?}");
        }
        for text in ["", "a: [", "{}", "[]"] {
            assert_eq!(entry.user_in(text.as_bytes()), None);
        }
    }
}
