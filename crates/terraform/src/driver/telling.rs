//! What is written about a resource: into its object, and into its Secret.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::{Api, Patch, PatchParams, PostParams};
use objects::{Value as Json, meta};
use provision::{Failure, Interest, OperationType, Record};
use runtime::Key;
use serde_json::{Map, json};

use super::failures::unwritten;
use super::kept::owner;
use super::wanted::{self, INPUTS, OUTPUT_OF, OUTPUTS, Secrets};
use super::{Configured, Looking};
use crate::dialect::is_blank;
use crate::plugin::State;
use crate::shape;
use crate::value::Value;

/// A provider that was given a time gets a little more before it is given up.
const MARGIN: Duration = Duration::from_secs(30);
const MANAGER: &str = "hangar-terraform-secrets";

/// The id and the visible state.
pub fn record(subject: &Looking<'_>, state: &State) -> Record {
    let before = subject.object.pointer("/spec/state");
    // What lies in a backend lies nowhere else.
    let mut spec = match &subject.connection.remote {
        Some(_) => json!({"state": null}),
        None => {
            let shown = shape::shown(&subject.connection.schema.block, &state.value);
            json!({"state": wanted::merge_patch(before, &shown)})
        }
    };
    if let Some(id) = state.value.field("id").as_str() {
        spec["resource"] = json!({"id": id});
    }
    Record { spec, ..Record::default() }
}

/// The same, with the Secret that was made for the object and holds arguments of its resource.
pub fn record_naming(subject: &Looking<'_>, state: &State, secrets: &Secrets) -> Record {
    let mut record = record(subject, state);
    if let Some(name) = made_with_arguments(subject.object, secrets) {
        record.spec["secretRef"] = json!({"name": name});
    }
    record
}

/// The Secret that an object should name and does not.
pub fn made_with_arguments<'a>(object: &Json, secrets: &'a Secrets) -> Option<&'a str> {
    let named = object.pointer("/spec/secretRef/name").and_then(Json::as_str).unwrap_or_default();
    secrets.name.as_deref().filter(|_| named.is_empty() && secrets.input.is_some())
}

/// What is secret of the arguments of a resource that is being taken over, into the Secret of the object: nobody could
/// have written it there, and without it the resource would lose it.
pub async fn take_over(subject: &Looking<'_>, value: &Value, before: Secrets) -> Result<Secrets, Failure> {
    let own = subject.object.pointer("/spec/resource").filter(|_| !is_blank(subject.object));
    let block = &subject.connection.schema.block;
    let Some(input) = wanted::secret_wishes(block, value, own, before.input.as_ref()) else {
        return Ok(before);
    };
    let name = match subject.client {
        Some(client) => {
            let patch = patch(INPUTS[before.input_word], &input);
            Some(write(client, subject, before.name.as_deref(), patch).await?)
        }
        None => before.name.clone(),
    };
    let output_name = before.output_name.or_else(|| name.clone());
    Ok(Secrets { name, output_name, input: Some(input), ..before })
}

/// What is secret of a state, into the Secret that the object names, or one that is made for it. `moved` says that it may
/// be in another still, which the object named before.
pub async fn secrets(
    subject: &Looking<'_>,
    state: &State,
    before: &Secrets,
    moved: bool,
) -> Result<(), Failure> {
    let connection: &Configured = subject.connection;
    let found = match &connection.remote {
        Some(_) => None,
        None => shape::secrets(&connection.schema.block, &state.value),
    };
    let (Some(client), true) = (subject.client, found != before.output) else { return Ok(()) };
    let Some(found) = found else { return forget_secrets(subject, before).await };
    let mut patch = patch(OUTPUTS[before.output_word], &found);
    if before.output_name.is_some() {
        let claim = wanted::claim(subject.object, &connection.type_name);
        patch["metadata"] = json!({"annotations": {OUTPUT_OF: claim}});
    }
    let name = write(client, subject, before.output_name.as_deref(), patch).await?;
    if moved && before.output.is_none() {
        forget_elsewhere(client, subject, &name).await?;
    }
    subject.reader.note(&Key::new("secrets", meta::namespace(subject.object), name), Interest::Inputs);
    Ok(())
}

/// What the controller wrote for the object into other Secrets than this one goes.
async fn forget_elsewhere(client: &kube::Client, subject: &Looking<'_>, kept: &str) -> Result<(), Failure> {
    let claim = wanted::claim(subject.object, &subject.connection.type_name);
    let made = wanted::made_names(subject.object, &subject.connection.type_name);
    for secret in subject.reader.list("secrets", meta::namespace(subject.object)).await? {
        let name = meta::name(&secret);
        let claimed = meta::annotation(&secret, OUTPUT_OF) == Some(&claim);
        if name != kept
            && (claimed || (made.iter().any(|made| made == name) && is_owned(&secret, subject.object)))
        {
            forget(client, subject, name, &OUTPUTS).await?;
        }
    }
    Ok(())
}

