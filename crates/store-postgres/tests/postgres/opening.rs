//! What is said when the store cannot be opened, and that nothing was touched.

use std::net::TcpListener as StdListener;

use store::Store;
use store_postgres::{OpenError, Options, Postgres, Surroundings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{PASSWORD, Server, Sql, fresh_schema};

async fn refused(url: &str, schema: &str, says: &[&str]) -> OpenError {
    let options = Options { schema: schema.into(), ..Options::default() };
    let error = match Postgres::open(url, options).await {
        Ok(_) => panic!("it opened: {says:?}"),
        Err(error) => error,
    };
    let sentence = error.to_string();
    for word in says {
        assert!(sentence.contains(word), "{word:?} is not in: {sentence}");
    }
    assert!(!sentence.contains(PASSWORD) && !sentence.contains("wrong-password"), "{sentence}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_why() {
    let server = Server::shared();
    let schema = fresh_schema();
    let (port, url) = (server.port(), server.url());
    let wrong = format!("postgres://hangar:wrong-password@127.0.0.1:{port}/postgres");
    assert!(matches!(
        refused(&wrong, &schema, &["does not let user \"hangar\" in", "password"]).await,
        OpenError::Credentials { .. }
    ));
    let nobody = format!("postgres://nobody:wrong-password@127.0.0.1:{port}/postgres");
    refused(&nobody, &schema, &["does not let user \"nobody\" in"]).await;
    let without = format!("postgres://hangar@127.0.0.1:{port}/postgres");
    assert!(matches!(refused(&without, &schema, &["hangar"]).await, OpenError::Credentials { .. }));
    let elsewhere = url.replace("/postgres", "/nowhere");
    refused(&elsewhere, &schema, &["\"nowhere\" does not exist"]).await;
    refused(&format!("{without}?passfile=/no/such"), &schema, &["/no/such", "passfile"]).await;
    let passwords = server.file("passwords", &format!("127.0.0.1:{port}:postgres:*:{PASSWORD}\n"));
    let in_a_file = format!("{without}?passfile={}", passwords.display());
    let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
    std::fs::set_permissions(&passwords, mode(0o644)).unwrap();
    refused(&in_a_file, &schema, &["passfile", "others may read it"]).await;
    std::fs::set_permissions(&passwords, mode(0o600)).unwrap();
    let read = Options { schema: fresh_schema(), ..Options::default() };
    Postgres::open(&in_a_file, read).await.unwrap().close().await;
    // One that nobody named is of use if it can be used, and passed over if not; so is who runs this.
    let around = |file: &std::path::Path| Options {
        surroundings: Surroundings { user: Some("hangar".into()), passfile: Some(file.to_owned()) },
        schema: fresh_schema(),
        ..Options::default()
    };
    let unnamed = format!("postgres://127.0.0.1:{port}/postgres");
    Postgres::open(&unnamed, around(&passwords)).await.unwrap().close().await;
    std::fs::set_permissions(&passwords, mode(0o644)).unwrap();
    for unusable in [passwords.as_path(), std::path::Path::new("/no/such")] {
        let refused = Postgres::open(&unnamed, around(unusable)).await.err();
        assert!(matches!(refused, Some(OpenError::Credentials { .. })), "{refused:?}");
    }
    let free = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(matches!(
        refused(&server.url_by(free), &schema, &["cannot be reached", "127.0.0.1"]).await,
        OpenError::Unreachable { .. }
    ));
    refused("postgres://u@no-such-host.invalid/d", &schema, &["no-such-host.invalid", "cannot be reached"])
        .await;
    // A server without encryption, asked for it.
    refused(&format!("{url}?sslmode=require"), &schema, &["127.0.0.1"]).await;
    refused(&format!("{url}?sslmode=verify-full&sslrootcert=/no/such"), &schema, &["/no/such"]).await;
    refused(&url, "Not A Name", &["Not A Name"]).await;
    let made = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'");
    assert_eq!(server.number(&made).await, 0, "something was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_is_told_what_to_grant() {
    let server = Server::new(&["fsync=off"]);
    server.run("CREATE ROLE guest LOGIN PASSWORD 'guest'").await;
    let guest = format!("postgres://guest:guest@127.0.0.1:{}/postgres", server.port());
    assert!(matches!(refused(&guest, "hangar", &["guest", "grant CREATE"]).await, OpenError::Rights { .. }));
    assert_eq!(server.number("SELECT count(*) FROM pg_namespace WHERE nspname = 'hangar'").await, 0);
    // The schema is there and is another's.
    let owner = Postgres::open(&server.url(), Options::default()).await.unwrap();
    owner.create_tenant("t", bytes::Bytes::new(), vec![]).await.unwrap();
    assert!(matches!(refused(&guest, "hangar", &["guest"]).await, OpenError::Rights { .. }));
    assert_eq!(owner.tenants(None, 10).await.unwrap().len(), 1);
    owner.close().await;
    // What was asked for is enough.
    server.run("GRANT CREATE ON DATABASE postgres TO guest").await;
    let options = Options { schema: "guests".into(), ..Options::default() };
    Postgres::open(&guest, options).await.unwrap().close().await;
    // So is a schema of one's own.
    server
        .run("REVOKE CREATE ON DATABASE postgres FROM guest; CREATE SCHEMA theirs AUTHORIZATION guest")
        .await;
    let options = Options { schema: "theirs".into(), ..Options::default() };
    Postgres::open(&guest, options).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_are_no_use_are_passed_by() {
    let server = Server::shared();
    // Takes connections, and says nothing.
    let silent = StdListener::bind("127.0.0.1:0").unwrap();
    let closed = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let others = format!("127.0.0.1:{},127.0.0.1:{closed}", silent.local_addr().unwrap().port());
    let url = server.url();
    let address = url.replace("@127.0.0.1", &format!("@{others},127.0.0.1"));
    let options = Options { schema: fresh_schema(), ..Options::default() };
    let store = Postgres::open(&address, options).await.unwrap();
    let tenant = store.create_tenant("t", bytes::Bytes::new(), vec![]).await.unwrap().id;
    store.write(tenant, vec![crate::replicas::put("a", store::Expect::Any, "1")]).await.unwrap();
    store.close().await;
    // Who is there and says no has more to say than those who are not.
    let wrong = address.replace(&PASSWORD.replace(' ', "%20"), "wrong-password");
    refused(&wrong, "hangar", &["does not let user \"hangar\" in"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_not_a_place_to_write() {
    let server = Server::prepared(&["fsync=off", "hot_standby=on"]);
    std::fs::write(server.data().join("standby.signal"), "").unwrap();
    server.start();
    assert!(matches!(refused(&server.url(), "hangar", &["read-only"]).await, OpenError::ReadOnly { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_layout_is_left_alone() {
    let server = Server::shared();
    let schema = fresh_schema();
    let options = Options { schema: schema.clone(), ..Options::default() };
    Postgres::open(&server.url(), options.clone()).await.unwrap().close().await;
    server.run(&format!("INSERT INTO {schema}.migration VALUES (99, now())")).await;
    refused(&server.url(), &schema, &["layout 99", "newer version"]).await;
    server.run(&format!("DELETE FROM {schema}.migration WHERE version = 99")).await;
    Postgres::open(&server.url(), options).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_open_a_new_schema_at_once() {
    let server = Server::shared();
    let options = Options { schema: fresh_schema(), ..Options::default() };
    let url = server.url();
    let opened = futures::future::join_all((0..8).map(|_| Postgres::open(&url, options.clone()))).await;
    for store in opened {
        store.unwrap().close().await;
    }
}

/// A server that lets anybody in, says it is of `version`, and answers whatever it is asked with an error, or, with
/// none given, that it can be written.
async fn pretender(version: &'static str, code: &'static str) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let message = |tag: u8, body: &[u8]| {
                    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
                    [&[tag][..], &length, body].concat()
                };
                let mut buffer = vec![0; 4096];
                let ready = message(b'Z', b"I");
                let setting = format!("server_version\0{version}\0");
                let hello =
                    [message(b'R', &[0; 4]), message(b'S', setting.as_bytes()), ready.clone()].concat();
                let error = format!("SERROR\0C{code}\0Mno\0\0");
                // Whether it can be written is the first question; without an error to tell, it can.
                let error = if code.is_empty() {
                    let column = [&b"x\0"[..], &[0; 4], &[0; 2], &25u32.to_be_bytes(), &[0; 8]].concat();
                    let value = [&1u16.to_be_bytes()[..], &3u32.to_be_bytes(), b"off"].concat();
                    let columns = [&1u16.to_be_bytes()[..], &column].concat();
                    [message(b'T', &columns), message(b'D', &value), message(b'C', b"SHOW\0"), ready].concat()
                } else {
                    [message(b'E', error.as_bytes()), ready].concat()
                };
                let mut begun = false;
                while let Ok(1..) = client.read(&mut buffer).await {
                    // The first message may ask for encryption, which is refused by a letter.
                    let encryption = buffer[4..8] == 80_877_103u32.to_be_bytes();
                    let answer = match (begun, encryption) {
                        (false, true) => b"N".to_vec(),
                        (false, false) => {
                            begun = true;
                            hello.clone()
                        }
                        _ => error.clone(),
                    };
                    if client.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_real_server_here_cannot_be_made_to_say() {
    for (version, code, says) in [
        ("14.12 (Debian 14.12-1)", "", "PostgreSQL 14.12"),
        ("9.6", "", "15 or newer"),
        ("15.4", "53100", "disk"),
        ("15.4", "25006", "read-only"),
        ("15.4", "42501", "may not"),
        ("15.4", "53300", "cannot be used"),
    ] {
        let port = pretender(version, code).await;
        refused(&format!("postgres://u@127.0.0.1:{port}/d"), "hangar", &[says]).await;
    }
}
