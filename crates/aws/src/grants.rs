//! Whom the process's own credentials serve.
//!
//! They are the operator's. A control plane whose tenant names an account or a role uses them only as far as the
//! operator says, and AWS is told in every session which control plane it is for.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where the grants of control planes come from.
#[async_trait]
pub trait Grants: Send + Sync {
    async fn of(&self, control_plane: &str) -> Grant;
}

/// What the process's own credentials may be used for on behalf of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    #[default]
    Nothing,
    /// The control plane is the operator's own: everything that AWS allows, as ACK does.
    Everything,
    Tenant(TenantGrant),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantGrant {
    /// What AWS asks for in `sts:ExternalId`: no other control plane has it, and no tenant can choose it.
    pub external_id: String,
    /// Whether requests may be signed with the credentials themselves, and not only with those of roles.
    pub direct: bool,
    /// Roles that may be assumed.
    pub roles: Vec<RolePattern>,
}

impl TenantGrant {
    pub fn allows(&self, role: &str) -> bool {
        self.roles.iter().any(|pattern| pattern.matches(role))
    }
}

/// The same for all control planes.
#[async_trait]
impl Grants for Grant {
    async fn of(&self, _: &str) -> Grant {
        self.clone()
    }
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
#[error("{0:?} is not the ARN of a role, such as arn:aws:iam::111122223333:role/team-a or …:role/team-a-*")]
pub struct PatternError(String);

/// The ARN of a role. In the name `*` stands for any letters, as in an IAM policy; the account is always said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePattern(String);

impl RolePattern {
    fn matches(&self, role: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| role.strip_prefix(first)) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

impl FromStr for RolePattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<RolePattern, PatternError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_/-*".contains(&byte);
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        match parts[..] {
            ["arn", partition, "iam", "", account, name]
                if partition.starts_with("aws")
                    && partition.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
                    && account.len() == 12
                    && account.bytes().all(|byte| byte.is_ascii_digit())
                    && name.strip_prefix("role/").is_some_and(|name| !name.is_empty())
                    && name.bytes().all(fits) =>
            {
                Ok(RolePattern(text.to_owned()))
            }
            _ => Err(PatternError(text.to_owned())),
        }
    }
}

impl fmt::Display for RolePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RolePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RolePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RolePattern, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles() {
        let check = |pattern: &str, role: &str, expected: bool| {
            let pattern: RolePattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(role), expected, "{pattern} {role}");
        };
        let arn = |account: &str, name: &str| format!("arn:aws:iam::{account}:role/{name}");
        let (ours, other) = ("111122223333", "999922223333");
        check(&arn(ours, "a"), &arn(ours, "a"), true);
        check(&arn(ours, "a"), &arn(ours, "ab"), false);
        check(&arn(ours, "a"), &arn(other, "a"), false);
        check(&arn(ours, "team-a-*"), &arn(ours, "team-a-x/y"), true);
        check(&arn(ours, "team-a-*"), &arn(ours, "team-b"), false);
        check(&arn(ours, "*"), &arn(ours, "anything"), true);
        check(&arn(ours, "*"), &arn(other, "anything"), false);
        check(&arn(ours, "a*b*c"), &arn(ours, "a-b-c"), true);
        check(&arn(ours, "a*b*c"), &arn(ours, "a-c-b"), false);
        check(&arn(ours, "a*a"), &arn(ours, "a"), false);
        for wrong in [
            "*",
            "",
            "role/a",
            "arn:aws:iam::*:role/a",
            "arn:aws:iam::111122223333:role/",
            "arn:aws:iam::111122223333:user/a",
            "arn:*:iam::111122223333:role/a",
            "arn:aws:iam::1111222233334:role/a",
            "arn:aws:iam::111122223333:role/a b",
        ] {
            assert_eq!(wrong.parse::<RolePattern>(), Err(PatternError(wrong.to_owned())));
        }
    }
}
