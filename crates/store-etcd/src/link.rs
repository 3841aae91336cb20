//! The way to etcd: several members, one of them at a time; who we are; and what its errors mean.
//!
//! A call that finds its member gone fails over to the next at once if it cannot have had an effect there: because it
//! only reads, or because no connection was made. A write whose answer is lost is not tried again: it may have
//! happened, and the caller is told that the store is unavailable.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use parking_lot::Mutex;
use prost::Message;
use store::StoreError;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::transaction::Answer;
use crate::wire::{
    Authenticate, AuthenticateResponse, Compact, Done, StatusRequest, StatusResponse, Txn, TxnResponse,
    WatchCreate, WatchRequest, WatchResponse, signed,
};

/// What came of a call.
#[derive(thiserror::Error, Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It may have happened or not, and may work later.
    #[error("{0}")]
    Away(String),
    #[error("the revision has been compacted")]
    Compacted,
    #[error("the revision is in the future")]
    Future,
    #[error("etcd refuses the user or the password")]
    WrongPassword,
    #[error("etcd wants a user and a password")]
    NoUser,
    #[error(
        "the user may not do this below the prefix of the store: grant it a role that may read and write there"
    )]
    NoRights,
    #[error("this is more than etcd takes at once: raise its --max-request-bytes")]
    TooLarge,
    #[error("{0}")]
    Refused(String),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Away(why) => StoreError::Unavailable(why),
            // They can come and go while the store runs: somebody changes users and roles.
            Fault::WrongPassword | Fault::NoUser | Fault::NoRights => {
                StoreError::Unavailable(fault.to_string())
            }
            Fault::TooLarge => StoreError::TooLarge(fault.to_string()),
            Fault::Compacted | Fault::Future | Fault::Refused(_) => StoreError::Failed(fault.to_string()),
        }
    }
}

/// What etcd says, and what it means.
type Meaning = (&'static str, fn() -> Fault);

/// The first row whose words are in the message counts.
const MEANINGS: [Meaning; 10] = [
    ("required revision has been compacted", || Fault::Compacted),
    ("required revision is a future revision", || Fault::Future),
    ("authentication failed, invalid user ID or password", || Fault::WrongPassword),
    ("user name not found", || Fault::WrongPassword),
    ("user name is empty", || Fault::NoUser),
    ("permission denied", || Fault::NoRights),
    ("database space exceeded", || {
        Fault::Away(
            "etcd has reached its space quota: compact and defragment it, or raise --quota-backend-bytes, and \
             disarm the alarm"
                .into(),
        )
    }),
    ("request is too large", || Fault::TooLarge),
    ("received message larger than max", || Fault::TooLarge),
    ("too many operations in txn request", || {
        Fault::Refused("the transaction has more steps than etcd takes: raise its --max-txn-ops".into())
    }),
];

fn meaning(status: &Status) -> Fault {
    let message = status.message();
    if let Some((_, fault)) = MEANINGS.iter().find(|(words, _)| message.contains(words)) {
        return fault();
    }
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented | Code::OutOfRange => {
            Fault::Refused(format!("etcd refuses: {message}"))
        }
        // The innermost cause says what a person can act on, such as a refused connection.
        _ => Fault::Away(format!("etcd: {}", root_cause(status).unwrap_or_else(|| message.to_owned()))),
    }
}

fn root_cause(status: &Status) -> Option<String> {
    let mut cause = status.source()?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Some(cause.to_string())
}

/// Whether the request never left: there was no connection to send it on.
fn not_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn is_stale_token(status: &Status) -> bool {
    status.message().contains("invalid auth token")
        || status.message().contains("revision of auth store is old")
}

pub(crate) struct Link {
    members: Vec<Channel>,
    /// The member that calls go to. Any index, taken modulo their number.
    current: AtomicUsize,
    credentials: Option<(String, String)>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    timeout: Duration,
    closed: AtomicBool,
}

/// Calls that carry much data get longer than those that carry little.
const LONG: u32 = 3;

