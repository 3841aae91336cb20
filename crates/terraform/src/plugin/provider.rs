//! What can be asked of a configured provider, in values: the same for both versions of the protocol.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prost::bytes::Bytes;

use super::answers::{Applied, ImportBy, Imported, Planned, Source, State, Told, unless_deferred};
use super::call::Caller;
use super::catalogue::Catalogue;
use super::isolation::Isolation;
use super::process::Process;
use super::{Launch, Limits, PluginError};
use crate::diagnostic::{Diagnostics, Path};
use crate::protocol::messages::{self as wire, ClientCapabilities, DynamicValue, Empty, IdentityData};
use crate::protocol::{Call, Version};
use crate::schema::Schema;

use crate::value::{Type, Value};

/// The version of Terraform we say we are: the last one whose language and protocol this host follows.
const TERRAFORM_VERSION: &str = "1.14.0";

/// What this host can do that a provider may make use of.
pub(super) const CAPABILITIES: ClientCapabilities =
    ClientCapabilities { deferral_allowed: true, write_only_attributes_allowed: true };

/// A process that can be asked. Before [`Provider::configure`] only its schemas and functions can.
pub struct Provider {
    process: Process,
    catalogue: Arc<Catalogue>,
    /// What it says of its configuration. There may be secrets in it.
    warnings: OnceLock<Diagnostics>,
}

impl Provider {
    /// Starts it; `known` is what the same binary said of itself before.
    pub async fn start(
        launch: &Launch,
        limits: Limits,
        isolation: &Isolation,
        egress: Option<sandbox::Egress>,
        known: Option<Arc<Catalogue>>,
    ) -> Result<Provider, PluginError> {
        if launch.is_replaced() {
            return Err(PluginError::Replaced { program: launch.name() });
        }
        let process = Process::start(launch, limits, isolation, egress).await?;
        let catalogue = match known {
            // Most providers set themselves up when they are asked for their schema, so they have to be.
            Some(known) if known.capabilities.get_provider_schema_optional => known,
            Some(known) => {
                ask_schema(&process.caller).await?;
                known
            }
            None => {
                let answer = ask_schema(&process.caller).await?;
                let identities = ask_identities(&process.caller).await?;
                Arc::new(Catalogue::decode(answer, identities, process.version())?)
            }
        };
        Ok(Provider { process, catalogue, warnings: OnceLock::new() })
    }

    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    pub fn version(&self) -> Version {
        self.process.version()
    }

