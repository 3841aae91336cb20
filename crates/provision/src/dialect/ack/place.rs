//! Which account, role, region and endpoint an object's calls go to: annotations, namespaces, role maps (CARM) and
//! selectors, in upstream's order.

use std::time::Duration;

use objects::{CompactString, Value, meta};

use super::{
    DEFAULT_REGION, ENDPOINT_URL, Gates, OWNER_ACCOUNT_ID, REGION, ROLE_NOT_AVAILABLE, TEAM_ID, selectors,
};
use crate::driver::{RoleSelected, Surroundings};
use crate::failure::{Class, Failure};
use crate::intent::{self, Intent};
use crate::reading::Reader;

const ACCOUNT_MAP: &str = "ack-role-account-map";
const TEAM_MAP: &str = "ack-role-team-map";
/// Until a role that is not in its map is looked for again.
const ROLE_WAIT: Duration = Duration::from_secs(15);

/// What holds for all objects of a control plane that say nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    pub region: CompactString,
    pub endpoint: Option<String>,
    /// Where the maps of roles are.
    pub system_namespace: String,
    /// Whether the maps of roles are read at all.
    pub carm: bool,
    pub gates: Gates,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            region: CompactString::default(),
            endpoint: None,
            system_namespace: "ack-system".to_owned(),
            carm: true,
            gates: Gates::default(),
        }
    }
}

/// Where calls are to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Empty for the account of the credentials at hand.
    pub account: CompactString,
    /// To be assumed.
    pub role: Option<String>,
    pub region: CompactString,
    pub endpoint: Option<String>,
    pub selected: Option<RoleSelected>,
}

/// What is recorded of the place of a resource. Without the finalizer there is none, and an object that says otherwise
/// than at its last try has only been put right.
fn recorded<'a>(surroundings: &Surroundings<'a>, field: &str) -> Option<&'a str> {
    let (object, finalizer) = (surroundings.object, &surroundings.facts.finalizer);
    let text = object.pointer("/status/ackResourceMetadata")?.get(field)?.as_str()?;
    Some(text).filter(|text| !text.is_empty() && meta::finalizers(object).any(|one| one == finalizer))
}

/// The account in an ARN.
pub fn account_of(arn: &str) -> Option<&str> {
    arn.split(':').nth(4).filter(|account| !account.is_empty())
}

/// `account` is that of the credentials at hand.
pub async fn wanted(
    surroundings: &Surroundings<'_>,
    defaults: &Defaults,
    account: &str,
) -> Result<Wanted, Failure> {
    let object = surroundings.object;
    let namespace = surroundings.reader.peek("namespaces", "", meta::namespace(object)).await?;
    let of_namespace = |name: &str| {
        let text = namespace.as_ref().and_then(|namespace| meta::annotation(namespace, name));
        text.filter(|text| !text.is_empty())
    };
    let owner =
        of_namespace(OWNER_ACCOUNT_ID).or(recorded(surroundings, "ownerAccountID")).unwrap_or(account);
    let mut wanted = Wanted {
        account: owner.into(),
        role: None,
        region: region(surroundings, of_namespace(DEFAULT_REGION), &defaults.region)?,
        endpoint: of_namespace(ENDPOINT_URL).map(str::to_owned).or_else(|| defaults.endpoint.clone()),
        selected: None,
    };
    let service = surroundings.facts.service.as_str();
    // A selector wins; what it chose is recorded as the owner, whom the maps need not know.
    if defaults.gates.iam_role_selector {
        let all = surroundings.reader.list(selectors::KIND, "").await?;
        if let Some(selected) = selectors::select(&all, surroundings.facts, object, namespace.as_ref())? {
            wanted.role = Some(selected.arn.clone());
            wanted.selected = Some(selected);
        }
    }
    match of_namespace(TEAM_ID) {
        _ if wanted.selected.is_some() => {}
        Some(team) if defaults.gates.team_level_carm => {
            wanted.role = Some(role(surroundings.reader, defaults, TEAM_MAP, team, service).await?);
        }
        _ if owner != account && defaults.carm => {
            wanted.role = Some(role(surroundings.reader, defaults, ACCOUNT_MAP, owner, service).await?);
        }
        _ => {}
    }
    if let Some(account) = wanted.role.as_deref().and_then(account_of) {
        wanted.account = account.into();
    }
    same_account(surroundings, &wanted.account)?;
    Ok(wanted)
}

/// The recorded region holds; one that now says otherwise is a mistake, since nothing moves between regions.
fn region(
    surroundings: &Surroundings<'_>,
    by_namespace: Option<&str>,
    default: &str,
) -> Result<CompactString, Failure> {
    let object = surroundings.object;
    let annotated = meta::annotation(object, REGION).filter(|text| !text.is_empty());
    let said = annotated.or(by_namespace).unwrap_or(default);
    match recorded(surroundings, "region") {
        Some(recorded) if recorded != said && !said.is_empty() => {
            let why = match Intent::of(object) {
                Ok(None) => "resources cannot be moved".to_owned(),
                _ => format!(
                    "a call there was interrupted: if nothing was made, remove the annotation {} and the finalizer",
                    intent::ANNOTATION
                ),
            };
            Err(Failure::terminal(format!(
                "the resource is in region {recorded} and the object now says {said}; {why}"
            )))
        }
        Some(recorded) => Ok(recorded.into()),
        None if said.is_empty() => {
            Err(Failure::terminal(format!("no region is known; set the annotation {REGION}, or a default")))
        }
        None => Ok(said.into()),
    }
}

/// Nothing moves between accounts.
fn same_account(surroundings: &Surroundings<'_>, account: &str) -> Result<(), Failure> {
    match recorded(surroundings, "ownerAccountID") {
        Some(recorded) if !account.is_empty() && recorded != account => Err(Failure::terminal(format!(
            "the resource is in account {recorded} and the object now says {account}; resources cannot be moved"
        ))),
        _ => Ok(()),
    }
}

/// A role from a map; looked for again soon while it is not there.
async fn role(
    reader: &Reader<'_>,
    defaults: &Defaults,
    map: &str,
    id: &str,
    service: &str,
) -> Result<String, Failure> {
    let unavailable = |why: String| Failure::new(Class::Waiting(ROLE_WAIT), ROLE_NOT_AVAILABLE, why);
    let namespace = &defaults.system_namespace;
    let Some(found) = reader.get("configmaps", namespace, map).await? else {
        return Err(unavailable(format!("ConfigMap {namespace}/{map} does not exist")));
    };
    let by_service = format!("{service}.{id}");
    let keys = [Some(by_service.as_str()).filter(|_| defaults.gates.service_level_carm), Some(id)];
    for key in keys.into_iter().flatten() {
        match found.get("data").and_then(|data| data.get(key)).and_then(Value::as_str).map(str::trim) {
            Some("") => {
                return Err(unavailable(format!("ConfigMap {namespace}/{map} has no role for {key}")));
            }
            Some(arn) => return Ok(arn.to_owned()),
            None => {}
        }
    }
    Err(unavailable(format!("ConfigMap {namespace}/{map} has no key {id}")))
}
