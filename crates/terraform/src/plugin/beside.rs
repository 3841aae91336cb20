//! What can be asked of a provider beside its resources: data, and functions.

use super::PluginError;
use super::answers::{Told, unless_deferred};
use super::provider::{CAPABILITIES, Provider, decode, encode};
use crate::diagnostic::Diagnostics;
use crate::protocol::Call;
use crate::protocol::messages as wire;
use crate::value::Value;

impl Provider {
    pub async fn read_data(&self, name: &str, config: &Value) -> Result<Told<Value>, PluginError> {
        let schema = self.catalogue().data_source(name)?;
        let config = encode(config, schema.ty())?;
        let question = wire::ValidateRequest {
            type_name: name.into(),
            config: Some(config.clone()),
            client_capabilities: None,
        };
        let answer: wire::DiagnosticsResponse = self.ask(Call::ValidateDataResourceConfig, question).await?;
        let mut warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let call = Call::ReadDataSource;
        let question = wire::ReadDataRequest {
            type_name: name.into(),
            config: Some(config),
            provider_meta: self.meta()?,
            client_capabilities: Some(CAPABILITIES),
        };
        let answer: wire::ReadDataResponse = self.ask(call, question).await?;
        let more = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        warnings.0.extend(more.0);
        unless_deferred(call, answer.deferred)?;
        Ok(Told { answer: decode(answer.state, schema.ty(), call)?, warnings })
    }

    /// What a function makes of its arguments, which are of the types that it takes. The provider need not be configured.
    pub async fn call_function(&self, name: &str, arguments: &[Value]) -> Result<Value, PluginError> {
        let function = self.catalogue().function(name)?;
        let call = Call::CallFunction;
        let mut encoded = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.iter().enumerate() {
            let parameter = function.parameter(at).ok_or_else(|| PluginError::Failed {
                call: call.name(),
                reason: format!("the function {name} takes {} arguments", function.parameters.len()),
            })?;
            encoded.push(encode(argument, &parameter.ty)?);
        }
        let question = wire::CallFunctionRequest { name: name.into(), arguments: encoded };
        let answer: wire::CallFunctionResponse = self.ask(call, question).await?;
        match answer.error {
            Some(error) => Err(PluginError::Failed { call: call.name(), reason: error.text }),
            None => decode(answer.result, &function.returns, call),
        }
    }
}
