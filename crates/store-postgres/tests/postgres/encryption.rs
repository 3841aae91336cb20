//! Encrypted connections, as the usual options ask for them.

use std::time::Duration;

use auth::pki::Authority;
use store::Store;
use store_postgres::{Options, Postgres};

use crate::server::{Server, Sql};

fn authority(name: &str) -> Authority {
    Authority::generate(name, jiff::Timestamp::now(), Duration::from_secs(3600)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_judged_as_asked() {
    let (trusted, other) = (authority("trusted"), authority("other"));
    let (now, hour) = (jiff::Timestamp::now(), Duration::from_secs(3600));
    // For a name, and not for the address by which it is asked.
    let shown = trusted.issue_server(&["localhost"], &[], now, hour).unwrap();
    let client = trusted.issue_client("certified", &[] as &[&str], now, hour).unwrap();
    let server = Server::prepared(&[
        "fsync=off",
        "ssl=on",
        "ssl_cert_file='server.crt'",
        "ssl_key_file='server.key'",
        "ssl_ca_file='trusted.crt'",
    ]);
    let file = |name: &str, text: &str| server.file(name, text).display().to_string();
    file("server.crt", &shown.certificate);
    file("server.key", shown.key.expose());
    let (trusted, other) =
        (file("trusted.crt", &trusted.certificate_pem()), file("other.crt", &other.certificate_pem()));
    let (certificate, key) =
        (file("client.crt", &client.certificate), file("client.key", client.key.expose()));
    let hba = std::fs::read_to_string(server.data().join("pg_hba.conf")).unwrap();
    file("pg_hba.conf", &format!("hostssl all certified 127.0.0.1/32 cert\n{hba}"));
    server.start();
    server.run("CREATE ROLE certified LOGIN; GRANT CREATE ON DATABASE postgres TO certified").await;

    let (url, port) = (server.url(), server.port());
    let by_name = url.replace("@127.0.0.1", "@localhost");
    let without_password = format!("postgres://certified@127.0.0.1:{port}/postgres");
    // The address, whether it opens, and whether the connection is encrypted then.
    let cases = [
        (format!("{url}?sslmode=disable"), Ok(false)),
        (url.clone(), Ok(true)),
        (format!("{url}?sslmode=require"), Ok(true)),
        (format!("{url}?sslmode=require&channel_binding=require"), Ok(true)),
        (format!("{url}?sslmode=verify-ca&sslrootcert={trusted}"), Ok(true)),
        (format!("{url}?sslmode=verify-ca&sslrootcert={other}"), Err("UnknownIssuer")),
        (format!("{url}?sslmode=require&sslrootcert={other}"), Err("UnknownIssuer")),
        (format!("{url}?sslmode=verify-full&sslrootcert={trusted}"), Err("not valid for name")),
        (format!("{by_name}?sslmode=verify-full&sslrootcert={trusted}"), Ok(true)),
        (format!("{without_password}?sslmode=require"), Err("certificate")),
        (format!("{without_password}?sslmode=require&sslcert={certificate}&sslkey={key}"), Ok(true)),
    ];
    for (number, (address, expected)) in cases.into_iter().enumerate() {
        let options = Options { schema: format!("case_{number}"), ..Options::default() };
        match (Postgres::open(&address, options).await, expected) {
            (Ok(store), Ok(encrypted)) => {
                store.position().await.unwrap();
                let connections = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                                   WHERE application_name = 'hangar' AND ssl";
                assert_eq!(server.number(connections).await > 0, encrypted, "{address}");
                store.close().await;
                let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hangar'";
                while server.number(open).await > 0 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{address}: {error}"),
            (Ok(_), Err(says)) => panic!("{address} opened, without a word of {says}"),
            (Err(error), Ok(_)) => panic!("{address}: {error}"),
        }
    }
}
