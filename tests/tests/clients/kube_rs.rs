//! kube-rs: an operator with kube's controller runtime, and its caches.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    ValidationDirective,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Error, Event, finalizer};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde_json::json;

use super::tenant::Tenant;

const PATIENCE: Duration = Duration::from_secs(60);

/// With the kubeconfig, as a program on a person's machine is.
async fn client(tenant: &Tenant) -> Client {
    // Another crate of the build may bring a second provider; whoever is first decides.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(&tenant.plane.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn widgets() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("clients.example.com", "v1", "Widget"))
}

async fn define_widgets(client: &Client) {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.clients.example.com"},
        "spec": {
            "group": "clients.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"text": {"type": "string"}}},
                    "status": {"type": "object", "properties": {"written": {"type": "string"}}},
                }}},
            }],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let established =
        await_condition(definitions, "widgets.clients.example.com", conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established).await.expect("the definition is established").unwrap();
}

fn widget(name: &str, text: &str) -> DynamicObject {
    DynamicObject::new(name, &widgets()).data(json!({"spec": {"text": text}}))
}

async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let waiting = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// What the operator knows and counts.
struct Operator {
    client: Client,
    cleaned: AtomicUsize,
}

/// Writes a config map for every widget, and takes it away with it.
async fn reconcile(
    widget: Arc<DynamicObject>,
    operator: Arc<Operator>,
) -> Result<Action, Error<kube::Error>> {
    let namespace = widget.namespace().unwrap_or_default();
    let widgets: Api<DynamicObject> = Api::namespaced_with(operator.client.clone(), &namespace, &widgets());
    let texts: Api<ConfigMap> = Api::namespaced(operator.client.clone(), &namespace);
    let handle = |event| async {
        match event {
            Event::Apply(widget) => write(&widget, &widgets, &texts).await,
            Event::Cleanup(widget) => {
                texts.delete(&widget.name_any(), &DeleteParams::default()).await?;
                operator.cleaned.fetch_add(1, Ordering::Relaxed);
                Ok(Action::await_change())
            }
        }
    };
    finalizer(&widgets, "clients.example.com/text", widget, handle).await
}

async fn write(
    widget: &DynamicObject,
    widgets: &Api<DynamicObject>,
    texts: &Api<ConfigMap>,
) -> Result<Action, kube::Error> {
    let name = widget.name_any();
    let text = widget.data["spec"]["text"].as_str().unwrap_or_default();
    let owner = widget.controller_owner_ref(&super::kube_rs::widgets());
    let apply = PatchParams::apply("texts").force();
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]}, "data": {"text": text},
    });
    texts.patch(&name, &apply, &Patch::Apply(config_map)).await?;
    let status =
        json!({"apiVersion": "clients.example.com/v1", "kind": "Widget", "status": {"written": text}});
    widgets.patch_status(&name, &apply, &Patch::Apply(status)).await?;
    Ok(Action::await_change())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_with_a_finalizer() {
    let tenant = Tenant::start();
    let client = client(&tenant).await;
    define_widgets(&client).await;
    let widgets_api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &widgets());
    let texts: Api<ConfigMap> = Api::default_namespaced(client.clone());
    // One is there before the controller is.
    widgets_api.create(&PostParams::default(), &widget("early", "e")).await.unwrap();

    let operator = Arc::new(Operator { client: client.clone(), cleaned: AtomicUsize::new(0) });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new_with(
        Api::all_with(client.clone(), &widgets()),
        watcher::Config::default(),
        widgets(),
    )
    .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
    .graceful_shutdown_on(async { drop(stopped.await) })
    .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), operator.clone());
    let controller = tokio::spawn(controller.for_each(|_| async {}));

    let text_of = |name: &'static str| {
        let texts = texts.clone();
        async move { texts.get_opt(name).await.unwrap()?.data?.get("text").cloned() }
    };
    let status_of = |name: &'static str| {
        let widgets_api = widgets_api.clone();
        async move { widgets_api.get(name).await.unwrap().data["status"]["written"].as_str().map(str::to_owned) }
    };
    assert_eq!(eventually("the status of the early one", || status_of("early")).await, "e");
    assert_eq!(eventually("its config map", || text_of("early")).await, "e");

    let names: BTreeSet<String> = (0..20).map(|i| format!("w{i:02}")).collect();
    for name in &names {
        widgets_api.create(&PostParams::default(), &widget(name, name)).await.unwrap();
    }
    eventually("twenty more", || async {
        let found = texts.list(&ListParams::default()).await.unwrap();
        let found: BTreeSet<String> = found.iter().map(ResourceExt::name_any).collect();
        names.is_subset(&found).then_some(())
    })
    .await;

    // A change of the widget, and one of what it owns: both are put right.
    let patch = Patch::Merge(json!({"spec": {"text": "new"}}));
    widgets_api.patch("early", &PatchParams::default(), &patch).await.unwrap();
    eventually("the change", || async { (text_of("early").await? == "new").then_some(()) }).await;
    texts.delete("early", &DeleteParams::default()).await.unwrap();
    eventually("the lost one", || async { (text_of("early").await? == "new").then_some(()) }).await;

    widgets_api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    eventually("all are gone", || async {
        widgets_api.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())
    })
    .await;
    eventually("their config maps too", || async { text_of("early").await.is_none().then_some(()) }).await;
    assert_eq!(operator.cleaned.load(Ordering::Relaxed), 21, "each is cleaned up once");
    stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, controller).await.expect("the controller stops").unwrap();
}

