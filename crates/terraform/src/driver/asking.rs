//! The questions that the driver's answers are made of: what is known of a resource, what its provider says, and how
//! it is kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value as Json, meta};
use provision::{Change, Failure, Observed, OperationType, Readiness, intent};
use serde_json::json;

use super::kept::{Kept, KeptResource, Place};
use super::wanted::{self, Secrets};
use super::{Looking, Note, Terraform, failures, outputs, remote, telling};
use crate::backend::file::Instance;
use crate::change::{self, Difference};
use crate::diagnostic::Path;
use crate::dialect::{IMPORT_ID, IMPORT_IDENTITY, IMPORT_STATE};
use crate::plugin::{ImportBy, Planned, PluginError, Source, State, Told};
use crate::protocol::Call;
use crate::registry::Served;
use crate::schema::Block;
use crate::shape;
use crate::value::Value;

/// What a look for a resource came to.
pub(super) enum Sight {
    There(State),
    Nothing,
    /// The provider found nothing, or cannot look: it does not say which.
    Unclear,
}

impl Terraform {
    pub(super) fn place<'a>(subject: &'a Looking<'_>) -> Place<'a> {
        Place { control_plane: subject.control_plane, facts: subject.facts, object: subject.object }
    }

    pub(super) async fn secrets(subject: &Looking<'_>) -> Result<Secrets, Failure> {
        Secrets::read(subject.reader, subject.object, &subject.connection.type_name).await
    }

    /// A call of the provider: limited if it reaches the cloud, counted, and judged.
    pub(super) async fn call<T>(
        subject: &Looking<'_>,
        purpose: OperationType,
        which: Call,
        secrets: &Secrets,
        call: impl Future<Output = Result<T, PluginError>>,
    ) -> Result<T, Failure> {
        let connection = subject.connection;
        let changing = which == Call::ApplyResourceChange;
        let called = async {
            let answer = connection.lease.judge(call.await);
            if answer.is_ok() {
                connection.pool.succeeded(&connection.lease);
            }
            answer.map_err(|error| failures::failure(error, Some(&connection.schema.block), changing))
        };
        let answer = match which.reaches_the_cloud() {
            true => subject.calls.make(purpose, which.name(), called).await,
            false => subject.calls.make_local(purpose, which.name(), called).await,
        };
        answer.map_err(|failure| connection.redact(failure, secrets))
    }

    /// The same of a call that only asks; what the provider warns of with its answer is told.
    pub(super) async fn ask<T>(
        subject: &Looking<'_>,
        which: Call,
        secrets: &Secrets,
        call: impl Future<Output = Result<Told<T>, PluginError>>,
    ) -> Result<T, Failure> {
        let told = Self::call(subject, OperationType::ReadOne, which, secrets, call).await?;
        subject.connection.warned(subject, &told.warnings, secrets);
        Ok(told.answer)
    }

    /// The state that is known of the resource, kept here or by Kubeform or not at all yet; not looked at.
    pub(super) async fn known(
        &self,
        subject: &Looking<'_>,
        secrets: &Secrets,
    ) -> Result<(Kept, Option<State>), Failure> {
        let connection = subject.connection;
        let mut kept = self.load(subject).await?;
        let open = meta::annotation(subject.object, intent::ANNOTATION).is_some();
        if kept.resource.is_none() && kept.deposed.is_some() && !open {
            // Nothing came of what was to be made before it went, or a user says so. While the intent is open nobody
            // knows, and who only looks must not decide it.
            kept = kept.restored();
            self.keep(subject, &kept).await?;
        }
        if let Some(resource) = &kept.resource {
            let state = self.state_of(subject, secrets, resource).await?;
            return Ok((kept, Some(state)));
        }
        if kept.creating.is_some() {
            return Ok((kept, None));
        }
        if let Some(left) = wanted::kubeform_state(&connection.schema.block, subject.object, secrets)? {
            let state = State { value: left.value, ..State::none() };
            let state = if left.outgrown { self.outgrown(subject, secrets, state).await? } else { state };
            return Ok((kept, Some(state)));
        }
        let state = self.import(subject, secrets).await?;
        Ok((kept, state))
    }

