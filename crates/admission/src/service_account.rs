//! ServiceAccount: every pod runs as somebody, and finds a token to prove it.

use objects::names;
use serde_json::{Value, json};

use crate::Refusal;
use crate::pod::{self, has, list, list_mut, set_spec, spec_text, text};

const DEFAULT: &str = "default";
const TOKEN_MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME_PREFIX: &str = "kube-api-access-";
const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
/// An hour and seven seconds: recognizable to the server as a token that nobody asked for, which it
/// then lets live longer than it says.
const TOKEN_SECONDS: i64 = 60 * 60 + 7;

/// The name of the service account that must be looked up for a new pod; none for mirror pods.
pub fn needed_by(pod: &Value) -> Option<&str> {
    if pod::is_mirror(pod) {
        return None;
    }
    // The second is the name of old for the first; objects carry both.
    let names = [spec_text(pod, "serviceAccountName"), spec_text(pod, "serviceAccount"), DEFAULT];
    names.into_iter().find(|name| !name.is_empty())
}

/// Completes a new pod: the name of its service account, a volume with a token in every container that
/// wants one, and the secrets images are pulled with. `random` names the volume.
pub fn admit_pod(
    pod: &mut Value,
    namespace: &str,
    service_account: Option<&Value>,
    random: [u8; 5],
) -> Result<(), Refusal> {
    let Some(name) = needed_by(pod).map(str::to_owned) else { return check_mirror(pod) };
    let Some(account) = service_account else {
        return Err(Refusal::new(format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        )));
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        set_spec(pod, field, json!(name));
    }
    if wants_token(pod, account) {
        mount_token(pod, random);
    }
    if list(pod, "imagePullSecrets").is_empty() {
        let secrets = account.get("imagePullSecrets").and_then(Value::as_array).into_iter().flatten();
        let secrets: Vec<Value> = secrets.map(|secret| json!({"name": text(secret, "name")})).collect();
        if !secrets.is_empty() {
            set_spec(pod, "imagePullSecrets", Value::Array(secrets));
        }
    }
    if enforces_mountable(account) { check_secrets(pod, account) } else { Ok(()) }
}

/// For `pods/ephemeralcontainers`: the containers added later are bound by the same rule.
pub fn check_ephemeral_containers(pod: &Value, service_account: &Value) -> Result<(), Refusal> {
    if !enforces_mountable(service_account) {
        return Ok(());
    }
    check_containers(list(pod, "ephemeralContainers"), "ephemeral container", service_account)
}

/// The pod's wish wins over the account's, and without either the answer is yes.
fn wants_token(pod: &Value, account: &Value) -> bool {
    let of_pod = pod.pointer("/spec/automountServiceAccountToken").and_then(Value::as_bool);
    let of_account = account.get("automountServiceAccountToken").and_then(Value::as_bool);
    of_pod.or(of_account).unwrap_or(true)
}

fn mount_token(pod: &mut Value, random: [u8; 5]) {
    let existing = list(pod, "volumes").iter().map(|volume| text(volume, "name"));
    let existing = existing.into_iter().find(|name| name.starts_with(TOKEN_VOLUME_PREFIX)).map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| names::generated(TOKEN_VOLUME_PREFIX, random));
    let mut needed = false;
    for field in ["initContainers", "containers"] {
        if list(pod, field).is_empty() {
            continue;
        }
        for container in list_mut(pod, field).into_iter().flatten().filter_map(Value::as_object_mut) {
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            if mounts.is_null() {
                *mounts = json!([]);
            }
            let Some(mounts) = mounts.as_array_mut() else { continue };
            // Whoever mounts something there does not want the token.
            if mounts.iter().any(|mount| text(mount, "mountPath") == TOKEN_MOUNT_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_MOUNT_PATH}));
            needed = true;
        }
    }
    if needed
        && existing.is_none()
        && let Some(volumes) = list_mut(pod, "volumes")
    {
        volumes.push(token_volume(&name));
    }
}

fn token_volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{
                    "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }]}},
            ],
        },
    })
}

