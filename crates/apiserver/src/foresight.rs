//! What a write that is only tried out would lead to beyond this server. Told as warnings, which every client shows.

use std::sync::Arc;

use async_trait::async_trait;
use objects::Value;
use parking_lot::RwLock;

use crate::call::Call;

/// Told to the engine by what is built on top of this crate, for kinds that stand for something elsewhere.
#[async_trait]
pub trait Foresight: Send + Sync {
    /// What would be done about an object as it would be stored, in lines; none for kinds that it does not know.
    /// The client waits for it: it must come to an end soon, whatever it asks.
    async fn foresee(&self, control_plane: &str, object: &Value) -> Vec<String>;
}

#[derive(Default)]
pub(crate) struct Foresights(RwLock<Vec<Arc<dyn Foresight>>>);

impl Foresights {
    pub fn add(&self, foresight: Arc<dyn Foresight>) {
        self.0.write().push(foresight);
    }
}

/// Tells a client that tries out a write what would come of it.
pub(crate) async fn tell(call: &Call, object: &Value) {
    if !call.row.is_custom() {
        return;
    }
    let all = call.engine.foresights.0.read().clone();
    for foresight in all {
        let lines = foresight.foresee(&call.plane.name, object).await;
        lines.into_iter().for_each(|line| call.warn(line));
    }
}

#[cfg(test)]
mod tests {
    use objects::meta;

    use super::*;
    use crate::fixture::Fixture;

    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    const WIDGET: &str = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","finalizers":["example.com/f"]},"spec":{"a":"…"}}"#;

    struct Echo;

    #[async_trait]
    impl Foresight for Echo {
        async fn foresee(&self, control_plane: &str, object: &Value) -> Vec<String> {
            vec![format!(
                "{control_plane} {} {} {}",
                meta::name(object),
                object["spec"]["a"],
                meta::is_deleting(object)
            )]
        }
    }

    async fn define(fixture: &Fixture) {
        let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
            "metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
            "names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
            "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
            "properties":{"a":{"type":"string"}}}}}}}]}}"#;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(fixture.ask("a", "POST", path, definition).await.0, 201);
    }

    async fn warnings(fixture: &Fixture, method: &str, path: &str, body: &str) -> Vec<String> {
        let request = http::Request::builder().method(method).uri(path);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = request.header("content-type", kind);
        let answer = fixture.send(crate::fixture::administrator("a"), request, body.to_owned()).await;
        assert!(answer.status().is_success(), "{}", answer.status());
        let all = answer.headers().get_all(http::header::WARNING).iter();
        all.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
    }

    #[tokio::test]
    async fn only_what_is_tried_out_is_foreseen() {
        let fixture = Fixture::new().await;
        fixture.engine.foresee_with(Arc::new(Echo));
        define(&fixture).await;
        let tried = |path: &str| format!("{path}?dryRun=All");
        let made = warnings(&fixture, "POST", &tried(WIDGETS), WIDGET).await;
        assert_eq!(made, [r#"299 - "a w \"…\" false""#]);
        assert!(warnings(&fixture, "POST", WIDGETS, WIDGET).await.is_empty());
        let one = format!("{WIDGETS}/w");
        let changed = r#"{"spec":{"a":"b"}}"#;
        assert_eq!(warnings(&fixture, "PATCH", &tried(&one), changed).await, [r#"299 - "a w \"b\" false""#]);
        assert_eq!(warnings(&fixture, "PATCH", &tried(&one), "{}").await, [r#"299 - "a w \"…\" false""#]);
        assert_eq!(warnings(&fixture, "DELETE", &tried(&one), "").await, [r#"299 - "a w \"…\" true""#]);
        assert!(warnings(&fixture, "DELETE", &one, "").await.is_empty());
        // Kinds of the server's own lead nowhere else.
        let built_in = tried("/api/v1/namespaces/default/configmaps");
        assert!(warnings(&fixture, "POST", &built_in, r#"{"metadata": {"name": "x"}}"#).await.is_empty());
    }
}
