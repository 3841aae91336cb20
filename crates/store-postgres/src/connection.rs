//! One connection, and how it comes about: who may, what is checked, what is set.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::StoreError;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row, Statement};
use tokio_util::task::AbortOnDropHandle;

use crate::address::{Address, AddressError};
use crate::fault::{self, Fault};
use crate::statements::Sql;
use crate::tls::Tls;

#[derive(thiserror::Error, Debug)]
pub enum OpenError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(
        "the schema name {0:?} must be of lower-case letters, digits and _, begin with a letter, and have at most 40"
    )]
    SchemaName(String),
    #[error("{0}")]
    Encryption(String),
    #[error("the database at {place} cannot be reached: {why}")]
    Unreachable { place: String, why: String },
    #[error("the database at {place} does not let user {user:?} in: {why}")]
    Credentials { place: String, user: String, why: String },
    #[error("the database {database:?} does not exist at {place}; create it, or name another")]
    NoDatabase { place: String, database: String },
    #[error("the database at {place} is PostgreSQL {found}; this needs {OLDEST} or newer")]
    TooOld { place: String, found: String },
    #[error("the database at {place} is read-only, a standby perhaps; name the primary")]
    ReadOnly { place: String },
    #[error(
        "user {user:?} may not set up schema {schema:?} in database {database:?} ({why}); grant CREATE on the database, or make the user the owner of the schema"
    )]
    Rights { user: String, schema: String, database: String, why: String },
    #[error("the disk of the database at {place} is full; make room, then try again")]
    DiskFull { place: String },
    #[error("schema {schema:?} has layout {found}, and this version knows {known}; run the newer version")]
    Layout { schema: String, found: i64, known: i64 },
    #[error("the database at {place} cannot be used: {why}")]
    Failed { place: String, why: String },
}

impl OpenError {
    /// Whether it may work later although nobody changes the address or the server's settings.
    pub fn may_pass(&self) -> bool {
        use OpenError::*;
        matches!(self, Unreachable { .. } | ReadOnly { .. } | DiskFull { .. } | Failed { .. })
    }
}

/// The oldest major version of PostgreSQL that is tested and promised.
const OLDEST: u32 = 15;
/// What is added for encryption and passwords to the time a host has to answer.
const HANDSHAKE: Duration = Duration::from_secs(1);
/// What the first connection may take.
const FIRST: Duration = Duration::from_secs(10);
/// Between attempts to reach a database that is away: soon, then less often.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Makes connections, and remembers when none can be made, so that calls need not each find out.
pub(crate) struct Connector {
    config: tokio_postgres::Config,
    tls: Tls,
    pub schema: String,
    /// How long a host may take to answer.
    patience: Duration,
    outage: Mutex<Option<Outage>>,
}

struct Outage {
    until: Instant,
    pause: Duration,
    why: String,
}

/// What a connection's notifications are given to.
pub(crate) type Hear = Box<dyn Fn(&str) + Send>;

impl Connector {
    pub(crate) fn new(address: Address, schema: &str, patience: Duration) -> Result<Connector, OpenError> {
        let begins_well = schema.starts_with(|first: char| first.is_ascii_lowercase());
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !begins_well || !schema.bytes().all(letters) || schema.len() > 40 {
            return Err(OpenError::SchemaName(schema.into()));
        }
        let tls = Tls::new(&address.tls).map_err(|error| OpenError::Encryption(error.to_string()))?;
        let config = address.config;
        Ok(Connector { config, tls, schema: schema.into(), patience, outage: Mutex::new(None) })
    }