/// A cache is equal to what is listed after writes, whichever way it was first filled.
async fn check_reflector(config: watcher::Config) {
    let tenant = Tenant::start();
    let client = client(&tenant).await;
    let texts: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let text = |name: &str, value: &str| -> ConfigMap {
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": {"kept": "yes"}}, "data": {"v": value}}),
        )
        .unwrap()
    };
    for i in 0..30 {
        texts.create(&PostParams::default(), &text(&format!("t{i}"), "1")).await.unwrap();
    }
    let (cache, writer) = reflector::store();
    let watching = watcher(texts.clone(), config.labels("kept=yes")).default_backoff();
    let reflecting = tokio::spawn(async move {
        let mut events = pin!(watching.reflect(writer).touched_objects());
        while events.try_next().await.unwrap().is_some() {}
    });
    tokio::time::timeout(PATIENCE, cache.wait_until_ready()).await.expect("the cache is filled").unwrap();
    assert_eq!(cache.len(), 30);

    for i in 0..10 {
        texts.delete(&format!("t{i}"), &DeleteParams::default()).await.unwrap();
        let changed = Patch::Merge(json!({"data": {"v": "2"}}));
        texts.patch(&format!("t{}", 10 + i), &PatchParams::default(), &changed).await.unwrap();
    }
    let last = texts.create(&PostParams::default(), &text("last", "1")).await.unwrap();
    eventually("the last write", || async { cache.get(&ObjectRef::from_obj(&last)) }).await;
    let versions = |objects: Vec<ConfigMap>| -> BTreeSet<(String, Option<String>)> {
        objects.iter().map(|object| (object.name_any(), object.resource_version())).collect()
    };
    let listed = texts.list(&ListParams::default().labels("kept=yes")).await.unwrap();
    let cached = cache.state().iter().map(|object| ConfigMap::clone(object)).collect();
    assert_eq!(versions(cached), versions(listed.items));
    reflecting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reflector_that_lists() {
    check_reflector(watcher::Config::default().page_size(7)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reflector_that_streams() {
    check_reflector(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_apart() {
    let tenant = Tenant::start();
    let client = client(&tenant).await;
    let texts: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let made = texts.create(&PostParams::default(), &object).await.unwrap();
    let code = |result: Result<ConfigMap, kube::Error>| match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(texts.create(&PostParams::default(), &object).await), (409, "AlreadyExists".to_owned()));
    assert_eq!(code(texts.get("b").await), (404, "NotFound".to_owned()));
    texts
        .replace("a", &PostParams::default(), &{
            let mut changed = made.clone();
            changed.data = Some([("a".to_owned(), "b".to_owned())].into());
            changed
        })
        .await
        .unwrap();
    assert_eq!(code(texts.replace("a", &PostParams::default(), &made).await), (409, "Conflict".to_owned()));
    let strict =
        PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::default() };
    let unknown = Patch::Merge(json!({"no-such-field": 1}));
    assert_eq!(code(texts.patch("a", &strict, &unknown).await), (422, "Invalid".to_owned()));
}