    pub fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.process.caller
    }

    pub(super) async fn ask<Q, A>(&self, call: Call, question: Q) -> Result<A, PluginError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.caller().unary(call, question, self.caller().limits().look).await
    }

    /// Once for each process.
    pub async fn configure(&self, config: &Value) -> Result<(), PluginError> {
        let ty = self.catalogue.provider.ty();
        let sent = encode(config, ty)?;
        let question = wire::ValidateProviderRequest { config: Some(sent.clone()) };
        let answer: wire::ValidateProviderResponse = self.ask(Call::ValidateProviderConfig, question).await?;
        let mut warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let prepared = answer.prepared_config.filter(|value| !is_absent(value));
        let question = wire::ConfigureRequest {
            terraform_version: TERRAFORM_VERSION.into(),
            config: Some(prepared.unwrap_or(sent)),
            client_capabilities: Some(ClientCapabilities { deferral_allowed: false, ..CAPABILITIES }),
        };
        let answer: wire::DiagnosticsResponse = self.ask(Call::ConfigureProvider, question).await?;
        let more = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        warnings.0.extend(more.0);
        self.warnings.get_or_init(|| warnings);
        Ok(())
    }

    /// What it had to say of its configuration.
    pub fn warnings(&self) -> &Diagnostics {
        const NONE: &Diagnostics = &Diagnostics(Vec::new());
        self.warnings.get().unwrap_or(NONE)
    }

    pub async fn validate(&self, type_name: &str, config: &Value) -> Result<Diagnostics, PluginError> {
        let schema = self.catalogue.resource(type_name)?;
        let question = wire::ValidateRequest {
            type_name: type_name.into(),
            config: Some(encode(config, schema.ty())?),
            client_capabilities: Some(CAPABILITIES),
        };
        let answer: wire::DiagnosticsResponse = self.ask(Call::ValidateResourceConfig, question).await?;
        Ok(Diagnostics::decode(answer.diagnostics))
    }

    /// A state as it lies somewhere, brought to the version of the schema.
    pub async fn upgrade(
        &self,
        type_name: &str,
        version: i64,
        json: &[u8],
    ) -> Result<Told<Value>, PluginError> {
        let schema = self.catalogue.resource(type_name)?;
        let question =
            wire::UpgradeRequest { type_name: type_name.into(), version, raw_state: Some(raw(json)) };
        let answer: wire::UpgradeResponse = self.ask(Call::UpgradeResourceState, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let answer = decode_kept(answer.upgraded_state, &schema, Call::UpgradeResourceState)?;
        Ok(Told { answer, warnings })
    }

    /// The same for an identity.
    pub async fn upgrade_identity(
        &self,
        type_name: &str,
        version: i64,
        json: &[u8],
    ) -> Result<Told<Option<Value>>, PluginError> {
        let question =
            wire::UpgradeRequest { type_name: type_name.into(), version, raw_state: Some(raw(json)) };
        let call = Call::UpgradeResourceIdentity;
        let answer: wire::UpgradeIdentityResponse = self.ask(call, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let answer = self.decode_identity(type_name, answer.upgraded_identity, call)?;
        Ok(Told { answer, warnings })
    }

    /// The resource as it is; nothing when it is gone.
    pub async fn read(&self, type_name: &str, state: &State) -> Result<Told<Option<State>>, PluginError> {
        let schema = self.catalogue.resource(type_name)?;
        let question = wire::ReadRequest {
            type_name: type_name.into(),
            current_state: Some(encode(&state.value, schema.ty())?),
            private: state.private.clone(),
            provider_meta: self.meta()?,
            client_capabilities: Some(CAPABILITIES),
            current_identity: self.encode_identity(type_name, state.identity.as_ref())?,
        };
        let call = Call::ReadResource;
        let answer: wire::ReadResponse = self.ask(call, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        unless_deferred(call, answer.deferred)?;
        let value = decode_kept(answer.new_state, &schema, call)?;
        let identity = self.decode_identity(type_name, answer.new_identity, call)?;
        let answer = known(value, answer.private, identity, call)?;
        Ok(Told { answer, warnings })
    }

    /// What would become of `prior` by this configuration; `proposed` is the two merged.
    pub async fn plan(
        &self,
        type_name: &str,
        prior: &State,
        proposed: &Value,
        config: &Value,
    ) -> Result<Planned, PluginError> {
        let schema = self.catalogue.resource(type_name)?;
        let ty = schema.ty();
        let question = wire::PlanRequest {
            type_name: type_name.into(),
            prior_state: Some(encode(&prior.value, ty)?),
            proposed_new_state: Some(encode(proposed, ty)?),
            config: Some(encode(config, ty)?),
            prior_private: prior.private.clone(),
            provider_meta: self.meta()?,
            client_capabilities: Some(CAPABILITIES),
            prior_identity: self.encode_identity(type_name, prior.identity.as_ref())?,
        };
        let call = Call::PlanResourceChange;
        let answer: wire::PlanResponse = self.ask(call, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        unless_deferred(call, answer.deferred)?;
        Ok(Planned {
            state: decode_kept(answer.planned_state, &schema, call)?,
            private: answer.planned_private,
            identity: self.decode_identity(type_name, answer.planned_identity, call)?,
            replace: answer.requires_replace.into_iter().map(Path::decode).collect(),
            lenient: answer.legacy_type_system,
            warnings,
        })
    }

    /// Makes it so. An error of the provider is in the answer, with what there is all the same.
    pub async fn apply(
        &self,
        type_name: &str,
        prior: &State,
        planned: &Planned,
        config: &Value,
        time: Option<Duration>,
    ) -> Result<Applied, PluginError> {
        let schema = self.catalogue.resource(type_name)?;
        let ty = schema.ty();
        let question = wire::ApplyRequest {
            type_name: type_name.into(),
            prior_state: Some(encode(&prior.value, ty)?),
            planned_state: Some(encode(&planned.state, ty)?),
            config: Some(encode(config, ty)?),
            planned_private: planned.private.clone(),
            provider_meta: self.meta()?,
            planned_identity: self.encode_identity(type_name, planned.identity.as_ref())?,
        };
        let call = Call::ApplyResourceChange;
        let time = time.unwrap_or(self.caller().limits().change);
        let answer: wire::ApplyResponse = self.caller().unary(call, question, time).await?;
        let diagnostics = Diagnostics::decode(answer.diagnostics);
        let value = decode_kept(answer.new_state, &schema, call)?;
        let identity = self.decode_identity(type_name, answer.new_identity, call)?;
        let state = if value.known() || !diagnostics.has_errors() {
            known(value, answer.private, identity, call)?
        } else {
            // It failed before it knew: what is unknown is taken for not there.
            Some(State { value: without_unknowns(value), private: answer.private, identity })
        };
        Ok(Applied { state, diagnostics })
    }

    pub async fn import(&self, type_name: &str, by: &ImportBy) -> Result<Told<Vec<Imported>>, PluginError> {
        let (id, identity) = match by {
            ImportBy::Id(id) => (id.clone(), None),
            ImportBy::Identity(identity) => (String::new(), self.encode_identity(type_name, Some(identity))?),
        };
        // Asked for, so that an unknown type is our error and not the provider's.
        self.catalogue.resource(type_name)?;
        let question = wire::ImportRequest {
            type_name: type_name.into(),
            id,
            client_capabilities: Some(CAPABILITIES),
            identity,
        };
        let call = Call::ImportResourceState;
        let answer: wire::ImportResponse = self.ask(call, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        unless_deferred(call, answer.deferred)?;
        let mut found = Vec::new();
        for imported in answer.imported_resources {
            let schema = self.catalogue.resource(&imported.type_name)?;
            let value = decode_kept(imported.state, &schema, call)?;
            let identity = self.decode_identity(&imported.type_name, imported.identity, call)?;
            if let Some(state) = known(value, imported.private, identity, call)? {
                found.push(Imported { type_name: imported.type_name, state });
            }
        }
        Ok(Told { answer: found, warnings })
    }

    /// A state of another type, which may be another provider's, as one of this type.
    pub async fn move_state(
        &self,
        source: &Source<'_>,
        type_name: &str,
    ) -> Result<Told<Option<State>>, PluginError> {
        let schema = self.catalogue.resource(type_name)?;
        let question = wire::MoveRequest {
            source_provider_address: source.provider.into(),
            source_type_name: source.type_name.into(),
            source_schema_version: source.version,
            source_state: Some(raw(source.json.as_bytes())),
            target_type_name: type_name.into(),
            source_private: source.private.clone(),
            source_identity: source.identity.map(|identity| raw(identity.as_bytes())),
            source_identity_schema_version: source.identity_version,
        };
        let call = Call::MoveResourceState;
        let answer: wire::MoveResponse = self.ask(call, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let value = decode_kept(answer.target_state, &schema, call)?;
        let identity = self.decode_identity(type_name, answer.target_identity, call)?;
        let answer = known(value, answer.target_private, identity, call)?;
        Ok(Told { answer, warnings })
    }

    /// The configuration that a user could have written for this state. Only of a provider that says it can tell.
    pub async fn generate_config(&self, type_name: &str, state: &Value) -> Result<Told<Value>, PluginError> {
        let schema = self.catalogue.resource(type_name)?;
        let state = Some(encode(state, schema.ty())?);
        let question = wire::GenerateConfigRequest { type_name: type_name.into(), state };
        let call = Call::GenerateResourceConfig;
        let answer: wire::GenerateConfigResponse = self.ask(call, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        Ok(Told { answer: decode(answer.config, schema.ty(), call)?, warnings })
    }

    /// Asks it to give up what it is doing.
    pub async fn stop(&self) -> Result<(), PluginError> {
        let answer: wire::StopResponse = self.ask(Call::StopProvider, Empty {}).await?;
        if answer.error.is_empty() {
            return Ok(());
        }
        Err(PluginError::Failed { call: Call::StopProvider.name(), reason: answer.error })
    }

    /// All null; but a provider that asked for it must get it.
    pub(super) fn meta(&self) -> Result<Option<DynamicValue>, PluginError> {
        let Some(schema) = &self.catalogue.meta else { return Ok(None) };
        Ok(Some(encode(&Value::Fields(Default::default()), schema.ty())?))
    }

    fn encode_identity(
        &self,
        type_name: &str,
        identity: Option<&Value>,
    ) -> Result<Option<IdentityData>, PluginError> {
        let (Some(schema), Some(identity)) = (self.catalogue.identity(type_name), identity) else {
            return Ok(None);
        };
        Ok(Some(IdentityData { identity_data: Some(encode(identity, &schema.ty)?) }))
    }

    pub(super) fn decode_identity(
        &self,
        type_name: &str,
        identity: Option<IdentityData>,
        call: Call,
    ) -> Result<Option<Value>, PluginError> {
        let (Some(schema), Some(data)) = (self.catalogue.identity(type_name), identity) else {
            return Ok(None);
        };
        match decode(data.identity_data, &schema.ty, call)? {
            Value::Null => Ok(None),
            identity => Ok(Some(identity)),
        }
    }
}

async fn ask_schema(caller: &Caller) -> Result<wire::GetProviderSchemaResponse, PluginError> {
    caller.unary(Call::GetProviderSchema, Empty {}, caller.limits().look).await
}

async fn ask_identities(
    caller: &Caller,
) -> Result<std::collections::HashMap<String, wire::IdentitySchema>, PluginError> {
    let call = Call::GetResourceIdentitySchemas;
    let answer: Result<wire::GetIdentitySchemasResponse, _> =
        caller.unary(call, Empty {}, caller.limits().look).await;
    match answer {
        Ok(answer) => {
            Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
            Ok(answer.identity_schemas)
        }
        // Most providers are older than identities. Some say so in words of their own.
        Err(error) if error.is_fatal() => Err(error),
        Err(_) => Ok(Default::default()),
    }
}

pub(super) fn encode(value: &Value, ty: &Type) -> Result<DynamicValue, PluginError> {
    Ok(DynamicValue { msgpack: value.to_msgpack(ty)?.into(), json: Bytes::new() })
}

/// A state, or an identity, as it lies somewhere.
fn raw(json: &[u8]) -> wire::RawState {
    wire::RawState { json: Bytes::copy_from_slice(json), flatmap: Default::default() }
}

fn is_absent(value: &DynamicValue) -> bool {
    value.msgpack.is_empty() && value.json.is_empty()
}

/// An answer that leaves a value out means null.
pub(super) fn decode(value: Option<DynamicValue>, ty: &Type, call: Call) -> Result<Value, PluginError> {
    let Some(value) = value.filter(|value| !is_absent(value)) else { return Ok(Value::Null) };
    let decoded = if value.msgpack.is_empty() {
        Value::from_state_json(&value.json, ty)
    } else {
        Value::from_msgpack(&value.msgpack, ty)
    };
    decoded.map_err(|error| PluginError::Nonsense { call: call.name(), reason: error.to_string() })
}

/// The same of what is a state, or will be one.
fn decode_kept(value: Option<DynamicValue>, schema: &Schema, call: Call) -> Result<Value, PluginError> {
    decode(value, schema.ty(), call).map(|value| schema.kept(value))
}

/// A state has no unknowns.
fn known(
    value: Value,
    private: Bytes,
    identity: Option<Value>,
    call: Call,
) -> Result<Option<State>, PluginError> {
    if value.is_null() {
        return Ok(None);
    }
    if !value.known() {
        let reason = "values in it are still unknown".to_owned();
        return Err(PluginError::Nonsense { call: call.name(), reason });
    }
    Ok(Some(State { value, private, identity }))
}

fn without_unknowns(value: Value) -> Value {
    match value {
        Value::Unknown(_) => Value::Null,
        Value::Sequence(elements) => Value::Sequence(elements.into_iter().map(without_unknowns).collect()),
        Value::Fields(fields) => {
            Value::Fields(fields.into_iter().map(|(name, value)| (name, without_unknowns(value))).collect())
        }
        Value::Typed(typed) => Value::Typed(Box::new((typed.0, without_unknowns(typed.1)))),
        value => value,
    }
}
