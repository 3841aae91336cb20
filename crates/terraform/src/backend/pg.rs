//! A state in a row of PostgreSQL, in the tables that Terraform's backend `pg` makes.

use std::sync::Arc;

use async_trait::async_trait;
use objects::Value as Json;
use provision::Failure;
use serde::Deserialize;
use store_postgres::Session;

use super::{Access, Backend, Held, Lock, WORKSPACE, away, locked, settings};

const NAME: &str = "pg";
/// The advisory lock of whoever makes a new row.
const CREATION: i64 = -1;

#[derive(Clone, Deserialize)]
struct Settings {
    conn_str: String,
    #[serde(default = "usual_schema")]
    schema_name: String,
    #[serde(default)]
    skip_schema_creation: bool,
    #[serde(default)]
    skip_table_creation: bool,
    #[serde(default)]
    skip_index_creation: bool,
}

fn usual_schema() -> String {
    "terraform_remote_state".to_owned()
}

struct Pg(Settings);

pub fn open(config: &Json) -> Result<Arc<dyn Backend>, Failure> {
    let settings: Settings = settings(NAME, config)?;
    // Whoever writes the Secret is not whoever runs the server.
    if store_postgres::needs_files(&settings.conn_str) {
        let message = "the conn_str of the backend pg names files of the server: use a host, and a password";
        return Err(Failure::terminal(message));
    }
    Ok(Arc::new(Pg(settings)))
}

/// A name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Pg {
    fn table(&self) -> String {
        format!("{}.states", quoted(&self.0.schema_name))
    }

    async fn session(&self) -> Result<Session, Failure> {
        store_postgres::connect(&self.0.conn_str).await.map_err(|error| away(NAME, error))
    }

    /// Makes what is not there, as Terraform does when it is told to use a database.
    async fn prepare(&self, session: &Session) -> Result<(), Failure> {
        let (schema, table) = (quoted(&self.0.schema_name), self.table());
        let mut steps = Vec::new();
        if !self.0.skip_schema_creation {
            steps.push(format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
        }
        if !self.0.skip_table_creation {
            steps.push("CREATE SEQUENCE IF NOT EXISTS public.global_states_id_seq AS bigint".to_owned());
            steps.push(format!(
                "CREATE TABLE IF NOT EXISTS {table} (id bigint NOT NULL DEFAULT \
                 nextval('public.global_states_id_seq') PRIMARY KEY, name text UNIQUE, data text)"
            ));
        }
        if !self.0.skip_index_creation {
            steps.push(format!("CREATE UNIQUE INDEX IF NOT EXISTS states_by_name ON {table} (name)"));
        }
        let prepared = session.client().batch_execute(&steps.join(";")).await;
        prepared.map_err(|error| away(NAME, store_postgres::words(&error)))
    }

    async fn is_prepared(&self, session: &Session) -> Result<bool, Failure> {
        let found = session.client().query_one("SELECT to_regclass($1) IS NOT NULL", &[&self.table()]).await;
        found.map(|row| row.get(0)).map_err(|error| away(NAME, store_postgres::words(&error)))
    }
}

#[async_trait]
impl Backend for Pg {
    async fn read(&self, _: &Access<'_>) -> Result<Option<Vec<u8>>, Failure> {
        let session = self.session().await?;
        if !self.is_prepared(&session).await? {
            return Ok(None);
        }
        let query = format!("SELECT data FROM {} WHERE name = $1", self.table());
        let row = session.client().query_opt(&query, &[&WORKSPACE]).await;
        let row = row.map_err(|error| away(NAME, store_postgres::words(&error)))?;
        Ok(row.and_then(|row| row.get::<_, Option<String>>(0)).map(String::into_bytes))
    }

    async fn write(&self, _: &Access<'_>, state: Vec<u8>, _: &Lock) -> Result<(), Failure> {
        let session = self.session().await?;
        let text = String::from_utf8(state).map_err(|error| away(NAME, error))?;
        let put = format!(
            "INSERT INTO {} (name, data) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET data = EXCLUDED.data",
            self.table()
        );
        let written = session.client().execute(&put, &[&WORKSPACE, &text]).await;
        written.map(drop).map_err(|error| away(NAME, store_postgres::words(&error)))
    }

    async fn delete(&self, _: &Access<'_>) -> Result<(), Failure> {
        let session = self.session().await?;
        if !self.is_prepared(&session).await? {
            return Ok(());
        }
        let delete = format!("DELETE FROM {} WHERE name = $1", self.table());
        let deleted = session.client().execute(&delete, &[&WORKSPACE]).await;
        deleted.map(drop).map_err(|error| away(NAME, store_postgres::words(&error)))
    }

    /// An advisory lock of the session: it goes with the connection, and so with a crash.
    async fn lock(&self, _: &Access<'_>, _: &Lock) -> Result<Option<Box<dyn Held>>, Failure> {
        let session = self.session().await?;
        self.prepare(&session).await?;
        let failed = |error| away(NAME, store_postgres::words(&error));
        let query = format!("SELECT id FROM {} WHERE name = $1", self.table());
        let row = session.client().query_opt(&query, &[&WORKSPACE]).await.map_err(failed)?;
        let key: i64 = row.map_or(CREATION, |row| row.get(0));
        let got = session.client().query_one("SELECT pg_try_advisory_lock($1)", &[&key]).await;
        if !got.map_err(failed)?.get::<_, bool>(0) {
            return Err(locked(NAME, ""));
        }
        Ok(Some(Box::new(HeldSession(session))))
    }
}

struct HeldSession(Session);

#[async_trait]
impl Held for HeldSession {
    async fn release(self: Box<Self>) -> Result<(), Failure> {
        let released = self.0.client().batch_execute("SELECT pg_advisory_unlock_all()").await;
        released.map_err(|error| away(NAME, store_postgres::words(&error)))
    }
}
