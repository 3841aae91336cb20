//! The one client for what is asked over HTTP: authorities are read once, connections are kept for the next question.

use std::sync::LazyLock;

use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prost::bytes::Bytes;

pub type Web = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

static WEB: LazyLock<Result<Web, String>> = LazyLock::new(|| {
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
        .map_err(|error| error.to_string())?
        .https_or_http()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
});

/// Or why this machine's authorities cannot be read.
pub fn client() -> Result<&'static Web, &'static String> {
    WEB.as_ref()
}