    /// Host and port, as people write them.
    fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            tokio_postgres::config::Host::Tcp(host) => host.clone(),
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        });
        let addresses = self.config.get_hostaddrs().iter().map(ToString::to_string);
        let mut names: Vec<String> = hosts.collect();
        if names.is_empty() {
            names = addresses.collect();
        }
        let ports = self.config.get_ports();
        let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let places: Vec<_> =
            names.iter().enumerate().map(|(index, name)| format!("{name}:{}", port(index))).collect();
        places.join(",")
    }

    fn user(&self) -> String {
        self.config.get_user().unwrap_or_default().to_owned()
    }

    fn database(&self) -> String {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default().to_owned()
    }

    /// The channel on which commits are told.
    pub(crate) fn channel(&self) -> String {
        format!("{}_log", self.schema)
    }

    /// A connection, or at once the reason of the last failure while that is fresh.
    pub(crate) async fn connect(&self) -> Result<Connection, Fault> {
        if let Some(outage) = self.outage.lock().as_ref().filter(|outage| Instant::now() < outage.until) {
            return Err(Fault::Away(outage.why.clone()));
        }
        self.connect_now(None).await.map_err(|error| Fault::Away(error.to_string()))
    }

    /// A connection, however often that has failed lately. For those that keep a pace of their own.
    pub(crate) async fn connect_now(&self, hear: Option<Hear>) -> Result<Connection, OpenError> {
        self.connect_within(self.patience + HANDSHAKE, hear).await
    }

    /// The first connection: nobody waits for an answer to a call, so a slow database may take its time.
    pub(crate) async fn first(&self) -> Result<Connection, OpenError> {
        self.connect_within(self.patience.max(FIRST), None).await
    }

    async fn connect_within(&self, limit: Duration, hear: Option<Hear>) -> Result<Connection, OpenError> {
        let attempt = match timeout(limit, self.attempt(hear)).await {
            Ok(attempt) => attempt,
            Err(_) => Err(OpenError::Unreachable { place: self.place(), why: "it does not answer".into() }),
        };
        let mut outage = self.outage.lock();
        match &attempt {
            Ok(_) => {
                if outage.take().is_some() {
                    tracing::info!(database = %self.place(), "the database is back");
                }
            }
            Err(error) => {
                if outage.is_none() {
                    tracing::warn!(%error, "the database is away; trying again until it is back");
                }
                let pause =
                    outage.as_ref().map_or(FIRST_PAUSE, |outage| (outage.pause * 2).min(LONGEST_PAUSE));
                *outage = Some(Outage { until: Instant::now() + pause, pause, why: error.to_string() });
            }
        }
        attempt
    }

    async fn attempt(&self, hear: Option<Hear>) -> Result<Connection, OpenError> {
        let (client, mut driver) =
            self.config.connect(self.tls.clone()).await.map_err(|error| self.explain(&error))?;
        let version = driver.parameter("server_version").unwrap_or("of unknown version").to_owned();
        if major(&version).is_none_or(|major| major < OLDEST) {
            return Err(OpenError::TooOld { place: self.place(), found: version });
        }
        let driving = tokio::spawn(async move {
            loop {
                match std::future::poll_fn(|cx| driver.poll_message(cx)).await {
                    Some(Ok(AsyncMessage::Notification(told))) => {
                        if let Some(hear) = &hear {
                            hear(told.payload());
                        }
                    }
                    Some(Ok(AsyncMessage::Notice(notice))) => tracing::debug!("{}", notice.message()),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(error = %fault::words(&error), "a connection to the database ended");
                        return;
                    }
                    None => return,
                }
            }
        });
        let driver = AbortOnDropHandle::new(driving);
        client.batch_execute(&self.session()).await.map_err(|error| self.explain(&error))?;
        let statements = Sql::ALL.iter().map(|_| OnceCell::new()).collect();
        Ok(Connection { client, statements, driver })
    }

    /// What is set for a connection. Every statement here is answered from an index, so plans that think otherwise
    /// (of tables whose statistics are old) are ruled out, and none is made twice. A replica that stands still in
    /// the middle of a transaction must not stop the others. What the server does not know is left out.
    fn session(&self) -> String {
        format!(
            "SET search_path TO {schema};
             SELECT set_config(name, wanted.setting, false) FROM pg_settings JOIN (VALUES
               ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_hashjoin', 'off'),
               ('enable_mergejoin', 'off'), ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan'),
               ('idle_in_transaction_session_timeout', '5000'), ('default_transaction_isolation', 'read committed')
             ) AS wanted (name, setting) USING (name);
             SELECT set_config(name, 'on', false) FROM pg_settings
             WHERE name = 'synchronous_commit' AND setting = 'off';",
            schema = self.schema
        )
    }

    /// A sentence for whoever set the address.
    pub(crate) fn explain(&self, error: &tokio_postgres::Error) -> OpenError {
        let (place, why) = (self.place(), fault::words(error));
        let denied = || {
            use std::error::Error;
            let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
            cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
        };
        match error.code() {
            Some(code) if code.code().starts_with("28") => {
                OpenError::Credentials { place, user: self.user(), why }
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => {
                OpenError::NoDatabase { place, database: self.database() }
            }
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::Rights {
                user: self.user(),
                schema: self.schema.clone(),
                database: self.database(),
                why,
            },
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => OpenError::ReadOnly { place },
            Some(&SqlState::DISK_FULL) => OpenError::DiskFull { place },
            Some(_) => OpenError::Failed { place, why },
            None if error.to_string().contains("authentication") || why.contains("password") => {
                OpenError::Credentials { place, user: self.user(), why }
            }
            // The driver's way to say that the host is not writable.
            None if denied() && why.contains("does not allow writes") => OpenError::ReadOnly { place },
            None => OpenError::Unreachable { place, why },
        }
    }

    pub(crate) fn explain_fault(&self, fault: Fault) -> OpenError {
        match fault {
            Fault::Database(error) => self.explain(&error),
            other => OpenError::Failed { place: self.place(), why: StoreError::from(other).to_string() },
        }
    }

    pub(crate) fn layout(&self, found: i64, known: i64) -> OpenError {
        OpenError::Layout { schema: self.schema.clone(), found, known }
    }
}

