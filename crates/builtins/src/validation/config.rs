//! Namespaces, config maps, secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::field::Error;
use objects::{ErrorList, Path, Value, meta, names};

use super::{Place, checked};
use crate::behaviour::same;
use crate::dotted::Dotted;

/// What a config map or secret may hold in all: it must fit into one object.
const MAX_DATA: usize = 1024 * 1024;

pub(crate) fn namespace(namespace: &Value) -> ErrorList {
    checked(namespace, |namespace| {
        for finalizer in namespace.items("spec.finalizers") {
            let name = finalizer.text("");
            let list = finalizer.called(namespace.path_to("spec.finalizers"));
            let wrong = names::qualified_name(name);
            if wrong.is_empty() && !name.contains('/') && name != "kubernetes" {
                list.invalid("", "name is neither a standard finalizer name nor is it fully qualified");
            }
            wrong.into_iter().for_each(|sentence| list.invalid("", sentence));
        }
    })
}

pub(crate) fn namespace_status_update(new: &Value, _: &Value) -> ErrorList {
    checked(new, |namespace| {
        let phase = namespace.text("status.phase");
        let path = Path::new("status.Phase");
        match (meta::is_deleting(namespace), phase) {
            (false, "Active") | (true, "Terminating") => {}
            (false, _) => namespace.report(Error::invalid(
                &path,
                phase,
                "may only be 'Active' if `deletionTimestamp` is empty",
            )),
            (true, _) => {
                namespace.report(Error::invalid(
                    &path,
                    phase,
                    "may only be 'Terminating' if `deletionTimestamp` is not empty",
                ));
            }
        }
    })
}

pub(crate) fn config_map(config: &Value) -> ErrorList {
    checked(config, |config| {
        let mut size = 0;
        for (key, value) in config.keyed("data") {
            key_name(&value, key);
            if config.value.at("binaryData").get(key).is_some() {
                value.invalid_as("", key, "duplicate of key present in binaryData");
            }
            size += value.text("").len();
        }
        for (key, value) in config.keyed("binaryData") {
            key_name(&value, key);
            size += decoded(value.value).map_or(0, |bytes| bytes.len());
        }
        if size > MAX_DATA {
            config.report(Error::too_long(&Path::root().key(""), MAX_DATA));
        }
    })
}

fn key_name(value: &Place<'_>, key: &str) {
    for sentence in names::config_map_key(key) {
        value.invalid_as("", key, sentence);
    }
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

pub(crate) fn config_map_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |config| sealed(config, old, &["data", "binaryData"]))
}

/// What is marked immutable stays as it is, mark included.
fn sealed(new: &Place<'_>, old: &Value, fields: &[&str]) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        new.forbidden("immutable", DETAIL);
    }
    for field in fields.iter().filter(|field| !same(new.value.at(field), old.at(field))) {
        new.forbidden(field, DETAIL);
    }
}

pub(crate) fn secret(secret: &Value) -> ErrorList {
    checked(secret, |secret| {
        let mut size = 0;
        for (key, value) in secret.keyed("data") {
            key_name(&value, key);
            match decoded(value.value) {
                Some(bytes) => size += bytes.len(),
                None => value.invalid_as("", "<secret contents redacted>", "must be base64 encoded"),
            }
        }
        if size > MAX_DATA {
            secret.report(Error::too_long(&secret.path_to("data"), MAX_DATA));
        }
        needed_keys(secret);
    })
}

/// What secrets of the well-known types cannot do without.
fn needed_keys(secret: &Place<'_>) {
    let data = secret.value.at("data");
    let need = |key: &str| {
        if data.get(key).is_none() {
            secret.report(Error::required(&secret.path_to("data").key(key), ""));
        }
    };
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if meta::annotation(secret, key).is_none_or(str::is_empty) {
                secret.report(Error::required(&secret.path_to("metadata.annotations").key(key), ""));
            }
        }
        "kubernetes.io/dockercfg" => {
            need(".dockercfg");
            json_object(secret, ".dockercfg");
        }
        "kubernetes.io/dockerconfigjson" => {
            need(".dockerconfigjson");
            json_object(secret, ".dockerconfigjson");
        }
        "kubernetes.io/basic-auth" if data.get("username").is_none() && data.get("password").is_none() => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").and_then(Value::as_str) == Some("") => {
            secret.report(Error::required(&secret.path_to("data").key("ssh-privatekey"), ""));
        }
        "kubernetes.io/ssh-auth" => need("ssh-privatekey"),
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        _ => {}
    }
}

fn json_object(secret: &Place<'_>, key: &str) {
    let Some(bytes) = secret.value.at("data").get(key).and_then(decoded) else { return };
    let detail = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_)) => return,
        Ok(_) => "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
        Err(_) if bytes.is_empty() => "unexpected end of JSON input".to_owned(),
        Err(error) => error.to_string(),
    };
    let path = secret.path_to("data").key(key);
    secret.report(Error::invalid(&path, "<secret contents redacted>", detail));
}

pub(crate) fn secret_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |secret| {
        secret.immutable(old, &["type"]);
        sealed(secret, old, &["data"]);
    })
}
