//! Definitions that the server itself brings to every control plane: the kinds of clouds.
//!
//! Hundreds or thousands of kinds, the same everywhere: stored in each control plane they would cost each of them
//! megabytes. Here they are rows that all surfaces share, and a schema is made when an object of it is first met.
//! A definition that a control plane has of its own goes before the offered one of the same name, so whoever brings
//! their own definitions (another version, say) is served by those.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use objects::Value;
use objects::field::ErrorList;
use sha2::{Digest, Sha256};

use crate::surface::{ByResource, CustomSchema, definition_rows};

/// The schema of one version of a definition, made whenever it is asked for.
pub type MakeSchema = Arc<dyn Fn(&str) -> Value + Send + Sync>;

/// One definition of a catalogue.
pub struct Offer {
    /// A `CustomResourceDefinition` whose versions have no schemas.
    pub definition: Value,
    /// The `openAPIV3Schema` of a version.
    pub schema: MakeSchema,
    /// Stands for the content of the schemas: another one whenever they are.
    pub fingerprint: [u8; 32],
}

/// The say of a source in writes of objects of its kinds: after their schemas, before anything is stored.
#[async_trait]
pub trait Review: Send + Sync {
    /// What is wrong with an object beyond its schema, by what is known without asking anybody. Not asked about edits
    /// that leave the spec as it is.
    fn invalid(&self, object: &Value) -> ErrorList {
        let _ = object;
        ErrorList::new()
    }

    /// Refuses the write in a sentence. Without a new object it is a deletion. Asked about all but writes of the
    /// status, so it has to be quick about most.
    async fn review(&self, control_plane: &str, old: &Value, new: Option<&Value>) -> Result<(), String>;
}

/// Who is asked about writes of a kind, if anybody is.
#[derive(Clone, Default)]
pub struct Reviewer(pub(crate) Option<Arc<dyn Review>>);

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "reviewed" } else { "not reviewed" })
    }
}

/// The definitions of one source, such as `aws`.
pub(crate) struct Catalog {
    name: String,
    pub(crate) rows: ByResource,
    pub(crate) hash: [u8; 32],
}

/// What is offered now, by all sources.
#[derive(Default)]
pub(crate) struct Offered {
    pub(crate) catalogs: Vec<Arc<Catalog>>,
    /// Another one for every change: surfaces made before it are outdated.
    pub(crate) generation: u64,
}

#[derive(Default)]
pub struct Catalogs(ArcSwap<Offered>);

impl Catalogs {
    /// Offers these definitions in the place of all that the source offered before.
    pub fn offer(&self, source: &str, offers: Vec<Offer>) {
        self.set(source, offers, &Reviewer::default());
    }

    /// The same, of a source that has a say in writes of its kinds.
    pub fn offer_reviewed(&self, source: &str, offers: Vec<Offer>, review: Arc<dyn Review>) {
        self.set(source, offers, &Reviewer(Some(review)));
    }

    fn set(&self, source: &str, offers: Vec<Offer>, reviewer: &Reviewer) {
        let mut hash = Sha256::new();
        let mut rows = ByResource::default();
        for mut offer in offers {
            schemas::crd::default(&mut offer.definition);
            hash.update(offer.definition.get("spec").map(Value::to_string).unwrap_or_default());
            hash.update(offer.fingerprint);
            let schema = |version: &str| {
                let (make, version_name) = (offer.schema.clone(), version.to_owned());
                let mut of_version = Sha256::new();
                of_version.update(offer.fingerprint);
                of_version.update(version);
                CustomSchema::made(&of_version.finalize().into(), Box::new(move || make(&version_name)))
            };
            rows.extend(definition_rows(&offer.definition, reviewer, schema));
        }
        let catalog = Arc::new(Catalog { name: source.to_owned(), rows, hash: hash.finalize().into() });
        self.0.rcu(|now| {
            let mut catalogs: Vec<_> = now.catalogs.iter().filter(|c| c.name != source).cloned().collect();
            catalogs.push(catalog.clone());
            Offered { catalogs, generation: now.generation + 1 }
        });
    }

