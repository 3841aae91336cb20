//! The candidates, each opened as the store would open it: 64 MiB of cache, one fsync per commit.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::{Engine, Pair};

pub fn open(name: &str, path: &Path) -> Arc<dyn Engine> {
    match name {
        "redb" => Arc::new(Redb::open(path)),
        "fjall" => Arc::new(Fjall::open(path)),
        "sqlite" => Arc::new(Sqlite::open(path)),
        other => panic!("no engine {other}"),
    }
}

const CACHE: usize = 64 << 20;

fn bounds(tenant: u64) -> (Vec<u8>, Vec<u8>) {
    (tenant.to_be_bytes().to_vec(), (tenant + 1).to_be_bytes().to_vec())
}

fn moved(key: &[u8], to: u64) -> Vec<u8> {
    [&to.to_be_bytes(), &key[8..]].concat()
}

struct Redb(redb::Database);

const CURRENT: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("current");
const LOG: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("log");

impl Redb {
    fn open(path: &Path) -> Self {
        let db = redb::Database::builder().set_cache_size(CACHE).create(path.join("redb")).unwrap();
        let write = db.begin_write().unwrap();
        write.open_table(CURRENT).unwrap();
        write.open_table(LOG).unwrap();
        write.commit().unwrap();
        Redb(db)
    }

    fn current(&self) -> redb::ReadOnlyTable<&'static [u8], &'static [u8]> {
        use redb::ReadableDatabase;
        self.0.begin_read().unwrap().open_table(CURRENT).unwrap()
    }
}

impl Engine for Redb {
    fn commit(&self, current: &[Pair], log: &[Pair]) {
        let write = self.0.begin_write().unwrap();
        {
            let mut table = write.open_table(CURRENT).unwrap();
            for (key, value) in current {
                table.insert(&key[..], &value[..]).unwrap();
            }
            let mut table = write.open_table(LOG).unwrap();
            for (key, value) in log {
                table.insert(&key[..], &value[..]).unwrap();
            }
        }
        write.commit().unwrap();
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.current().get(key).unwrap().map(|value| value.value().to_vec())
    }

    fn range(&self, from: &[u8], to: &[u8]) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for pair in self.current().range::<&[u8]>(from..to).unwrap() {
            bytes += pair.unwrap().1.value().to_vec().len();
            count += 1;
        }
        (count, bytes)
    }

    fn copy(&self, from: u64, to: u64) {
        let (start, end) = bounds(from);
        let source = self.current();
        let write = self.0.begin_write().unwrap();
        {
            let mut table = write.open_table(CURRENT).unwrap();
            for pair in source.range::<&[u8]>(&start[..]..&end[..]).unwrap() {
                let (key, value) = pair.unwrap();
                table.insert(&moved(key.value(), to)[..], value.value()).unwrap();
            }
        }
        write.commit().unwrap();
    }

    fn delete(&self, tenant: u64) {
        let (start, end) = bounds(tenant);
        let write = self.0.begin_write().unwrap();
        write.open_table(CURRENT).unwrap().retain_in::<&[u8], _>(&start[..]..&end[..], |_, _| false).unwrap();
        write.commit().unwrap();
    }
}

struct Fjall {
    db: fjall::Database,
    current: fjall::Keyspace,
    log: fjall::Keyspace,
}

impl Fjall {
    fn open(path: &Path) -> Self {
        // The write buffers are memory too: bound them as the cache is.
        let db = fjall::Database::builder(path)
            .cache_size(CACHE as u64)
            .max_write_buffer_size(Some(32 << 20))
            .open()
            .unwrap();
        let options = || fjall::KeyspaceCreateOptions::default().max_memtable_size(16 << 20);
        let current = db.keyspace("current", options).unwrap();
        let log = db.keyspace("log", options).unwrap();
        Fjall { db, current, log }
    }

    fn batch(&self) -> fjall::OwnedWriteBatch {
        self.db.batch().durability(Some(fjall::PersistMode::SyncData))
    }
}

impl Engine for Fjall {
    fn commit(&self, current: &[Pair], log: &[Pair]) {
        let mut batch = self.batch();
        for (key, value) in current {
            batch.insert(&self.current, &key[..], &value[..]);
        }
        for (key, value) in log {
            batch.insert(&self.log, &key[..], &value[..]);
        }
        batch.commit().unwrap();
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.current.get(key).unwrap().map(|value| value.to_vec())
    }

