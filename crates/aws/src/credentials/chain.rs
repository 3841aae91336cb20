//! The usual chain of credentials, over our own HTTP.

use std::sync::Arc;

use aws_config::BehaviorVersion;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;

use super::Provider;
use crate::client::{Http, HttpError};

/// Credentials from where AWS's own tools find them, and the region they are set up for, unless it is said.
pub async fn default_chain(http: Arc<Http>, region: Option<&str>) -> (Provider, Option<String>) {
    let mut loader =
        aws_config::defaults(BehaviorVersion::latest()).http_client(Connector { http: http.clone() });
    if let Some(region) = region {
        // Else the instance is asked for its own.
        loader = loader.region(aws_config::Region::new(region.to_owned()));
    }
    let config = loader.load().await;
    let region = config.region().map(ToString::to_string);
    let provider = match config.credentials_provider() {
        Some(provider) => Provider::of_chain(provider),
        None => Provider::of(super::Kind::Given, None),
    };
    (provider, region)
}

/// Our HTTP as the chain wants it.
#[derive(Debug, Clone)]
struct Connector {
    http: Arc<Http>,
}

impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let http = self.http.clone();
        HttpConnectorFuture::new(async move {
            let headers: Vec<_> =
                request.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let body = request.body().bytes().unwrap_or_default().to_vec();
            let sent = http.send(None, request.method(), request.uri(), &headers, body).await;
            let answer = sent.map_err(|error| match error {
                HttpError::NoResponse { .. } => ConnectorError::io(error.into()),
                HttpError::TooLarge { .. } => ConnectorError::other(error.into(), None),
                HttpError::Request { .. } => ConnectorError::user(error.into()),
            })?;
            let mut response = http::Response::new(SdkBody::from(answer.body.to_vec()));
            *response.status_mut() = http::StatusCode::from_u16(answer.status)
                .map_err(|error| ConnectorError::other(error.into(), None))?;
            *response.headers_mut() = answer.headers;
            HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}
