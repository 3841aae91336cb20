//! What kine left in a real PostgreSQL, and what is said of tables that are not kine's.

use store_postgres::Surroundings;
use store_postgres::kine::{self, KineError, Table};

use crate::server::{Server, Sql};

/// As kine makes it.
const TABLE: &str = "(
    id SERIAL PRIMARY KEY, name VARCHAR(630), created INTEGER, deleted INTEGER, create_revision INTEGER,
    prev_revision INTEGER, lease INTEGER, value bytea, old_value bytea)";

/// By an address that says everything itself.
async fn read(address: &str, table: &str) -> Result<Table, KineError> {
    kine::read(address, &Surroundings::default(), table).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_row_of_each_key_counts() {
    let server = Server::new(&["fsync=off"]);
    server
        .run(&format!(
            "CREATE TABLE kine {TABLE};
             INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value) VALUES
               ('compact_rev_key', 1, 0, 0, 0, 0, ''),
               ('/registry/a', 1, 0, 0, 0, 0, 'first'),
               ('/registry/b', 1, 0, 0, 0, 0, 'only'),
               ('/registry/a', 0, 0, 2, 2, 0, 'second'),
               ('/registry/c', 1, 0, 0, 0, 0, 'gone'),
               ('/registry/c', 0, 1, 5, 5, 0, 'gone'),
               ('/registry/d', 1, 1, 0, 0, 0, ''),
               ('/registry/d', 1, 0, 0, 7, 0, 'again'),
               ('gap-9', 0, 1, 0, 0, 0, NULL);
             CREATE SCHEMA other; CREATE TABLE other.empty {TABLE};"
        ))
        .await;
    let table = read(&server.url(), "kine").await.unwrap();
    let mut rows: Vec<_> = table
        .rows
        .iter()
        .map(|row| (row.key.as_str(), row.created, row.modified, row.value.as_ref()))
        .collect();
    rows.sort_unstable();
    let expected: [(&str, u64, u64, &[u8]); 3] =
        [("/registry/a", 2, 4, b"second"), ("/registry/b", 3, 3, b"only"), ("/registry/d", 8, 8, b"again")];
    assert_eq!(rows, expected);
    assert_eq!(table.revision, 9);
    let empty = read(&server.url(), "other.empty").await.unwrap();
    assert_eq!((empty.revision, empty.rows.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_table_of_kines_is_told() {
    let server = Server::shared();
    server.run("CREATE TABLE IF NOT EXISTS people (id integer, name text)").await;
    let refused = async |url: &str, table: &str| match read(url, table).await {
        Ok(_) => panic!("{table} was read"),
        Err(error) => error,
    };
    let url = server.url();
    assert!(matches!(refused(&url, "nowhere").await, KineError::NoTable(_)));
    assert!(matches!(refused(&url, "no.where").await, KineError::NoTable(_)));
    assert!(matches!(refused(&url, "a\"b").await, KineError::Name(_)));
    let people = refused(&url, "people").await;
    assert!(
        matches!(people, KineError::NotKines { .. }) && people.to_string().contains("create"),
        "{people}"
    );
    let wrong = format!("postgres://hangar:wrong-password@127.0.0.1:{}/postgres", server.port());
    let wrong = refused(&wrong, "kine").await.to_string();
    assert!(wrong.contains("does not let user") && !wrong.contains("wrong-password"), "{wrong}");
}
