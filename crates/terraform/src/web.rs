//! What is fetched over HTTP: archives of providers from the operator's mirrors, and of modules from where tenants say.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use egress::{Caller, Client, Policy, Terms, Tls};
use http::{Request, Response, Uri, header};
use prost::bytes::Bytes;

/// What one download may take.
const TIMEOUT: Duration = Duration::from_secs(600);
const MAX_REDIRECTS: usize = 5;

/// For mirrors. Their addresses are in `Provider` objects, which the operator writes.
static MIRRORS: LazyLock<Client> = LazyLock::new(Client::default);

#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum FetchError {
    #[error("{0} cannot be read: only https is fetched from other machines")]
    Unsafe(String),
    #[error("{url} cannot be read: {error}")]
    Call { url: String, error: egress::CallError },
    #[error("{url} cannot be read: the server answers {code}")]
    Status { url: String, code: u16 },
    #[error("{url} cannot be read: it leads to {location}; name that address if it is meant")]
    OtherHost { url: String, location: String },
    #[error("{0} cannot be read: it leads elsewhere again and again")]
    Redirects(String),
}

/// Who fetches.
#[derive(Clone, Copy)]
pub enum From<'a> {
    /// From where the operator says, and from wherever that leads.
    Operator,
    /// From one host that a tenant chose, if the tenant's policy allows it.
    Tenant(&'a Caller),
}

/// What is at a URL; nothing if there is nothing.
pub async fn get(from: From<'_>, url: &str, max_bytes: usize) -> Result<Option<Bytes>, FetchError> {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    let mut target = url.to_owned();
    for _ in 0..MAX_REDIRECTS {
        if !is_safe(&target) {
            return Err(FetchError::Unsafe(target));
        }
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let response = from.send(&target, left, max_bytes).await;
        let response = response.map_err(|error| FetchError::Call { url: target.clone(), error })?;
        match response.status().as_u16() {
            200 => return Ok(Some(response.into_body())),
            404 | 410 => return Ok(None),
            301 | 302 | 303 | 307 | 308 => {
                let location = response.headers().get(header::LOCATION);
                let location = location.and_then(|location| location.to_str().ok());
                let location = resolve(&target, location.unwrap_or_default());
                if matches!(from, From::Tenant(_)) && host_of(&location) != host_of(&target) {
                    return Err(FetchError::OtherHost { url: target, location });
                }
                target = location;
            }
            code => return Err(FetchError::Status { url: target, code }),
        }
    }
    Err(FetchError::Redirects(url.to_owned()))
}

impl From<'_> {
    async fn send(
        self,
        url: &str,
        timeout: Duration,
        max_bytes: usize,
    ) -> Result<Response<Bytes>, egress::CallError> {
        let request = Request::get(url).body(Bytes::new());
        let request = request.map_err(|error| egress::CallError::Request(error.to_string()))?;
        match self {
            From::Tenant(caller) => caller.send(request, timeout, max_bytes).await,
            From::Operator => {
                let (policy, tls) = (Policy::unrestricted(), Tls::system());
                let terms =
                    Terms { caller: "", policy: &policy, tls: &tls, connect_to: None, timeout, max_bytes };
                MIRRORS.send(request, &terms).await
            }
        }
    }
}

fn host_of(url: &str) -> Option<String> {
    Some(url.parse::<Uri>().ok()?.host()?.to_ascii_lowercase())
}

/// A reference in an answer, seen from where the answer came from.
pub fn resolve(base: &str, reference: &str) -> String {
    if reference.contains("://") {
        return reference.to_owned();
    }
    let after_scheme = base.find("://").map_or(0, |at| at + 3);
    if let Some(rooted) = reference.strip_prefix('/') {
        let host = base[after_scheme..].find('/').map_or(base.len(), |at| after_scheme + at);
        return format!("{}/{rooted}", &base[..host]);
    }
    let directory = base.rfind('/').map_or(base.len(), |at| at + 1);
    format!("{}{reference}", &base[..directory])
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use egress::Egress;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn caller(allowed: &str) -> Caller {
        let policy = Policy::new(allowed.parse().unwrap());
        Egress::new(Client::default(), Arc::new(policy)).caller("a")
    }

    /// Redirects all requests to one place, and counts them.
    async fn redirecting(to: &str) -> (String, Arc<AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/a", listener.local_addr().unwrap());
        let counted: Arc<AtomicUsize> = Arc::default();
        let response = format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
        let counting = counted.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {
                    counting.fetch_add(1, Ordering::SeqCst);
                    stream.write_all(response.as_bytes()).await.unwrap();
                }
            }
        });
        (url, counted)
    }

    #[tokio::test]
    async fn tenants_are_not_led_to_other_hosts() {
        let (other, asked_other) = redirecting("/again").await;
        let other = other.replace("127.0.0.1", "localhost");
        let (url, asked) = redirecting(&other).await;
        let loopback = caller("127.0.0.0/8,::1");
        let refused = get(From::Tenant(&loopback), &url, 100).await.unwrap_err();
        assert!(
            matches!(&refused, FetchError::OtherHost { location, .. } if *location == other),
            "{refused}"
        );
        assert_eq!((asked.load(Ordering::SeqCst), asked_other.load(Ordering::SeqCst)), (1, 0));
        // On the same host it goes on, but not for ever.
        let refused = get(From::Tenant(&loopback), &other, 100).await.unwrap_err();
        assert!(matches!(refused, FetchError::Redirects(_)), "{refused}");
        assert_eq!(asked_other.load(Ordering::SeqCst), MAX_REDIRECTS);
        // Without leave nothing is asked, and nothing is told.
        let refused = get(From::Tenant(&caller("")), &url, 100).await.unwrap_err().to_string();
        assert!(refused.contains("egress policy") && !refused.contains("refused"), "{refused}");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // The operator's own mirror may lead elsewhere.
        let led = get(From::Operator, &url, 100).await.unwrap_err();
        assert!(matches!(led, FetchError::Redirects(_)), "{led}");
        assert!(asked_other.load(Ordering::SeqCst) > MAX_REDIRECTS);
    }

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
