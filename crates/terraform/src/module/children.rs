//! The objects that a module's resources are: one of the kind of all types for each instance, which the cloud engine
//! makes so like any other.

use std::collections::BTreeSet;

use objects::{Value as Json, meta};
use runtime::Key;
use serde_json::{Map, json};
use sha2::{Digest, Sha256};

use super::address;
use super::course::{Opens, There, Wanted};
use super::kinds::MODULE;
use super::term::Term;
use crate::definition::{GENERIC_KIND, GENERIC_PLURAL, GROUP};
use crate::dialect::{DELETION_POLICY, IGNORE_CHANGES, IMPORT_STATE};
use crate::driver::wanted::{Secrets, merge_patch};
use crate::names::API_VERSION;
use crate::schema::Schema;
use crate::shape;
use provision::policies::{APPROVAL, DRIFT_INTERVAL, DRIFT_POLICY, PAUSED, REPLACE_POLICY};

/// Which instance of the module an object is.
pub const ADDRESS: &str = "terraform.hangar.dev/address";
/// Resources of the module that it stands on.
pub const BEHIND: &str = "terraform.hangar.dev/depends-on";
/// What of it is ephemeral, in words of its own: nothing of that is in the object.
pub const EPHEMERAL: &str = "terraform.hangar.dev/ephemeral";
const LABEL: &str = "terraform.hangar.dev/module";

/// What a user asks of a module is asked of its resources.
const PASSED: [&str; 6] = [PAUSED, DRIFT_POLICY, DRIFT_INTERVAL, APPROVAL, REPLACE_POLICY, DELETION_POLICY];

/// The fields of an object that are the module's to say; `resource` is compared by itself.
const OWN: [&str; 6] = ["provider", "type", "providerRef", "secretRef", "terminationPolicy", "updatePolicy"];

const LONGEST_LABEL: usize = 63;
/// Leaves room for what is appended for Secrets.
const LONGEST_MODULE: usize = 150;
const LONGEST_ADDRESS: usize = 50;

/// How the object of an instance is called: readable, and never the same for two.
pub fn name(module: &str, address: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let words: String = address.chars().map(plain).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    let words: String = words.join("-").chars().take(LONGEST_ADDRESS).collect();
    let hash = Sha256::digest(format!("{module}/{address}"));
    let short: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let module: String = module.chars().take(LONGEST_MODULE).collect();
    format!("{module}-{}-{short}", words.trim_end_matches('-'))
}

/// The same for one that is yet to be made, where objects that moved to other addresses keep the names that they have.
pub fn new_name(module: &str, address: &str, taken: &BTreeSet<&str>) -> String {
    let mut found = name(module, address);
    let mut tried = 1;
    while taken.contains(found.as_str()) {
        found = name(module, &format!("{address}#{tried}"));
        tried += 1;
    }
    found
}

/// The Secret with what is secret of an instance's arguments.
pub fn secret_name(child: &str) -> String {
    format!("{child}-input")
}

/// The Secret with what Terraform knew of an instance that is to be taken over.
pub fn import_name(child: &str) -> String {
    format!("{child}-import")
}

/// Whether it is still to become what it names.
pub fn is_importing(object: &Json) -> bool {
    meta::annotation(object, IMPORT_STATE).is_some() && !is_current(object)
}

/// The key of that Secret.
pub const SECRET_KEY: &str = "resource";

pub fn is_of(object: &Json, module: &Json) -> bool {
    meta::owner_references(object)
        .iter()
        .any(|owner| owner["kind"] == MODULE && owner["uid"].as_str() == Some(meta::uid(module)))
}

pub fn address(object: &Json) -> &str {
    meta::annotation(object, ADDRESS).unwrap_or_default()
}

/// The resource of the module that an object is an instance of, under a name that all instances have.
pub fn part_of(object: &Json) -> Option<Key> {
    let resource = address::declaration(address(object));
    if resource.is_empty() { None } else { shared_name(object, &resource) }
}

/// The resources of the module that an object stands on, under those names.
pub fn stands_on(object: &Json) -> Vec<Key> {
    behind(object).iter().filter_map(|resource| shared_name(object, resource)).collect()
}

/// No object is called so: modules of one namespace may have the same resources.
fn shared_name(object: &Json, resource: &str) -> Option<Key> {
    let module = meta::owner_references(object).iter().find(|owner| owner["kind"] == MODULE)?;
    let name = format!("{}/{resource}", module["uid"].as_str().unwrap_or_default());
    Some(Key::new(ADDRESS, meta::namespace(object), name))
}

fn behind(object: &Json) -> BTreeSet<String> {
    let text = meta::annotation(object, BEHIND).unwrap_or("[]");
    serde_json::from_str(text).unwrap_or_default()
}

