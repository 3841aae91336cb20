//! What exists of a type, managed or not, as the provider finds it in its cloud.

use prost::Message as _;

use super::PluginError;
use super::answers::Told;
use super::provider::{Provider, encode};
use crate::diagnostic::Diagnostics;
use crate::protocol::Call;
use crate::protocol::messages as wire;
use crate::value::{Type, Value};

/// Warnings of one list that are kept; who warns of more warns of nothing.
const WARNINGS: usize = 50;

/// A resource that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// For people.
    pub name: String,
    /// What it can be taken over by.
    pub identity: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub found: Vec<Listed>,
    /// There are more than were asked for.
    pub more: bool,
}

impl Provider {
    /// What exists of a type by what a list of it is asked with, at most so many, in the order of the provider. It has
    /// the time of one look for all of it, and one answer's bytes.
    pub async fn list(
        &self,
        type_name: &str,
        config: &Value,
        most: usize,
    ) -> Result<Told<Listing>, PluginError> {
        let (schema, _) = self.catalogue().listed(type_name)?;
        let config = encode(config, schema.ty())?;
        // One more than is wanted tells whether there are more.
        let limit = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
        let question = wire::ValidateListRequest {
            type_name: type_name.into(),
            config: Some(config.clone()),
            include_resource_object: Some(encode(&Value::Bool(false), &Type::Bool)?),
            limit: Some(encode(&Value::number(limit), &Type::Number)?),
        };
        let answer: wire::DiagnosticsResponse = self.ask(Call::ValidateListResourceConfig, question).await?;
        let warnings = Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let question = wire::ListRequest {
            type_name: type_name.into(),
            config: Some(config),
            include_resource_object: false,
            limit,
        };
        let (call, look) = (Call::ListResource, self.caller().limits().look);
        let read = Box::pin(self.read_list(question, most, warnings));
        let late = PluginError::TimedOut { call: call.name(), after: look };
        tokio::time::timeout(look, read).await.unwrap_or(Err(late))
    }

    /// Reads until the end, or until there is one more than is wanted: what a provider still says then is not heard.
    async fn read_list(
        &self,
        question: wire::ListRequest,
        most: usize,
        mut warnings: Diagnostics,
    ) -> Result<Told<Listing>, PluginError> {
        let (call, limits) = (Call::ListResource, self.caller().limits());
        let type_name = question.type_name.clone();
        let nonsense = |reason: &str| PluginError::Nonsense { call: call.name(), reason: reason.to_owned() };
        let mut events = self.caller().stream::<_, wire::ListEvent>(call, question, limits.look).await?;
        let mut listing = Listing::default();
        let mut bytes = 0;
        loop {
            let event = match events.message().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(Told { answer: listing, warnings }),
                Err(status) => return Err(self.caller().explain(call, status).await),
            };
            bytes += event.encoded_len();
            if bytes > limits.answer_bytes {
                return Err(PluginError::TooLarge { call: call.name(), most: limits.answer_bytes });
            }
            let said = Diagnostics::decode(event.diagnostic).check().map_err(PluginError::Refused)?;
            let warned = !said.0.is_empty();
            warnings.0.extend(said.0);
            warnings.0.truncate(WARNINGS);
            match self.decode_identity(&type_name, event.identity, call)? {
                Some(identity) if !identity.known() => {
                    return Err(nonsense("values of an identity in it are still unknown"));
                }
                Some(_) if listing.found.len() == most => {
                    return Ok(Told { answer: Listing { more: true, ..listing }, warnings });
                }
                Some(identity) => listing.found.push(Listed { name: event.display_name, identity }),
                // Some have only something to say.
                None if warned => {}
                None => return Err(nonsense("a resource in it has no identity")),
            }
        }
    }
}
