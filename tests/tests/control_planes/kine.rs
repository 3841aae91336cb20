//! A control plane that kine keeps in PostgreSQL, as KubeFlex leaves it, becomes one of ours.
//!
//! Its table is filled as an API server fills it: built-in kinds as protobuf, the rest as JSON, a row for every change.

use std::os::unix::fs::PermissionsExt;

use databases::postgres;
use end_to_end::{Client, Server};
use serde_json::{Value, json};

use super::whole::furnish;
use super::{CONFIG_MAPS, admin, collections, config_map, create, everything, hangar, inside, run, run_at};

const TABLE: &str = "CREATE TABLE kine (
    id SERIAL PRIMARY KEY, name VARCHAR(630), created INTEGER, deleted INTEGER, create_revision INTEGER,
    prev_revision INTEGER, lease INTEGER, value bytea, old_value bytea)";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        drop(client);
        driver.await.unwrap().unwrap();
    });
}

/// The rows of one key: it was made, changed, and perhaps deleted.
fn rows(key: &str, value: &[u8], deleted: bool) -> String {
    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value)
           VALUES ('{key}', 1, 0, 0, 0, 0, 'k8s'::bytea);
         INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value)
           SELECT name, 0, {}, id, id, 0, '\\x{hex}'::bytea FROM kine WHERE id = (SELECT max(id) FROM kine);",
        u8::from(deleted)
    )
}

/// Everything in a control plane, as its API server would have stored it.
fn dump(client: &Client, name: &str) -> String {
    let mut sql = String::new();
    for path in collections(client, &inside(name, "")) {
        let list = client.get(&inside(name, &path)).ok();
        let resource = path.rsplit('/').next().unwrap();
        for mut item in list["items"].as_array().unwrap().clone() {
            let metadata = item["metadata"].as_object_mut().unwrap();
            metadata.remove("resourceVersion");
            let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
            let (namespace, own) = (text("namespace").to_owned(), text("name").to_owned());
            item["kind"] = list["kind"].as_str().unwrap().trim_end_matches("List").into();
            item["apiVersion"] = list["apiVersion"].clone();
            let own_path = match namespace.as_str() {
                "" => format!("{path}/{own}"),
                namespace => path
                    .replace(&format!("/{resource}"), &format!("/namespaces/{namespace}/{resource}/{own}")),
            };
            let answer = client.with("Accept", PROTOBUF).get(&inside(name, &own_path));
            let value = match answer.body.starts_with(b"k8s\0") {
                true => answer.body,
                false => item.to_string().into_bytes(),
            };
            sql.push_str(&rows(&format!("/registry/{resource}/{namespace}/{own}"), &value, false));
        }
    }
    sql
}

/// Protobuf does not tell an empty text from none.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, member)| (name, without_empty(member)));
            Value::Object(members.filter(|(_, member)| *member != json!("")).collect())
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

