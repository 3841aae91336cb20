//! The tables, and how they come about: numbered migrations, each run once, under a lock.

use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;

use crate::connection::{Connection, Connector, OpenError};
use crate::fault::Fault;

/// The layouts, oldest first. What has been released is never changed: what comes later is a new line here.
const MIGRATIONS: [&str; 1] = [FIRST];

/// What is (`entry`), and what happened (`log`). A value stands in one place: in `entry` until a change supersedes it,
/// then in the line of the log of that change. So history costs what it supersedes, and dropping it is dropping
/// partitions of the log, with nothing else to clean. Rows that are written with every transaction are small, and
/// have room beside them for their next version.
const FIRST: &str = r#"
-- seq: the last position of the log. total: bytes of history ever written.
CREATE TABLE counter (
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    seq bigint NOT NULL,
    total bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO counter (seq, total) VALUES (0, 0);

-- One row per process that writes: what became of its last transaction.
CREATE TABLE writer (
    id bigint PRIMARY KEY,
    batch bigint NOT NULL,
    seen timestamptz NOT NULL
) WITH (fillfactor = 10);

-- state: 0 lives, 1 is being imported, 2 is being removed. oldest: the first revision of its history.
CREATE TABLE tenant (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state smallint NOT NULL,
    revision bigint NOT NULL,
    oldest bigint NOT NULL,
    touched timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
-- What is left to do is found without looking at every tenant.
CREATE INDEX tenant_unfinished ON tenant (id) WHERE state <> 0;

CREATE TABLE directory (
    name text COLLATE "C" PRIMARY KEY,
    id bigint NOT NULL UNIQUE,
    record bytea NOT NULL
);

CREATE TABLE tally (
    tenant bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    entries bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (tenant, kind)
) WITH (fillfactor = 50);

CREATE TABLE entry (
    tenant bigint NOT NULL,
    key bytea NOT NULL,
    created bigint NOT NULL,
    modified bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 85);

-- The newest revision of a tenant that compaction has dropped; of tenant 0, the newest position. Apart from `tenant`,
-- so that compaction and writers never wait for each other.
CREATE TABLE horizon (
    tenant bigint PRIMARY KEY,
    reached bigint NOT NULL
);
INSERT INTO horizon (tenant, reached) VALUES (0, 0);

-- change: 0 created, 1 updated, 2 deleted, 3 the tenant was deleted. previous, old: the value this change superseded,
-- and the revision that wrote it. total: bytes of history before this line. weight: bytes of the values of its event.
CREATE TABLE log (
    seq bigint PRIMARY KEY,
    tenant bigint NOT NULL,
    revision bigint NOT NULL,
    key bytea NOT NULL,
    change smallint NOT NULL,
    created bigint NOT NULL,
    previous bigint,
    at timestamptz NOT NULL,
    total bigint NOT NULL,
    weight integer NOT NULL,
    old bytea
) PARTITION BY RANGE (seq);
CREATE INDEX log_by_revision ON log (tenant, revision, seq);
CREATE INDEX log_by_key ON log (tenant, key, previous) WHERE previous IS NOT NULL;

CREATE TABLE log_part (
    first bigint PRIMARY KEY,
    last bigint NOT NULL
);
"#;

/// What two processes must not do at once, each with a lock of the database by this name.
#[derive(Clone, Copy)]
pub(crate) enum Exclusive {
    Migrate,
    Partition,
    Compact,
}

impl Exclusive {
    /// Held until the end of the transaction.
    pub(crate) fn lock(self, schema: &str) -> String {
        format!("SELECT pg_advisory_xact_lock({})", self.number(schema))
    }

    pub(crate) fn try_lock(self, schema: &str) -> String {
        format!("SELECT pg_try_advisory_xact_lock({})", self.number(schema))
    }

    /// Others may use such locks in the same database: a number that nobody else takes by chance.
    fn number(self, schema: &str) -> i64 {
        let what = match self {
            Exclusive::Migrate => "migrate",
            Exclusive::Partition => "partition",
            Exclusive::Compact => "compact",
        };
        let hash = Sha256::digest(format!("hangar {schema} {what}"));
        hash.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
    }
}

/// Brings the schema to the layout this version knows. Touches nothing when it is there already.
pub(crate) async fn migrate(connector: &Connector, connection: &Connection) -> Result<(), OpenError> {
    let known = MIGRATIONS.len() as i64;
    let found = layout(connector, connection).await.map_err(|fault| connector.explain_fault(fault))?;
    if found == known {
        return Ok(());
    }
    if found > known {
        return Err(connector.layout(found, known));
    }
    let upgraded = async {
        connection.begin().await?;
        connection.end(upgrade(connector, connection).await).await
    };
    upgraded.await.map_err(|fault| connector.explain_fault(fault))
}

async fn upgrade(connector: &Connector, connection: &Connection) -> Result<(), Fault> {
    let schema = &connector.schema;
    connection.run(&Exclusive::Migrate.lock(schema)).await?;
    // Another process may have done it while we waited.
    let found = layout(connector, connection).await?;
    if found == 0 {
        // Who only owns the schema may not even ask for it to be made.
        let there = connection
            .ask(
                "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text)",
                &[(schema, Type::TEXT)],
            )
            .await?;
        if !there.try_get::<_, bool>(0)? {
            connection.run(&format!("CREATE SCHEMA {schema}")).await?;
        }
        connection
            .run(&format!(
                "CREATE TABLE {schema}.migration (version bigint PRIMARY KEY, applied timestamptz NOT NULL)"
            ))
            .await?;
    }
    for (version, text) in (1i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        connection.run(text).await?;
        connection.run(&format!("INSERT INTO {schema}.migration VALUES ({version}, now())")).await?;
    }
    Ok(())
}

/// The layout that is there; 0 for none.
async fn layout(connector: &Connector, connection: &Connection) -> Result<i64, Fault> {
    // Asked of the catalogue itself: what names resolve to is remembered from before we waited for the lock.
    let there = connection
        .ask(
            "SELECT EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
                            WHERE nspname = $1::text AND relname = 'migration')",
            &[(&connector.schema, Type::TEXT)],
        )
        .await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let question = format!("SELECT coalesce(max(version), 0) FROM {}.migration", connector.schema);
    let version = connection.ask(&question, &[]).await?;
    Ok(version.try_get(0)?)
}
