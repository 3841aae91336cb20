//! Writing to an object: merge patches through the control plane's client, as small as they can be.

use http::{Method, Request, header};
use objects::{GroupVersion, Value, meta};
use runtime::Error;
use serde_json::{Map, json};

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    collection: String,
    name: String,
}

impl Place {
    /// Of an object of a kind, such as `buckets.s3.services.k8s.aws`.
    pub fn of(object: &Value, plural: &str) -> Place {
        let version = meta::api_version(object);
        let grouped = GroupVersion::parse(version).is_some_and(|gv| !gv.group.is_empty());
        let root = if grouped { "apis" } else { "api" };
        let collection = match meta::namespace(object) {
            "" => format!("/{root}/{version}/{plural}"),
            namespace => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        };
        Place { collection, name: meta::name(object).to_owned() }
    }

    pub fn in_collection(collection: &str, name: &str) -> Place {
        Place { collection: collection.to_owned(), name: name.to_owned() }
    }

    fn path(&self, subresource: &str) -> String {
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!("{}/{}{slash}{subresource}", self.collection, self.name)
    }
}

async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, Error> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
    Ok(client.request(request.body(body.to_string().into_bytes()).map_err(Error::failed)?).await?)
}

pub(crate) async fn patch(
    client: &kube::Client,
    place: &Place,
    subresource: &str,
    patch: &Value,
) -> Result<Value, Error> {
    send(client, Method::PATCH, &place.path(subresource), "application/merge-patch+json", patch).await
}

pub(crate) async fn get(client: &kube::Client, place: &Place) -> Result<Value, Error> {
    let request = Request::builder().uri(place.path("")).body(Vec::new()).map_err(Error::failed)?;
    Ok(client.request(request).await?)
}

pub(crate) async fn create(client: &kube::Client, collection: &str, object: &Value) -> Result<(), Error> {
    send(client, Method::POST, collection, "application/json", object).await.map(drop)
}

/// The merge patch that makes one value of another; none if they say the same.
pub(crate) fn difference(from: &Value, to: &Value) -> Option<Value> {
    if objects::equal::semantic(from, to) {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for (field, value) in to {
        match from.get(field) {
            Some(before) => patch.extend(difference(before, value).map(|inner| (field.clone(), inner))),
            None => drop(patch.insert(field.clone(), value.clone())),
        }
    }
    for field in from.keys().filter(|field| !to.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// What of a merge patch would change a value; none if nothing would.
pub(crate) fn effective(value: &Value, patch: &Value) -> Option<Value> {
    let mut after = value.clone();
    if after.is_null() {
        after = json!({});
    }
    let before = after.clone();
    objects::patch::merge(&mut after, patch);
    difference(&before, &after)
}

/// What of a merge patch concerns fields that are the same in both: nobody changed them meanwhile.
pub(crate) fn undisputed(patch: &Value, then: &Value, now: &Value) -> Value {
    let Value::Object(fields) = patch else { return patch.clone() };
    let kept = fields.iter().filter_map(|(field, change)| {
        let (then, now) = (then.get(field).unwrap_or(&Value::Null), now.get(field).unwrap_or(&Value::Null));
        match change {
            _ if objects::equal::semantic(then, now) => Some((field.clone(), change.clone())),
            Value::Object(_) if then.is_object() && now.is_object() => {
                Some((field.clone(), undisputed(change, then, now)))
            }
            _ => None,
        }
    });
    Value::Object(kept.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any value without nulls, which a merge patch cannot write.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..4).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_difference_makes_one_of_the_other(from in value(), to in value()) {
            let (from, to) = (json!({"x": from}), json!({"x": to}));
            let mut made = from.clone();
            let patch = difference(&from, &to);
            prop_assert_eq!(patch.is_none(), from == to);
            objects::patch::merge(&mut made, &patch.unwrap_or_else(|| json!({})));
            prop_assert_eq!(&made, &to);
            // Nobody touched it: all of a patch is undisputed. Everybody did: none is.
            let patch = json!({"x": 9});
            prop_assert_eq!(undisputed(&patch, &from, &from), patch.clone());
            if from != to {
                prop_assert_eq!(undisputed(&patch, &from, &to), json!({}));
            }
        }
    }

    #[test]
    fn differences() {
        for (from, to, expected) in [
            (json!({"a": 1}), json!({"a": 1.0}), None),
            (json!({"a": 1, "b": {"c": 1}}), json!({"b": {"c": 2}}), Some(json!({"a": null, "b": {"c": 2}}))),
            (json!({"a": [1]}), json!({"a": [1, 2]}), Some(json!({"a": [1, 2]}))),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
        ] {
            assert_eq!(difference(&from, &to), expected, "{from} {to}");
            let mut made = from.clone();
            objects::patch::merge(&mut made, &expected.unwrap_or_else(|| json!({})));
            assert!(objects::equal::semantic(&made, &to), "{made} {to}");
        }
    }

    #[test]
    fn patches_that_say_nothing_new() {
        assert_eq!(effective(&json!({"a": 1}), &json!({"a": 1, "b": null})), None);
        assert_eq!(effective(&Value::Null, &json!({"a": null})), None);
        assert_eq!(effective(&json!({"a": 1}), &json!({"a": 1, "b": 2})), Some(json!({"b": 2})));
    }

    #[test]
    fn what_others_changed_is_theirs() {
        let (then, now) = (json!({"a": 1, "c": {"d": 1}}), json!({"a": 2, "c": {"d": 1, "e": 5}}));
        let patch = json!({"a": 3, "b": 4, "c": {"d": 9, "e": 6}});
        assert_eq!(undisputed(&patch, &then, &now), json!({"b": 4, "c": {"d": 9}}));
    }

    #[test]
    fn places() {
        let object = json!({"apiVersion": "g/v1", "metadata": {"name": "n", "namespace": "ns"}});
        assert_eq!(Place::of(&object, "things").path("status"), "/apis/g/v1/namespaces/ns/things/n/status");
        let object = json!({"apiVersion": "v1", "metadata": {"name": "n"}});
        assert_eq!(Place::of(&object, "things").path(""), "/api/v1/things/n");
    }
}
