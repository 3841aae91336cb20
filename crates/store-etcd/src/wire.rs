//! The messages of etcd's gRPC interface that this store speaks, with the numbers etcd gave their fields.
//!
//! Written here because it is little, and because the crates that bring all of it need a protobuf compiler on every
//! machine that builds us. Fields we neither set nor read are left out; protobuf skips them.

use bytes::Bytes;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Header {
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
}

impl KeyValue {
    pub(crate) fn created(&self) -> u64 {
        unsigned(self.create_revision)
    }

    pub(crate) fn modified(&self) -> u64 {
        unsigned(self.mod_revision)
    }
}

/// etcd's numbers are signed and never negative.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Range {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// 0 is ascending by key, 2 descending.
    #[prost(int32, tag = "5")]
    pub sort_order: i32,
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(int64, tag = "4")]
    pub count: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Put {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeleteRange {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
}

/// An answer nothing is read from.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Done {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Step {
    #[prost(oneof = "step::Of", tags = "1, 2, 3, 4")]
    pub of: Option<step::Of>,
}

pub(crate) mod step {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Of {
        #[prost(message, tag = "1")]
        Range(super::Range),
        #[prost(message, tag = "2")]
        Put(super::Put),
        #[prost(message, tag = "3")]
        DeleteRange(super::DeleteRange),
        #[prost(message, tag = "4")]
        Txn(super::Txn),
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Outcome {
    #[prost(oneof = "outcome::Of", tags = "1, 2, 3, 4")]
    pub of: Option<outcome::Of>,
}

pub(crate) mod outcome {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Of {
        #[prost(message, tag = "1")]
        Range(super::RangeResponse),
        #[prost(message, tag = "2")]
        Put(super::Done),
        #[prost(message, tag = "3")]
        DeleteRange(super::Done),
        #[prost(message, tag = "4")]
        Txn(super::TxnResponse),
    }
}

/// How a compare compares.
pub(crate) const EQUAL: i32 = 0;
pub(crate) const GREATER: i32 = 1;
pub(crate) const LESS: i32 = 2;
/// What it looks at.
pub(crate) const CREATED: i32 = 1;
pub(crate) const MODIFIED: i32 = 2;
pub(crate) const VALUE: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Compare {
    #[prost(int32, tag = "1")]
    pub result: i32,
    #[prost(int32, tag = "2")]
    pub target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    #[prost(oneof = "Against", tags = "5, 6, 7")]
    pub against: Option<Against>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Against {
    #[prost(int64, tag = "5")]
    Created(i64),
    #[prost(int64, tag = "6")]
    Modified(i64),
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<Step>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<Step>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<Outcome>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Compact {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchCreate {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    #[prost(bool, tag = "4")]
    pub progress_notify: bool,
    #[prost(bool, tag = "6")]
    pub prev_kv: bool,
    /// Large answers come in pieces.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// A piece that is not the last.
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<WatchEvent>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchEvent {
    /// 0 is a put, 1 a deletion.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub previous: Option<KeyValue>,
}

impl WatchEvent {
    pub(crate) fn is_deletion(&self) -> bool {
        self.kind == 1
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Authenticate {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}
