//! The PostgreSQL that these tests start, and statements run in it past the store.

use std::sync::atomic::{AtomicU64, Ordering};

pub use databases::postgres::{PASSWORD, Server};

/// Statements of the owner of everything.
pub trait Sql {
    async fn run(&self, sql: &str);
    async fn number(&self, sql: &str) -> i64;
}

impl Sql for Server {
    async fn run(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        drop(client);
        let _ = driver.await;
    }

    async fn number(&self, sql: &str) -> i64 {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        let number = client.query_one(sql, &[]).await.unwrap().get(0);
        drop(client);
        let _ = driver.await;
        number
    }
}

/// A name for a schema that no other test of this process has.
pub fn fresh_schema() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
