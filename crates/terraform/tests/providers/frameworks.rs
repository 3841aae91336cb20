//! Providers built on what others published: the crate `tf-provider` (protocol 6 over TCP with mutual TLS), and the
//! Python package `tf` (protocol 6 over a unix socket, TLS with a key that is too short to be checked).
//!
//! `cargo xtask test` builds and installs them; without them these tests say so and pass.

use serde_json::{Value as Json, json};
use terraform::plugin::{ImportBy, Launch, Lease, Planned, State};
use terraform::value::Value;
use terraform::{change, shape};

use super::plane::Plane;
use super::postgres::Server;
use super::world::*;

/// What `cargo xtask test` installed.
pub fn tool(path: &str) -> std::path::PathBuf {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().find(|directory| directory.join("test-tools").is_dir());
    let tool = target.map(|target| target.join("test-tools").join(path)).filter(|tool| tool.exists());
    tool.unwrap_or_else(|| panic!("{path} is not installed: cargo xtask test --tools-only does that"))
}

/// The provider of `tests/frameworks/postgresql.py`.
pub fn postgresql() -> Launch {
    let mut launch = Launch::new(tool("provider-venv/bin/python"));
    launch.arguments = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frameworks/postgresql.py").into()];
    launch
}

async fn change_to(lease: &Lease, kind: &str, prior: &State, object: Json) -> Option<State> {
    let schema = lease.catalogue().resource(kind).unwrap();
    let config = shape::desired(&schema.block, &object).unwrap();
    let checked = lease.validate(kind, &config).await.unwrap();
    assert!(!checked.has_errors(), "{checked}");
    let proposed = change::proposed(&schema.block, &prior.value, &config);
    let planned = lease.plan(kind, prior, &proposed, &config).await.unwrap();
    let applied = lease.apply(kind, prior, &planned, &config, None).await.unwrap();
    assert!(!applied.diagnostics.has_errors(), "{}", applied.diagnostics);
    applied.state
}

async fn destroy(lease: &Lease, kind: &str, state: &State) {
    let planned = Planned {
        state: Value::Null,
        private: state.private.clone(),
        identity: None,
        replace: vec![],
        lenient: false,
        warnings: Default::default(),
    };
    let applied = lease.apply(kind, state, &planned, &Value::Null, None).await.unwrap();
    assert!(applied.state.is_none() && !applied.diagnostics.has_errors(), "{}", applied.diagnostics);
}

#[tokio::test]
async fn the_crate_tf_provider() {
    let program = tool("providers/debug/terraform-provider-memo");
    let world = World::new();
    let directory = world.cloud.path().to_str().unwrap();
    let config = Value::Fields([("directory".to_owned(), Value::string(directory))].into());
    let lease = world.pool.lease(&Launch::new(program), "memo", &config).await.unwrap();
    let kind = "memo_note";
    let wanted = json!({"title": "a", "text": "hello", "page": [{"text": "one"}, {"text": "two"}]});
    let state = change_to(&lease, kind, &State::none(), wanted).await.unwrap();
    let schema = lease.catalogue().resource(kind).unwrap();
    let shown = shape::shown(&schema.block, &state.value);
    assert_eq!((&shown["id"], &shown["length"]), (&json!("note-a"), &json!(5)));
    assert_eq!(shown["page"], json!([{"text": "one", "number": 1}, {"text": "two", "number": 2}]));
    let note = world.cloud.path().join("note-a");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "hello");

    std::fs::write(&note, "changed by others").unwrap();
    let read = lease.read(kind, &state).await.unwrap().answer.unwrap();
    assert_eq!(read.value.field("text").as_str(), Some("changed by others"));
    let state = change_to(&lease, kind, &read, json!({"title": "a", "text": "again"})).await.unwrap();
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "again");

    let config = shape::desired(&schema.block, &json!({"title": ""})).unwrap();
    let refused = lease.validate(kind, &config).await.unwrap();
    assert_eq!(refused.to_string(), "title: a note needs a title");
    assert_eq!(lease.call_function("shout", &[Value::string("psst")]).await.unwrap(), Value::string("PSST"));
    destroy(&lease, kind, &state).await;
    assert!(!note.exists());
}

