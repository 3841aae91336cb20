//! As much of AWS as Buckets and Queues ask for, answered at once: what is measured is the server under test, and not an
//! emulator. Whether it does the right thing is tested elsewhere, against emulators that others wrote.
//!
//! Every call is noted under the resource that it is about, with the moment at which it came.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What is answered for the parts of a bucket that nobody has set.
const PARTS: &[(&str, Result<&str, &str>)] = &[
    ("accelerate", Ok("<AccelerateConfiguration/>")),
    ("analytics", Ok("<ListBucketAnalyticsConfigurationResult/>")),
    ("cors", Err("NoSuchCORSConfiguration")),
    ("encryption", Err("ServerSideEncryptionConfigurationNotFoundError")),
    ("intelligent-tiering", Ok("<ListBucketIntelligentTieringConfigurationsOutput/>")),
    ("inventory", Ok("<ListInventoryConfigurationsResult/>")),
    ("lifecycle", Err("NoSuchLifecycleConfiguration")),
    ("logging", Ok("<BucketLoggingStatus/>")),
    ("metrics", Ok("<ListMetricsConfigurationsResult/>")),
    ("notification", Ok("<NotificationConfiguration/>")),
    ("ownershipControls", Err("OwnershipControlsNotFoundError")),
    ("policy", Err("NoSuchBucketPolicy")),
    ("publicAccessBlock", Err("NoSuchPublicAccessBlockConfiguration")),
    ("replication", Err("ReplicationConfigurationNotFoundError")),
    (
        "requestPayment",
        Ok("<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>"),
    ),
    ("tagging", Err("NoSuchTagSet")),
    ("versioning", Ok("<VersioningConfiguration/>")),
    ("website", Err("NoSuchWebsiteConfiguration")),
];

#[derive(Default)]
struct Seen {
    calls: usize,
    first: HashMap<String, Instant>,
    buckets: HashSet<String>,
    /// What was put into parts of buckets, and the tags of queues.
    put: HashMap<String, String>,
}

/// An emulator that listens.
#[derive(Clone, Default)]
pub struct Emulator(Arc<Mutex<Seen>>);

impl Emulator {
    pub async fn listen(port: u16) -> anyhow::Result<Emulator> {
        let (emulator, socket) = (Emulator::default(), TcpListener::bind(("127.0.0.1", port)).await?);
        let answering = emulator.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                // Small answers must not wait for more.
                let _ = stream.set_nodelay(true);
                let emulator = answering.clone();
                let service = service_fn(move |request| emulator.clone().answer(request));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(emulator)
    }

    /// All calls so far.
    pub fn calls(&self) -> usize {
        self.0.lock().map(|seen| seen.calls).unwrap_or_default()
    }

    /// When the first call about a resource came.
    pub fn first_call(&self, resource: &str) -> Option<Instant> {
        self.0.lock().ok()?.first.get(resource).copied()
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let came = Instant::now();
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
        let account = account(header("authorization"));
        let (status, text) = match self.0.lock() {
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
            Ok(mut seen) => {
                seen.calls += 1;
                match header("x-amz-target").strip_prefix("AmazonSQS.") {
                    Some(operation) => {
                        let input: Value = serde_json::from_slice(&body).unwrap_or_default();
                        (StatusCode::OK, seen.queue(came, operation, &input, &account).to_string())
                    }
                    None if head.uri.path() == "/" => (StatusCode::OK, identity(&account)),
                    None => {
                        let part = head.uri.query().unwrap_or_default();
                        let part = part.split(['=', '&']).next().unwrap_or_default();
                        let name = head.uri.path().trim_matches('/');
                        seen.bucket(came, &head.method, name, part, &String::from_utf8_lossy(&body))
                    }
                }
            }
        };
        let mut response = Response::new(Full::new(text.into()));
        *response.status_mut() = status;
        Ok(response)
    }
}

impl Seen {
    fn bucket(
        &mut self,
        came: Instant,
        method: &Method,
        name: &str,
        part: &str,
        body: &str,
    ) -> (StatusCode, String) {
        self.first.entry(name.to_owned()).or_insert(came);
        let absent = |code: &str| (StatusCode::NOT_FOUND, format!("<Error><Code>{code}</Code></Error>"));
        let there = self.buckets.contains(name);
        let of_part = PARTS.iter().find(|(known, _)| *known == part);
        let place = format!("{name}?{part}");
        match (method.as_str(), of_part) {
            ("PUT", None) => _ = self.buckets.insert(name.to_owned()),
            ("DELETE", None) => _ = self.buckets.remove(name),
            ("HEAD" | "GET", None) if !there => return absent("NoSuchBucket"),
            ("PUT", Some(_)) => _ = self.put.insert(place, body.to_owned()),
            ("GET", Some((_, unset))) => {
                return match (self.put.get(&place), unset) {
                    (Some(put), _) => (StatusCode::OK, put.clone()),
                    (None, Ok(text)) => (StatusCode::OK, (*text).to_owned()),
                    (None, Err(code)) => absent(code),
                };
            }
            _ => {}
        }
        (StatusCode::OK, String::new())
    }

    fn queue(&mut self, came: Instant, operation: &str, input: &Value, account: &str) -> Value {
        let url = input["QueueUrl"].as_str().unwrap_or_default();
        let name = input["QueueName"].as_str().or(url.rsplit('/').next()).unwrap_or_default().to_owned();
        self.first.entry(name.clone()).or_insert(came);
        match operation {
            "CreateQueue" => {
                self.put.insert(name.clone(), input["tags"].to_string());
                json!({"QueueUrl": format!("http://127.0.0.1/{account}/{name}")})
            }
            "TagQueue" => {
                self.put.insert(name, input["Tags"].to_string());
                json!({})
            }
            "ListQueueTags" => {
                let tags = self.put.get(&name).and_then(|tags| serde_json::from_str::<Value>(tags).ok());
                json!({"Tags": tags.unwrap_or_default()})
            }
            "GetQueueAttributes" => json!({"Attributes": {
                "QueueArn": format!("arn:aws:sqs:us-east-1:{account}:{name}"), "DelaySeconds": "0",
                "MaximumMessageSize": "262144", "MessageRetentionPeriod": "345600",
                "ReceiveMessageWaitTimeSeconds": "0", "VisibilityTimeout": "30", "SqsManagedSseEnabled": "true",
            }}),
            _ => json!({}),
        }
    }
}

/// The account that a key belongs to: keys here are twelve digits and say it themselves.
fn account(authorization: &str) -> String {
    let key = authorization.split("Credential=").nth(1).unwrap_or_default();
    key.split('/').next().unwrap_or_default().to_owned()
}

fn identity(account: &str) -> String {
    format!(
        "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::{account}:user/load</Arn>\
         <UserId>load</UserId><Account>{account}</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
    )
}
