//! What a query asks of its provider, and what of the answer is told.

use std::collections::BTreeSet;

use objects::Value as Json;
use provision::{Class, Engine, Failure, OperationType, Reader};
use serde_json::{Map, json};

use super::kinds::{MOST, USUALLY};
use crate::driver::owning::Asked;
use crate::driver::{Terraform, failures, limit, refusing, wanted};
use crate::plugin::{IdentitySchema, Listed, Listing, PluginError};
use crate::protocol::Call;
use crate::schema::Block;
use crate::shape;
use crate::value::Value;

/// What a provider calls a resource is for people, and no longer than they read.
const LONGEST_NAME: usize = 256;
/// Of all that is told together: an object has room for little more.
const LARGEST: usize = 512 << 10;
/// Shorter texts may stand anywhere without telling anything.
const SHORTEST_SECRET: usize = 8;

pub(super) struct Answer {
    pub found: Vec<Json>,
    pub complete: bool,
    /// What the provider says is amiss although it answered. No secrets.
    pub warnings: Vec<String>,
}

/// A field of `spec.config`.
fn at(path: &str) -> String {
    format!("spec.config.{path}")
}

/// What the fields say, as the list's own schema has it.
fn config(block: &Block, object: &Json) -> Result<Value, Failure> {
    let none = json!({});
    let given = object.pointer("/spec/config").unwrap_or(&none);
    if let Some(exposed) = shape::exposed(block, given) {
        return Err(Failure::terminal(refusing::explanation(object, &exposed)).at(at(&exposed.path)));
    }
    shape::desired(block, given).map_err(|error| Failure::terminal(error.problem).at(at(&error.path)))
}

fn most(object: &Json) -> usize {
    let given = object.pointer("/spec/limit").and_then(Json::as_u64).unwrap_or(USUALLY);
    usize::try_from(given.clamp(1, MOST)).unwrap_or_default()
}

pub(super) async fn ask(
    engine: &Engine<Terraform>,
    reader: &Reader<'_>,
    control_plane: &str,
    object: &Json,
) -> Result<Answer, Failure> {
    let driver = engine.driver();
    let served = driver.named(object)?;
    let type_name = object.pointer("/spec/type").and_then(Json::as_str).unwrap_or_default();
    let unlisted = |error| failures::failure(error, None, false).at("spec.type");
    let (schema, identity) = served.catalogue.listed(type_name).map_err(unlisted)?;
    let program = served.program.as_ref();
    let program = program.ok_or_else(|| Failure::recoverable("the provider is not ready yet"))?;
    let config = config(&schema.block, object)?;
    let json = driver.configuration(reader, object, &served).await?;
    let (configuration, redactions) = wanted::configuration(&served.catalogue.provider.block, &json)?;
    let program = program.on_behalf_of(control_plane);
    let lease = driver.pool().lease(&program, &served.digest, &configuration).await.map_err(|error| {
        // A configuration that is refused is the Secret's fault, which is looked at again when it changes.
        let failure = failures::failure(error, None, false);
        failures::redact(failure, &redactions).at("spec.providerRef")
    })?;
    let listed = async {
        let told = lease.judge(lease.list(type_name, &config, most(object)).await);
        told.inspect(|_| driver.pool().succeeded(&lease)).map_err(|error| match error {
            PluginError::Refused(said) => {
                failures::refused_in("spec.config", &said, Some(&schema.block), Class::Recoverable)
            }
            error => failures::failure(error, None, false),
        })
    };
    let calls = engine.calls(&limit(&served, &lease), &served.name);
    let told = calls.make(OperationType::ReadMany, Call::ListResource.name(), listed).await;
    let told = told.map_err(|failure| failures::redact(failure, &redactions))?;
    let own = lease.warnings().warnings().map(ToString::to_string);
    let warnings = own.chain(told.warnings.warnings().map(ToString::to_string));
    let warnings = warnings.map(|warning| failures::redacted(warning, &redactions)).collect();
    let asked = Asked { control_plane, query: object, provider: &served, type_name };
    let owners = driver.owners(reader, &asked, &told.answer.found).await;
    let mut hidden = Vec::new();
    if let Some(secrets) = shape::secrets(&served.catalogue.provider.block, &configuration) {
        wanted::texts(&secrets, &mut hidden);
    }
    hidden.retain(|text| text.chars().count() >= SHORTEST_SECRET);
    let tell = |one: &Listed| {
        let mut entry = json!({
            "name": failures::redacted(short(&one.name), &redactions),
            // Of the configuration only what the provider calls secret is taken out: a region or an account belongs here.
            "identity": redacted(shown(&identity, &one.identity), &hidden),
        });
        if let Some(owner) = owners.get(&one.identity) {
            entry["object"] = json!(owner);
        }
        entry
    };
    let (found, complete) = fitting(&told.answer, tell);
    Ok(Answer { found, complete, warnings })
}

/// Each once, as many as an object has room for; and whether these are all.
fn fitting(listing: &Listing, tell: impl Fn(&Listed) -> Json) -> (Vec<Json>, bool) {
    let (mut found, mut told, mut size) = (Vec::new(), BTreeSet::new(), 0);
    for one in &listing.found {
        if !told.insert(&one.identity) {
            continue;
        }
        let entry = tell(one);
        size += entry.to_string().len();
        if size > LARGEST {
            return (found, false);
        }
        found.push(entry);
    }
    (found, !listing.more)
}

fn short(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// An identity in the provider's names, without what it leaves open.
fn shown(schema: &IdentitySchema, identity: &Value) -> Json {
    let json = identity.to_state_json(&schema.ty).ok();
    let fields: Option<Map<String, Json>> = json.and_then(|json| serde_json::from_slice(&json).ok());
    let said = fields.unwrap_or_default().into_iter().filter(|(_, value)| !value.is_null());
    Json::Object(said.collect())
}

fn redacted(json: Json, secrets: &[String]) -> Json {
    match json {
        Json::String(text) => Json::String(failures::redacted(text, secrets)),
        Json::Array(elements) => elements.into_iter().map(|element| redacted(element, secrets)).collect(),
        Json::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, redacted(value, secrets))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: impl IntoIterator<Item = String>, more: bool) -> Listing {
        let found = names.into_iter().map(|name| Listed { identity: Value::string(&name), name });
        Listing { found: found.collect(), more }
    }

    #[test]
    fn what_fits_is_told() {
        let tell = |one: &Listed| json!({"name": one.name});
        let check = |listing: Listing, expected: (usize, bool)| {
            let (found, complete) = fitting(&listing, tell);
            assert_eq!((found.len(), complete), expected);
        };
        check(listing(["a".to_owned(), "b".to_owned(), "a".to_owned()], false), (2, true));
        check(listing(["a".to_owned()], true), (1, false));
        let large = (0..100).map(|number| format!("{number:0>10000}"));
        check(listing(large, false), (52, false));
    }

    #[test]
    fn how_many_are_asked_for() {
        for (given, expected) in
            [(json!({}), 100), (json!({"limit": 7}), 7), (json!({"limit": 9_999}), 1_000)]
        {
            assert_eq!(most(&json!({"spec": given})), expected);
        }
    }
}