#[tokio::test]
async fn the_python_package_tf() {
    let launch = postgresql();
    let server = Server::start();
    let world = World::new();
    let lease = world.pool.lease(&launch, "postgresql", &server.config()).await.unwrap();
    let kind = "postgresql_role";
    let state = change_to(&lease, kind, &State::none(), json!({"name": "anna"})).await.unwrap();
    assert_eq!(server.ask("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'anna'"), "f");
    server.ask("ALTER ROLE anna CONNECTION LIMIT 5");
    let read = lease.read(kind, &state).await.unwrap().answer.unwrap();
    assert_eq!(read.value.field("connection_limit"), &Value::number(5));
    let state = change_to(&lease, kind, &read, json!({"name": "anna", "login": true})).await.unwrap();
    assert_eq!(server.ask("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'anna'"), "t");

    server.ask("CREATE ROLE otto LOGIN");
    let imported = lease.import(kind, &ImportBy::Id("otto".into())).await.unwrap().answer;
    assert_eq!(imported[0].state.value.field("login"), &Value::Bool(true));
    destroy(&lease, kind, &state).await;
    assert_eq!(server.ask("SELECT count(*) FROM pg_roles WHERE rolname = 'anna'"), "0");
    assert!(lease.read(kind, &state).await.unwrap().answer.is_none());
}

/// The whole life of objects against a real database, judged by the database itself.
#[tokio::test]
async fn roles_and_databases() {
    const ROLES: &str = "roles.role.postgresql.kubeform.com";
    const DATABASES: &str = "databases.database.postgresql.kubeform.com";
    let launch = postgresql();
    let server = Server::start();
    let plane = Plane::of(World::new(), "postgresql", launch).await;
    plane.secret("db", "provider", server.json()).await;
    let object = |kind: &str, name: &str, resource: Json| {
        json!({
            "apiVersion": format!("{}.postgresql.kubeform.com/v1alpha1", kind.to_lowercase()), "kind": kind,
            "metadata": {"name": name}, "spec": {"resource": resource, "providerRef": {"name": "db"}},
        })
    };
    let limit = || server.ask("SELECT rolconnlimit FROM pg_roles WHERE rolname = 'anna'");
    plane.create(ROLES, object("Role", "anna", json!({"name": "anna", "connectionLimit": 3}))).await;
    let made = plane.current(ROLES, "anna").await;
    assert_eq!((limit().as_str(), &made["spec"]["resource"]["id"]), ("3", &json!("anna")));
    plane.create(DATABASES, object("Database", "shop", json!({"name": "shop", "owner": "anna"}))).await;
    plane.current(DATABASES, "shop").await;
    let owner = || server.ask("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname LIKE 'shop%'");
    assert_eq!(owner(), "anna");
    // Drift, found and repaired.
    server.ask("ALTER ROLE anna CONNECTION LIMIT 99");
    plane.nudge(ROLES, "anna").await;
    plane.until(ROLES, "anna", |_| limit() == "3").await;
    // Taken over, and changed to what is wanted.
    server.ask("CREATE ROLE otto LOGIN");
    let mut otto = object("Role", "otto", json!({"name": "otto", "login": false}));
    otto["metadata"]["annotations"] = json!({"hangar.dev/import-id": "otto"});
    plane.create(ROLES, otto).await;
    plane.current(ROLES, "otto").await;
    assert_eq!(server.ask("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'otto'"), "f");
    // Replaced, since a name cannot be changed.
    plane.patch(DATABASES, "shop", json!({"spec": {"resource": {"name": "shop2", "owner": "otto"}}})).await;
    plane.until(DATABASES, "shop", |_| owner() == "otto").await;
    plane.current(DATABASES, "shop").await;
    assert_eq!(
        server.ask("SELECT string_agg(datname, ',') FROM pg_database WHERE datname LIKE 'shop%'"),
        "shop2"
    );
    // The database refuses, in its own words, as long as something depends on the role.
    plane.delete(ROLES, "otto").await;
    plane.until(ROLES, "otto", |object| object.is_some_and(|one| one["status"]["phase"] == "Failed")).await;
    plane.delete(DATABASES, "shop").await;
    plane.gone(DATABASES, "shop").await;
    // Tried again by itself, perhaps already.
    plane.gone(ROLES, "otto").await;
    plane.delete(ROLES, "anna").await;
    plane.gone(ROLES, "anna").await;
    let left = server.ask("SELECT count(*) FROM pg_roles WHERE rolname IN ('anna', 'otto')");
    assert_eq!((left.as_str(), owner().as_str()), ("0", ""));
}
