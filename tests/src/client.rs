//! A small HTTPS client that can ask what no kubectl would.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::http::{HeaderMap, Request};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// No answer takes longer; a watch may be silent for as long as it likes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who asks, and whose word is trusted about the server.
#[derive(Clone, Default)]
pub struct Credentials {
    authority: Vec<u8>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    token: Option<String>,
}

impl Credentials {
    /// Those of the kubeconfig that `hangar up` writes.
    pub fn from_kubeconfig(path: &Path) -> Credentials {
        let config: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let decoded = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        // Of a file that others use too, the entries of the installation.
        let entry = |list: &str| {
            let mut entries = config[list].as_array().unwrap().iter();
            entries.find(|entry| entry["name"] == "hangar").unwrap_or(&config[list][0]).clone()
        };
        let user = &entry("users")["user"];
        Credentials {
            authority: decoded(&entry("clusters")["cluster"]["certificate-authority-data"]),
            certificate: Some((decoded(&user["client-certificate-data"]), decoded(&user["client-key-data"]))),
            token: None,
        }
    }

    /// The same server, asked by nobody.
    pub fn anonymous(self) -> Credentials {
        Credentials { certificate: None, token: None, ..self }
    }

    pub fn with_token(self, token: &str) -> Credentials {
        Credentials { certificate: None, token: Some(token.to_owned()), ..self }
    }

    /// A certificate and its key, as PEM.
    pub fn with_certificate(self, certificate: &[u8], key: &[u8]) -> Credentials {
        Credentials { certificate: Some((certificate.to_vec(), key.to_vec())), token: None, ..self }
    }

    fn tls(&self) -> TlsConfig {
        let authority = Certificate::from_pem(&self.authority).unwrap();
        let client = self.certificate.as_ref().map(|(certificate, key)| {
            ClientCert::new_with_certs(
                &[Certificate::from_pem(certificate).unwrap()],
                PrivateKey::from_pem(key).unwrap(),
            )
        });
        TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[authority]))
            .client_cert(client)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .build()
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{} is not JSON: {}", self.code, self.text()))
    }

    /// The object, of a request that has to succeed.
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{}: {}", self.code, self.text());
        self.json()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    headers: Vec<(String, String)>,
    patience: Duration,
}

impl Client {
    pub fn new(address: SocketAddr, credentials: Credentials) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .allow_non_standard_methods(true)
            .timeout_connect(Some(PATIENCE))
            // Until the server closes them: a client that waits for others is still connected when it goes on.
            .max_idle_age(PATIENCE)
            .timeout_recv_response(Some(PATIENCE))
            .tls_config(credentials.tls())
            .proxy(None)
            .build();
        let bearer = credentials.token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
        let headers = bearer.into_iter().collect();
        let agent = Agent::new_with_config(config);
        Client { agent, base: format!("https://{address}"), headers, patience: PATIENCE }
    }

    /// The same client, which takes no answer within that time for none at all.
    #[must_use]
    pub fn patient_for(&self, patience: Duration) -> Client {
        Client { patience, ..self.clone() }
    }

    /// The same client with one header more on every request.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Client {
        let mut with = self.clone();
        with.headers.push((name.to_owned(), value.to_owned()));
        with
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, b"")
    }

    pub fn post(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, Some("application/json"), object.to_string().as_bytes())
    }

    pub fn put(&self, path: &str, object: &Value) -> Answer {
        self.send("PUT", path, Some("application/json"), object.to_string().as_bytes())
    }

    /// `kind` is what stands before `-patch+json`.
    pub fn patch(&self, path: &str, kind: &str, patch: &Value) -> Answer {
        self.send(
            "PATCH",
            path,
            Some(&format!("application/{kind}-patch+json")),
            patch.to_string().as_bytes(),
        )
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None, b"")
    }

    pub fn send(&self, method: &str, path: &str, content_type: Option<&str>, body: &[u8]) -> Answer {
        self.try_send(method, path, content_type, body)
            .unwrap_or_else(|error| panic!("{method} {path}: no answer: {error}"))
    }

    /// Fails where there was no answer at all, as when a handshake is refused.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: &[u8],
    ) -> Result<Answer, ureq::Error> {
        let request = self.request(method, path, content_type, body);
        let request = self.agent.configure_request(request).timeout_global(Some(self.patience));
        let request = request.timeout_connect(Some(self.patience));
        let request = request.timeout_recv_response(Some(self.patience)).build();
        let response = self.agent.run(request)?;
        let (head, mut rest) = response.into_parts();
        let body = rest.with_config().limit(u64::MAX).read_to_vec()?;
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, body })
    }

    /// Asks, and reads nothing of the body of the answer, which is open for as long as the body is kept.
    pub fn hold(&self, path: &str) -> Result<(u16, Body), ureq::Error> {
        let response = self.agent.run(self.request("GET", path, None, b""))?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    /// Watches; the answer must be a stream.
    pub fn watch(&self, path: &str) -> Watch {
        self.try_watch(path).unwrap_or_else(|why| panic!("GET {path}: {why}"))
    }

    /// Watches where there may be nobody to answer.
    pub fn try_watch(&self, path: &str) -> Result<Watch, String> {
        let response = self.agent.run(self.request("GET", path, None, b"")).map_err(|e| e.to_string())?;
        let code = response.status().as_u16();
        let mut body = response.into_body();
        match code {
            200 => Ok(Watch::of(body)),
            _ => Err(format!("{code}: {}", body.read_to_string().unwrap_or_default())),
        }
    }

    fn request(&self, method: &str, path: &str, content_type: Option<&str>, body: &[u8]) -> Request<Vec<u8>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(content_type) = content_type {
            request = request.header("Content-Type", content_type);
        }
        request.body(body.to_vec()).unwrap()
    }
}

/// The events of one watch, as they come.
pub struct Watch {
    events: Receiver<Value>,
}

impl Watch {
    fn of(body: Body) -> Watch {
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(body.into_reader()).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no event: {line}"));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Watch { events }
    }

    /// The next event, which has to come.
    pub fn next(&self) -> Value {
        self.events.recv_timeout(PATIENCE).unwrap_or_else(|why| panic!("no event: {why}"))
    }

    /// The next event, if one comes within that time, and whether any can come after it.
    pub fn next_within(&self, patience: Duration) -> Result<Value, RecvTimeoutError> {
        self.events.recv_timeout(patience)
    }

    /// `ADDED name` and so on, of the next `count` events.
    pub fn brief(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| brief(&self.next())).collect()
    }

    /// No event comes for a moment.
    pub fn silent(&self) {
        match self.events.recv_timeout(Duration::from_millis(300)) {
            Ok(event) => panic!("an event that should not be: {event}"),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// All events until the server ends the stream, which it has to do within `patience`.
    pub fn to_end(&self, patience: Duration) -> Vec<Value> {
        let began = Instant::now();
        let mut seen = Vec::new();
        loop {
            match self.events.recv_timeout(patience.saturating_sub(began.elapsed())) {
                Ok(event) => seen.push(event),
                Err(RecvTimeoutError::Disconnected) => return seen,
                Err(RecvTimeoutError::Timeout) => panic!("the watch goes on after {patience:?}"),
            }
        }
    }
}

/// An event in two words.
fn brief(event: &Value) -> String {
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
    format!("{} {name}", event["type"].as_str().unwrap_or("?"))
}
