//! What a user wants of a resource: the object's fields, and what its Secret adds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value as Json, meta};
use provision::{Failure, Reader};
use serde_json::{Map, json};

use super::failures;
use crate::change;
use crate::definition::GENERIC_KIND;
use crate::schema::{Block, Member, Nesting, Shape};
use crate::shape::{self, Draft, FieldError};
use crate::value::Value;

/// Where a user puts what is secret, in the words of both generations of Kubeform; and where the controller does.
pub const INPUTS: [&str; 2] = ["resource", "input"];
pub const OUTPUTS: [&str; 2] = ["state", "output"];

/// On a Secret that several objects may name: whose secrets the controller keeps in it.
pub const OUTPUT_OF: &str = "terraform.hangar.dev/output-of";

/// How an object is named there. One of the kind of all types may get another type.
pub fn claim(object: &Json, type_name: &str) -> String {
    let kind = if meta::kind(object) == GENERIC_KIND { GENERIC_KIND } else { type_name };
    format!("{kind}/{}", meta::name(object))
}

/// What the Secret of an object says.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// Where the controller puts what is secret: the same Secret, unless that has what is another object's.
    pub output_name: Option<String>,
    /// None if the object names none and none was made for it.
    pub name: Option<String>,
    pub input: Option<Json>,
    pub output: Option<Json>,
    /// What is secret of what is wanted, wherever it comes from.
    pub wanted: Option<Json>,
    /// Of the names of both generations: those that are used for what a user says, and for what the controller does.
    pub input_word: usize,
    pub output_word: usize,
}

/// Which of the names of both generations a Secret has, if any.
fn word(secret: &Json, names: [&str; 2]) -> Option<usize> {
    let has = |name: &&str| secret.pointer(&format!("/data/{name}")).is_some();
    names.iter().position(has)
}

/// A JSON value of a Secret's key.
pub fn key(secret: &Json, key: &str) -> Result<Option<Json>, Failure> {
    let Some(text) = secret.get("data").and_then(|data| data.get(key)).and_then(Json::as_str) else {
        return Ok(None);
    };
    let wrong = || {
        let (namespace, name) = (meta::namespace(secret), meta::name(secret));
        Failure::terminal(format!("key {key:?} of Secret {namespace}/{name} is not a JSON object"))
    };
    let bytes = STANDARD.decode(text).map_err(|_| wrong())?;
    let json: Json = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    if json.is_object() { Ok(Some(json)) } else { Err(wrong()) }
}

/// The names of the Secret that is made when an object has secrets and names none: Kubeform's, and one for where that
/// is an object's of another kind.
pub fn made_names(object: &Json, type_name: &str) -> [String; 2] {
    let provider = type_name.split('_').next().unwrap_or(type_name);
    [provider, &type_name.replace('_', "-")].map(|word| format!("{}-{word}-sensitive", meta::name(object)))
}

/// Whether a Secret was made for another object.
fn is_anothers(secret: &Json, object: &Json) -> bool {
    let same = |owner: &Json, field: &str, value: &str| owner[field].as_str() == Some(value);
    meta::owner_references(secret).iter().filter(|owner| owner["controller"] == true).any(|owner| {
        !(same(owner, "apiVersion", meta::api_version(object))
            && same(owner, "kind", meta::kind(object))
            && same(owner, "name", meta::name(object)))
    })
}

/// The Secret that was made for an object, if there is one. From then on its changes are followed.
async fn made(reader: &Reader<'_>, object: &Json, type_name: &str) -> Result<Option<Json>, Failure> {
    let namespace = meta::namespace(object);
    for name in made_names(object, type_name) {
        let found = reader.peek("secrets", namespace, &name).await?;
        if found.is_some_and(|secret| !is_anothers(&secret, object)) {
            return reader.get_inputs(namespace, &name).await;
        }
    }
    Ok(None)
}