    fn range(&self, from: &[u8], to: &[u8]) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for pair in self.current.range(from..to) {
            bytes += pair.into_inner().unwrap().1.to_vec().len();
            count += 1;
        }
        (count, bytes)
    }

    fn copy(&self, from: u64, to: u64) {
        let (start, end) = bounds(from);
        let mut batch = self.batch();
        for pair in self.current.range(start..end) {
            let (key, value) = pair.into_inner().unwrap();
            batch.insert(&self.current, moved(&key, to), value);
        }
        batch.commit().unwrap();
    }

    fn delete(&self, tenant: u64) {
        let (start, end) = bounds(tenant);
        let mut batch = self.batch();
        for pair in self.current.range(start..end) {
            batch.remove(&self.current, pair.into_inner().unwrap().0);
        }
        batch.commit().unwrap();
    }
}

struct Sqlite {
    writer: Mutex<rusqlite::Connection>,
    reader: Mutex<rusqlite::Connection>,
}

impl Sqlite {
    fn open(path: &Path) -> Self {
        let open = |cache: usize| {
            let connection = rusqlite::Connection::open(path.join("sqlite")).unwrap();
            // Rows of 1 kB must fit into a page of the index several times.
            connection.pragma_update(None, "page_size", 8192).unwrap();
            connection.pragma_update(None, "journal_mode", "wal").unwrap();
            connection.pragma_update(None, "synchronous", "full").unwrap();
            connection.pragma_update(None, "cache_size", -((cache >> 10) as i64)).unwrap();
            connection.set_prepared_statement_cache_capacity(32);
            connection
        };
        let writer = open(CACHE / 2);
        writer
            .execute_batch(
                "CREATE TABLE IF NOT EXISTS current (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
                 CREATE TABLE IF NOT EXISTS log (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
            )
            .unwrap();
        Sqlite { writer: Mutex::new(writer), reader: Mutex::new(open(CACHE / 2)) }
    }
}

impl Engine for Sqlite {
    fn commit(&self, current: &[Pair], log: &[Pair]) {
        let mut connection = self.writer.lock().unwrap();
        let write = connection.transaction().unwrap();
        {
            let mut put = write.prepare_cached("INSERT OR REPLACE INTO current VALUES (?, ?)").unwrap();
            for (key, value) in current {
                put.execute((key, value)).unwrap();
            }
            let mut put = write.prepare_cached("INSERT OR REPLACE INTO log VALUES (?, ?)").unwrap();
            for (key, value) in log {
                put.execute((key, value)).unwrap();
            }
        }
        write.commit().unwrap();
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let connection = self.reader.lock().unwrap();
        let mut get = connection.prepare_cached("SELECT value FROM current WHERE key = ?").unwrap();
        get.query_row((key,), |row| row.get(0)).ok()
    }

    fn range(&self, from: &[u8], to: &[u8]) -> (usize, usize) {
        let connection = self.reader.lock().unwrap();
        let mut range = connection
            .prepare_cached("SELECT key, value FROM current WHERE key >= ? AND key < ? ORDER BY key")
            .unwrap();
        let mut rows = range.query((from, to)).unwrap();
        let (mut count, mut bytes) = (0, 0);
        while let Some(row) = rows.next().unwrap() {
            let value: Vec<u8> = row.get(1).unwrap();
            bytes += value.len();
            count += 1;
        }
        (count, bytes)
    }

    fn copy(&self, from: u64, to: u64) {
        let (start, end) = bounds(from);
        let connection = self.writer.lock().unwrap();
        connection
            .execute(
                "INSERT INTO current SELECT CAST(?3 || substr(key, 9) AS BLOB), value FROM current
                 WHERE key >= ?1 AND key < ?2",
                (start, end, to.to_be_bytes()),
            )
            .unwrap();
    }

    fn delete(&self, tenant: u64) {
        let (start, end) = bounds(tenant);
        let connection = self.writer.lock().unwrap();
        connection.execute("DELETE FROM current WHERE key >= ? AND key < ?", (start, end)).unwrap();
    }
}
