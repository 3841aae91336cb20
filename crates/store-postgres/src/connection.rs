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

use crate::address::{Address, AddressError, Surroundings};
use crate::fault::{self, Fault};
use crate::hosts::{Host, Hosts};
use crate::passfile::Passfile;
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
    #[error("the database at {place} cannot be reached: it does not answer")]
    Silent { place: String },
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
        matches!(self, Unreachable { .. } | Silent { .. } | ReadOnly { .. } | DiskFull { .. } | Failed { .. })
    }

    /// Whether nobody was met who could have said more.
    fn is_absence(&self) -> bool {
        matches!(self, OpenError::Unreachable { .. } | OpenError::Silent { .. })
    }
}

/// The oldest major version of PostgreSQL that is tested and promised.
const OLDEST: u32 = 15;
/// What is added for encryption and passwords to the time a host has to answer.
const HANDSHAKE: Duration = Duration::from_secs(1);
/// After this long without an answer it is looked whether anybody is there.
const DOUBT: Duration = Duration::from_secs(1);
/// What the first connection may take.
const FIRST: Duration = Duration::from_secs(10);
/// Between attempts to reach a database that is away: soon, then less often.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Makes connections, and remembers when none can be made, so that calls need not each find out.
pub(crate) struct Connector {
    hosts: Hosts,
    user: String,
    database: String,
    tls: Tls,
    pub schema: String,
    /// How long a host may take to answer.
    patience: Duration,
    outage: Mutex<Option<Outage>>,
    /// When a connection was last made: since then it is known that somebody is there.
    made: Mutex<Instant>,
    /// One finds out for all whether the database is still there.
    doubting: tokio::sync::Mutex<()>,
}

struct Outage {
    /// Nobody asks before that.
    until: Instant,
    pause: Duration,
    why: String,
    /// Nobody is there, so connections that are open are no better than new ones.
    absent: bool,
}

/// What a connection's notifications are given to.
pub(crate) type Hear = Arc<dyn Fn(&str) + Send + Sync>;

impl Connector {
    pub(crate) fn new(
        address: Address,
        surroundings: &Surroundings,
        schema: &str,
        patience: Duration,
    ) -> Result<Connector, OpenError> {
        let begins_well = schema.starts_with(|first: char| first.is_ascii_lowercase());
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !begins_well || !schema.bytes().all(letters) || schema.len() > 40 {
            return Err(OpenError::SchemaName(schema.into()));
        }
        let tls = Tls::new(&address.tls).map_err(|error| OpenError::Encryption(error.to_string()))?;
        let passwords = match &address.passfile {
            Some(named) => Some(Passfile::read(named)?),
            None => surroundings.passfile.as_deref().and_then(Passfile::found),
        };
        let config = address.config;
        let user = config.get_user().unwrap_or_default().to_owned();
        Ok(Connector {
            hosts: Hosts::new(&config, passwords.as_ref()),
            database: config.get_dbname().unwrap_or(&user).to_owned(),
            user,
            tls,
            schema: schema.into(),
            patience,
            outage: Mutex::new(None),
            made: Mutex::new(Instant::now()),
            doubting: tokio::sync::Mutex::new(()),
        })
    }

    /// The channel on which commits are told.
    pub(crate) fn channel(&self) -> String {
        format!("{}_log", self.schema)
    }

    /// A connection, or at once the reason of the last failure while that is fresh.
    pub(crate) async fn connect(&self) -> Result<Connection, Fault> {
        self.is_worth_asking(|_| true)?;
        self.connect_now(None).await.map_err(|error| Fault::Away(error.to_string()))
    }

    /// To be asked before a connection is used that is open: it does not help where nobody is at its other end.
    pub(crate) fn is_heard(&self) -> Result<(), Fault> {
        self.is_worth_asking(|outage| outage.absent)
    }

    /// While the database is away, one caller at a time finds out whether it is back; the others need not wait for that.
    fn is_worth_asking(&self, concerns: impl Fn(&Outage) -> bool) -> Result<(), Fault> {
        let mut outage = self.outage.lock();
        let Some(outage) = outage.as_mut().filter(|outage| concerns(outage)) else { return Ok(()) };
        if Instant::now() < outage.until {
            return Err(Fault::Away(outage.why.clone()));
        }
        outage.until = Instant::now() + self.limit();
        Ok(())
    }

    /// What a host may take for a connection.
    fn limit(&self) -> Duration {
        self.patience + HANDSHAKE
    }

    /// A connection, however often that has failed lately. For those that keep a pace of their own.
    pub(crate) async fn connect_now(&self, hear: Option<Hear>) -> Result<Connection, OpenError> {
        let attempt = self.connect_within(self.limit(), hear).await;
        match &attempt {
            Ok(_) => self.is_there(),
            Err(error) => {
                let mut outage = self.outage.lock();
                if outage.is_none() {
                    tracing::warn!(%error, "the database is away; trying again until it is back");
                }
                let pause =
                    outage.as_ref().map_or(FIRST_PAUSE, |outage| (outage.pause * 2).min(LONGEST_PAUSE));
                let absent = error.is_absence();
                *outage =
                    Some(Outage { until: Instant::now() + pause, pause, why: error.to_string(), absent });
            }
        }
        attempt
    }

    /// The first connection: nobody waits for an answer to a call, so a slow database may take its time. How it went is
    /// said by whoever opens the store, and by nobody else.
    pub(crate) async fn first(&self) -> Result<Connection, OpenError> {
        // Of several, one that takes long is one to pass by.
        let limit = if self.hosts.count() > 1 { self.limit() } else { self.patience.max(FIRST) };
        self.connect_within(limit, None).await
    }