/// `15.4 (Debian 15.4-1)` is 15.
fn major(version: &str) -> Option<u32> {
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// What a statement is given.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(crate) struct Connection {
    client: Client,
    /// By number of the statement: prepared at its first use.
    statements: Vec<OnceCell<Statement>>,
    driver: AbortOnDropHandle<()>,
}

impl Connection {
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits for the connection to end.
    pub(crate) async fn ended(&mut self) {
        let _ = (&mut self.driver).await;
    }

    /// Ready to be sent without another trip first, for those that pipeline.
    pub(crate) async fn prepare(&self, sql: Sql) -> Result<&Statement, Fault> {
        Ok(self.statements[sql as usize].get_or_try_init(|| self.client.prepare(sql.text())).await?)
    }

    pub(crate) async fn query(&self, sql: Sql, parameters: Parameters<'_>) -> Result<Vec<Row>, Fault> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.query(statement, parameters).await?)
    }

    /// A statement that is not worth preparing, or several.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// A question that is asked too seldom to be prepared, with its one row of answer.
    pub(crate) async fn ask(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, Fault> {
        Ok(self.client.query_typed_one(sql, parameters).await?)
    }

    /// A question that is asked once.
    pub(crate) async fn ask_all(&self, sql: &str) -> Result<Vec<Row>, Fault> {
        Ok(self.client.query_typed(sql, &[]).await?)
    }

    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        self.run("BEGIN").await
    }

    /// Ends a transaction the way it went: all of it, or nothing.
    pub(crate) async fn end<T>(&self, done: Result<T, Fault>) -> Result<T, Fault> {
        match done {
            Ok(value) => {
                self.run("COMMIT").await?;
                Ok(value)
            }
            Err(fault) => {
                let _ = self.run("ROLLBACK").await;
                Err(fault)
            }
        }
    }
}

/// Shared by those who make transactions from time to time; never left with one half done.
pub(crate) struct Bench {
    connector: Arc<Connector>,
    free: tokio::sync::Mutex<Option<Connection>>,
}

impl Bench {
    pub(crate) fn new(connector: Arc<Connector>) -> Bench {
        Bench { connector, free: tokio::sync::Mutex::new(None) }
    }

    /// For one at a time. If the caller goes away in the middle, so does the connection, and with it what it began.
    pub(crate) async fn seat(&self) -> Result<Seat<'_>, Fault> {
        let mut free = self.free.lock().await;
        let connection = match free.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => self.connector.connect().await?,
        };
        Ok(Seat { free, connection })
    }

    pub(crate) async fn close(&self) {
        *self.free.lock().await = None;
    }
}

pub(crate) struct Seat<'b> {
    free: tokio::sync::MutexGuard<'b, Option<Connection>>,
    pub connection: Connection,
}

impl Seat<'_> {
    /// Leaves the connection to the next, if it can still be used.
    pub(crate) fn leave<T>(mut self, done: Result<T, Fault>) -> Result<T, Fault> {
        if !matches!(&done, Err(fault) if fault.spoils_connection()) {
            *self.free = Some(self.connection);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let cases = [
            ("15.18 (Debian 15.18-0+deb12u1)", Some(15)),
            ("18beta1", Some(18)),
            ("9.6.24", Some(9)),
            ("of unknown version", None),
        ];
        for (version, expected) in cases {
            assert_eq!(major(version), expected, "{version}");
        }
    }
}
