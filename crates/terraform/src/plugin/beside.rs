//! What can be asked of a provider beside its resources: data, functions, what is open for a while, and what exists.

use prost::bytes::Bytes;

use super::PluginError;
use super::answers::{Discovered, Ephemeral, unless_deferred};
use super::provider::{CAPABILITIES, Provider, decode, encode};
use crate::diagnostic::Diagnostics;
use crate::protocol::Call;
use crate::protocol::messages as wire;
use crate::value::{Type, Value};

impl Provider {
    pub async fn read_data(&self, name: &str, config: &Value) -> Result<Value, PluginError> {
        let schema = self.catalogue().data_source(name)?;
        let config = encode(config, schema.ty())?;
        let question = wire::ValidateRequest {
            type_name: name.into(),
            config: Some(config.clone()),
            client_capabilities: None,
        };
        let answer: wire::DiagnosticsResponse = self.ask(Call::ValidateDataResourceConfig, question).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let call = Call::ReadDataSource;
        let question = wire::ReadDataRequest {
            type_name: name.into(),
            config: Some(config),
            provider_meta: self.meta()?,
            client_capabilities: Some(CAPABILITIES),
        };
        let answer: wire::ReadDataResponse = self.ask(call, question).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        unless_deferred(call, answer.deferred)?;
        decode(answer.state, schema.ty(), call)
    }

    pub async fn call_function(&self, name: &str, arguments: &[Value]) -> Result<Value, PluginError> {
        let function = self.catalogue().function(name)?;
        let call = Call::CallFunction;
        let nonsense = |reason: String| PluginError::Nonsense { call: call.name(), reason };
        let ty = |bytes: &Bytes| Type::parse(bytes).map_err(|error| nonsense(error.to_string()));
        let mut encoded = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let parameter = function.parameters.get(index).or(function.variadic_parameter.as_ref());
            let parameter = parameter.ok_or_else(|| PluginError::Failed {
                call: call.name(),
                reason: format!("the function {name} takes {} arguments", function.parameters.len()),
            })?;
            encoded.push(encode(argument, &ty(&parameter.r#type)?)?);
        }
        let question = wire::CallFunctionRequest { name: name.into(), arguments: encoded };
        let answer: wire::CallFunctionResponse = self.ask(call, question).await?;
        if let Some(error) = answer.error {
            return Err(PluginError::Failed { call: call.name(), reason: error.text });
        }
        let returned = function.r#return.as_ref().ok_or_else(|| nonsense("it returns nothing".into()))?;
        decode(answer.result, &ty(&returned.r#type)?, call)
    }

    pub async fn open_ephemeral(&self, name: &str, config: &Value) -> Result<Ephemeral, PluginError> {
        let schema = self.catalogue().ephemeral(name)?;
        let question = wire::ValidateRequest {
            type_name: name.into(),
            config: Some(encode(config, schema.ty())?),
            client_capabilities: None,
        };
        let answer: wire::DiagnosticsResponse =
            self.ask(Call::ValidateEphemeralResourceConfig, question.clone()).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let call = Call::OpenEphemeralResource;
        let question = wire::ValidateRequest { client_capabilities: Some(CAPABILITIES), ..question };
        let answer: wire::OpenEphemeralResponse = self.ask(call, question).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        unless_deferred(call, answer.deferred)?;
        let value = decode(answer.result, schema.ty(), call)?;
        Ok(Ephemeral { value, private: answer.private, renew_at: answer.renew_at.and_then(time) })
    }

    pub async fn renew_ephemeral(&self, name: &str, open: &mut Ephemeral) -> Result<(), PluginError> {
        let question = wire::EphemeralRequest { type_name: name.into(), private: open.private.clone() };
        let answer: wire::RenewEphemeralResponse = self.ask(Call::RenewEphemeralResource, question).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        open.renew_at = answer.renew_at.and_then(time);
        if answer.private.is_some() {
            open.private = answer.private;
        }
        Ok(())
    }

    pub async fn close_ephemeral(&self, name: &str, open: Ephemeral) -> Result<(), PluginError> {
        let question = wire::EphemeralRequest { type_name: name.into(), private: open.private };
        let answer: wire::DiagnosticsResponse = self.ask(Call::CloseEphemeralResource, question).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        Ok(())
    }

    /// Resources that exist, at most so many.
    pub async fn list(
        &self,
        name: &str,
        config: &Value,
        with_state: bool,
        most: usize,
    ) -> Result<Vec<Discovered>, PluginError> {
        let schema = self.catalogue().list(name)?;
        let call = Call::ListResource;
        let question = wire::ListRequest {
            type_name: name.into(),
            config: Some(encode(config, schema.ty())?),
            include_resource_object: with_state,
            limit: i64::try_from(most).unwrap_or(i64::MAX),
        };
        let look = self.caller().limits().look;
        let resource = self.catalogue().resource(name)?;
        let listing = async {
            let mut events = self.caller().stream::<_, wire::ListEvent>(call, question, look).await?;
            let mut found = Vec::new();
            while found.len() < most {
                let event = match events.message().await {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(status) => return Err(self.caller().explain(call, status).await),
                };
                Diagnostics::decode(event.diagnostic).check().map_err(PluginError::Refused)?;
                let state = match event.resource_object {
                    Some(object) => Some(decode(Some(object), resource.ty(), call)?),
                    None => None,
                };
                let identity = self.decode_identity(name, event.identity, call)?;
                found.push(Discovered { name: event.display_name, identity, state });
            }
            Ok(found)
        };
        let late = PluginError::TimedOut { call: call.name(), after: look };
        tokio::time::timeout(look, listing).await.unwrap_or(Err(late))
    }
}

fn time(stamp: wire::Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(stamp.seconds, stamp.nanos).ok()
}