impl Secrets {
    pub async fn read(reader: &Reader<'_>, object: &Json, type_name: &str) -> Result<Secrets, Failure> {
        let namespace = meta::namespace(object);
        let named =
            object.pointer("/spec/secretRef/name").and_then(Json::as_str).filter(|name| !name.is_empty());
        let secret = match named {
            Some(name) => {
                let secret = reader.get_inputs(namespace, name).await?;
                Some(secret.ok_or_else(|| {
                    Failure::recoverable(format!("Secret {namespace}/{name} does not exist"))
                        .at("spec.secretRef")
                })?)
            }
            None => made(reader, object, type_name).await?,
        };
        let Some(secret) = secret else { return Ok(Secrets::default()) };
        let claimed = meta::annotation(&secret, OUTPUT_OF);
        let kept_in = match claimed.is_some_and(|of| of != claim(object, type_name)) {
            true => made(reader, object, type_name).await?,
            false => Some(secret.clone()),
        };
        // Who changes from one generation's name to the other's finds what was written under the other still.
        let said = word(&secret, INPUTS);
        let kept = kept_in.as_ref().and_then(|secret| word(secret, OUTPUTS));
        let (input_word, output_word) = (said.or(kept).unwrap_or(0), kept.or(said).unwrap_or(0));
        Ok(Secrets {
            output_name: kept_in.as_ref().map(|secret| meta::name(secret).to_owned()),
            name: Some(meta::name(&secret).to_owned()),
            input: key(&secret, INPUTS[input_word])?,
            output: kept_in.map(|secret| key(&secret, OUTPUTS[output_word])).transpose()?.flatten(),
            wanted: None,
            input_word,
            output_word,
        })
    }

    /// The same with other secrets of what is wanted.
    #[must_use]
    pub fn with_input(&self, input: &Json) -> Secrets {
        Secrets { input: Some(input.clone()), ..self.clone() }
    }

    fn wrong(&self, error: &FieldError) -> Failure {
        Failure::terminal(format!("Secret {}: {error}", self.name.as_deref().unwrap_or_default()))
    }

    /// All texts in it, to keep them out of messages.
    pub fn texts(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.input.iter().chain(&self.output).chain(&self.wanted).for_each(|json| texts(json, &mut found));
        found
    }
}

/// Texts that are long enough to be secrets rather than words.
pub fn texts(json: &Json, found: &mut Vec<String>) {
    match json {
        Json::String(text) if text.len() >= 4 => found.push(text.clone()),
        Json::Array(elements) => elements.iter().for_each(|element| texts(element, found)),
        Json::Object(fields) => fields.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// A provider's configuration of what a Secret says, and what of it has to be kept out of messages.
pub fn configuration(block: &Block, json: &Json) -> Result<(Value, Vec<String>), Failure> {
    let empty = Draft::read(block, &json!({})).map_err(|error| failures::field(&error))?;
    let config = empty.with_secrets(block, json).map_err(|error| {
        Failure::terminal(format!("the provider's configuration: {error}")).at("spec.providerRef")
    })?;
    let config = config.value(block);
    let mut redactions = Vec::new();
    if let Some(secrets) = shape::secrets(block, &config) {
        texts(&secrets, &mut redactions);
    }
    // It lies in a Secret as a whole, whatever the provider calls sensitive of it.
    let mut all = Vec::new();
    texts(json, &mut all);
    redactions.extend(all.into_iter().filter(|text| may_be_secret(text)));
    Ok((config, redactions))
}

/// Whether a text of a provider's configuration tells something, rather than where something is.
fn may_be_secret(text: &str) -> bool {
    const SHORTEST: usize = 8;
    let is_plain_url = text.split_once("://").is_some_and(|(_, rest)| {
        !rest.split('/').next().unwrap_or_default().contains('@') && !rest.contains('?')
    });
    let is_path = ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start));
    text.chars().count() >= SHORTEST && !is_plain_url && !is_path
}

/// The configuration: what the fields and the Secret say, without what only the provider can say.
pub fn config(block: &Block, desired: &Json, secrets: &Secrets) -> Result<Value, Failure> {
    let empty = Json::Object(Map::new());
    let resource = desired.pointer("/spec/resource").unwrap_or(&empty);
    let mut draft =
        Draft::read(block, &without_id(resource, block)).map_err(|error| failures::field(&error))?;
    if let Some(input) = &secrets.input {
        draft = draft.with_secrets(block, input).map_err(|error| secrets.wrong(&error))?;
    }
    Ok(without_read_only(block, draft.value(block)))
}

/// The id in the object names the resource; it is no wish, unless the provider takes it for one.
fn without_id(resource: &Json, block: &Block) -> Json {
    let mut resource = resource.clone();
    let wish = block.members.get("id").is_some_and(|id| id.required);
    if let (Json::Object(fields), false) = (&mut resource, wish) {
        fields.remove("id");
    }
    resource
}

/// Kubeform lists what the provider computes among the fields of a resource; setting it means nothing.
fn without_read_only(block: &Block, value: Value) -> Value {
    change::rewrite(block, value, &|member, value| if member.read_only() { Value::Null } else { value })
}

