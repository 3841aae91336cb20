//! A proxy in front of an emulator: it sees every call, counts it, and does wrong by script what networks and services do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws::client::Http;
use aws::model::{self, Operation, Protocol, Service};
use aws::protocol::Response as Answer;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller dies before the service hears of it.
    DieBefore,
    /// The caller dies when it has been carried out.
    DieAfter,
    /// Carried out, and the connection breaks before the answer.
    Lost,
    /// Never answered, and not carried out either.
    Silence,
    /// Never answered, and carried out after so long, when nobody waits for it any more.
    Late(Duration),
    /// The service refuses it with an error of its own, in the words of its protocol.
    Failed,
    /// Something between us and the service answers with a page for people.
    Page,
    /// Too many calls, in the words of the protocol.
    Throttled,
    /// A read is answered as it was before.
    Stale,
}

/// A call as the proxy saw it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub service: String,
    pub operation: String,
    pub writes: bool,
    /// What was asked, without signature and date.
    pub request: String,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.service, self.operation)
    }
}

/// A fault that waits for its calls.
#[derive(Clone, Debug)]
struct Armed {
    fault: Fault,
    /// Calls that pass before it.
    after: usize,
    /// Calls that it then strikes.
    times: usize,
    writes_only: bool,
    /// Only calls of this service.
    service: Option<&'static str>,
}

impl Armed {
    fn concerns(&self, call: &Call) -> bool {
        (call.writes || !self.writes_only) && self.service.is_none_or(|service| service == call.service)
    }
}

struct State {
    emulator: String,
    /// The models by which calls are known.
    models: Vec<&'static Service>,
    http: Http,
    seen: Mutex<Vec<Call>>,
    /// Calls that ask for identities and roles.
    identities: Mutex<Vec<Call>>,
    armed: Mutex<Vec<Armed>>,
    struck: Mutex<usize>,
    /// Services of calls whose caller is to die, and that wait for it.
    held: Mutex<Vec<String>>,
    /// The last answers of reads, by what was asked.
    answers: Mutex<HashMap<String, Answer>>,
    died: Notify,
    /// One call at a time is carried out, and what a caller has given up before what it asks next: emulators show at once
    /// what was made, and so does what is behind this.
    turn: tokio::sync::Mutex<()>,
}

pub struct Proxy {
    state: Arc<State>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// `services` are those whose calls are known by name.
    pub async fn start(emulator: &str, services: &[&str]) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            emulator: emulator.to_owned(),
            models: services.iter().map(|name| model::service(name).unwrap()).collect(),
            http: Http::new(Duration::from_secs(60)),
            seen: Mutex::default(),
            identities: Mutex::default(),
            armed: Mutex::default(),
            struck: Mutex::default(),
            held: Mutex::default(),
            answers: Mutex::default(),
            died: Notify::new(),
            turn: tokio::sync::Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, state.clone()));
        Proxy { state, address, accepting }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Calls seen since the last time.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.state.seen.lock())
    }

    /// Calls for identities and roles since the last time; the others are without them.
    pub fn take_identities(&self) -> Vec<Call> {
        std::mem::take(&mut *self.state.identities.lock())
    }

    pub fn count(&self) -> usize {
        self.state.seen.lock().len()
    }

    /// Lets some calls pass, and strikes as many as told after them.
    pub fn arm(&self, fault: Fault, after: usize, times: usize) {
        self.rearm(Armed { fault, after, times, writes_only: false, service: None });
    }

    /// The same for calls that change something alone.
    pub fn arm_writes(&self, fault: Fault, after: usize, times: usize) {
        self.rearm(Armed { fault, after, times, writes_only: true, service: None });
    }

    fn rearm(&self, armed: Armed) {
        *self.state.struck.lock() = 0;
        *self.state.armed.lock() = vec![armed];
    }

    /// Strikes one call of a service, beside what else is armed.
    pub fn arm_service(&self, service: &'static str, fault: Fault, after: usize, writes_only: bool) {
        let armed = Armed { fault, after, times: 1, writes_only, service: Some(service) };
        self.state.armed.lock().push(armed);
    }

    /// Nothing strikes any more, and nothing is held; whether something was struck.
    pub fn disarm(&self) -> bool {
        self.state.armed.lock().clear();
        self.state.held.lock().clear();
        std::mem::take(&mut *self.state.struck.lock()) > 0
    }

    /// Whether a call of a service waits for the death of its caller.
    pub fn holds(&self, service: &str) -> bool {
        self.state.held.lock().iter().any(|held| held == service)
    }

    /// Returns when a call is reached at which the caller is to die.
    pub async fn died(&self) {
        self.state.died.notified().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, state.clone()));
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let service = service_fn(move |request| handle(request, state.clone()));
    // A connection that breaks is what some of the faults are.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The connection is to break.
