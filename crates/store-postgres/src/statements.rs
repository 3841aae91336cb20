//! Every statement that is prepared, in one table. Tables are named without their schema: a connection looks there.

/// A tenant that lives, `t`, with how far its past can be read, `h`. `$1` is its id.
macro_rules! living {
    () => {
        " tenant t LEFT JOIN horizon h ON h.tenant = t.id "
    };
}

/// The columns that every reading of a tenant begins with: its revision and the oldest that can be read.
macro_rules! point {
    () => {
        " t.revision, greatest(t.oldest, coalesce(h.reached, 0)) "
    };
}

/// What stood under keys from `$2` to before `$3` at revision `$5`: what still stands, and what a later change
/// superseded, which is kept with that change. What is asked of the whole, such as an order and a limit, is asked of
/// each half too, for the database does not see by itself that it may stop there.
macro_rules! as_of {
    ($of_each:literal) => {
        concat!(
            " (SELECT created, modified, value, key FROM entry
               WHERE tenant = $1 AND key >= $2 AND key < $3 AND modified <= $5 ",
            $of_each,
            ")
              UNION ALL
              (SELECT created, previous, old, key FROM log
               WHERE tenant = $1 AND key >= $2 AND key < $3 AND previous <= $5 AND revision > $5 ",
            $of_each,
            ") "
        )
    };
}

/// The values of lines `p` of the log: what a change wrote stands in `entry` until it is superseded, and then with
/// the line that did it.
macro_rules! values_of_lines {
    () => {
        " LEFT JOIN entry e
            ON p.change < 2 AND e.tenant = p.tenant AND e.key = p.key AND e.modified = p.revision
          LEFT JOIN LATERAL (
            SELECT later.old FROM log later
            WHERE p.change < 2 AND e.key IS NULL
              AND later.tenant = p.tenant AND later.key = p.key AND later.previous = p.revision LIMIT 1
          ) n ON true "
    };
}

/// The columns of a line with its values, from the place given on.
macro_rules! line {
    () => {
        " p.seq, p.tenant, p.revision, p.key, p.change, p.created, p.old, coalesce(e.value, n.old) "
    };
}

/// Makes the kind of a key text again, to count by it.
macro_rules! kind_of_key {
    () => {
        " convert_from(substring(key FROM 1 FOR position('\\x00'::bytea IN key) - 1), 'UTF8') "
    };
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Sql { $($(#[$doc])* $name),* }

        impl Sql {
            pub(crate) const ALL: &[Sql] = &[$(Sql::$name),*];

            pub(crate) fn text(self) -> &'static str {
                match self { $(Sql::$name => $text),* }
            }
        }
    };
}

statements! {
    /// Where the store and one tenant are.
    Point = concat!("SELECT", point!(), "FROM", living!(), "WHERE t.id = $1 AND t.state = 0");

    /// The first revision of a tenant after the moment `$2`, and whether the log still reaches back to that.
    After = concat!(
        "SELECT", point!(), ",
           (SELECT revision FROM log WHERE tenant = t.id AND seq > g.reached AND at > $2 AND change < 3
            ORDER BY revision LIMIT 1),
           g.reached = 0
             OR coalesce((SELECT at <= $2 FROM log WHERE seq > g.reached ORDER BY seq LIMIT 1), true)
         FROM", living!(), "CROSS JOIN horizon g WHERE g.tenant = 0 AND t.id = $1 AND t.state = 0");

    Get = "SELECT e.created, e.modified, e.value
           FROM tenant t LEFT JOIN entry e ON e.tenant = t.id AND e.key = $2 WHERE t.id = $1 AND t.state = 0";

    /// `$4` rows at most; `$5` is a type whose count is of use.
    RangeNow = concat!(
        "SELECT", point!(), ", (SELECT entries FROM tally WHERE tenant = t.id AND kind = $5), r.* FROM", living!(),
        "LEFT JOIN LATERAL (
            SELECT created, modified, value, key FROM entry
            WHERE tenant = t.id AND key >= $2 AND key < $3 ORDER BY key LIMIT $4
         ) r ON true WHERE t.id = $1 AND t.state = 0");

    RangeAt = concat!(
        "SELECT", point!(), ", NULL::bigint, r.* FROM", living!(),
        "LEFT JOIN LATERAL (
            SELECT * FROM (", as_of!("ORDER BY key LIMIT $4"), ") past ORDER BY key LIMIT $4
         ) r ON true
         WHERE t.id = $1 AND t.state = 0");

    CountRange = "SELECT (SELECT count(*) FROM entry WHERE tenant = t.id AND key >= $2 AND key < $3)
                  FROM tenant t WHERE t.id = $1 AND t.state = 0";

    /// Entries and bytes of a type, or of all when `$2` is null.
    Tally = "SELECT coalesce(sum(y.entries), 0)::bigint, coalesce(sum(y.bytes), 0)::bigint
             FROM tenant t LEFT JOIN tally y ON y.tenant = t.id AND ($2::text IS NULL OR y.kind = $2)
             WHERE t.id = $1 AND t.state = 0 GROUP BY t.id";

    /// Where the log ends, and up to where it has been dropped.
    Position = "SELECT c.seq, h.reached, c.total FROM counter c, horizon h WHERE h.tenant = 0";

    TenantNamed = "SELECT name, id, record FROM directory WHERE name = $1";
    TenantById = "SELECT name, id, record FROM directory WHERE id = $1";
    Tenants = "SELECT name, id, record FROM directory WHERE name > $1 ORDER BY name LIMIT $2";

    /// Lines of one tenant after (`$2`, `$3`) on keys from `$4` to before `$5`: `$6` lines at most, and `$7` bytes,
    /// about. With the tenant's point, the store's position, and how many lines there were.
    TenantLines = concat!(
        "WITH page AS MATERIALIZED (
            SELECT *, sum(weight) OVER (ORDER BY revision, seq) - weight AS before FROM (
                SELECT seq, tenant, revision, key, change, created, old, weight FROM log
                WHERE tenant = $1 AND revision >= $2 AND (revision > $2 OR seq > $3)
                  AND key >= $4 AND key < $5 AND change < 3
                ORDER BY revision, seq LIMIT $6
            ) lines
         )
         SELECT", point!(), ", c.seq, (SELECT count(*) FROM page),", line!(),
        "FROM", living!(), "CROSS JOIN counter c LEFT JOIN page p ON p.before < $7", values_of_lines!(),
        "WHERE t.id = $1 AND t.state = 0");

    /// Lines of all tenants after `$1` and up to `$2`: `$3` lines at most, and `$4` bytes, about. With the store's
    /// position, up to where the log has been dropped, how many lines there were, and whether the tenant lives.
    AllLines = concat!(
        "WITH page AS MATERIALIZED (
            SELECT *, sum(weight) OVER (ORDER BY seq) - weight AS before FROM (
                SELECT seq, tenant, revision, key, change, created, old, weight FROM log
                WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3
            ) lines
         )
         SELECT c.seq, h.reached, (SELECT count(*) FROM page), coalesce(t.state = 0, false),", line!(),
        "FROM counter c CROSS JOIN horizon h LEFT JOIN page p ON p.before < $4
         LEFT JOIN tenant t ON t.id = p.tenant", values_of_lines!(),
        "WHERE h.tenant = 0");

    // Writing. A transaction locks its writer's row, then its tenants in the order of their ids, and the counter
    // last: whoever takes locks in one order waits for nobody who waits for it.

    LockWriter = "SELECT batch FROM writer WHERE id = $1 FOR UPDATE";
    EnterWriter = "INSERT INTO writer (id, batch, seen) VALUES ($1, 0, now()) ON CONFLICT (id) DO NOTHING";
    LockTenants = "SELECT id, revision FROM tenant WHERE id = ANY($1::bigint[]) AND state = 0
                   ORDER BY id FOR NO KEY UPDATE";
    /// Those that nobody else holds.
    TryTenants = "SELECT id, revision FROM tenant WHERE id = ANY($1::bigint[]) AND state = 0
                  ORDER BY id FOR NO KEY UPDATE SKIP LOCKED";
    LivingTenants = "SELECT id FROM tenant WHERE id = ANY($1::bigint[]) AND state = 0";
    ReadKeys = "SELECT x.line, e.created, e.modified, e.value
                FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY AS x (tenant, key, line)
                JOIN entry e ON e.tenant = x.tenant AND e.key = x.key";

    /// All of a batch in one statement, so that it arrives whole before anything of it is locked.
    Apply = "
        WITH c AS (
            UPDATE counter SET seq = seq + $24, total = total + $25 RETURNING seq, total
        ), lines AS (
            INSERT INTO log (seq, tenant, revision, key, change, created, previous, at, total, weight, old)
            SELECT c.seq - $24 + x.line, x.tenant, x.revision, x.key, x.change, x.created, x.previous,
                   clock_timestamp(), c.total - $25 + x.before, x.weight,
                   CASE WHEN x.stands THEN e.value ELSE x.old END
            FROM c CROSS JOIN unnest($14::bigint[], $15::bigint[], $16::bytea[], $17::smallint[], $18::bigint[],
                                     $19::bigint[], $20::integer[], $21::bytea[], $22::boolean[], $23::bigint[])
                 WITH ORDINALITY AS x (tenant, revision, key, change, created, previous, weight, old, stands, before,
                                       line)
            LEFT JOIN entry e ON x.stands AND e.tenant = x.tenant AND e.key = x.key
        ), advanced AS (
            UPDATE tenant SET revision = x.revision FROM unnest($1::bigint[], $2::bigint[]) AS x (id, revision)
            WHERE tenant.id = x.id
        ), put AS (
            INSERT INTO entry (tenant, key, created, modified, value)
            SELECT * FROM unnest($3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[])
            ON CONFLICT (tenant, key) DO UPDATE
            SET created = excluded.created, modified = excluded.modified, value = excluded.value
        ), deleted AS (
            DELETE FROM entry USING unnest($8::bigint[], $9::bytea[]) AS x (tenant, key)
            WHERE entry.tenant = x.tenant AND entry.key = x.key
        ), counted AS (
            INSERT INTO tally (tenant, kind, entries, bytes)
            SELECT * FROM unnest($10::bigint[], $11::text[], $12::bigint[], $13::bigint[])
            ON CONFLICT (tenant, kind) DO UPDATE
            SET entries = tally.entries + excluded.entries, bytes = tally.bytes + excluded.bytes
        ), signed AS (
            UPDATE writer SET batch = $28, seen = now() WHERE id = $29
        )
        SELECT c.seq, pg_notify($26::text, $27::text || ' ' || c.seq) FROM c";

    // Tenants. Names are taken before the counter, by all who take both.

    /// A tenant with its first entries.
    CreateTenant = "
        WITH made AS (
            INSERT INTO tenant (state, revision, oldest) VALUES (0, 1, 0) RETURNING id
        ), named AS (
            INSERT INTO directory (name, id, record) SELECT $1::text, made.id, $2::bytea FROM made RETURNING id
        ), c AS (
            UPDATE counter SET seq = seq + $7, total = total + $8 FROM named RETURNING seq, total, named.id
        ), put AS (
            INSERT INTO entry (tenant, key, created, modified, value)
            SELECT c.id, x.key, 1, 1, x.value FROM c, unnest($3::bytea[], $4::bytea[]) AS x (key, value)
        ), lines AS (
            INSERT INTO log (seq, tenant, revision, key, change, created, previous, at, total, weight, old)
            SELECT c.seq - $7 + x.line, c.id, 1, x.key, 0, 1, NULL, clock_timestamp(), c.total - $8 + x.before,
                   x.weight, NULL
            FROM c, unnest($3::bytea[], $5::integer[], $6::bigint[]) WITH ORDINALITY AS x (key, weight, before, line)
        ), counted AS (
            INSERT INTO tally (tenant, kind, entries, bytes)
            SELECT c.id, x.* FROM c, unnest($9::text[], $10::bigint[], $11::bigint[]) AS x (kind, entries, bytes)
        )
        SELECT c.id, c.seq, pg_notify($12::text, $13::text || ' ' || c.seq) FROM c";

    ReplaceRecord = "UPDATE directory SET record = $2 WHERE id = $1 AND record = $3 RETURNING id";

    UpdateTenant = "UPDATE directory SET record = $2 WHERE id = $1 RETURNING id";

    /// Gone from the directory and for every reader, with a line in the log that ends its watches everywhere.
    DeleteTenant = "
        WITH gone AS (
            UPDATE tenant SET state = 2, touched = now() WHERE id = $1 AND state = 0 RETURNING id, revision
        ), unnamed AS (
            DELETE FROM directory USING gone WHERE directory.id = gone.id
        ), c AS (
            UPDATE counter SET seq = seq + 1, total = total + 64 FROM gone
            RETURNING seq, total, gone.id, gone.revision
        ), lines AS (
            INSERT INTO log (seq, tenant, revision, key, change, created, previous, at, total, weight, old)
            SELECT seq, id, revision + 1, '\\x'::bytea, 3, 0, NULL, clock_timestamp(), total - 64, 64, NULL FROM c
        )
        SELECT c.seq, pg_notify($2::text, $3::text || ' ' || c.seq) FROM c";

    /// `$1` source, `$2` and `$3` all keys, `$5` the revision, `$4` the copy.
    CopyEntries = concat!(
        "INSERT INTO entry (tenant, key, created, modified, value)
         SELECT $4::bigint, key, created, modified, value FROM (", as_of!(""), ") past");
    CopyTally = concat!(
        "INSERT INTO tally (tenant, kind, entries, bytes)
         SELECT $1::bigint, kind, count(*), sum(bytes) FROM (
            SELECT", kind_of_key!(), "AS kind, length(key) + length(value) AS bytes FROM entry WHERE tenant = $1
         ) entries GROUP BY kind");
    MakeFork = "
        WITH made AS (
            INSERT INTO tenant (state, revision, oldest) VALUES (0, $3::bigint, $3::bigint) RETURNING id
        )
        INSERT INTO directory (name, id, record) SELECT $1::text, made.id, $2::bytea FROM made RETURNING id";

    /// A tenant that nobody sees until it is published.
    BeginImport = "INSERT INTO tenant (state, revision, oldest) VALUES (1, 0, 0) RETURNING id";
    ImportEntries = "
        WITH mine AS (
            UPDATE tenant SET touched = now() WHERE id = $1 AND state = 1 RETURNING id
        ), put AS (
            INSERT INTO entry (tenant, key, created, modified, value)
            SELECT mine.id, x.* FROM mine,
                unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[]) AS x (key, created, modified, value)
        ), counted AS (
            INSERT INTO tally (tenant, kind, entries, bytes)
            SELECT mine.id, x.* FROM mine,
                unnest($6::text[], $7::bigint[], $8::bigint[]) AS x (kind, entries, bytes)
            ON CONFLICT (tenant, kind) DO UPDATE
            SET entries = tally.entries + excluded.entries, bytes = tally.bytes + excluded.bytes
        )
        SELECT id FROM mine";
    PublishImport = "
        WITH named AS (
            INSERT INTO directory (name, id, record) SELECT $3::text, id, $4::bytea FROM tenant WHERE id = $1 AND state = 1
            RETURNING id
        )
        UPDATE tenant SET state = 0, revision = $2, oldest = $2 FROM named WHERE tenant.id = named.id
        RETURNING tenant.id";
    DiscardImport = "UPDATE tenant SET state = 2, touched = now() WHERE id = $1 AND state = 1 RETURNING id";

    // Chores.

    /// Tenants being removed, and imports that nobody has gone on with for a while.
    Unfinished = "SELECT id, state FROM tenant
                  WHERE state = 2 OR (state = 1 AND touched < now() - interval '15 minutes')
                  ORDER BY id LIMIT 100";
    /// Some of what a tenant stored, unless another replica is at it; with how much.
    RemoveEntries = "
        WITH mine AS (
            SELECT id FROM tenant WHERE id = $1 AND state = 2 FOR UPDATE SKIP LOCKED
        ), doomed AS (
            SELECT d.key FROM mine, LATERAL (
                SELECT key FROM entry WHERE tenant = mine.id ORDER BY key LIMIT $2
            ) d
        ), gone AS (
            DELETE FROM entry USING doomed WHERE entry.tenant = $1 AND entry.key = doomed.key RETURNING 1
        )
        SELECT (SELECT count(*) FROM gone) FROM mine";
    RemoveTenant = "
        WITH gone AS (
            DELETE FROM tenant WHERE id = $1 AND state = 2
              AND NOT EXISTS (SELECT 1 FROM entry WHERE tenant = $1) RETURNING id
        ), tallies AS (
            DELETE FROM tally USING gone WHERE tally.tenant = gone.id
        )
        DELETE FROM horizon USING gone WHERE horizon.tenant = gone.id";
    /// A day is far longer than a writer waits to learn how its transaction ended.
    ForgetWriters = "DELETE FROM writer WHERE seen < now() - interval '1 day' RETURNING id";

    // Compaction.

    /// The line at `$1` or the next, and whether it is beyond the retention: older than `$2` milliseconds, or with
    /// more than `$4` bytes from it to the end, `$3`.
    Probe = "SELECT seq, at <= clock_timestamp() - $2::float8 * interval '1 millisecond' OR $3 - total > $4
             FROM log WHERE seq >= $1 ORDER BY seq LIMIT 1";
    /// The last line of the transaction that the line at `$1` is of.
    EndOfTransaction = "
        SELECT max(log.seq) FROM log JOIN (SELECT tenant, revision FROM log WHERE seq = $1) x
          ON log.tenant = x.tenant AND log.revision = x.revision";
    RaiseHorizons = "
        INSERT INTO horizon (tenant, reached)
        SELECT l.tenant, max(l.revision) FROM log l JOIN tenant t ON t.id = l.tenant AND t.state = 0
        WHERE l.seq > $1 AND l.seq <= $2 GROUP BY l.tenant
        ON CONFLICT (tenant) DO UPDATE SET reached = greatest(horizon.reached, excluded.reached)";
    RaiseHorizon = "UPDATE horizon SET reached = greatest(reached, $1) WHERE tenant = 0";

    LastPartition = "SELECT c.seq, coalesce((SELECT max(last) FROM log_part), 0) FROM counter c";
    EnterPartition = "INSERT INTO log_part (first, last) VALUES ($1, $2)";
    SpentPartitions = "SELECT first FROM log_part WHERE last <= (SELECT reached FROM horizon WHERE tenant = 0)
                       ORDER BY first LIMIT 20";
}