/// A state as Kubeform keeps it, in the object and in its Secret.
pub struct KubeformState {
    pub value: Value,
    /// The provider has changed since: some of what was kept means nothing to it.
    pub outgrown: bool,
}

pub fn kubeform_state(
    block: &Block,
    object: &Json,
    secrets: &Secrets,
) -> Result<Option<KubeformState>, Failure> {
    let Some(state) = object.pointer("/spec/state").filter(|state| state.get("id").is_some()) else {
        return Ok(None);
    };
    let mut draft = Draft::read_fitting(block, state)
        .map_err(|error| Failure::terminal(error.problem.clone()).at(format!("spec.state.{}", error.path)))?;
    if let Some(output) = &secrets.output {
        draft = draft.with_secrets(block, output).map_err(|error| secrets.wrong(&error))?;
    }
    let outgrown = draft.lacks();
    Ok(Some(KubeformState { value: draft.value(block), outgrown }))
}

/// What of a value a user could have written.
pub fn stripped(block: &Block, value: &Value) -> Value {
    without_read_only(block, value.clone())
}

/// What of a resource can be wished for: the fields a user could have written, and its id.
pub fn wishes(block: &Block, value: &Value, id: Option<&str>) -> Json {
    let mut json = shape::shown(block, &stripped(block, value));
    if let Some(id) = id {
        json["id"] = json!(id);
    }
    json
}

/// What is secret of what can be wished for of a resource, for a user whose wishes are `own`, or who has none but what
/// is there; what `given`, the user's Secret, says already is left to it. None if that adds nothing.
pub fn secret_wishes(block: &Block, value: &Value, own: Option<&Json>, given: Option<&Json>) -> Option<Json> {
    let value = stripped(block, value);
    let Some(Json::Object(found)) = shape::secrets(block, &value) else { return None };
    let shown = shape::shown(block, &value);
    let names = shape::names(block, true);
    let mut all = given.and_then(Json::as_object).cloned().unwrap_or_default();
    let before = all.len();
    for (name, hidden) in found {
        let field = names.field(&name).unwrap_or(&name);
        let hidden = match own {
            Some(own) => paired(&block.members[&name], own.get(field), shown.get(field), hidden),
            None => Some(hidden),
        };
        if let (Some(hidden), false) = (hidden, all.contains_key(&name)) {
            all.insert(name, hidden);
        }
    }
    (all.len() > before).then_some(Json::Object(all))
}

/// What is hidden in the elements of a block, in the order in which a user wrote them. Elements are known by what is
/// said of them.
fn paired(member: &Member, own: Option<&Json>, shown: Option<&Json>, hidden: Json) -> Option<Json> {
    let is_map = matches!(&member.shape, Shape::Nested(nested) if nested.nesting == Nesting::Map);
    match (own, shown, hidden) {
        // Nothing of it can be seen.
        (_, None, hidden) => Some(hidden),
        (Some(Json::Array(own)), Some(Json::Array(shown)), Json::Array(hidden)) => {
            let mut left: Vec<(&Json, Json)> = shown.iter().zip(hidden).collect();
            let of_element = |element: &Json| {
                let same = left.iter().position(|(shown, _)| says(shown, element));
                same.map_or_else(|| json!({}), |index| left.remove(index).1)
            };
            Some(own.iter().map(of_element).collect())
        }
        (Some(Json::Object(own)), Some(_), Json::Object(mut hidden)) if is_map => {
            hidden.retain(|key, _| own.contains_key(key));
            Some(Json::Object(hidden))
        }
        (Some(_), Some(_), hidden) => Some(hidden),
        // Not wished for at all.
        (None, Some(_), _) => None,
    }
}

/// Whether one says all that the other does.
fn says(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Object(one), Json::Object(other)) => {
            other.iter().all(|(field, value)| one.get(field).is_some_and(|own| says(own, value)))
        }
        (one, other) => one == other,
    }
}

/// The merge patch that makes one value of another.
pub fn merge_patch(from: Option<&Json>, to: &Json) -> Json {
    let (Some(Json::Object(from)), Json::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for (field, value) in to {
        if from.get(field) != Some(value) {
            patch.insert(field.clone(), merge_patch(from.get(field), value));
        }
    }
    for field in from.keys().filter(|field| !to.contains_key(*field)) {
        patch.insert(field.clone(), Json::Null);
    }
    Json::Object(patch)
}
