//! What a provider opens for a while: nothing of it is kept anywhere.

use std::time::SystemTime;

use prost::bytes::Bytes;

use super::PluginError;
use super::answers::{Told, unless_deferred};
use super::provider::{Provider, decode, encode};
use crate::diagnostic::Diagnostics;
use crate::protocol::Call;
use crate::protocol::messages as wire;
use crate::value::Value;

/// Something that is open.
#[derive(Clone)]
pub struct Ephemeral {
    pub value: Value,
    pub hold: Hold,
}

/// What it takes to keep it open, and to close it.
#[derive(Clone)]
pub struct Hold {
    type_name: String,
    private: Option<Bytes>,
    /// If it ends by itself without.
    pub renew_at: Option<SystemTime>,
}

impl Provider {
    pub async fn open_ephemeral(
        &self,
        type_name: &str,
        config: &Value,
    ) -> Result<Told<Ephemeral>, PluginError> {
        let schema = self.catalogue().ephemeral(type_name)?;
        let question = wire::ValidateRequest {
            type_name: type_name.into(),
            config: Some(encode(config, schema.ty())?),
            client_capabilities: None,
        };
        let call = Call::ValidateEphemeralResourceConfig;
        let answer: wire::DiagnosticsResponse = self.ask(call, question.clone()).await?;
        let mut warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let call = Call::OpenEphemeralResource;
        // Without the leave to put it off: somebody needs it now.
        let answer: wire::OpenEphemeralResponse = self.ask(call, question).await?;
        let more = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        warnings.0.extend(more.0);
        unless_deferred(call, answer.deferred)?;
        let value = decode(answer.result, schema.ty(), call)?;
        if value.is_null() || !value.known() {
            let reason = "what it opened has no value".into();
            return Err(PluginError::Nonsense { call: call.name(), reason });
        }
        let hold = Hold {
            type_name: type_name.to_owned(),
            private: answer.private,
            renew_at: answer.renew_at.and_then(time),
        };
        Ok(Told { answer: Ephemeral { value, hold }, warnings })
    }

    pub async fn renew_ephemeral(&self, hold: &Hold) -> Result<Hold, PluginError> {
        let question =
            wire::EphemeralRequest { type_name: hold.type_name.clone(), private: hold.private.clone() };
        let answer: wire::RenewEphemeralResponse = self.ask(Call::RenewEphemeralResource, question).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        Ok(Hold {
            type_name: hold.type_name.clone(),
            private: answer.private.or_else(|| hold.private.clone()),
            renew_at: answer.renew_at.and_then(time),
        })
    }

    pub async fn close_ephemeral(&self, hold: Hold) -> Result<(), PluginError> {
        let question = wire::EphemeralRequest { type_name: hold.type_name, private: hold.private };
        let answer: wire::DiagnosticsResponse = self.ask(Call::CloseEphemeralResource, question).await?;
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        Ok(())
    }
}

fn time(stamp: wire::Timestamp) -> Option<SystemTime> {
    let at = jiff::Timestamp::new(stamp.seconds, stamp.nanos).ok()?;
    Some(SystemTime::from(at))
}
