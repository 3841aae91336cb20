//! Kubeconfigs: the one that `hangar up` keeps up to date, and those of its users.
//!
//! A user's kubeconfig belongs to many programs. [`Files`] are those a command works on, [`Kubeconfig`] is what they
//! say together; a change goes to the file that an entry came from, and everything else stays as it was.

mod contexts;
mod diagnosis;
mod document;
mod extension;
mod files;
mod installation;
mod lock;
#[cfg(test)]
mod tests;
mod tidy;

use auth::pki::Issued;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub use contexts::Access;
pub use document::List;
pub use files::{Files, Kubeconfig};
pub use installation::{HOSTING, Hosting, user_of};

/// A kubeconfig with one cluster, one user and one context, all of the same name.
pub fn single(name: &str, server: &str, authority: &str, client: &Issued) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": server,
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": name, "user": user_of(client)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    })
}
