//! Which control planes the operator's AWS credentials are for: those that a flag lists, and those whose ControlPlane
//! says so in the hosting control plane.

use std::str::FromStr;

use apiserver::Engines;
use async_trait::async_trait;
use aws::grants::{Grant, Grants, PatternError, RolePattern, TenantGrant};
use objects::CompactString;

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum EntryError {
    #[error("{0:?} is not the name of a control plane, and not * for all")]
    Name(String),
    #[error(transparent)]
    Role(#[from] PatternError),
}

/// `NAME`, `NAME=ROLE`, or the same with `*` for all control planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    control_plane: CompactString,
    /// None for the credentials themselves.
    role: Option<RolePattern>,
}

impl FromStr for Entry {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Entry, EntryError> {
        let (name, role) = match text.split_once('=') {
            Some((name, role)) => (name, Some(role.parse()?)),
            None => (text, None),
        };
        match name == "*" || objects::names::dns1123_label(name).is_empty() {
            true => Ok(Entry { control_plane: name.into(), role }),
            false => Err(EntryError::Name(name.to_owned())),
        }
    }
}

/// Asked for each pass over an object. Nothing is kept of a control plane here.
pub struct Granted {
    engines: Engines,
    /// The operator's own control plane.
    hosting: Option<CompactString>,
    entries: Vec<Entry>,
}

impl Granted {
    pub fn new(engines: Engines, hosting: Option<&str>, entries: Vec<Entry>) -> Granted {
        Granted { engines, hosting: hosting.map(CompactString::from), entries }
    }
}

#[async_trait]
impl Grants for Granted {
    async fn of(&self, control_plane: &str) -> Grant {
        if self.hosting.as_deref() == Some(control_plane) {
            return Grant::Everything;
        }
        let plane = match self.engines.find(control_plane).await {
            Ok(Some((_, plane))) => plane,
            Ok(None) => return Grant::Nothing,
            Err(failure) => {
                tracing::warn!(control_plane, error = %failure.0.message, "it is not known whom AWS credentials serve");
                return Grant::Nothing;
            }
        };
        let id = plane.charter.owner.clone().unwrap_or_else(|| plane.id.to_string());
        let of_object = &plane.charter.aws;
        let roles = of_object.roles.iter().filter_map(|role| match role.parse() {
            Ok(role) => Some(role),
            Err(error) => {
                tracing::warn!(control_plane, %error, "a role is passed over");
                None
            }
        });
        grant(control_plane, id, of_object.operator_credentials, roles.collect(), &self.entries)
    }
}

fn grant(
    control_plane: &str,
    external_id: String,
    mut direct: bool,
    mut roles: Vec<RolePattern>,
    entries: &[Entry],
) -> Grant {
    let own = |entry: &&Entry| entry.control_plane == "*" || entry.control_plane == control_plane;
    for entry in entries.iter().filter(own) {
        match &entry.role {
            Some(role) => roles.push(role.clone()),
            None => direct = true,
        }
    }
    match direct || !roles.is_empty() {
        true => Grant::Tenant(TenantGrant { external_id, direct, roles }),
        false => Grant::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: &str = "arn:aws:iam::111122223333:role/a";

    #[test]
    fn entries() {
        for text in ["team-a", "*", "team-a=arn:aws:iam::111122223333:role/a-*", &format!("*={ROLE}")] {
            assert!(text.parse::<Entry>().is_ok(), "{text}");
        }
        for text in
            ["", "Team", "team-a,b", "team-*", "team-a=", "team-a=*", "=arn:aws:iam::111122223333:role/a"]
        {
            assert!(text.parse::<Entry>().is_err(), "{text}");
        }
    }

    #[test]
    fn grants() {
        let check =
            |name: &str, of_object: (bool, &[&str]), entries: &[&str], expected: Option<(bool, usize)>| {
                let roles = of_object.1.iter().map(|role| role.parse().unwrap()).collect();
                let entries: Vec<Entry> = entries.iter().map(|entry| entry.parse().unwrap()).collect();
                let found = match grant(name, "uid".to_owned(), of_object.0, roles, &entries) {
                    Grant::Tenant(grant) => {
                        assert_eq!(grant.external_id, "uid");
                        Some((grant.direct, grant.roles.len()))
                    }
                    Grant::Nothing => None,
                    Grant::Everything => panic!("a tenant got everything"),
                };
                assert_eq!(found, expected, "{name} {entries:?}");
            };
        let of_a = format!("a={ROLE}");
        check("a", (false, &[]), &[], None);
        check("a", (false, &[]), &["b"], None);
        check("a", (false, &[]), &["a"], Some((true, 0)));
        check("a", (false, &[]), &["*"], Some((true, 0)));
        check("a", (false, &[]), &[&of_a], Some((false, 1)));
        check("b", (false, &[]), &[&of_a], None);
        check("a", (false, &[ROLE]), &["b", &of_a], Some((false, 2)));
        check("a", (true, &[]), &["b"], Some((true, 0)));
    }
}
