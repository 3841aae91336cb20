//! Bootstrap tokens: `abcdef.0123456789abcdef`, kept in Secrets of `kube-system`, with which nodes join.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use crate::same_secret;
use crate::user::{BOOTSTRAP_PREFIX, BOOTSTRAPPERS, UserInfo};

pub const NAMESPACE: &str = "kube-system";
pub const SECRET_PREFIX: &str = "bootstrap-token-";
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";

/// The two halves of a bootstrap token: a public id and a secret.
#[derive(Clone, Copy)]
pub struct BootstrapToken<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> BootstrapToken<'a> {
    /// A token of six and sixteen lower-case letters and digits; anything else is not one.
    pub fn parse(token: &'a str) -> Option<Self> {
        let (id, secret) = token.split_once('.')?;
        let made_of = |text: &str, length: usize| {
            text.len() == length
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        (made_of(id, 6) && made_of(secret, 16)).then_some(BootstrapToken { id, secret })
    }

    /// The Secret in [`NAMESPACE`] that would hold it.
    pub fn secret_name(&self) -> String {
        format!("{SECRET_PREFIX}{}", self.id)
    }

    /// The user, if the Secret holds this token, is of the right type, not expired, and meant for this.
    #[must_use]
    pub fn user(&self, secret: &Value, now: Timestamp) -> Option<UserInfo> {
        if objects::meta::is_deleting(secret)
            || secret.get("type").and_then(Value::as_str) != Some(SECRET_TYPE)
        {
            return None;
        }
        let data = |key: &str| secret_data(secret, key).unwrap_or_default();
        if !same_secret(data("token-secret"), self.secret) || data("token-id") != self.id.as_bytes() {
            return None;
        }
        let expiration = data("expiration");
        if !expiration.is_empty() && !is_later(&expiration, now) {
            return None;
        }
        if data("usage-bootstrap-authentication") != b"true" {
            return None;
        }
        let groups = extra_groups(&data("auth-extra-groups"))?;
        Some(UserInfo::new(format!("{BOOTSTRAP_PREFIX}{}", self.id), groups).authenticated())
    }
}

/// Whether the date is readable and still to come; what cannot be read counts as expired.
fn is_later(date: &[u8], now: Timestamp) -> bool {
    let text = std::str::from_utf8(date).unwrap_or_default();
    text.parse::<Timestamp>().is_ok_and(|end| end > now)
}

/// The group of all bootstrappers and those of the list, which must be among them by name.
fn extra_groups(list: &[u8]) -> Option<Vec<String>> {
    let mut groups = vec![BOOTSTRAPPERS.to_owned()];
    let list = std::str::from_utf8(list).ok()?;
    for group in list.split(',').filter(|_| !list.is_empty()) {
        let rest = group.strip_prefix("system:bootstrappers:")?;
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b':' | b'-');
        let ends_well = rest.bytes().last().is_some_and(|byte| byte != b':' && byte != b'-');
        if rest.len() > 255 || !rest.bytes().all(allowed) || !ends_well {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort_unstable();
    groups.dedup();
    Some(groups)
}

/// One entry of a Secret's `data`, decoded.
pub(super) fn secret_data(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let text = secret.get("data")?.get(key)?.as_str()?;
    BASE64_STANDARD.decode(text).ok()
}
