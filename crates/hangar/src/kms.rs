//! A Kubernetes KMS v2 plugin: a program on this machine that encrypts the installation's key with one that never leaves it.
//!
//! The protocol is `v2.KeyManagementService` of k8s.io/kms over a Unix socket. The plugin is asked at the start and when the
//! key is replaced, and not in between: data keys are decrypted with the installation's key, which is in memory by then.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// What kube-apiserver waits for a plugin by default.
const TIME: Duration = Duration::from_secs(3);
/// Of what a plugin answers.
const LONGEST: usize = 64 << 10;

#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub healthz: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// A key as the plugin encrypted it: what is on disk. Bytes are base 64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wrapped {
    pub key_id: String,
    pub ciphertext: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A plugin, by its socket.
#[derive(Debug)]
pub struct Kms {
    socket: PathBuf,
}

impl Kms {
    pub fn new(endpoint: &str) -> anyhow::Result<Kms> {
        match endpoint.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Ok(Kms { socket: path.into() }),
            _ => bail!("--kms-endpoint {endpoint:?} is not the socket of a KMS plugin, unix:///PATH"),
        }
    }

    pub async fn encrypt(&self, key: &[u8; 32]) -> anyhow::Result<Wrapped> {
        self.healthy().await?;
        let question = EncryptRequest { plaintext: key.to_vec(), uid: uid() };
        let answer: EncryptResponse = self.ask("/v2.KeyManagementService/Encrypt", question).await?;
        if answer.ciphertext.is_empty() || answer.key_id.is_empty() {
            bail!("{}: the KMS plugin answered without a ciphertext or a key id", self.socket.display());
        }
        let annotations = answer.annotations.iter();
        Ok(Wrapped {
            key_id: answer.key_id,
            ciphertext: STANDARD.encode(&answer.ciphertext),
            annotations: annotations.map(|(name, value)| (name.clone(), STANDARD.encode(value))).collect(),
        })
    }

    pub async fn decrypt(&self, wrapped: &Wrapped) -> anyhow::Result<[u8; 32]> {
        self.healthy().await?;
        let bytes = |text: &str| STANDARD.decode(text).context("the key file is damaged");
        let annotations = wrapped.annotations.iter();
        let annotations = annotations.map(|(name, value)| Ok((name.clone(), bytes(value)?)));
        let question = DecryptRequest {
            ciphertext: bytes(&wrapped.ciphertext)?,
            uid: uid(),
            key_id: wrapped.key_id.clone(),
            annotations: annotations.collect::<anyhow::Result<_>>()?,
        };
        let answer: DecryptResponse = self.ask("/v2.KeyManagementService/Decrypt", question).await?;
        let key = answer.plaintext.try_into();
        key.map_err(|_| {
            anyhow::anyhow!("{}: the KMS plugin answered with no key of 32 bytes", self.socket.display())
        })
    }

    async fn healthy(&self) -> anyhow::Result<()> {
        let status: StatusResponse = self.ask("/v2.KeyManagementService/Status", StatusRequest {}).await?;
        if !matches!(status.version.as_str(), "v2" | "v2beta1") {
            bail!("{}: the KMS plugin speaks version {:?}, not v2", self.socket.display(), status.version);
        }
        if status.healthz != "ok" {
            bail!("{}: the KMS plugin is not healthy: {}", self.socket.display(), status.healthz);
        }
        Ok(())
    }

    async fn ask<Q, A>(&self, path: &'static str, question: Q) -> anyhow::Result<A>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let asked = async {
            let mut client = Grpc::new(self.connect().await?).max_decoding_message_size(LONGEST);
            client.ready().await?;
            let path = PathAndQuery::from_static(path);
            let codec = ProstCodec::<Q, A>::default();
            let answer = client.unary(Request::new(question), path, codec).await;
            answer
                .map(tonic::Response::into_inner)
                .map_err(|status| anyhow::anyhow!("{:?}: {}", status.code(), status.message()))
        };
        let answer =
            tokio::time::timeout(TIME, asked).await.unwrap_or_else(|_| bail!("no answer within 3 seconds"));
        answer.with_context(|| format!("call {path} of the KMS plugin at {}", self.socket.display()))
    }

    async fn connect(&self) -> anyhow::Result<Channel> {
        let socket = self.socket.clone();
        let connector = tower::service_fn(move |_: http::Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        Ok(Endpoint::from_static("http://localhost").connect_with_connector(connector).await?)
    }
}

/// By which logs of the plugin are matched with ours.
fn uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests;
