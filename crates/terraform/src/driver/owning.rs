//! Which objects have the resources that a provider lists.

use std::collections::BTreeMap;

use objects::{Value as Json, meta};
use provision::{Failure, Reader};

use super::Terraform;
use super::kept::Place;
use crate::definition::{GENERIC_PLURAL, GROUP};
use crate::names::{FieldNames, KindName};
use crate::plugin::Listed;
use crate::registry::Served;
use crate::shape;
use crate::value::Value;

/// Objects whose states are opened for one list. What more of them have is not told.
const OPENED: usize = 1_000;

/// What was listed, and for whom.
pub(crate) struct Asked<'a> {
    pub control_plane: &'a str,
    pub query: &'a Json,
    pub provider: &'a Served,
    pub type_name: &'a str,
}

fn text<'a>(object: &'a Json, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Json::as_str).unwrap_or_default()
}

impl Terraform {
    /// The objects of the query's namespace that have these resources, as Kind/name by identity. Only those that are
    /// configured by the same Secret: another one may lead to another account, where identities are others'. Nothing of
    /// an object that cannot be looked at.
    pub(crate) async fn owners(
        &self,
        reader: &Reader<'_>,
        asked: &Asked<'_>,
        found: &[Listed],
    ) -> BTreeMap<Value, String> {
        let owners = self.owners_of(reader, asked, found).await;
        owners.unwrap_or_else(|failure| {
            tracing::debug!(%failure, "it is not known which objects have what was listed");
            BTreeMap::new()
        })
    }

    async fn owners_of(
        &self,
        reader: &Reader<'_>,
        asked: &Asked<'_>,
        found: &[Listed],
    ) -> Result<BTreeMap<Value, String>, Failure> {
        let Asked { control_plane, query, provider, type_name } = asked;
        let identity = provider.catalogue.identity(type_name);
        let (Ok(schema), Some(identity)) = (provider.catalogue.resource(type_name), identity) else {
            return Ok(BTreeMap::new());
        };
        let names = shape::names(&schema.block, true);
        let mut owners = BTreeMap::new();
        let mut opened = 0;
        for resource in [KindName::of_type(type_name).resource(), format!("{GENERIC_PLURAL}.{GROUP}")] {
            let Some(kind) = self.registry.kind(&resource) else { continue };
            let is_of_it = |object: &Json| match &kind.of {
                Some((served, of)) => served.name == provider.name && of == type_name,
                None => {
                    text(object, "/spec/provider") == provider.name
                        && text(object, "/spec/type") == *type_name
                }
            };
            let reference = "/spec/providerRef/name";
            let objects = reader.list(&resource, meta::namespace(query)).await?.into_iter();
            let same = objects.filter(|object| text(object, reference) == text(query, reference));
            for object in same.filter(is_of_it) {
                let may_have = |one: &Listed| may_be(&names, &object["spec"]["state"], &one.identity);
                if opened == OPENED || !found.iter().any(may_have) {
                    continue;
                }
                opened += 1;
                let place = Place { control_plane, facts: &kind.facts, object: &object };
                let Ok(kept) = place.load(reader, &self.seal).await else { continue };
                let own = kept.resource.and_then(|resource| resource.identity(Some(identity)));
                if let Some(own) = own {
                    owners.insert(own, format!("{}/{}", kind.facts.kind, meta::name(&object)));
                }
            }
        }
        Ok(owners)
    }
}

/// Whether a state that is shown says nothing else than an identity: its parts are mostly attributes, too.
fn may_be(names: &FieldNames, state: &Json, identity: &Value) -> bool {
    identity.as_fields().into_iter().flatten().all(|(name, value)| {
        let shown = names.field(name).and_then(|field| state.get(field)).and_then(Json::as_str);
        shown.zip(value.as_str()).is_none_or(|(shown, value)| shown == value)
    })
}
