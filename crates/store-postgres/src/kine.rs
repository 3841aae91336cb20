//! The table in which kine keeps a Kubernetes API server's store, as KubeFlex runs it: read, never written.
//!
//! kine's rows are a log: each says what one key was from then on. What is there now is the last row of each key,
//! unless that says that it was deleted.

use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::error::SqlState;

use crate::address::{self, Surroundings};
use crate::connection::{Connector, OpenError};
use crate::fault::Fault;
use crate::snapshot::bytes;

/// What a key holds now.
pub struct Row {
    /// As the API server names it: `/registry/RESOURCE/[NAMESPACE/]NAME`.
    pub key: String,
    /// The revision that made it, and the one that wrote this value.
    pub created: u64,
    pub modified: u64,
    pub value: Bytes,
}

/// All of a table at one moment.
pub struct Table {
    /// The last revision it had.
    pub revision: u64,
    pub rows: Vec<Row>,
}

#[derive(thiserror::Error, Debug)]
pub enum KineError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{0:?} is not the name of a table")]
    Name(String),
    #[error("the database has no table {0:?}: name the one that kine keeps with --table")]
    NoTable(String),
    #[error("table {table:?} is not one of kine's: {why}")]
    NotKines { table: String, why: String },
}

/// Where kine's tables are unless somebody moved them.
const SCHEMA: &str = "public";
/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A table of a hundred thousand objects takes seconds.
const READING: Duration = Duration::from_secs(600);

/// Reads the table at one moment, while its API server may go on.
pub async fn read(address: &str, surroundings: &Surroundings, table: &str) -> Result<Table, KineError> {
    let quoted = quoted(table).ok_or_else(|| KineError::Name(table.to_owned()))?;
    let address = address::parse_in(address, surroundings).map_err(OpenError::from)?;
    let connector = Connector::new(address, surroundings, SCHEMA, PATIENCE)?;
    let connection = connector.first().await?;
    // The first row is of no key: with it an empty table is one, too.
    let sql = format!(
        "SELECT ''::text, 0::bigint, coalesce(max(id), 0)::bigint, ''::bytea FROM {quoted}
         UNION ALL
         SELECT name::text, (CASE WHEN created = 1 THEN id ELSE create_revision END)::bigint, id::bigint, value
         FROM {quoted}
         WHERE id IN (SELECT max(id) FROM {quoted} GROUP BY name) AND deleted = 0 AND name LIKE '/%'"
    );
    let asking = tokio::time::timeout(READING, connection.ask_all(&sql));
    let found = match asking.await.unwrap_or(Err(Fault::Silent)) {
        Err(fault) => return Err(explain(&connector, table, fault)),
        Ok(found) => found,
    };
    let read = |row: &tokio_postgres::Row| -> Result<Row, Fault> {
        let number = |at: usize| Ok::<_, Fault>(u64::try_from(row.try_get::<_, i64>(at)?).unwrap_or(0));
        Ok(Row { key: row.try_get(0)?, created: number(1)?, modified: number(2)?, value: bytes(row, 3)? })
    };
    let rows: Result<Vec<Row>, Fault> = found.iter().map(read).collect();
    let mut rows = rows.map_err(|fault| explain(&connector, table, fault))?;
    let end = rows.iter().position(|row| row.key.is_empty()).map(|at| rows.swap_remove(at));
    Ok(Table { revision: end.map_or(0, |end| end.modified), rows })
}

fn explain(connector: &Connector, table: &str, fault: Fault) -> KineError {
    match fault.code() {
        Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME) => {
            KineError::NoTable(table.to_owned())
        }
        Some(code) if code.code().starts_with("42") && *code != SqlState::INSUFFICIENT_PRIVILEGE => {
            let why = store::StoreError::from(fault).to_string();
            let why = why.strip_prefix("the store failed: ").unwrap_or(&why).to_owned();
            KineError::NotKines { table: table.to_owned(), why }
        }
        _ => connector.explain_fault(fault).into(),
    }
}

/// `table` or `schema.table`.
fn quoted(table: &str) -> Option<String> {
    let parts: Vec<&str> = table.split('.').collect();
    let good = |part: &&str| !part.is_empty() && !part.contains(['"', '\0']);
    let quote = |part: &&str| format!("\"{part}\"");
    (parts.len() <= 2 && parts.iter().all(good))
        .then(|| parts.iter().map(quote).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables() {
        let cases = [
            ("kine", Some(r#""kine""#)),
            ("other.Kine 2", Some(r#""other"."Kine 2""#)),
            ("", None),
            ("a.", None),
            ("a.b.c", None),
            (r#"k" WHERE true; --"#, None),
        ];
        for (name, expected) in cases {
            assert_eq!(quoted(name).as_deref(), expected, "{name}");
        }
    }
}