    /// A kept state as the provider knows it today.
    pub(super) async fn state_of(
        &self,
        subject: &Looking<'_>,
        secrets: &Secrets,
        resource: &KeptResource,
    ) -> Result<State, Failure> {
        let connection = subject.connection;
        if resource.type_name != connection.type_name {
            return self.moved(subject, secrets, resource).await;
        }
        let identity = Self::identity_of(subject, secrets, resource).await?;
        if let Some(state) = resource.state(&connection.schema, connection.identity()) {
            return Ok(State { identity, ..state });
        }
        let (version, json) = (resource.schema_version, resource.attributes.clone());
        let upgrade = connection.lease.upgrade(&connection.type_name, version, json.as_bytes());
        let value = Self::ask(subject, Call::UpgradeResourceState, secrets, upgrade).await?;
        Ok(State { value, private: resource.private_bytes(), identity })
    }

    /// A state that was kept as one of another type, as the provider makes it one of this. The resource is not touched.
    async fn moved(
        &self,
        subject: &Looking<'_>,
        secrets: &Secrets,
        resource: &KeptResource,
    ) -> Result<State, Failure> {
        let connection = subject.connection;
        let (before, now) = (resource.type_name.as_str(), connection.type_name.as_str());
        let impossible = || {
            let message = format!(
                "the resource is a {before}, and the provider makes no {now} of it; delete the object as a \
                 {before}, and make another"
            );
            Failure::terminal(message).at("spec.type")
        };
        if !connection.lease.catalogue().capabilities.move_resource_state {
            return Err(impossible());
        }
        let had = |served: &Served| served.catalogue.has_resource(before);
        let provider = self.registry.having(&connection.provider.name, had);
        let provider = provider.as_ref().unwrap_or(&connection.provider);
        let source = Source {
            provider: &provider.address,
            type_name: before,
            version: resource.schema_version,
            json: &resource.attributes,
            private: resource.private_bytes(),
            identity: resource.identity.as_deref(),
            identity_version: resource.identity_version,
        };
        let moved = connection.lease.move_state(&source, now);
        let moved = Self::ask(subject, Call::MoveResourceState, secrets, moved).await;
        moved.map_err(|failure| failure.at("spec.type"))?.ok_or_else(impossible)
    }

    /// What a user could have written to get a resource that is taken over as it is, if the provider can tell.
    pub(super) async fn generated(
        subject: &Looking<'_>,
        secrets: &Secrets,
        state: &State,
    ) -> Result<Option<Value>, Failure> {
        let connection = subject.connection;
        if !connection.lease.catalogue().capabilities.generate_resource_config {
            return Ok(None);
        }
        let generated = connection.lease.generate_config(&connection.type_name, &state.value);
        Self::ask(subject, Call::GenerateResourceConfig, secrets, generated).await.map(Some)
    }

    /// A kept identity, brought to the version that the provider knows today.
    async fn identity_of(
        subject: &Looking<'_>,
        secrets: &Secrets,
        resource: &KeptResource,
    ) -> Result<Option<Value>, Failure> {
        let connection = subject.connection;
        let version = resource.identity_version;
        let current = connection.identity().filter(|schema| schema.version != version);
        let (Some(_), Some(json)) = (current, &resource.identity) else {
            return Ok(resource.identity(connection.identity()));
        };
        let upgrade = connection.lease.upgrade_identity(&connection.type_name, version, json.as_bytes());
        let upgraded = Self::ask(subject, Call::UpgradeResourceIdentity, secrets, upgrade).await;
        // The provider gives it again when it looks.
        Ok(upgraded.unwrap_or_default())
    }