/// Those words.
fn words(opens: Opens) -> Option<String> {
    let words = [(opens.arguments, "arguments"), (opens.provider, "provider")];
    let words: Vec<&str> = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
    (!words.is_empty()).then(|| words.join(","))
}

/// What they mean.
pub fn opens(object: &Json) -> Opens {
    let has = |word: &str| {
        meta::annotation(object, EPHEMERAL).unwrap_or_default().split(',').any(|one| one == word)
    };
    Opens { arguments: has("arguments"), provider: has("provider") }
}

/// The module that an object belongs to.
pub fn module(object: &Json) -> Option<&str> {
    let owner = meta::owner_references(object).iter().find(|owner| owner["kind"] == MODULE)?;
    owner["name"].as_str()
}

/// Settled: made as its own spec says.
fn is_current(object: &Json) -> bool {
    object.pointer("/status/phase").is_some_and(|phase| phase == "Current")
        && object.pointer("/status/observedGeneration") == Some(&json!(meta::generation(object)))
}

/// What is there at an address, for [`super::course::course`].
pub fn there(address: &str, object: &Json, schema: Option<&Schema>, secrets: &Secrets) -> There {
    let failed = object.pointer("/status/phase").is_some_and(|phase| phase == "Failed");
    let conditions = object.pointer("/status/conditions").and_then(Json::as_array).into_iter().flatten();
    let stalled = conditions.filter(|one| one["type"] == "Stalled").find_map(|one| one["message"].as_str());
    There {
        resource: address::declaration(address),
        behind: behind(object),
        going: meta::is_deleting(object),
        state: schema.filter(|_| is_current(object)).and_then(|schema| state(object, schema, secrets)),
        failure: stalled.filter(|_| failed).map(str::to_owned),
    }
}

fn state(object: &Json, schema: &Schema, secrets: &Secrets) -> Option<Term> {
    let draft = shape::Draft::read(&schema.block, object.pointer("/spec/state")?).ok()?;
    let draft = match &secrets.output {
        Some(output) => draft.with_secrets(&schema.block, output).ok()?,
        None => draft,
    };
    Some(Term::of_state(&schema.block, &draft.value(&schema.block)))
}

/// What the module says of an instance's object.
pub struct Saying<'a> {
    pub module: &'a Json,
    /// Of the object.
    pub name: String,
    pub wanted: &'a Wanted,
    pub provider: &'a str,
    /// The Secret with the provider's configuration.
    pub configuration: Option<String>,
}

impl Saying<'_> {
    fn spec(&self) -> Map<String, Json> {
        let wanted = self.wanted;
        let mut spec = Map::from_iter([
            ("provider".to_owned(), json!(self.provider)),
            ("type".to_owned(), json!(wanted.type_name)),
            ("resource".to_owned(), wanted.shown.clone()),
        ]);
        if let Some(name) = &self.configuration {
            spec.insert("providerRef".to_owned(), json!({"name": name}));
        }
        if wanted.secret.is_some() {
            spec.insert("secretRef".to_owned(), json!({"name": secret_name(&self.name)}));
        }
        if wanted.prevent_destroy {
            spec.insert("terminationPolicy".to_owned(), json!("DoNotTerminate"));
            spec.insert("updatePolicy".to_owned(), json!("DoNotDestroy"));
        }
        spec
    }

    /// Annotations; null where there should be none.
    fn annotations(&self, behind: &BTreeSet<String>) -> Map<String, Json> {
        let mut all = passed(self.module);
        if self.wanted.create_before_destroy {
            all.insert(REPLACE_POLICY.to_owned(), json!("create-first"));
        }
        let ignored = (!self.wanted.ignored.is_empty()).then(|| json!(self.wanted.ignored).to_string());
        all.insert(IGNORE_CHANGES.to_owned(), json!(ignored));
        all.insert(EPHEMERAL.to_owned(), json!(words(self.wanted.opens)));
        all.insert(ADDRESS.to_owned(), json!(self.wanted.address));
        all.insert(BEHIND.to_owned(), json!(json!(behind).to_string()));
        all
    }

    /// `imports` says that it is there already, as a Secret tells.
    pub fn created(&self, imports: bool) -> Json {
        let mut annotations = self.annotations(&self.wanted.behind);
        annotations.retain(|_, value| !value.is_null());
        if imports {
            annotations.insert(IMPORT_STATE.to_owned(), json!(import_name(&self.name)));
        }
        let module = meta::name(self.module);
        let labels = if module.len() <= LONGEST_LABEL { json!({LABEL: module}) } else { json!({}) };
        json!({
            "apiVersion": format!("{GROUP}/{API_VERSION}"), "kind": GENERIC_KIND,
            "metadata": {
                "name": self.name, "labels": labels, "annotations": annotations,
                "ownerReferences": [crate::driver::owner(self.module, true)],
            },
            "spec": self.spec(),
        })
    }

    /// Whether the object's spec says what the module says.
    pub fn fits(&self, object: &Json) -> bool {
        !is_importing(object) && self.spec_patch(object).is_empty()
    }

    fn spec_patch(&self, object: &Json) -> Map<String, Json> {
        let spec = self.spec();
        let null = Json::Null;
        let mut patch = Map::new();
        for field in OWN {
            let (is, should) = (object["spec"].get(field).unwrap_or(&null), spec.get(field).unwrap_or(&null));
            if is != should {
                patch.insert(field.to_owned(), should.clone());
            }
        }
        let mut is = object["spec"].get("resource").cloned().unwrap_or_else(|| json!({}));
        let should = &self.wanted.shown;
        // The engine writes down there by which id the resource is known.
        if let (Json::Object(fields), None) = (&mut is, should.get("id")) {
            fields.remove("id");
        }
        if is != *should {
            patch.insert("resource".to_owned(), merge_patch(Some(&is), should));
        }
        patch
    }

    /// The merge patch that makes the object as the module says; none if it is. What it stood on is forgotten only
    /// once it no longer does.
    pub fn patch(&self, object: &Json) -> Option<Json> {
        // Until it is taken over, what it is must not be mixed up with what it should be.
        if is_importing(object) {
            return None;
        }
        let spec = self.spec_patch(object);
        let settled = spec.is_empty() && is_current(object);
        let mut on = self.wanted.behind.clone();
        if !settled {
            on.extend(behind(object));
        }
        let mut annotations = self.annotations(&on);
        // To another type its provider has to agree. Until it has, a module that takes that back finds it where it was.
        if !settled && address::type_name(address(object)) != self.wanted.type_name {
            annotations.insert(ADDRESS.to_owned(), json!(address(object)));
        }
        annotations.insert(IMPORT_STATE.to_owned(), Json::Null);
        annotations.retain(|name, value| meta::annotation(object, name) != value.as_str());
        if spec.is_empty() && annotations.is_empty() {
            return None;
        }
        let version = meta::resource_version(object);
        Some(json!({"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": spec}))
    }
}

