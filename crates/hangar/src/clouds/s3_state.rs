//! States of Terraform resources in S3, as Terraform's backend `s3` keeps them: made here, where both clouds are known.

use std::sync::Arc;
use std::time::Duration;

use ::terraform::backend::{Access, Backend, Lock, Open, away, settings};
use async_trait::async_trait;
use aws::client::{CallError, Client, Http};
use aws::credentials::Provider;
use aws::endpoint::Settings as Endpoints;
use aws::model::Service;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use egress::Caller;
use provision::Failure;
use serde::Deserialize;
use serde_json::{Value, json};

pub const NAME: &str = "s3";
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Settings {
    bucket: String,
    key: String,
    region: String,
    /// In the Secret, and nowhere else: the process's own credentials are not for everybody who writes an object.
    access_key: String,
    secret_key: String,
    token: Option<String>,
    endpoint: Option<String>,
    #[serde(default)]
    endpoints: EndpointSettings,
    #[serde(default)]
    use_path_style: bool,
    #[serde(default)]
    force_path_style: bool,
    #[serde(default)]
    encrypt: bool,
    kms_key_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndpointSettings {
    s3: Option<String>,
}

struct S3 {
    client: Client,
    service: &'static Service,
    settings: Settings,
}

/// Makes backends that share their connections.
pub fn opener() -> Open {
    let http = Arc::new(Http::new(PATIENCE));
    Arc::new(move |config: &Value, caller: &Caller| open(&http, config, caller))
}

fn open(http: &Arc<Http>, config: &Value, caller: &Caller) -> Result<Arc<dyn Backend>, Failure> {
    let settings: Settings = settings(NAME, config)?;
    let credentials = Provider::given(&settings.access_key, &settings.secret_key, settings.token.as_deref());
    let endpoints = Endpoints {
        url: settings.endpoints.s3.clone().or_else(|| settings.endpoint.clone()),
        path_style: settings.use_path_style || settings.force_path_style,
        ..Endpoints::default()
    };
    let client = Client::new(http.clone(), credentials, &settings.region, endpoints);
    let client = client.on_behalf_of(caller.clone());
    let service = aws::model::service(NAME).map_err(|error| away(NAME, error))?;
    Ok(Arc::new(S3 { client, service, settings }))
}

impl S3 {
    async fn call(&self, operation: &str, mut input: Value) -> Result<Value, CallError> {
        input["Bucket"] = json!(self.settings.bucket);
        input["Key"] = json!(self.settings.key);
        self.client.call(self.service, operation, &input).await
    }
}

fn is_absent(error: &CallError) -> bool {
    error.code == "NoSuchKey" || (error.http_status == Some(404) && error.code != "NoSuchBucket")
}

#[async_trait]
impl Backend for S3 {
    async fn read(&self, _: &Access<'_>) -> Result<Option<Vec<u8>>, Failure> {
        match self.call("GetObject", json!({})).await {
            Ok(answer) => {
                let text = answer["Body"].as_str().unwrap_or_default();
                let bytes = BASE64_STANDARD.decode(text).map_err(|error| away(NAME, error))?;
                Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(away(NAME, error)),
        }
    }

    async fn write(&self, _: &Access<'_>, state: Vec<u8>, _: &Lock) -> Result<(), Failure> {
        let mut input = json!({"Body": BASE64_STANDARD.encode(state), "ContentType": "application/json"});
        if self.settings.encrypt {
            input["ServerSideEncryption"] = json!("AES256");
            if let Some(key) = &self.settings.kms_key_id {
                input["ServerSideEncryption"] = json!("aws:kms");
                input["SSEKMSKeyId"] = json!(key);
            }
        }
        self.call("PutObject", input).await.map(drop).map_err(|error| away(NAME, error))
    }

    async fn delete(&self, _: &Access<'_>) -> Result<(), Failure> {
        match self.call("DeleteObject", json!({})).await {
            Err(error) if !is_absent(&error) => Err(away(NAME, error)),
            _ => Ok(()),
        }
    }
}
