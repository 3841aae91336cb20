//! One call over the wire: its name, its time, the size of its answer, and what went wrong in our words.

use std::error::Error;
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::watch;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::{Limits, PluginError};
use crate::protocol::{Call, Version};

/// A process that dies takes its connection first; how it died is known a moment later.
const OBITUARY: Duration = Duration::from_millis(500);
/// Of what a provider says when it fails.
const LONGEST_REASON: usize = 1_000;

/// Asks one process. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    channel: Channel,
    version: Version,
    limits: Limits,
    ended: watch::Receiver<Option<String>>,
}

impl Caller {
    pub fn new(
        channel: Channel,
        version: Version,
        limits: Limits,
        ended: watch::Receiver<Option<String>>,
    ) -> Caller {
        Caller { channel, version, limits, ended }
    }

    pub fn version(&self) -> Version {
        self.version
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How the process ended, once it has.
    pub fn ended(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// A client that can send. What fails here has not been sent.
    async fn ready(&self, call: Call, time: Duration) -> Result<Grpc<Channel>, PluginError> {
        let unsent = |status: String| PluginError::Unsent { call: call.name(), status };
        if let Some(status) = self.ended() {
            return Err(unsent(status));
        }
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(self.limits.answer_bytes);
        match tokio::time::timeout(time, Box::pin(client.ready())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(unsent(causes(&error))),
            Err(_) => return Err(unsent(format!("not ready within {} seconds", time.as_secs()))),
        }
        Ok(client)
    }

    pub async fn unary<Q, A>(&self, call: Call, question: Q, time: Duration) -> Result<A, PluginError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut client = self.ready(call, time).await?;
        let path = PathAndQuery::from_static(call.path(self.version));
        // On the heap: what tonic keeps of a call would be in every future around it.
        let asked = Box::pin(async move {
            client.unary(Request::new(question), path, ProstCodec::<Q, A>::default()).await
        });
        match tokio::time::timeout(time, asked).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.explain(call, status).await),
            Err(_) => Err(PluginError::TimedOut { call: call.name(), after: time }),
        }
    }

    pub async fn stream<Q, A>(
        &self,
        call: Call,
        question: Q,
        time: Duration,
    ) -> Result<Streaming<A>, PluginError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut client = self.ready(call, time).await?;
        let path = PathAndQuery::from_static(call.path(self.version));
        let asked = Box::pin(async move {
            client.server_streaming(Request::new(question), path, ProstCodec::<Q, A>::default()).await
        });
        match tokio::time::timeout(time, asked).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.explain(call, status).await),
            Err(_) => Err(PluginError::TimedOut { call: call.name(), after: time }),
        }
    }

    /// What a failed call means.
    pub async fn explain(&self, call: Call, status: Status) -> PluginError {
        let call = call.name();
        // The old connection was gone, and there was none to send it by.
        if is_unconnected(&status) {
            return PluginError::Unsent { call, status: self.ended().unwrap_or_else(|| causes(&status)) };
        }
        let mut ended = self.ended.clone();
        let transport =
            status.source().is_some() || matches!(status.code(), Code::Unavailable | Code::Unknown);
        if transport
            && let Ok(Ok(status)) = tokio::time::timeout(OBITUARY, ended.wait_for(Option::is_some)).await
        {
            let status = status.clone().unwrap_or_default();
            return PluginError::Died { call, status };
        }
        let message = status.message();
        match status.code() {
            Code::Unimplemented => PluginError::Unsupported { call },
            // Tonic's own word for an answer over the limit.
            Code::OutOfRange => PluginError::TooLarge { call, most: self.limits.answer_bytes },
            Code::Unavailable => PluginError::Died { call, status: "its connection broke".into() },
            Code::Internal if message.contains("decode") => {
                PluginError::Nonsense { call, reason: "it is not valid protobuf".into() }
            }
            code => {
                // What broke the connection is behind the message.
                let all = status.source().map_or_else(|| message.to_owned(), causes);
                let reason: String = all.chars().take(LONGEST_REASON).collect();
                PluginError::Failed {
                    call,
                    reason: if reason.is_empty() { code.to_string() } else { reason },
                }
            }
        }
    }
}

fn is_unconnected(status: &Status) -> bool {
    let mut next = status.source();
    while let Some(cause) = next {
        if cause.is::<tonic::ConnectError>() {
            return true;
        }
        next = cause.source();
    }
    false
}

/// An error with what is behind it, in one line.
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
