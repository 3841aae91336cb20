//! What is in a namespace: deleted, and counted as far as it does not go yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::Engine;
use apiserver::control_plane::ControlPlane;
use apiserver::surface::Row;
use futures::future::join_all;
use objects::{Value, Verb, meta};
use runtime::{Context, Error};
use store::Scope;

use crate::resource::{Delete, Propagation, Resource};

/// What clouds are asked with: credentials, and what is known of their resources.
const NEEDED: [&str; 2] = ["secrets", "configmaps"];

/// What is left of a namespace after its deletion was asked for.
#[derive(Default)]
pub(super) struct Content {
    /// `resource.group` and how many objects of it there are still.
    pub remaining: Vec<(String, u64)>,
    /// Finalizers, and how many objects have them.
    pub finalizers: BTreeMap<String, u64>,
    /// What could not be deleted, and why.
    pub failures: Vec<String>,
    /// How many objects are not deleted before others are gone.
    held_back: u64,
}

impl Content {
    pub fn is_gone(&self) -> bool {
        self.remaining.is_empty() && self.failures.is_empty()
    }

    /// How many objects are on their way.
    pub fn left(&self) -> u64 {
        self.remaining.iter().map(|(_, count)| count).sum::<u64>() - self.held_back
    }

    /// Deletes everything in a namespace as far as it can be deleted now.
    pub async fn delete(
        engine: &Arc<Engine>,
        plane: &ControlPlane,
        context: &Context,
        namespace: &str,
    ) -> Result<Content, Error> {
        let surface = engine.planes.surface(plane).await.map_err(Error::failed)?;
        let mut filled = Vec::new();
        for row in surface.storage_rows().filter(|row| is_content(row)) {
            // Kinds of which the whole control plane has nothing are most of them, and quickly ruled out.
            let everywhere = engine.store.count(plane.id, &Scope::Kind(row.storage_kind.clone())).await?;
            if everywhere > 0 && count(engine, plane, row, namespace).await? > 0 {
                filled.push(row.clone());
            }
        }
        // Without them no resource of a cloud could be deleted any more.
        let clouds = filled.iter().any(|row| surface.is_offered(row));
        let waits = |row: &Row| clouds && NEEDED.contains(&row.storage_kind.as_str());
        let deletions = filled.iter().filter(|row| !waits(row)).map(|row| empty(context, row, namespace));
        let outcomes = join_all(deletions).await;
        let mut content = Content::default();
        content.failures.extend(outcomes.into_iter().flatten());
        content.failures.sort();
        for row in &filled {
            let objects = context.list(&row.storage_kind, namespace).await?;
            content.count(row, &objects);
            if waits(row) {
                content.held_back += objects.len() as u64;
            }
        }
        Ok(content)
    }

    fn count(&mut self, row: &Row, objects: &[Value]) {
        if objects.is_empty() {
            return;
        }
        let resource = format!("{}.{}", row.ty.plural, row.ty.group);
        self.remaining.push((resource, objects.len() as u64));
        for finalizer in objects.iter().flat_map(meta::finalizers) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

fn is_content(row: &Row) -> bool {
    row.ty.is_namespaced() && row.ty.verbs.has(Verb::List) && row.ty.verbs.has(Verb::DeleteCollection)
}

async fn count(engine: &Engine, plane: &ControlPlane, row: &Row, namespace: &str) -> Result<u64, Error> {
    let scope = Scope::Namespace(row.storage_kind.clone(), namespace.into());
    Ok(engine.store.count(plane.id, &scope).await?)
}

/// Deletes all objects of one type; returns what went wrong.
async fn empty(context: &Context, row: &Row, namespace: &str) -> Option<String> {
    let options = Delete { propagation: Some(Propagation::Background), ..Delete::default() };
    let resource = Resource::of(context.client(), &row.ty, namespace).unconverted();
    resource.delete_collection(&options).await.err().map(|error| error.to_string())
}