/// What a user asks of the module by annotations; null where nothing is asked.
pub fn passed(module: &Json) -> Map<String, Json> {
    PASSED.iter().map(|name| ((*name).to_owned(), json!(meta::annotation(module, name)))).collect()
}

/// As the objects are stored.
pub fn resource() -> String {
    format!("{GENERIC_PLURAL}.{GROUP}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_instances_apart() {
        let of = |address: &str| name("web", address);
        assert!(of("memo_note.a[\"X y\"]").starts_with("web-memo-note-a-x-y-"));
        let addresses = ["a_b.c", "a.b_c", "a_b.c[0]", "a_b.c[\"0\"]", "a_b.c[\"é\"]"];
        let names: BTreeSet<String> = addresses.iter().map(|address| of(address)).collect();
        assert_eq!(names.len(), addresses.len());
        assert!(name(&"m".repeat(253), &format!("a.b[\"{}\"]", "k".repeat(500))).len() < 220);
        // One that moved away still has the name.
        let moved = of("a_b.c");
        let next = new_name("web", "a_b.c", &BTreeSet::from([moved.as_str()]));
        assert!(next != moved && new_name("web", "a_b.c", &BTreeSet::new()) == moved);
    }

    #[test]
    fn only_what_differs_is_written() {
        let module = json!({"metadata": {"name": "web", "uid": "u"}});
        let wanted = Wanted {
            address: "memo_note.a".into(),
            resource: "memo_note.a".into(),
            type_name: "memo_note".into(),
            provider: "memo".into(),
            shown: json!({"title": "x"}),
            secret: None,
            opens: Opens::default(),
            behind: ["memo_note.b".to_owned()].into(),
            create_before_destroy: false,
            prevent_destroy: false,
            ignored: Vec::new(),
        };
        let saying = Saying {
            module: &module,
            name: name("web", "memo_note.a"),
            wanted: &wanted,
            provider: "memo",
            configuration: Some("config".into()),
        };
        let mut object = saying.created(false);
        assert_eq!(saying.patch(&object), None);
        object["spec"]["resource"]["id"] = json!("1");
        object["spec"]["state"] = json!({"title": "x", "id": "1"});
        assert_eq!(saying.patch(&object), None);
        object["spec"]["resource"]["text"] = json!("stray");
        object["spec"]["updatePolicy"] = json!("DoNotDestroy");
        let patch = saying.patch(&object).unwrap();
        assert_eq!(patch["spec"], json!({"resource": {"text": null}, "updatePolicy": null}));
        // Until it is settled it still stands on what it stood on.
        object["metadata"]["annotations"][BEHIND] = json!("[\"memo_note.old\"]");
        let patch = saying.patch(&object).unwrap();
        let on = json!("[\"memo_note.b\",\"memo_note.old\"]");
        assert_eq!(patch["metadata"]["annotations"][BEHIND], on);
    }
}
