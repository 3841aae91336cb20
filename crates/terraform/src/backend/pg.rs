//! A state in a row of PostgreSQL, in the tables that Terraform's backend `pg` makes.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use egress::{Bounded, Caller, NoResponse};
use objects::Value as Json;
use provision::Failure;
use serde::Deserialize;
use store_postgres::{Session, SessionError};
use tokio::time::timeout;

use super::{Access, Backend, Held, Lock, WORKSPACE, away, locked, settings};

const NAME: &str = "pg";
/// What one question may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// What a database may send over one connection: a state, which is no larger than this anywhere, and what is around it.
const MAX_BYTES: usize = 65 << 20;
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

#[derive(Clone)]
struct Pg {
    settings: Settings,
    caller: Caller,
}

pub fn open(config: &Json, caller: &Caller) -> Result<Arc<dyn Backend>, Failure> {
    let settings: Settings = settings(NAME, config)?;
    // Whoever writes the Secret is not whoever runs the server.
    if store_postgres::needs_files(&settings.conn_str) {
        let message = "the conn_str of the backend pg names files of the server: use a host, and a password";
        return Err(Failure::terminal(message));
    }
    Ok(Arc::new(Pg { settings, caller: caller.clone() }))
}

/// A name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Pg {
    fn table(&self) -> String {
        format!("{}.states", quoted(&self.settings.schema_name))
    }

    async fn session(&self) -> Result<Session, Failure> {
        let dial = async |host: String, port| {
            let stream = self.caller.dial(&host, port).await?;
            Ok(Bounded::new(stream, MAX_BYTES))
        };
        // All hosts that are named together take no longer than one question.
        let connecting = timeout(PATIENCE, store_postgres::connect(&self.settings.conn_str, dial)).await;
        let connected = connecting.map_err(|_| self.no_response(&"no host answers in time"))?;
        connected.map_err(|error: SessionError<NoResponse>| match error {
            SessionError::Broken(cause) => self.no_response(&cause),
            // The database's own words, or that nothing was dialled.
            told => away(NAME, told),
        })
    }

    /// The tenant chose the address: nothing is told of what is there if it is no database.
    fn no_response(&self, cause: &dyn Display) -> Failure {
        tracing::debug!(control_plane = self.caller.control_plane(), error = %cause, "no state in a database");
        away(NAME, NoResponse::on_connection())
    }

    /// What is asked of the database, if it answers in time.
    async fn asked<T>(
        &self,
        question: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        match timeout(PATIENCE, question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if store_postgres::is_answer(&error) => {
                Err(away(NAME, store_postgres::words(&error)))
            }
            Ok(Err(error)) => Err(self.no_response(&store_postgres::words(&error))),
            Err(_) => Err(self.no_response(&"it does not answer")),
        }
    }

    /// Makes what is not there, as Terraform does when it is told to use a database.
    async fn prepare(&self, session: &Session) -> Result<(), Failure> {
        let (schema, table) = (quoted(&self.settings.schema_name), self.table());
        let mut steps = Vec::new();
        if !self.settings.skip_schema_creation {
            steps.push(format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
        }
        if !self.settings.skip_table_creation {
            steps.push("CREATE SEQUENCE IF NOT EXISTS public.global_states_id_seq AS bigint".to_owned());
            steps.push(format!(
                "CREATE TABLE IF NOT EXISTS {table} (id bigint NOT NULL DEFAULT \
                 nextval('public.global_states_id_seq') PRIMARY KEY, name text UNIQUE, data text)"
            ));
        }
        if !self.settings.skip_index_creation {
            steps.push(format!("CREATE UNIQUE INDEX IF NOT EXISTS states_by_name ON {table} (name)"));
        }
        self.asked(session.client().batch_execute(&steps.join(";"))).await
    }

    async fn is_prepared(&self, session: &Session) -> Result<bool, Failure> {
        let table = self.table();
        let query = "SELECT to_regclass($1) IS NOT NULL";
        self.asked(async { session.client().query_one(query, &[&table]).await?.try_get(0) }).await
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
        let row = self.asked(session.client().query_opt(&query, &[&WORKSPACE])).await?;
        let Some(row) = row else { return Ok(None) };
        let state = row.try_get::<_, Option<String>>(0);
        Ok(state.map_err(|error| away(NAME, store_postgres::words(&error)))?.map(String::into_bytes))
    }

    async fn write(&self, _: &Access<'_>, state: Vec<u8>, _: &Lock) -> Result<(), Failure> {
        let session = self.session().await?;
        let text = String::from_utf8(state).map_err(|error| away(NAME, error))?;
        let put = format!(
            "INSERT INTO {} (name, data) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET data = EXCLUDED.data",
            self.table()
        );
        self.asked(session.client().execute(&put, &[&WORKSPACE, &text])).await.map(drop)
    }

    async fn delete(&self, _: &Access<'_>) -> Result<(), Failure> {
        let session = self.session().await?;
        if !self.is_prepared(&session).await? {
            return Ok(());
        }
        let delete = format!("DELETE FROM {} WHERE name = $1", self.table());
        self.asked(session.client().execute(&delete, &[&WORKSPACE])).await.map(drop)
    }

    /// An advisory lock of the session: it goes with the connection, and so with a crash.
    async fn lock(&self, _: &Access<'_>, _: &Lock) -> Result<Option<Box<dyn Held>>, Failure> {
        let session = self.session().await?;
        self.prepare(&session).await?;
        let find = format!("SELECT id FROM {} WHERE name = $1", self.table());
        let key = async {
            let row = session.client().query_opt(&find, &[&WORKSPACE]).await?;
            row.map_or(Ok(CREATION), |row| row.try_get(0))
        };
        let key: i64 = self.asked(key).await?;
        let query = "SELECT pg_try_advisory_lock($1)";
        let got = async { session.client().query_one(query, &[&key]).await?.try_get(0) };
        if !self.asked(got).await? {
            return Err(locked(NAME, ""));
        }
        Ok(Some(Box::new(HeldSession { session, pg: self.clone() })))
    }
}

struct HeldSession {
    session: Session,
    pg: Pg,
}

#[async_trait]
impl Held for HeldSession {
    async fn release(self: Box<Self>) -> Result<(), Failure> {
        self.pg.asked(self.session.client().batch_execute("SELECT pg_advisory_unlock_all()")).await
    }
}