    pub(crate) fn offered(&self) -> Arc<Offered> {
        self.0.load_full()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::fixture::Fixture;

    const BUCKETS: &str = "/apis/s3.example.com/v1/namespaces/default/buckets";

    fn definition(schema: Option<Value>) -> Value {
        let mut version =
            json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}});
        if let Some(schema) = schema {
            version["schema"] = json!({"openAPIV3Schema": schema});
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "buckets.s3.example.com"},
            "spec": {
                "group": "s3.example.com",
                "scope": "Namespaced",
                "names": {"plural": "buckets", "kind": "Bucket"},
                "versions": [version],
            },
        })
    }

    fn schema(field: &str) -> Value {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
        json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}})
    }

    fn offers(made: Arc<AtomicUsize>) -> Vec<Offer> {
        let make = move |_: &str| {
            made.fetch_add(1, Ordering::Relaxed);
            schema("name")
        };
        vec![Offer { definition: definition(None), schema: Arc::new(make), fingerprint: [1; 32] }]
    }

    #[tokio::test]
    async fn what_is_offered_is_served_everywhere_until_it_is_not() {
        let fixture = Fixture::new().await;
        let body =
            r#"{"apiVersion":"s3.example.com/v1","kind":"Bucket","metadata":{"name":"b"},"spec":{"name":1}}"#;
        assert_eq!(fixture.ask("a", "POST", BUCKETS, body).await.0, 404);

        let made = Arc::new(AtomicUsize::new(0));
        fixture.engine.planes.catalogs.offer("test", offers(made.clone()));
        assert_eq!(fixture.ask("a", "GET", BUCKETS, "").await.0, 200);
        let (_, groups) = fixture.ask("a", "GET", "/apis/s3.example.com/v1", "").await;
        assert!(groups.contains("buckets/status"), "{groups}");
        assert_eq!(made.load(Ordering::Relaxed), 0, "a schema was made before any object");

        assert_eq!(fixture.ask("a", "POST", BUCKETS, body).await.0, 422);
        let good = body.replace(":1}", r#":"x","surplus":2}"#);
        let (code, answer) = fixture.ask("a", "POST", BUCKETS, &good).await;
        assert_eq!(code, 201, "{answer}");
        assert!(!answer.contains("surplus"), "not pruned: {answer}");
        assert_eq!(made.load(Ordering::Relaxed), 1);
        let (_, document) = fixture.ask("host", "GET", "/openapi/v3/apis/s3.example.com/v1", "").await;
        assert!(document.contains("com.example.s3.v1.Bucket"), "{document}");

        fixture.engine.planes.catalogs.offer("test", Vec::new());
        assert_eq!(fixture.ask("a", "GET", BUCKETS, "").await.0, 404);
    }

    /// Specs stay as they are, and so do objects.
    struct Strict;

    #[async_trait]
    impl Review for Strict {
        async fn review(&self, control_plane: &str, old: &Value, new: Option<&Value>) -> Result<(), String> {
            assert_eq!(control_plane, "a");
            match new {
                Some(new) if old["spec"] == new["spec"] => Ok(()),
                Some(_) => Err("it is to stay as it is".into()),
                None => Err("it is to stay".into()),
            }
        }
    }

    #[tokio::test]
    async fn a_source_has_a_say_in_writes() {
        let fixture = Fixture::new().await;
        fixture.engine.planes.catalogs.offer_reviewed("test", offers(Arc::default()), Arc::new(Strict));
        let body = r#"{"apiVersion":"s3.example.com/v1","kind":"Bucket","metadata":{"name":"b"},"spec":{"name":"x"}}"#;
        assert_eq!(fixture.ask("a", "POST", BUCKETS, body).await.0, 201);
        let path = format!("{BUCKETS}/b");
        let (code, answer) = fixture.ask("a", "PUT", &path, &body.replace("\"x\"", "\"y\"")).await;
        assert_eq!(code, 403, "{answer}");
        let says = r#"buckets.s3.example.com \"b\" is forbidden: it is to stay as it is"#;
        assert!(answer.contains(says), "{answer}");
        let labelled = body.replace(r#""name":"b""#, r#""name":"b","labels":{"a":"b"}"#);
        assert_eq!(fixture.ask("a", "PUT", &path, &labelled).await.0, 200);
        for what in [path.as_str(), BUCKETS] {
            let (code, answer) = fixture.ask("a", "DELETE", what, "").await;
            assert!(code == 403 && answer.contains("it is to stay"), "{answer}");
        }
        assert_eq!(fixture.ask("a", "GET", &path, "").await.0, 200);
    }

    #[tokio::test]
    async fn a_definition_of_its_own_goes_before_the_offered_one() {
        let fixture = Fixture::new().await;
        fixture.engine.planes.catalogs.offer("test", offers(Arc::default()));
        let own = definition(Some(schema("title"))).to_string();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(fixture.ask("a", "POST", path, &own).await.0, 201);
        let body = r#"{"apiVersion":"s3.example.com/v1","kind":"Bucket","metadata":{"name":"b"},
            "spec":{"name":"x","title":"y"}}"#;
        for (plane, kept) in [("a", "title"), ("host", "name")] {
            let (code, answer) = fixture.ask(plane, "POST", BUCKETS, body).await;
            assert_eq!(code, 201, "{answer}");
            let object: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(object["spec"].as_object().unwrap().keys().collect::<Vec<_>>(), [kept]);
        }
    }
}