/// The kubelet's copy of a static pod is nobody and may know no secrets.
fn check_mirror(pod: &Value) -> Result<(), Refusal> {
    if ["serviceAccountName", "serviceAccount"].iter().any(|field| !spec_text(pod, field).is_empty()) {
        return Err(Refusal::new("a mirror pod may not reference service accounts"));
    }
    let volumes = list(pod, "volumes");
    let sources =
        volumes.iter().filter_map(|volume| volume.pointer("/projected/sources")?.as_array()).flatten();
    let sources: Vec<&Value> = sources.collect();
    let in_volumes = volumes.iter().any(|volume| has(volume, "secret") || has_secret_reference(volume))
        || sources.iter().any(|source| has(source, "secret"));
    let in_containers = ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .flat_map(|field| list(pod, field))
        .any(|container| secrets_of(container).next().is_some());
    if in_volumes || in_containers || !list(pod, "imagePullSecrets").is_empty() {
        return Err(Refusal::new("a mirror pod may not reference secrets"));
    }
    if sources.iter().any(|source| has(source, "serviceAccountToken")) {
        return Err(Refusal::new("a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

/// Volumes of the older kinds name a secret inside their own settings.
fn has_secret_reference(volume: &Value) -> bool {
    const FIELDS: [&str; 6] = [
        "secretRef",
        "secretName",
        "nodePublishSecretRef",
        "nodeStageSecretRef",
        "controllerExpandSecretRef",
        "nodeExpandSecretRef",
    ];
    let settings = volume.as_object().into_iter().flatten().filter(|(kind, _)| *kind != "secret");
    settings.into_iter().any(|(_, settings)| FIELDS.iter().any(|field| has(settings, field)))
}

/// Where a container reads secrets: (how to say it, the secret).
fn secrets_of(container: &Value) -> impl Iterator<Item = (String, &str)> {
    let items =
        |field: &str| container.get(field).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let variables = items("env").iter().filter_map(|variable| {
        let reference = variable.pointer("/valueFrom/secretKeyRef")?;
        Some((format!("envVar {}", text(variable, "name")), text(reference, "name")))
    });
    let whole = items("envFrom").iter().filter_map(|source| {
        Some(("envFrom".to_owned(), text(source.get("secretRef").filter(|value| !value.is_null())?, "name")))
    });
    variables.chain(whole)
}

fn enforces_mountable(account: &Value) -> bool {
    let value = objects::meta::annotation(account, ENFORCE_MOUNTABLE);
    matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// Only secrets that the account lists may be used.
fn check_secrets(pod: &Value, account: &Value) -> Result<(), Refusal> {
    let owner = objects::meta::name(account);
    for volume in list(pod, "volumes") {
        let secret = volume.pointer("/secret/secretName").and_then(Value::as_str);
        if let Some(secret) = secret.filter(|secret| !lists(account, "secrets", secret)) {
            return Err(Refusal::new(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {owner} does not \
                 reference that secret"
            )));
        }
    }
    check_containers(list(pod, "initContainers"), "init container", account)?;
    check_containers(list(pod, "containers"), "container", account)?;
    for (i, reference) in list(pod, "imagePullSecrets").iter().enumerate() {
        let secret = text(reference, "name");
        if !lists(account, "imagePullSecrets", secret) {
            return Err(Refusal::new(format!(
                "imagePullSecrets[{i}].name=\"{secret}\" is not allowed because service account {owner} does not \
                 reference that imagePullSecret"
            )));
        }
    }
    Ok(())
}

fn check_containers(containers: &[Value], called: &str, account: &Value) -> Result<(), Refusal> {
    for container in containers {
        let refused = secrets_of(container).find(|(_, secret)| !lists(account, "secrets", secret));
        if let Some((place, secret)) = refused {
            return Err(Refusal::new(format!(
                "{called} {} with {place} referencing secret.secretName=\"{secret}\" is not allowed because service \
                 account {} does not reference that secret",
                text(container, "name"),
                objects::meta::name(account),
            )));
        }
    }
    Ok(())
}

fn lists(account: &Value, field: &str, secret: &str) -> bool {
    let listed = account.get(field).and_then(Value::as_array).into_iter().flatten();
    listed.into_iter().any(|reference| text(reference, "name") == secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(more: Value) -> Value {
        let mut account = json!({"metadata": {"name": "default"}});
        for (key, value) in more.as_object().unwrap() {
            account[key] = value.clone();
        }
        account
    }

    fn admitted(spec: Value, account: &Value) -> Result<Value, String> {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
        admit_pod(&mut pod, "ns", Some(account), [0; 5]).map_err(|refusal| refusal.message)?;
        Ok(pod["spec"].clone())
    }

    #[test]
    fn a_plain_pod_gets_a_token() {
        let spec = admitted(
            json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}),
            &account(json!({"imagePullSecrets": [{"name": "pull"}]})),
        )
        .unwrap();
        assert_eq!(spec["serviceAccountName"], "default");
        assert_eq!(spec["serviceAccount"], "default");
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
        let mount =
            json!([{"name": "kube-api-access-bbbbb", "readOnly": true, "mountPath": TOKEN_MOUNT_PATH}]);
        assert_eq!(spec["containers"][0]["volumeMounts"], mount);
        assert_eq!(spec["initContainers"][0]["volumeMounts"], mount);
        assert_eq!(spec["volumes"][0]["name"], "kube-api-access-bbbbb");
        assert_eq!(
            spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
            3607
        );
        assert_eq!(spec["volumes"][0]["projected"]["defaultMode"], 420);
    }

    #[test]
    fn who_gets_a_token() {
        fn check(of_pod: Value, of_account: Value, expected: bool) {
            let spec = json!({"containers": [{"name": "a"}], "automountServiceAccountToken": of_pod});
            let spec = admitted(spec, &account(json!({"automountServiceAccountToken": of_account}))).unwrap();
            assert_eq!(spec.get("volumes").is_some(), expected, "{of_pod} {of_account}");
        }
        check(json!(null), json!(null), true);
        check(json!(null), json!(false), false);
        check(json!(true), json!(false), true);
        check(json!(false), json!(true), false);
    }

    #[test]
    fn what_is_there_stays() {
        let spec = admitted(
            json!({
                "serviceAccountName": "robot", "imagePullSecrets": [{"name": "mine"}],
                "containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": TOKEN_MOUNT_PATH}]}],
            }),
            &account(json!({"imagePullSecrets": [{"name": "pull"}]})),
        )
        .unwrap();
        assert_eq!(spec["serviceAccountName"], "robot");
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "mine"}]));
        assert_eq!(spec.get("volumes"), None);
        assert_eq!(spec["containers"][0]["volumeMounts"].as_array().map(Vec::len), Some(1));
        // A volume that an earlier admission made is used again.
        let spec = admitted(
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "kube-api-access-xyz"}]}),
            &account(json!({})),
        )
        .unwrap();
        assert_eq!(spec["volumes"].as_array().map(Vec::len), Some(1));
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-xyz");
    }

    #[test]
    fn the_name_of_old_still_counts() {
        let pod = json!({"spec": {"serviceAccount": "robot"}});
        assert_eq!(needed_by(&pod), Some("robot"));
        let pod = json!({"spec": {"serviceAccount": "robot", "serviceAccountName": "clerk"}});
        assert_eq!(needed_by(&pod), Some("clerk"));
    }

    #[test]
    fn a_missing_account() {
        let mut pod = json!({"spec": {"serviceAccountName": "robot"}});
        let refusal = admit_pod(&mut pod, "ns", None, [0; 5]).unwrap_err();
        let expected = "error looking up service account ns/robot: serviceaccount \"robot\" not found";
        assert_eq!(refusal.message, expected);
    }

    #[test]
    fn mirror_pods() {
        fn check(spec: Value, expected: Option<&str>) {
            let mut pod = json!({"metadata": {"annotations": {pod::MIRROR: "x"}}, "spec": spec});
            let before = pod.clone();
            let got = admit_pod(&mut pod, "ns", None, [0; 5]);
            assert_eq!(got.err().map(|refusal| refusal.message).as_deref(), expected);
            assert_eq!(pod, before);
        }
        check(json!({"containers": [{"name": "a"}]}), None);
        check(json!({"serviceAccountName": "x"}), Some("a mirror pod may not reference service accounts"));
        let secrets = Some("a mirror pod may not reference secrets");
        check(json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), secrets);
        check(json!({"volumes": [{"name": "v", "azureFile": {"secretName": "s"}}]}), secrets);
        check(json!({"containers": [{"name": "a", "envFrom": [{"secretRef": {"name": "s"}}]}]}), secrets);
        check(
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}]}),
            Some("a mirror pod may not use ServiceAccountToken volume projections"),
        );
    }

    #[test]
    fn secrets_the_account_does_not_list() {
        fn check(spec: Value, expected: Result<(), &str>) {
            let mut owner =
                account(json!({"secrets": [{"name": "ok"}], "imagePullSecrets": [{"name": "pull"}]}));
            owner["metadata"]["annotations"] = json!({ENFORCE_MOUNTABLE: "true"});
            assert_eq!(admitted(spec, &owner).map(|_| ()), expected.map_err(str::to_owned));
        }
        let env = |secret: &str| json!([{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": secret}}}]}]);
        check(json!({"containers": env("ok")}), Ok(()));
        check(
            json!({"containers": env("no")}),
            Err(
                "container c with envVar E referencing secret.secretName=\"no\" is not allowed because service account default does not reference that secret",
            ),
        );
        check(
            json!({"volumes": [{"name": "v", "secret": {"secretName": "no"}}]}),
            Err(
                "volume with secret.secretName=\"no\" is not allowed because service account default does not reference that secret",
            ),
        );
        check(
            json!({"imagePullSecrets": [{"name": "no"}]}),
            Err(
                "imagePullSecrets[0].name=\"no\" is not allowed because service account default does not reference that imagePullSecret",
            ),
        );
    }
}
