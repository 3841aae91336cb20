//! What hooks made outside of the control plane's namespace, found again and deleted with it.

use objects::{Value, meta};
use runtime::{Context, Error};

use crate::api::{self, Place};
use crate::names;
use crate::plane::Plane;

/// Deletes objects of every kind without a namespace that carry the marks of this control plane's hooks.
pub async fn clean_up(context: &Context, plane: &Plane) -> Result<(), Error> {
    let applied =
        plane.object["status"]["postCreateHooks"].as_object().is_some_and(|hooks| !hooks.is_empty());
    if !applied && plane.spec.hooks().is_empty() {
        return Ok(());
    }
    let client = context.client();
    for (api_version, plural) in cluster_kinds(client).await? {
        let mut place = Place::new(&api_version, &plural, "", "");
        let selector = format!("{}%3D{}", names::MANAGED_BY.replace('/', "%2F"), names::MANAGED_BY_VALUE);
        let path = format!("{}?labelSelector={selector}", place.collection());
        let Some(list) = seen(&path, api::get_path(client, &path).await)? else { continue };
        for object in list["items"].as_array().into_iter().flatten() {
            let ours = meta::annotation(object, names::RELEASE_NAMESPACE) == Some(&plane.namespace);
            if ours && !meta::is_deleting(object) && !is_controlled(object) {
                place.name = meta::name(object).to_owned();
                api::delete(client, &place, Some(meta::uid(object))).await?;
            }
        }
    }
    Ok(())
}

/// None where nothing of ours can be: a kind that is not served, that whoever applied the hooks may not even list, or whose
/// server, an aggregated one, is broken. One such kind keeps no control plane from being deleted.
fn seen(path: &str, answer: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.code(), Some(403 | 404 | 405 | 503)) => {
            tracing::debug!(path, %error, "what hooks made is not looked for here");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether somebody else decides over it.
fn is_controlled(object: &Value) -> bool {
    meta::owner_references(object).iter().any(|owner| owner["controller"] == true)
}

/// Every kind that is in no namespace and can be listed and deleted, in the version its group prefers.
async fn cluster_kinds(client: &kube::Client) -> Result<Vec<(String, String)>, Error> {
    let groups = api::get_path(client, "/apis").await?;
    let preferred = groups["groups"].as_array().into_iter().flatten();
    let preferred = preferred.filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
    let mut kinds = Vec::new();
    for version in std::iter::once("v1").chain(preferred) {
        let root = if version.contains('/') { "apis" } else { "api" };
        let path = format!("/{root}/{version}");
        let Some(list) = seen(&path, api::get_path(client, &path).await)? else { continue };
        for resource in list["resources"].as_array().into_iter().flatten() {
            let can = |verb: &str| {
                resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|one| one == verb))
            };
            if let Some(plural) = resource["name"].as_str()
                && resource["namespaced"] == false
                && !plural.contains('/')
                && can("list")
                && can("delete")
            {
                kinds.push((version.to_owned(), plural.to_owned()));
            }
        }
    }
    Ok(kinds)
}
