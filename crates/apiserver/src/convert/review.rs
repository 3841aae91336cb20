//! What is sent to a conversion webhook, and what may come back.

use bytes::Bytes;
use objects::{Path, Value, meta, metadata};

/// Reviews of one webhook, towards one version.
pub struct Review<'a> {
    /// Of the review itself: v1 or v1beta1.
    version: &'static str,
    desired: &'a str,
}

/// One review, ready to be sent.
pub struct Batch {
    pub uid: String,
    pub body: Bytes,
    /// How many objects are in it.
    pub count: usize,
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum ReviewError {
    #[error("no supported conversion review versions")]
    NoVersion,
    #[error("the response is not JSON")]
    NotJson,
    #[error("expected webhook response of {expected}, got {got}")]
    Kind { expected: String, got: String },
    #[error("no response provided")]
    NoResponse,
    #[error("expected response.uid={expected:?}, got {got:?}")]
    Uid { expected: String, got: String },
    #[error("{0}")]
    Failed(String),
    #[error("returned {got} objects, expected {expected}")]
    Count { expected: usize, got: usize },
    #[error("returned invalid converted object at index {index}: {why}")]
    Object { index: usize, why: String },
}

impl<'a> Review<'a> {
    /// In the first version that both sides know.
    pub fn new(webhook: &Value, desired: &'a str) -> Result<Review<'a>, ReviewError> {
        let offered = webhook.get("conversionReviewVersions").and_then(Value::as_array).into_iter().flatten();
        let version = offered.filter_map(Value::as_str).find_map(|version| match version {
            "v1" => Some("apiextensions.k8s.io/v1"),
            "v1beta1" => Some("apiextensions.k8s.io/v1beta1"),
            _ => None,
        });
        Ok(Review { version: version.ok_or(ReviewError::NoVersion)?, desired })
    }

    /// The next objects, as many as fit; at least one.
    pub fn request(&self, objects: &[&mut Value], max_objects: usize, max_bytes: usize) -> Batch {
        let uid = uuid::Uuid::new_v4().to_string();
        let desired = Value::from(self.desired);
        let mut body = format!(
            r#"{{"apiVersion":"{}","kind":"ConversionReview","request":{{"uid":"{uid}","desiredAPIVersion":{desired},"objects":["#,
            self.version
        );
        let mut count = 0;
        for object in objects.iter().take(max_objects) {
            let text = object.to_string();
            if count > 0 && body.len() + text.len() > max_bytes {
                break;
            }
            if count > 0 {
                body.push(',');
            }
            body.push_str(&text);
            count += 1;
        }
        body.push_str("]}}");
        Batch { uid, body: body.into(), count }
    }

    /// Puts the converted objects in the place of those that were sent. As upstream, a webhook may change of the metadata
    /// only labels and annotations.
    pub fn accept(&self, uid: &str, answer: &[u8], sent: &mut [&mut Value]) -> Result<(), ReviewError> {
        let mut answer: Value = serde_json::from_slice(answer).map_err(|_| ReviewError::NotJson)?;
        // Webhooks for v1beta1 were never checked for these.
        if self.version.ends_with("/v1") {
            let (version, kind) = (meta::api_version(&answer), meta::kind(&answer));
            if version != self.version || kind != "ConversionReview" {
                return Err(ReviewError::Kind {
                    expected: format!("{}, Kind=ConversionReview", self.version),
                    got: format!("{version}, Kind={kind}"),
                });
            }
        }
        let Some(response) = answer.get_mut("response").filter(|response| response.is_object()) else {
            return Err(ReviewError::NoResponse);
        };
        let text = |pointer: &str| response.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if self.version.ends_with("/v1") && text("/uid") != uid {
            return Err(ReviewError::Uid { expected: uid.to_owned(), got: text("/uid").to_owned() });
        }
        let (status, message) = (text("/result/status"), text("/result/message"));
        if status != "Success" {
            return Err(ReviewError::Failed(match message {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            }));
        }
        let converted = match response.get_mut("convertedObjects").map(Value::take) {
            Some(Value::Array(converted)) => converted,
            _ => Vec::new(),
        };
        if converted.len() != sent.len() {
            return Err(ReviewError::Count { expected: sent.len(), got: converted.len() });
        }
        for (index, (original, mut converted)) in sent.iter_mut().zip(converted).enumerate() {
            self.check(original, &converted).map_err(|why| ReviewError::Object { index, why })?;
            restore(original, &mut converted).map_err(|why| ReviewError::Object { index, why })?;
            **original = converted;
        }
        Ok(())
    }

    fn check(&self, original: &Value, converted: &Value) -> Result<(), String> {
        let same = |what: &str, expected: &str, got: &str| match expected == got {
            true => Ok(()),
            false => Err(format!("invalid {what} (expected {expected}, received {got})")),
        };
        same("groupVersion", self.desired, meta::api_version(converted))?;
        same("kind", meta::kind(original), meta::kind(converted))?;
        for (what, of) in
            [("name", meta::name as fn(&Value) -> &str), ("namespace", meta::namespace), ("UID", meta::uid)]
        {
            let (expected, got) = (of(original), of(converted));
            if expected != got {
                return Err(format!("must have the same {what}: {expected} != {got}"));
            }
        }
        Ok(())
    }
}

/// Gives a converted object the metadata of the original, but for labels and annotations.
fn restore(original: &mut Value, converted: &mut Value) -> Result<(), String> {
    let given = match converted.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err("invalid metadata in converted object".to_owned()),
    };
    let mut kept = original.get("metadata").cloned().unwrap_or_default();
    let kept_fields = kept.as_object_mut().ok_or("invalid metadata in input object")?;
    let path = Path::root().child("metadata");
    for field in ["labels", "annotations"] {
        let given = match given.get(field) {
            None | Some(Value::Null) => {
                kept_fields.remove(field);
                continue;
            }
            Some(Value::Object(given)) => given,
            Some(_) => return Err(format!("invalid metadata.{field} in converted object")),
        };
        if let Some((key, _)) = given.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!("metadata.{field}[{key}] must be a string in converted object"));
        }
        let errors = match field {
            // What was accepted before stays acceptable.
            _ if kept_fields.get(field).and_then(Value::as_object) == Some(given) => continue,
            "labels" => metadata::labels(given, &path.child(field)),
            _ => metadata::annotations(given, &path.child(field)),
        };
        if let Some(error) = errors.first() {
            return Err(error.to_string());
        }
        kept_fields.insert(field.to_owned(), Value::Object(given.clone()));
    }
    converted["metadata"] = kept;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn review() -> Review<'static> {
        Review::new(&json!({"conversionReviewVersions": ["v7", "v1", "v1beta1"]}), "example.com/v2").unwrap()
    }

    fn object(name: &str) -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": 1},
            "metadata": {"name": name, "namespace": "n", "uid": "u", "labels": {"a": "b"}, "generation": 3},
        })
    }

    #[test]
    fn requests_are_bounded() {
        let mut all: Vec<Value> = (0..5).map(|i| object(&i.to_string())).collect();
        let objects: Vec<&mut Value> = all.iter_mut().collect();
        let count = |objects: &[&mut Value], most, bytes| review().request(objects, most, bytes).count;
        assert_eq!(count(&objects, 500, 1 << 20), 5);
        assert_eq!(count(&objects, 2, 1 << 20), 2);
        assert_eq!(count(&objects, 500, 1), 1, "one object is sent whatever its size");
        let whole = review().request(&objects, 500, 1 << 20);
        let sent: Value = serde_json::from_slice(&whole.body).unwrap();
        let expected = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": whole.uid, "desiredAPIVersion": "example.com/v2", "objects": objects},
        });
        assert_eq!(sent, expected);
    }

    #[test]
    fn versions_of_reviews() {
        let of = |versions: Value| {
            Review::new(&json!({"conversionReviewVersions": versions}), "x/v1").map(|review| review.version)
        };
        assert_eq!(of(json!(["v1beta1", "v1"])), Ok("apiextensions.k8s.io/v1beta1"));
        assert_eq!(of(json!(["v2", "v1"])), Ok("apiextensions.k8s.io/v1"));
        assert_eq!(of(json!(["v2"])), Err(ReviewError::NoVersion));
    }

    /// What becomes of an object, or the error, when the webhook answers this.
    fn check(answer: Value, expected: Result<Value, &str>) {
        let mut original = object("x");
        let accepted = review().accept("1", answer.to_string().as_bytes(), &mut [&mut original]);
        let got = accepted.map(|()| original).map_err(|error| error.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{answer}");
    }

    fn answer(converted: Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "1", "result": {"status": "Success"}, "convertedObjects": converted},
        })
    }

    /// A converted object with this in it.
    fn converted(change: Value) -> Value {
        let mut object = object("x");
        object["apiVersion"] = "example.com/v2".into();
        objects::patch::merge(&mut object, &change);
        object
    }

    #[test]
    fn converted_objects() {
        let at = |change: Value, why: &str| {
            let why = format!("returned invalid converted object at index 0: {why}");
            check(answer(json!([converted(change)])), Err(&why));
        };
        check(
            answer(json!([converted(json!({"spec": {"b": 2}}))])),
            Ok(converted(json!({"spec": {"b": 2}}))),
        );
        let labels = json!({"metadata": {"labels": {"c": "d"}, "annotations": {"e": "f"}}});
        check(answer(json!([converted(labels.clone())])), Ok(converted(labels)));
        let none = json!({"metadata": {"labels": null}});
        check(answer(json!([converted(none.clone())])), Ok(converted(none)));
        // Other metadata stays what it was.
        check(answer(json!([converted(json!({"metadata": {"generation": 9}}))])), Ok(converted(json!({}))));
        at(
            json!({"apiVersion": "example.com/v1"}),
            "invalid groupVersion (expected example.com/v2, received example.com/v1)",
        );
        at(json!({"kind": "Other"}), "invalid kind (expected Thing, received Other)");
        at(json!({"metadata": {"name": "y"}}), "must have the same name: x != y");
        at(json!({"metadata": {"namespace": "m"}}), "must have the same namespace: n != m");
        at(json!({"metadata": {"uid": "v"}}), "must have the same UID: u != v");
        at(json!({"metadata": null}), "must have the same name: x != ");
        at(json!({"metadata": {"labels": 1}}), "invalid metadata.labels in converted object");
        at(
            json!({"metadata": {"labels": {"a": 1}}}),
            "metadata.labels[a] must be a string in converted object",
        );
        check(answer(json!([])), Err("returned 0 objects, expected 1"));
        check(answer(json!([{}, {}])), Err("returned 2 objects, expected 1"));
        check(answer(json!(null)), Err("returned 0 objects, expected 1"));
    }

    #[test]
    fn answers_that_are_none() {
        let change = |change: Value| {
            let mut answer = answer(json!([converted(json!({}))]));
            objects::patch::merge(&mut answer, &change);
            answer
        };
        check(change(json!({"response": null})), Err("no response provided"));
        check(change(json!({"response": {"uid": "2"}})), Err(r#"expected response.uid="1", got "2""#));
        check(
            change(json!({"kind": "AdmissionReview"})),
            Err("expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got \
                 apiextensions.k8s.io/v1, Kind=AdmissionReview"),
        );
        let failed = json!({"status": "Failed", "message": "cannot read spec.a"});
        check(change(json!({"response": {"result": failed}})), Err("cannot read spec.a"));
        check(
            change(json!({"response": {"result": {"status": "Failed"}}})),
            Err("response.result.status was 'Failed', not 'Success'"),
        );
    }
}