/// One key of a Secret.
fn patch(key: &str, value: &Json) -> Json {
    json!({"data": {key: STANDARD.encode(value.to_string())}})
}

/// Writes to a Secret, or makes one for the object; its name.
async fn write(
    client: &kube::Client,
    subject: &Looking<'_>,
    to: Option<&str>,
    patch: Json,
) -> Result<String, Failure> {
    let api: Api<SecretObject> = Api::namespaced(client.clone(), meta::namespace(subject.object));
    let written = match to {
        Some(name) => api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await,
        None => make(&api, subject, &patch).await?,
    };
    written
        .map(|secret| secret.metadata.name.unwrap_or_default())
        .map_err(|error| unwritten("the secret values cannot be kept", error))
}

/// Made, and never taken from somebody who was quicker. One that was made for the object a moment ago is written to.
async fn make(
    api: &Api<SecretObject>,
    subject: &Looking<'_>,
    patch: &Json,
) -> Result<kube::Result<SecretObject>, Failure> {
    let namespace = meta::namespace(subject.object);
    let [first, second] = wanted::made_names(subject.object, &subject.connection.type_name);
    let create = async |name: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "ownerReferences": [owner(subject.object, true)]},
            "data": patch["data"],
        });
        let secret = serde_json::from_value(secret).map_err(kube::Error::SerdeError)?;
        let parameters = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        api.create(&parameters, &secret).await
    };
    match create(&first).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let there = subject.reader.peek("secrets", namespace, &first).await?;
            match there.is_some_and(|secret| is_owned(&secret, subject.object)) {
                true => Ok(api.patch(&first, &PatchParams::default(), &Patch::Merge(patch)).await),
                false => Ok(create(&second).await),
            }
        }
        made => Ok(made),
    }
}

fn is_owned(secret: &Json, object: &Json) -> bool {
    meta::owner_references(secret).iter().any(|owner| owner["uid"] == meta::uid(object))
}

/// What the controller wrote into a Secret goes; what the user wrote stays.
pub async fn forget_secrets(subject: &Looking<'_>, before: &Secrets) -> Result<(), Failure> {
    let (Some(client), Some(name), Some(_)) = (subject.client, &before.output_name, &before.output) else {
        return Ok(());
    };
    forget(client, subject, name, &[OUTPUTS[before.output_word]]).await
}

async fn forget(
    client: &kube::Client,
    subject: &Looking<'_>,
    name: &str,
    keys: &[&str],
) -> Result<(), Failure> {
    let api: Api<SecretObject> = Api::namespaced(client.clone(), meta::namespace(subject.object));
    let data: Map<String, Json> = keys.iter().map(|key| ((*key).to_owned(), Json::Null)).collect();
    let patch = json!({"metadata": {"annotations": {OUTPUT_OF: null}}, "data": data});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(unwritten("the secret values cannot be removed", error)),
    }
}

/// How long a change may take, by the object's own `timeouts`.
pub fn timeout(object: &Json, purpose: OperationType) -> Option<Duration> {
    let name = match purpose {
        OperationType::Create => "create",
        OperationType::Delete => "delete",
        _ => "update",
    };
    let times = object.pointer("/spec/resource/timeouts")?;
    let nanoseconds = times.get(name).or_else(|| times.get("default"))?.as_u64()?;
    Some(Duration::from_nanos(nanoseconds) + MARGIN)
}

/// The longest that any change may take, with enough beside it for what comes before and after it. `otherwise` is for
/// those that say nothing of it.
pub fn longest(object: &Json, otherwise: Duration) -> Duration {
    let times = object.pointer("/spec/resource/timeouts").and_then(Json::as_object);
    let longest = times.into_iter().flatten().filter_map(|(_, time)| time.as_u64()).max();
    longest.map_or(otherwise, Duration::from_nanos).max(otherwise) + 10 * MARGIN
}

/// A value for people to look at.
pub fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Unknown(_) => json!(provision::plan::LATER),
        Value::Bool(bool) => json!(bool),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| json!(number.nearest_f64()), |small| json!(small))
        }
        Value::String(text) => json!(text),
        Value::Sequence(elements) => elements.iter().map(json).collect(),
        Value::Fields(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), json(value))).collect())
        }
        Value::Typed(typed) => json(&typed.1),
    }
}