#[derive(Debug, thiserror::Error)]
#[error("broken by script")]
struct Broken;

async fn handle(
    request: http::Request<Incoming>,
    state: Arc<State>,
) -> Result<http::Response<Full<Bytes>>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let asked = Asked::of(&state.models, &parts, &body);
    // Who we are is asked once for each process and belongs to no resource.
    let fault = if asked.call.service == "sts" {
        state.identities.lock().push(asked.call.clone());
        None
    } else {
        state.strike(&asked.call)
    };
    let kept = parts.headers.iter().filter(|(name, _)| !HOPS.contains(&name.as_str()));
    let request = Arc::new(Request {
        method: parts.method.to_string(),
        url: format!("{}{}", state.emulator, parts.uri),
        headers: kept
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect(),
        body: body.to_vec(),
    });
    let forward = async || state.clone().carry_out(request.clone()).await;
    match fault {
        Some(Fault::DieBefore) => state.die(&asked.call).await,
        Some(Fault::DieAfter) => {
            forward().await?;
            state.die(&asked.call).await
        }
        Some(Fault::Lost) => {
            forward().await?;
            Err(Broken)
        }
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::Late(after)) => {
            tokio::spawn({
                let (state, request) = (state.clone(), request.clone());
                async move {
                    tokio::time::sleep(after).await;
                    state.carry_out(request).await
                }
            });
            std::future::pending().await
        }
        Some(Fault::Failed) => Ok(asked.refusal(500, "InternalFailure", "it broke")),
        Some(Fault::Page) => {
            let page = "<html><body><h1>502 Bad Gateway</h1></body></html>";
            Ok(answer(502, "text/html", page.to_owned()))
        }
        Some(Fault::Throttled) => Ok(asked.throttled()),
        Some(Fault::Stale) if !asked.call.writes => {
            let before = state.answers.lock().get(&asked.call.request).cloned();
            match before {
                Some(before) => Ok(passed_on(before)),
                None => state.ask(&asked.call, forward().await?),
            }
        }
        Some(Fault::Stale) | None => state.ask(&asked.call, forward().await?),
    }
}

/// What is passed on.
struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl State {
    /// Has the emulator do something, whether or not somebody goes on waiting for it.
    async fn carry_out(self: Arc<State>, request: Arc<Request>) -> Result<Answer, Broken> {
        let carried_out = tokio::spawn(async move {
            let _turn = self.turn.lock().await;
            let Request { method, url, headers, body } = &*request;
            self.http.send(None, method, url, headers, body.clone()).await
        });
        carried_out.await.map_err(|_| Broken)?.map_err(|_| Broken)
    }

    /// Notes a call, and says what is to happen to it.
    fn strike(&self, call: &Call) -> Option<Fault> {
        self.seen.lock().push(call.clone());
        let mut waiting = self.armed.lock();
        let at = waiting.iter().position(|armed| armed.concerns(call))?;
        let armed = &mut waiting[at];
        if armed.after > 0 {
            armed.after -= 1;
            return None;
        }
        let fault = armed.fault;
        armed.times = armed.times.saturating_sub(1);
        if armed.times == 0 {
            waiting.remove(at);
        }
        *self.struck.lock() += 1;
        Some(fault)
    }

    fn ask(&self, call: &Call, answer: Answer) -> Result<http::Response<Full<Bytes>>, Broken> {
        if !call.writes {
            self.answers.lock().insert(call.request.clone(), answer.clone());
        }
        Ok(passed_on(answer))
    }

    /// The caller is to die here: nobody waits for an answer.
    async fn die<T>(&self, call: &Call) -> T {
        self.held.lock().push(call.service.clone());
        self.died.notify_one();
        std::future::pending().await
    }
}

/// Headers that concern one connection only.
const HOPS: &[&str] = &["connection", "content-length", "host", "keep-alive", "transfer-encoding"];

fn passed_on(answer: Answer) -> http::Response<Full<Bytes>> {
    let mut response = http::Response::builder().status(answer.status);
    for (name, value) in answer.headers.iter().filter(|(name, _)| !HOPS.contains(&name.as_str())) {
        response = response.header(name, value);
    }
    response.body(Full::new(answer.body)).unwrap()
}