    /// What the provider makes of a state that was kept by another version of it. Which one is not known, so it cannot
    /// be asked to upgrade it; but it can look. What it does not find that way may still be there: it is asked by id
    /// before anybody takes it for gone.
    async fn outgrown(
        &self,
        subject: &Looking<'_>,
        secrets: &Secrets,
        state: State,
    ) -> Result<State, Failure> {
        let connection = subject.connection;
        let read = connection.lease.read(&connection.type_name, &state);
        match Self::ask(subject, Call::ReadResource, secrets, read).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Ok(self.import(subject, secrets).await?.unwrap_or(state)),
            Err(failure) => self.import(subject, secrets).await?.ok_or(failure),
        }
    }

    /// What the object names as its resource, if it does.
    pub(super) async fn import(
        &self,
        subject: &Looking<'_>,
        secrets: &Secrets,
    ) -> Result<Option<State>, Failure> {
        let connection = subject.connection;
        let object = subject.object;
        if let Some(name) = meta::annotation(object, IMPORT_STATE) {
            return self.left_behind(subject, secrets, name).await.map(Some);
        }
        let by = if let Some(text) = meta::annotation(object, IMPORT_IDENTITY) {
            let wrong = |why: String| Failure::terminal(format!("annotation {IMPORT_IDENTITY}: {why}"));
            let schema = connection.lease.catalogue().identity(&connection.type_name);
            let schema = schema.ok_or_else(|| wrong("the provider knows no identity of this type".into()))?;
            let identity = Value::from_state_json(text.as_bytes(), &schema.ty);
            ImportBy::Identity(identity.map_err(|error| wrong(error.to_string()))?)
        } else {
            let own = object.pointer("/spec/resource/id").and_then(Json::as_str);
            match meta::annotation(object, IMPORT_ID).or(own).filter(|id| !id.is_empty()) {
                Some(id) => ImportBy::Id(id.to_owned()),
                None => return Ok(None),
            }
        };
        let import = connection.lease.import(&connection.type_name, &by);
        let found = Self::ask(subject, Call::ImportResourceState, secrets, import).await?;
        let found = found.into_iter().find(|found| found.type_name == connection.type_name);
        let found = found.ok_or_else(|| Failure::recoverable("the provider found nothing to import"))?;
        Ok(Some(found.state))
    }

    /// What there is by an identity.
    pub(super) async fn by_identity(
        subject: &Looking<'_>,
        secrets: &Secrets,
        identity: &Value,
    ) -> Result<Sight, Failure> {
        let connection = subject.connection;
        let by = ImportBy::Identity(identity.clone());
        let import = async {
            match connection.lease.import(&connection.type_name, &by).await {
                Err(PluginError::Refused(_) | PluginError::Unsupported { .. }) => Ok(Told::nothing()),
                answer => answer,
            }
        };
        let found = Self::ask(subject, Call::ImportResourceState, secrets, import).await?;
        let found = found.into_iter().find(|found| found.type_name == connection.type_name);
        let Some(found) = found else { return Ok(Sight::Unclear) };
        // An import need not have looked.
        let read = connection.lease.read(&connection.type_name, &found.state);
        let read = Self::ask(subject, Call::ReadResource, secrets, read).await?;
        Ok(read.map_or(Sight::Nothing, Sight::There))
    }

    /// The identity that a creation is going to give, if the provider knows it already, and if nothing has it yet.
    pub(super) async fn sought(
        subject: &Looking<'_>,
        secrets: &Secrets,
        planned: &Planned,
    ) -> Result<Option<String>, Failure> {
        let identity = planned.identity.as_ref().filter(|identity| identity.known());
        let (Some(schema), Some(identity)) = (subject.connection.identity(), identity) else {
            return Ok(None);
        };
        if let Sight::There(_) = Self::by_identity(subject, secrets, identity).await? {
            return Ok(None);
        }
        let json = identity.to_state_json(&schema.ty).ok();
        Ok(json.and_then(|json| String::from_utf8(json).ok()))
    }

    /// What Terraform knew of a resource, from the Secret that the object names.
    async fn left_behind(
        &self,
        subject: &Looking<'_>,
        secrets: &Secrets,
        name: &str,
    ) -> Result<State, Failure> {
        let namespace = meta::namespace(subject.object);
        let wrong = |why: &str| {
            Failure::recoverable(format!("annotation {IMPORT_STATE}: Secret {namespace}/{name} {why}"))
        };
        let secret = subject.reader.get("secrets", namespace, name).await?;
        let secret = secret.ok_or_else(|| wrong("does not exist"))?;
        let text = secret.pointer("/data/instance").and_then(Json::as_str).unwrap_or_default();
        let bytes = STANDARD.decode(text).unwrap_or_default();
        let instance: Option<Instance> = serde_json::from_slice(&bytes).ok();
        let resource = instance.and_then(|one| remote::kept_of(&subject.connection.type_name, &one));
        let resource =
            resource.ok_or_else(|| wrong("has no instance of a state under the key \"instance\""))?;
        self.state_of(subject, secrets, &resource).await
    }

    /// What changed is kept, and the Secret of the object says what is secret of it.
    pub(super) async fn settle(
        &self,
        subject: &Looking<'_>,
        before: &Kept,
        state: &State,
        made_by: Option<String>,
        tainted: bool,
        secrets: &Secrets,
    ) -> Result<Kept, Failure> {
        let connection = subject.connection;
        let resource = KeptResource::new(
            &connection.type_name,
            &connection.schema,
            connection.identity(),
            state,
            tainted,
        )?;
        let made_by = made_by.or_else(|| before.made_by.clone());
        let resource = Some(resource);
        let inconsistent = before.inconsistent.clone().filter(|_| before.resource == resource);
        let kept = Kept { creating: None, sought: None, made_by, resource, inconsistent, ..before.clone() };
        if kept != *before || Self::is_to_be_moved(subject, &kept) {
            self.keep(subject, &kept).await?;
        } else {
            self.recognize(subject, &kept).await?;
        }
        telling::secrets(subject, state, secrets, before.resource.is_some()).await?;
        Ok(kept)
    }

    /// Remembers what the provider did otherwise than it had planned. Those of the old type system may.
    pub(super) async fn compare(
        &self,
        subject: &Looking<'_>,
        kept: Kept,
        planned: &Planned,
        state: &State,
    ) -> Result<Kept, Failure> {
        let block = &subject.connection.schema.block;
        let broken = match planned.lenient {
            true => Vec::new(),
            false => change::broken_promises(block, &planned.state, &state.value),
        };
        if broken.is_empty() && kept.inconsistent.is_none() {
            return Ok(kept);
        }
        let fields: Vec<String> =
            broken.iter().map(|path| shape::field_path("spec.resource", block, path)).collect();
        let inconsistent = (!fields.is_empty()).then(|| {
            let fields = fields.join(", ");
            format!(
                "Provider produced inconsistent result after apply: {fields} is not what it had planned; this is a bug \
                 in the provider"
            )
        });
        let kept = Kept { inconsistent, ..kept };
        self.keep(subject, &kept).await?;
        Ok(kept)
    }

    /// Writes the outputs of the object, and keeps where they went.
    pub(super) async fn output(
        &self,
        subject: &Looking<'_>,
        kept: Kept,
        state: &State,
    ) -> Result<Kept, Failure> {
        if subject.client.is_none() {
            return Ok(kept);
        }
        outputs::export(subject, &kept, state).await?;
        let outputs = outputs::write(subject, state, &kept.outputs).await?;
        if outputs == kept.outputs {
            return Ok(kept);
        }
        let kept = Kept { outputs, ..kept };
        self.keep(subject, &kept).await?;
        Ok(kept)
    }

    pub(super) fn observed(subject: &Looking<'_>, note: Note) -> Box<Observed<Note>> {
        let mut spec = telling::record_naming(subject, &note.state, &note.secrets).spec;
        let id = note.state.value.field("id").as_str();
        spec["resource"] = wanted::wishes(&subject.connection.schema.block, note.could_be_written(), id);
        let readiness = match note.kept.inconsistent.clone() {
            Some(message) => Readiness::NotReady { message, after: None },
            None => Readiness::Ready,
        };
        Box::new(Observed { spec, status: json!({}), arn: None, readiness, note })
    }
}

/// What a new resource would have, field by field.
pub(super) fn settings(block: &Block, planned: &Planned) -> Vec<Change> {
    change::settings(block, &planned.state).into_iter().map(|setting| shown(block, setting)).collect()
}

/// A change as people are shown it.
fn shown(block: &Block, difference: Difference) -> Change {
    let path = shape::field_path("spec.resource", block, &difference.path);
    match difference.secret {
        true => Change::sensitive(path),
        false => Change::new(path, telling::json(&difference.before), telling::json(&difference.after)),
    }
}

/// Changes by field. What has to be replaced is said of fields that really change.
pub(super) fn differences(block: &Block, prior: &Value, planned: &Planned) -> Vec<Change> {
    let found = change::differences(block, prior, &planned.state);
    let replaced: Vec<&Path> = planned
        .replace
        .iter()
        .filter(|path| change::at(prior, path) != change::at(&planned.state, path))
        .collect();
    found
        .into_iter()
        .map(|difference| {
            let replaces = replaced
                .iter()
                .any(|path| path.0.starts_with(&difference.path.0) || difference.path.0.starts_with(&path.0));
            Change { replaces, ..shown(block, difference) }
        })
        .collect()
}
