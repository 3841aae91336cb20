//! The one client for what is asked over HTTP: authorities are read once, connections are kept for the next question.

use std::net::IpAddr;
use std::sync::LazyLock;

use http::Uri;
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

/// Whether nobody on the way can read or change what is asked at a URL: it goes by https, or does not leave this machine.
pub fn is_safe(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => uri.host().is_some_and(is_this_machine),
        _ => false,
    }
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_for_this_machine() {
        for (url, safe) in [
            ("https://example.com/a", true),
            ("http://localhost/a", true),
            ("http://localhost:8080", true),
            ("http://127.0.0.1:80/a", true),
            ("http://127.9.9.9/a", true),
            ("http://[::1]:80/a", true),
            ("http://localhost.example.com/", false),
            ("http://127.0.0.1.example.com/", false),
            ("http://localhost@example.com/", false),
            ("http://10.0.0.1/", false),
            ("http://[::2]/", false),
            ("http://example.com/", false),
            ("ftp://localhost/", false),
            ("localhost", false),
        ] {
            assert_eq!(is_safe(url), safe, "{url}");
        }
    }
}
