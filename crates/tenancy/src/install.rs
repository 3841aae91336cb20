//! What the hosting control plane needs before anybody can create a `ControlPlane`.

use objects::{Value, meta};
use runtime::Error;
use serde_json::json;

use crate::api::{self, Place};
use crate::host::Settings;
use crate::names;

const CONTROL_PLANES: &str = include_str!("definitions/controlplanes.yaml");
const HOOKS: &str = include_str!("definitions/postcreatehooks.yaml");
/// How often a hook is tried again that changes under us.
const TRIES: usize = 10;
const BUILT_IN_HOOKS: [&str; 1] = [include_str!("definitions/hooks/openshift-crds.yaml")];

fn read(text: &str) -> Value {
    // Our own data, read by a test: it cannot fail here without failing there.
    wire::yaml::decode(text.as_bytes()).map(|decoded| decoded.value).unwrap_or_default()
}

/// The two custom resource definitions.
pub fn definitions() -> Vec<Value> {
    [CONTROL_PLANES, HOOKS].map(read).to_vec()
}

/// Hooks that are there from the beginning. What users change in them stays theirs until the next start.
pub fn built_in_hooks() -> Vec<Value> {
    BUILT_IN_HOOKS.map(read).to_vec()
}

/// `kubeflex-config`.
pub fn configuration(settings: &Settings) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": names::SYSTEM_CONFIG, "namespace": names::SYSTEM_NAMESPACE},
        "data": {
            "domain": settings.domain,
            "externalPort": settings.external_port.to_string(),
            "hostContainer": settings.host_container,
            "isOpenShift": settings.is_openshift.to_string(),
        },
    })
}

/// Applies everything; any number of times.
pub async fn install(client: &kube::Client, settings: &Settings) -> Result<(), Error> {
    for definition in definitions() {
        let place =
            Place::new("apiextensions.k8s.io/v1", "customresourcedefinitions", "", meta::name(&definition));
        api::apply(client, &place, &definition, names::MANAGER, true).await?;
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names::SYSTEM_NAMESPACE}});
    let place = Place::new("v1", "namespaces", "", names::SYSTEM_NAMESPACE);
    api::apply(client, &place, &namespace, names::MANAGER, true).await?;
    let config = configuration(settings);
    let place = Place::new("v1", "configmaps", names::SYSTEM_NAMESPACE, names::SYSTEM_CONFIG);
    api::apply(client, &place, &config, names::MANAGER, true).await?;
    for hook in built_in_hooks() {
        let mut written = write_hook(client, &hook).await;
        for _ in 1..TRIES {
            // Another replica writes the same, or the operator its status.
            if !written.as_ref().is_err_and(|error| error.code() == Some(409)) {
                break;
            }
            written = write_hook(client, &hook).await;
        }
        written?;
    }
    Ok(())
}

/// Writes a hook as a whole, so that nothing that somebody else wrote into it is left in what is applied as its author.
async fn write_hook(client: &kube::Client, hook: &Value) -> Result<(), Error> {
    let place = Place::new(names::API_VERSION, "postcreatehooks", "", meta::name(hook));
    let Some(live) = api::get(client, &place).await? else {
        return api::create(client, &place, hook).await.map(drop);
    };
    let mut wanted = live;
    wanted["spec"] = hook["spec"].clone();
    meta::set(&mut wanted, "labels", hook["metadata"]["labels"].clone());
    api::replace(client, &place, &wanted).await.map(drop)
}