    fn is_absent(&self) -> bool {
        self.outage.lock().as_ref().is_some_and(|outage| outage.absent)
    }

    fn is_there(&self) {
        *self.made.lock() = Instant::now();
        if self.outage.lock().take().is_some() {
            tracing::info!(database = %self.hosts.places(), "the database is back");
        }
    }

    /// Waits for an answer: for as long as it may take, and no longer than until it is clear that none will come.
    pub(crate) async fn answered<T>(
        &self,
        may_take: Duration,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let answer = tokio::select! {
            answer = work => answer,
            () = self.silence() => Err(Fault::Silent),
            () = tokio::time::sleep(may_take) => Err(Fault::Silent),
        };
        if answer.is_ok() && self.is_absent() {
            self.is_there();
        }
        answer
    }

    /// Resolves when nobody is known to be there. A question that takes long may be a large one, or stand in
    /// line: whether anybody is there at all is told by a new connection.
    async fn silence(&self) {
        loop {
            tokio::time::sleep(DOUBT).await;
            let _one = self.doubting.lock().await;
            if self.is_absent() {
                return;
            }
            if self.made.lock().elapsed() < DOUBT {
                continue;
            }
            // In a box: every question carries this with it, and hardly any comes here.
            if Box::pin(self.connect_now(None)).await.is_err_and(|error| error.is_absence()) {
                return;
            }
        }
    }

    /// Each host in turn. If none will do, the reason is that of the first that had more to say than that it is not there.
    async fn connect_within(&self, limit: Duration, hear: Option<Hear>) -> Result<Connection, OpenError> {
        let mut why: Option<OpenError> = None;
        for (index, host) in self.hosts.in_turn() {
            let attempt = match timeout(limit, self.attempt(host, hear.clone())).await {
                Ok(attempt) => attempt,
                Err(_) => Err(OpenError::Silent { place: host.place.clone() }),
            };
            match attempt {
                Ok(connection) => {
                    self.hosts.is_good(index);
                    return Ok(connection);
                }
                Err(error) if why.as_ref().is_none_or(OpenError::is_absence) => why = Some(error),
                Err(_) => {}
            }
        }
        Err(why.unwrap_or(OpenError::Address(AddressError::NoHost)))
    }

    async fn attempt(&self, host: &Host, hear: Option<Hear>) -> Result<Connection, OpenError> {
        let explain = |error: tokio_postgres::Error| self.explain(&host.place, &error);
        let (client, mut driver) = host.config.connect(self.tls.clone()).await.map_err(explain)?;
        let version = driver.parameter("server_version").unwrap_or("of unknown version").to_owned();
        if major(&version).is_none_or(|major| major < OLDEST) {
            return Err(OpenError::TooOld { place: host.place.clone(), found: version });
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
        client.batch_execute(&self.session()).await.map_err(explain)?;
        let statements = Sql::ALL.iter().map(|_| OnceCell::new()).collect();
        Ok(Connection { client, statements, driver })
    }

    /// What is set for a connection. Every statement here is answered from an index, so plans that think otherwise
    /// (of tables whose statistics are old) are ruled out, and none is made twice. A replica that stands still in
    /// the middle of a transaction must not stop the others. Limits that somebody set for the user or the database are
    /// for others: how long we wait is decided where we wait. What the server does not know is left out.
    fn session(&self) -> String {
        format!(
            "SET search_path TO {schema};
             SELECT set_config(name, wanted.setting, false) FROM pg_settings JOIN (VALUES
               ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_hashjoin', 'off'),
               ('enable_mergejoin', 'off'), ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan'),
               ('idle_in_transaction_session_timeout', '5000'), ('idle_session_timeout', '0'),
               ('lock_timeout', '0'), ('statement_timeout', '0'), ('transaction_timeout', '0'),
               ('default_transaction_isolation', 'read committed')
             ) AS wanted (name, setting) USING (name);
             SELECT set_config(name, 'on', false) FROM pg_settings
             WHERE name = 'synchronous_commit' AND setting = 'off';",
            schema = self.schema
        )
    }

    /// A sentence for whoever set the address.
    fn explain(&self, place: &str, error: &tokio_postgres::Error) -> OpenError {
        let (place, why) = (place.to_owned(), fault::words(error));
        let denied = || {
            use std::error::Error;
            let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
            cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
        };
        match error.code() {
            Some(code) if code.code().starts_with("28") => {
                OpenError::Credentials { place, user: self.user.clone(), why }
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => {
                OpenError::NoDatabase { place, database: self.database.clone() }
            }
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::Rights {
                user: self.user.clone(),
                schema: self.schema.clone(),
                database: self.database.clone(),
                why,
            },
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => OpenError::ReadOnly { place },
            Some(&SqlState::DISK_FULL) => OpenError::DiskFull { place },
            Some(_) => OpenError::Failed { place, why },
            None if error.to_string().contains("authentication") || why.contains("password") => {
                OpenError::Credentials { place, user: self.user.clone(), why }
            }
            // The driver's way to say that the host is not writable.
            None if denied() && why.contains("does not allow writes") => OpenError::ReadOnly { place },
            None => OpenError::Unreachable { place, why },
        }
    }

    pub(crate) fn explain_fault(&self, fault: Fault) -> OpenError {
        match fault {
            Fault::Database(error) => self.explain(&self.hosts.places(), &error),
            other => {
                OpenError::Failed { place: self.hosts.places(), why: StoreError::from(other).to_string() }
            }
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
