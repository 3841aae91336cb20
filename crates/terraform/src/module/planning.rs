//! What would become of a module, without any of it: each resource that would be made, changed or destroyed, as its provider
//! plans it. What only later resources will tell is not planned yet, and said so.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use objects::{Value as Json, meta};
use parking_lot::Mutex;
use provision::policies::PAUSED;
use provision::{Failure, FleetSource, Preview, Reader, Source, Verb};
use runtime::{Fleet, Identity, Key};
use serde_json::json;

use super::Modules;
use super::children::{self, SECRET_KEY};
use super::course::{not_gone, not_there};
use super::kinds::{GROUP, MODULE, MODULES};
use super::pass::{Foreseen, IMPORT_KEY, Pass, Stop};
use super::view::View;
use super::writing::Write;

/// Providers that are asked at once.
const TOGETHER: usize = 8;

/// A control plane with objects that are not written: what is planned reads what would be there.
pub struct Overlay<'a> {
    beneath: FleetSource<'a>,
    over: Mutex<BTreeMap<Key, Json>>,
}

impl Overlay<'_> {
    pub(super) fn put_secret(&self, namespace: &str, name: &str, key: &str, value: &Json) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name},
            "data": {key: STANDARD.encode(value.to_string())},
        });
        self.over.lock().insert(Key::new("secrets", namespace, name), secret);
    }
}

#[async_trait]
impl Source for Overlay<'_> {
    async fn get(&self, key: &Key) -> Result<Option<Json>, runtime::Error> {
        let over = self.over.lock().get(key).cloned();
        if over.is_some() { Ok(over) } else { self.beneath.get(key).await }
    }

    async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Json>, runtime::Error> {
        self.beneath.list(kind, namespace).await
    }
}

/// What would be done about a part of a module, by its address; without one, what is to be known of the whole.
pub type Part = (String, Preview);

fn remark(text: String) -> Preview {
    Preview {
        verb: Verb::Nothing,
        place: String::new(),
        changes: Vec::new(),
        calls: Vec::new(),
        remarks: vec![text],
    }
}

impl Modules {
    /// Whether an object is a module.
    pub fn knows(object: &Json) -> bool {
        let group = meta::api_version(object).split_once('/').map_or("", |(group, _)| group);
        group == GROUP && meta::kind(object) == MODULE
    }

    /// What would be done about a module, stored or not, without doing anything: reads only.
    pub async fn plan(
        &self,
        fleet: &dyn Fleet,
        control_plane: &str,
        object: &Json,
    ) -> Result<Vec<Part>, Failure> {
        if meta::annotation(object, PAUSED) == Some("true") {
            return Ok(vec![(String::new(), remark("it is paused".to_owned()))]);
        }
        let module = Key::new(MODULES, meta::namespace(object), meta::name(object));
        let over = Mutex::new(BTreeMap::from([(module, object.clone())]));
        let overlay = Overlay { beneath: FleetSource { fleet, control_plane }, over };
        let reader = Reader::new(&overlay, control_plane, None);
        let client =
            fleet.client(control_plane, &Identity::administrator("hangar:terraform-modules", "hangar"));
        let pass = Pass {
            view: View::new(self.place(), &reader, object.clone()),
            client: &client,
            over: Some(&overlay),
            resources: None,
        };
        let (objects, waiting) = match meta::is_deleting(object) {
            true => {
                let children = pass.view.children().await.map_err(Stop::told)?;
                let going = children.into_iter().map(|(address, child)| (address, deleted(child.object)));
                (going.collect(), Vec::new())
            }
            false => would_be(&overlay, object, pass.foresee().await.map_err(Stop::told)?),
        };
        let planned = objects.into_iter().map(async |(address, object): (String, Json)| {
            let planned = self.engine.plan_over(&overlay, control_plane, &object).await;
            (address, planned.unwrap_or_else(|failure| remark(format!("cannot be made: {failure}"))))
        });
        let mut parts: Vec<Part> = futures::stream::iter(planned).buffered(TOGETHER).collect().await;
        parts.retain(|(_, preview)| preview.verb != Verb::Nothing || !preview.remarks.is_empty());
        let warnings = std::mem::take(&mut *pass.view.warnings.lock());
        let warnings = warnings.into_iter().map(|text| format!("warning: {text}"));
        parts.extend(waiting.into_iter().chain(warnings).map(|text| (String::new(), remark(text))));
        Ok(parts)
    }
}

fn deleted(mut object: Json) -> Json {
    meta::set(&mut object, "deletionTimestamp", "1970-01-01T00:00:00Z");
    object
}

/// The objects of the module's resources as they would be, and what has to wait.
fn would_be(overlay: &Overlay<'_>, module: &Json, foreseen: Foreseen) -> (Vec<(String, Json)>, Vec<String>) {
    let Foreseen { course, mut children, left, steps, .. } = foreseen;
    let namespace = meta::namespace(module);
    let mut objects: Vec<(String, Json)> = Vec::new();
    for step in steps {
        let own = children.remove(&step.address).map(|child| child.object);
        let mut object = match (step.change, own) {
            (Some(Write::Create(object)), _) => object,
            (Some(Write::Patch(patch)), Some(mut own)) => {
                objects::patch::merge(&mut own, &patch);
                own
            }
            (_, Some(own)) => own,
            (_, None) => continue,
        };
        meta::set(&mut object, "namespace", namespace);
        if let Some((secret, _)) = &step.secret {
            overlay.put_secret(namespace, &children::secret_name(&step.name), SECRET_KEY, secret);
        }
        if let Some(import) = left.get(&step.address).filter(|_| step.imports) {
            overlay.put_secret(namespace, &children::import_name(&step.name), IMPORT_KEY, &json!(import));
        }
        objects.push((step.address, object));
    }
    let leaving = children.into_iter().filter(|(address, _)| course.leaving.contains(address));
    objects.extend(leaving.map(|(address, child)| (address, deleted(child.object))));
    // What is planned is not waited for.
    let planned: BTreeSet<String> =
        objects.iter().flat_map(|(address, _)| [not_there(address), not_gone(address)]).collect();
    let waiting = course.waiting.into_iter().filter(|text| !planned.contains(text)).collect();
    (objects, waiting)
}
