//! A state behind a web server, as Terraform's backend `http` speaks to it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use egress::Caller;
use http::{Method, Request, StatusCode, header};
use md5::{Digest, Md5};
use objects::Value as Json;
use prost::bytes::Bytes;
use provision::Failure;
use serde::Deserialize;

use super::{Access, Backend, Held, Lock, away, locked, settings};

const NAME: &str = "http";
const PATIENCE: Duration = Duration::from_secs(30);
/// More than any state should have.
const LARGEST: usize = 64 << 20;

#[derive(Clone, Deserialize)]
struct Settings {
    address: String,
    update_method: Option<String>,
    lock_address: Option<String>,
    lock_method: Option<String>,
    unlock_address: Option<String>,
    unlock_method: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

#[derive(Clone)]
struct Http {
    settings: Arc<Settings>,
    caller: Caller,
}

pub fn open(config: &Json, caller: &Caller) -> Result<Arc<dyn Backend>, Failure> {
    let settings = Arc::new(settings(NAME, config)?);
    Ok(Arc::new(Http { settings, caller: caller.clone() }))
}

impl Http {
    async fn send(
        &self,
        method: &str,
        address: &str,
        body: Option<Vec<u8>>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| away(NAME, error))?;
        let mut request = Request::builder().method(method).uri(address);
        if let Some(user) = self.settings.username.as_deref().filter(|user| !user.is_empty()) {
            let both = format!("{user}:{}", self.settings.password.as_deref().unwrap_or_default());
            request = request.header(header::AUTHORIZATION, format!("Basic {}", STANDARD.encode(both)));
        }
        if let Some(body) = &body {
            let sum = STANDARD.encode(Md5::digest(body));
            request = request.header(header::CONTENT_TYPE, "application/json").header("content-md5", sum);
        }
        let body = Bytes::from(body.unwrap_or_default());
        let request = request.body(body).map_err(|error| away(NAME, error))?;
        let response = self.caller.send(request, PATIENCE, LARGEST).await;
        let response = response.map_err(|error| away(NAME, error))?;
        Ok((response.status(), response.into_body()))
    }
}

fn unexpected(what: &str, status: StatusCode) -> Failure {
    away(NAME, format_args!("it answers {what} with {status}"))
}

#[async_trait]
impl Backend for Http {
    async fn read(&self, _: &Access<'_>) -> Result<Option<Vec<u8>>, Failure> {
        match self.send("GET", &self.settings.address, None).await? {
            (StatusCode::OK, body) => Ok(Some(body.to_vec()).filter(|body| !body.is_empty())),
            (StatusCode::NO_CONTENT | StatusCode::NOT_FOUND, _) => Ok(None),
            (status, _) => Err(unexpected("a read", status)),
        }
    }

    async fn write(&self, _: &Access<'_>, state: Vec<u8>, lock: &Lock) -> Result<(), Failure> {
        let method = self.settings.update_method.as_deref().unwrap_or("POST");
        let mut address = self.settings.address.clone();
        if self.settings.lock_address.is_some() {
            let mark = if address.contains('?') { '&' } else { '?' };
            address = format!("{address}{mark}ID={}", lock.id);
        }
        match self.send(method, &address, Some(state)).await? {
            (StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT, _) => Ok(()),
            (status, _) => Err(unexpected("a write", status)),
        }
    }

    async fn delete(&self, _: &Access<'_>) -> Result<(), Failure> {
        match self.send("DELETE", &self.settings.address, None).await? {
            (StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND, _) => Ok(()),
            (status, _) => Err(unexpected("a deletion", status)),
        }
    }

    async fn lock(&self, _: &Access<'_>, lock: &Lock) -> Result<Option<Box<dyn Held>>, Failure> {
        let Some(address) = &self.settings.lock_address else { return Ok(None) };
        let info = serde_json::to_vec(lock).map_err(|error| away(NAME, error))?;
        let method = self.settings.lock_method.as_deref().unwrap_or("LOCK");
        match self.send(method, address, Some(info.clone())).await? {
            (StatusCode::OK, _) => {}
            (StatusCode::LOCKED | StatusCode::CONFLICT, body) => {
                let holder: Json = serde_json::from_slice(&body).unwrap_or_default();
                // One of ours that a crash left behind.
                if holder["ID"] != lock.id.as_str() {
                    return Err(locked(NAME, holder["Who"].as_str().unwrap_or_default()));
                }
            }
            (status, _) => return Err(unexpected("a lock", status)),
        }
        Ok(Some(Box::new(HeldHttp { http: self.clone(), info })))
    }
}

struct HeldHttp {
    http: Http,
    info: Vec<u8>,
}

#[async_trait]
impl Held for HeldHttp {
    async fn release(self: Box<Self>) -> Result<(), Failure> {
        let settings = &self.http.settings;
        let Some(address) = settings.unlock_address.as_ref().or(settings.lock_address.as_ref()) else {
            return Ok(());
        };
        let method = settings.unlock_method.as_deref().unwrap_or("UNLOCK");
        match self.http.send(method, address, Some(self.info.clone())).await? {
            (StatusCode::OK, _) => Ok(()),
            (status, _) => Err(unexpected("an unlock", status)),
        }
    }
}