fn answer(status: u16, content: &str, body: String) -> http::Response<Full<Bytes>> {
    let response = http::Response::builder().status(status).header("content-type", content);
    response.body(Full::new(body.into())).unwrap()
}

/// A request, and what it is by the models.
struct Asked {
    call: Call,
    protocol: Protocol,
}

impl Asked {
    fn of(models: &[&'static Service], parts: &http::request::Parts, body: &[u8]) -> Asked {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let scope = header("authorization").and_then(|text| text.split("Credential=").nth(1));
        let signed = scope.and_then(|scope| scope.split('/').nth(3)).unwrap_or_default().to_owned();
        let text = String::from_utf8_lossy(body);
        let action = || text.split('&').find_map(|pair| pair.strip_prefix("Action=")).map(str::to_owned);
        let told = header("x-amz-target").and_then(|target| target.rsplit('.').next()).map(str::to_owned);
        let cbor = || parts.uri.path().split_once("/operation/").map(|(_, operation)| operation.to_owned());
        let told = told.or_else(action).or_else(cbor);
        let mut models = models.iter().filter(|model| model.signing_name() == signed);
        let found = match &told {
            Some(told) => models.find_map(|model| model.operation(told)),
            None => models.find_map(|model| by_address(model, parts)),
        };
        let (service, operation) = match (&found, told) {
            (Some(operation), _) => (operation.service().name().to_owned(), operation.name().to_owned()),
            (None, Some(told)) => (signed, told),
            (None, None) => (signed, format!("{} {}", parts.method, parts.uri.path())),
        };
        let reads =
            ["BatchGet", "Describe", "Get", "Head", "List"].iter().any(|word| operation.starts_with(word));
        let request = format!("{} {} {operation} {text}", parts.method, parts.uri);
        let protocol = found.map_or(Protocol::Json, |operation| operation.service().protocol());
        Asked { call: Call { service, operation, writes: !reads, request }, protocol }
    }

    fn throttled(&self) -> http::Response<Full<Bytes>> {
        let (status, code) = match self.protocol {
            Protocol::Json | Protocol::RpcV2Cbor => (400, "ThrottlingException"),
            Protocol::RestJson => (429, "TooManyRequestsException"),
            Protocol::RestXml => (503, "SlowDown"),
            Protocol::Query => (400, "Throttling"),
            Protocol::Ec2 => (503, "RequestLimitExceeded"),
        };
        self.refusal(status, code, "Rate exceeded")
    }

    /// An error as the protocol writes it.
    fn refusal(&self, status: u16, code: &str, message: &str) -> http::Response<Full<Bytes>> {
        let error = format!("<Code>{code}</Code><Message>{message}</Message>");
        let (content, body) = match self.protocol {
            Protocol::Json | Protocol::RestJson | Protocol::RpcV2Cbor => {
                ("application/x-amz-json-1.1", format!(r#"{{"__type":"{code}","message":"{message}"}}"#))
            }
            Protocol::RestXml => ("text/xml", format!("<Error>{error}</Error>")),
            Protocol::Query => ("text/xml", format!("<ErrorResponse><Error>{error}</Error></ErrorResponse>")),
            Protocol::Ec2 => {
                ("text/xml", format!("<Response><Errors><Error>{error}</Error></Errors></Response>"))
            }
        };
        answer(status, content, body)
    }
}

/// The operation of a service with addresses: the one that says most about this one.
fn by_address(service: &'static Service, parts: &http::request::Parts) -> Option<Operation<'static>> {
    let asked: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let names: Vec<&str> = parts
        .uri
        .query()
        .unwrap_or_default()
        .split('&')
        .map(|pair| pair.split('=').next().unwrap())
        .collect();
    let fit = |operation: &Operation<'static>| -> Option<usize> {
        let (path, query) = operation.uri().split_once('?').unwrap_or((operation.uri(), ""));
        let told: Vec<&str> = path.trim_matches('/').split('/').collect();
        let query: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
        let fits = operation.method() == parts.method.as_str()
            && told.len() == asked.len()
            && told.iter().zip(&asked).all(|(told, asked)| told.starts_with('{') || told == asked)
            && query.iter().all(|pair| names.contains(&pair.split('=').next().unwrap_or_default()));
        let literal = told.iter().filter(|word| !word.starts_with('{')).count();
        fits.then_some(query.len() * 2 + literal)
    };
    service.operations().filter(|operation| fit(operation).is_some()).max_by_key(|operation| fit(operation))
}