impl Link {
    pub(crate) fn new(
        endpoints: Vec<Endpoint>,
        credentials: Option<(String, String)>,
        timeout: Duration,
    ) -> Link {
        Link {
            members: endpoints.iter().map(Endpoint::connect_lazy).collect(),
            current: AtomicUsize::new(0),
            credentials,
            token: Mutex::new(None),
            timeout,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// A read of a few keys.
    pub(crate) async fn read(&self, txn: Txn) -> Result<Answer, Fault> {
        Ok(Answer::new(self.transact(txn, true, self.timeout).await?))
    }

    /// A read of many keys, which takes etcd longer.
    pub(crate) async fn read_much(&self, txn: Txn) -> Result<Answer, Fault> {
        Ok(Answer::new(self.transact(txn, true, self.timeout * LONG).await?))
    }

    pub(crate) async fn write(&self, txn: Txn) -> Result<TxnResponse, Fault> {
        let times = if txn.encoded_len() > 100_000 { LONG } else { 1 };
        self.transact(txn, false, self.timeout * times).await
    }

    async fn transact(&self, txn: Txn, repeatable: bool, timeout: Duration) -> Result<TxnResponse, Fault> {
        self.call("/etcdserverpb.KV/Txn", txn, repeatable, timeout).await
    }

    pub(crate) async fn compact(&self, revision: u64) -> Result<(), Fault> {
        let request = Compact { revision: signed(revision) };
        let Done {} = self.call("/etcdserverpb.KV/Compact", request, true, self.timeout * LONG).await?;
        Ok(())
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, Fault> {
        self.call("/etcdserverpb.Maintenance/Status", StatusRequest {}, true, self.timeout).await
    }

    /// A watch on a stream of its own: dropping it ends it.
    pub(crate) async fn watch(&self, create: WatchCreate) -> Result<Streaming<WatchResponse>, Fault> {
        let opened = self.attempt(true, self.timeout, |mut grpc, token| {
            let create = WatchRequest { create: Some(create.clone()) };
            async move {
                // The request side stays open for as long as the answers are read: etcd ends both together.
                let requests = futures::StreamExt::chain(
                    futures::stream::once(std::future::ready(create)),
                    futures::stream::pending(),
                );
                let mut request = Request::new(requests);
                authorize(request.metadata_mut(), token);
                // A member cut off from its cluster ends the watch instead of staying silent.
                request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
                grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
                let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
                let codec: ProstCodec<WatchRequest, WatchResponse> = ProstCodec::default();
                Ok(grpc.streaming(request, path, codec).await?.into_inner())
            }
        });
        opened.await
    }

    async fn call<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        repeatable: bool,
        timeout: Duration,
    ) -> Result<A, Fault>
    where
        Q: Message + Clone + Default + 'static,
        A: Message + Default + 'static,
    {
        self.attempt(repeatable, timeout, |mut grpc, token| {
            let mut request = Request::new(message.clone());
            authorize(request.metadata_mut(), token);
            async move {
                grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
                let codec: ProstCodec<Q, A> = ProstCodec::default();
                Ok(grpc.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
            }
        })
        .await
    }

    /// Each member is tried once; the token is renewed once.
    async fn attempt<T, F>(
        &self,
        repeatable: bool,
        timeout: Duration,
        call: impl Fn(Grpc<Channel>, Option<MetadataValue<Ascii>>) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let (mut tries, mut renewed) = (0, false);
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(Fault::Away("the store is closed".into()));
            }
            let seat = self.current.load(Ordering::Acquire);
            let token = match self.token(seat, timeout).await {
                Ok(token) => token,
                Err(Fault::Away(_)) if tries + 1 < self.members.len() => {
                    tries += 1;
                    self.leave(seat);
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            let status = match tokio::time::timeout(timeout, call(self.grpc(seat), token)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => status,
                Err(_) => {
                    self.leave(seat);
                    return Err(Fault::Away("etcd does not answer".into()));
                }
            };
            if is_stale_token(&status) && !renewed {
                renewed = true;
                *self.token.lock() = None;
                continue;
            }
            let fault = meaning(&status);
            if matches!(fault, Fault::Away(_)) {
                self.leave(seat);
                tries += 1;
                if tries < self.members.len() && (repeatable || not_sent(&status)) {
                    continue;
                }
            }
            return Err(fault);
        }
    }

    fn grpc(&self, seat: usize) -> Grpc<Channel> {
        let member = &self.members[seat % self.members.len()];
        // What etcd sends is as large as what was asked for; the default of 4 MiB is for servers.
        Grpc::new(member.clone()).max_decoding_message_size(usize::MAX)
    }

    /// Others may have left it already.
    fn leave(&self, seat: usize) {
        let _ =
            self.current.compare_exchange(seat, seat.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
    }

    async fn token(&self, seat: usize, timeout: Duration) -> Result<Option<MetadataValue<Ascii>>, Fault> {
        let Some((name, password)) = &self.credentials else { return Ok(None) };
        if let Some(token) = self.token.lock().clone() {
            return Ok(Some(token));
        }
        let request = Request::new(Authenticate { name: name.clone(), password: password.clone() });
        let mut grpc = self.grpc(seat);
        let asking = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let codec: ProstCodec<Authenticate, AuthenticateResponse> = ProstCodec::default();
            let path = PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
            Ok::<_, Status>(grpc.unary(request, path, codec).await?.into_inner().token)
        };
        match tokio::time::timeout(timeout, asking).await {
            Ok(Ok(token)) => {
                let token: MetadataValue<Ascii> = token
                    .parse()
                    .map_err(|_| Fault::Refused("etcd gave a token that cannot be sent".into()))?;
                *self.token.lock() = Some(token.clone());
                Ok(Some(token))
            }
            // As etcd's own tools see it: who is let in anyway needs no token.
            Ok(Err(status)) if status.message().contains("authentication is not enabled") => Ok(None),
            Ok(Err(status)) => Err(meaning(&status)),
            Err(_) => Err(Fault::Away("etcd does not answer".into())),
        }
    }
}

fn authorize(metadata: &mut tonic::metadata::MetadataMap, token: Option<MetadataValue<Ascii>>) {
    if let Some(mut token) = token {
        token.set_sensitive(true);
        metadata.insert("token", token);
    }
}