#[test]
fn a_control_plane_of_kubeflex_becomes_one_of_ours() {
    let (kubeflex, server) = (Server::start(), Server::start());
    create(&kubeflex, "old", &json!({"type": "k8s"}));
    furnish(&kubeflex, "old");
    let client = admin(&kubeflex, "old");
    let owner = client.post(&inside("old", CONFIG_MAPS), &config_map("owner", "1")).ok();
    let mut owned = config_map("owned", "1");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    owned["metadata"]["finalizers"] = json!(["example.com/wait"]);
    client.post(&inside("old", CONFIG_MAPS), &owned).ok();
    client.delete(&inside("old", &format!("{CONFIG_MAPS}/owned"))).ok();
    let before = everything(&client, "old");

    let database = postgres::Server::new(&["fsync=off"]);
    let gone = config_map("gone", "1").to_string();
    let bookkeeping =
        r#"{"kind": "RangeAllocation", "apiVersion": "v1", "metadata": {}, "range": "10.0.0.0/24"}"#;
    let sql = [
        TABLE.to_owned(),
        ";".to_owned(),
        rows("/registry/configmaps/default/gone", gone.as_bytes(), true),
        rows("/registry/ranges/serviceips", bookkeeping.as_bytes(), false),
        rows("/registry/health", br#"{"health":"true"}"#, false),
        dump(&client, "old"),
    ];
    execute(&database.url(), &sql.concat());
    let url = database.url();
    let said = hangar(&server, &["import", "kine", "--from", &url, "new"]);
    assert!(said.contains("Not served here: 1 of RangeAllocation (v1)"), "{said}");
    assert!(said.contains("Not served here: 1 of health"), "{said}");

    let client = admin(&server, "new");
    let mut after = everything(&client, "new");
    assert!(before.len() > 100, "{}", before.len());
    let mut differ = Vec::new();
    for (place, mut object) in before {
        // Where the server is, and what it is trusted by, is told by each installation itself.
        if place.ends_with(" default/kubernetes") && place.contains("endpoint") {
            assert!(!after.contains_key(&place), "{place}");
            continue;
        }
        let mut found = after.remove(&place).unwrap_or_else(|| panic!("{place} is missing"));
        if place.contains("kube-root-ca.crt") {
            assert_ne!(found["data"], object["data"]);
            (found["data"], object["data"]) = (Value::Null, Value::Null);
        }
        let (found, object) = (without_empty(found), without_empty(object));
        if found != object {
            differ.push(format!("{place}: {found} is not {object}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(after.is_empty(), "{:?}", after.keys());
    // It works as any other: the owner goes, and with it what it owned, once its finalizer lets go.
    let owned = inside("new", &format!("{CONFIG_MAPS}/owned"));
    assert!(client.get(&owned).ok()["metadata"]["deletionTimestamp"].is_string());
    client.patch(&owned, "merge", &json!({"metadata": {"finalizers": null}})).ok();
    assert_eq!(client.get(&owned).code, 404);
    let path = inside("new", "/apis/example.com/v1/namespaces/team/things");
    let another = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "another"}});
    client.post(&path, &another).ok();
}

#[test]
fn the_database_is_reached_as_psql_reaches_it() {
    let server = Server::start();
    let database = postgres::Server::new(&["fsync=off"]);
    let (url, port) = (database.url(), database.port());
    let mut map = config_map("m", "1");
    map["metadata"]["namespace"] = "default".into();
    let row = rows("/registry/configmaps/default/m", map.to_string().as_bytes(), false);
    execute(&url, &format!("{TABLE}; {row}"));

    let login = url.strip_prefix("postgres://").unwrap().split('@').next().unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".pgpass");
    std::fs::write(&file, format!("127.0.0.1:{port}:*:{user}:{}\n", password.replace("%20", " "))).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let import = |user: &str| {
        let from = format!("postgres://{user}127.0.0.1:{port}/postgres");
        run_at(home.path(), &server, &["import", "kine", "--from", &from, "new", "--no-switch"])
    };
    // Whoever is not named is oneself.
    let whoami = std::process::Command::new("id").arg("-un").output().unwrap();
    let said = String::from_utf8(import("").stderr).unwrap();
    assert!(said.contains(String::from_utf8(whoami.stdout).unwrap().trim()), "{said}");
    let output = import(&format!("{user}@"));
    assert!(output.status.success(), "{output:?}");
    let found = admin(&server, "new").get(&inside("new", &format!("{CONFIG_MAPS}/m"))).ok();
    assert_eq!(found["data"]["value"], "1");
}

#[test]
fn what_cannot_be_imported_is_said_in_a_line_and_nothing_is_made() {
    let server = Server::start();
    let database = postgres::Server::new(&["fsync=off"]);
    let url = database.url();
    let refused = |url: &str, table: &str, says: &str| {
        let output = run(&server, &["import", "kine", "--from", url, "--table", table, "new"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.lines().count() == 1 && said.contains(says), "{said}");
        assert!(!said.contains("wrong-password"), "{said}");
    };
    refused(&url, "kine", "no table");
    execute(&url, "CREATE TABLE people (id integer, name text)");
    refused(&url, "people", "is not one of kine's");
    let wrong = format!("postgres://hangar:wrong-password@127.0.0.1:{}/postgres", database.port());
    refused(&wrong, "kine", "does not let user");
    execute(&url, &format!("{TABLE};"));
    refused(&url, "kine", "holds no object");
    execute(&url, &rows("/registry/secrets/default/s", b"k8s:enc:aescbc:v1:key1:xyz", false));
    refused(&url, "kine", "is encrypted at rest");
    let planes = server.client().get(super::CONTROL_PLANES).ok();
    let names: Vec<&Value> =
        planes["items"].as_array().unwrap().iter().map(|one| &one["metadata"]["name"]).collect();
    assert!(!names.contains(&&json!("new")), "{names:?}");
}
