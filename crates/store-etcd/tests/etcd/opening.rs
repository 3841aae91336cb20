//! What opening says when it cannot be, and the ways in.

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use store::{Scope, Store};
use store_etcd::{Config, Etcd, Options, Tls};
use tokio::net::TcpListener;

use crate::replicas::{key, put};
use crate::server::{self, Configured, Server, Wish};

async fn refusal(config: &Config) -> String {
    match Etcd::open(config, Options::default()).await {
        Ok(_) => panic!("{config:?} was opened"),
        Err(error) => error.to_string(),
    }
}

/// It stores, and finds what it stored.
async fn works(config: &Config) {
    let store = server::open(config).await;
    let tenant = store.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    store.write(tenant, vec![put("a", "1")]).await.unwrap();
    assert_eq!(store.get(tenant, &key("a")).await.unwrap().unwrap().value, "1");
    assert_eq!(store.count(tenant, &Scope::All).await.unwrap(), 1);
}

#[tokio::test]
async fn nobody_there() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let config = Config::parse(&format!("etcd://{free}")).unwrap();
    let said = refusal(&config).await;
    assert!(said.starts_with(&format!("etcd at {free} cannot be reached: ")), "{said}");
    assert!(said.contains("refused"), "{said}");
    // Somebody who never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config::parse(&format!("etcd://{}", silent.local_addr().unwrap())).unwrap();
    let said = refusal(&config).await;
    assert!(said.ends_with("cannot be reached: etcd does not answer"), "{said}");
}

#[tokio::test]
async fn one_of_several_is_enough() {
    let etcd = Server::start();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut config = etcd.fresh_config();
    config.endpoints.insert(0, free.to_string());
    works(&config).await;
}

/// A server that says of itself that it is `version`, and nothing else.
async fn pretend(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let answer = service_fn(move |_| async move {
                let mut message = BytesMut::new();
                message.put_u8(0);
                message.put_u32(version.len() as u32 + 2);
                message.put_slice(&[0x12, version.len() as u8]);
                message.put_slice(version.as_bytes());
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                let frames = [Frame::data(message.freeze()), Frame::trailers(trailers)];
                let body = StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Infallible>)));
                hyper::Response::builder().header("content-type", "application/grpc").body(body)
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(socket), answer));
        }
    });
    address
}

#[tokio::test]
async fn too_old() {
    let config = Config::parse(&format!("etcd://{}", pretend("3.3.27").await)).unwrap();
    assert_eq!(refusal(&config).await, "etcd 3.3.27 is too old: 3.4 or newer is needed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_passwords() {
    let mut etcd = Server::start();
    let name = |name: &str| format!(r#"{{"name":"{name}","password":"right"}}"#);
    for user in ["root", "mine", "stranger"] {
        etcd.ask("/v3/auth/user/add", &name(user));
    }
    for role in ["root", "mine"] {
        etcd.ask("/v3/auth/role/add", &format!(r#"{{"name":"{role}"}}"#));
        etcd.ask("/v3/auth/user/grant", &format!(r#"{{"user":"{role}","role":"{role}"}}"#));
    }
    // "/mine/" to "/mine0", in base64: the prefix and nothing else.
    let rights = r#"{"permType":"READWRITE","key":"L21pbmUv","range_end":"L21pbmUw"}"#;
    etcd.ask("/v3/auth/role/grant", &format!(r#"{{"name":"mine","perm":{rights}}}"#));
    etcd.ask("/v3/auth/enable", "{}");
    let address = etcd.address();
    let config = |user: &str| Config::parse(&format!("etcd://{user}{address}/mine")).unwrap();
    let wrong =
        |user: &str| format!("etcd refuses the password of user {user:?}, or does not know that user");
    assert_eq!(refusal(&config("mine:wrong@")).await, wrong("mine"));
    assert_eq!(refusal(&config("nobody:right@")).await, wrong("nobody"));
    assert_eq!(refusal(&config("")).await, "etcd asks for a user and a password, and none is configured");
    let rights = r#"the user of etcd may not read and write below "/mine": grant it a role that may"#;
    assert_eq!(refusal(&config("stranger:right@")).await, rights);
    works(&config("mine:right@")).await;
    // Tokens do not survive a restart: a new one is taken.
    let store = server::open(&config("mine:right@")).await;
    let tenant = store.tenant("one").await.unwrap().unwrap().id;
    let from = store.revision(tenant).await.unwrap();
    let mut watch = store.watch(tenant, Scope::All, from).await.unwrap();
    etcd.restart();
    etcd.wait();
    while store.write(tenant, vec![put("b", "2")]).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(crate::replicas::next_event(&mut watch).await.value, "2");
}

/// An authority, a server's certificate and a client's.
fn certificates(at: &Path) {
    let run = |line: &str| {
        let done = Command::new("openssl").args(line.split_whitespace()).current_dir(at).output().unwrap();
        assert!(done.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for ca in ["ca", "other"] {
        run(&format!("req -x509 {key} -days 2 -subj /CN={ca} -keyout {ca}.key -out {ca}.pem"));
    }
    std::fs::write(
        at.join("server.ext"),
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth",
    )
    .unwrap();
    std::fs::write(at.join("client.ext"), "extendedKeyUsage=clientAuth").unwrap();
    for who in ["server", "client"] {
        run(&format!("req {key} -subj /CN={who} -keyout {who}.key -out {who}.csr"));
        run(&format!(
            "x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile {who}.ext -out {who}.pem"
        ));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_both_ways() {
    let etcd = Server::with(|at| {
        certificates(at);
        let file = |name: &str| at.join(name).display().to_string();
        let arguments = [
            ["--cert-file".into(), file("server.pem")],
            ["--key-file".into(), file("server.key")],
            ["--trusted-ca-file".into(), file("ca.pem")],
        ];
        let arguments = arguments.into_iter().flatten().chain(["--client-cert-auth".into()]).collect();
        Wish { arguments, tls: true }
    });
    let file = |name: &str| Some(etcd.directory().join(name));
    let with = |ca: &str, client: Option<&str>| {
        let certificate = client.and_then(|client| file(&format!("{client}.pem")));
        let key = client.and_then(|client| file(&format!("{client}.key")));
        Config { tls: Some(Tls { ca: file(ca), certificate, key, server_name: None }), ..etcd.fresh_config() }
    };
    works(&with("ca.pem", Some("client"))).await;
    for (what, config) in [
        ("no certificate of ours", with("ca.pem", None)),
        ("another authority", with("other.pem", Some("client"))),
        ("in the clear", etcd.fresh_config()),
    ] {
        let said = refusal(&config).await;
        assert!(
            said.starts_with("etcd at 127.0.0.1:") && said.contains("cannot be reached"),
            "{what}: {said}"
        );
    }
    let said = refusal(&with("missing.pem", None)).await;
    assert!(said.contains("missing.pem cannot be read"), "{said}");
}
