//! Connections for statements that stand alone: all reads, and writes of a single statement.
//!
//! Every such call is one statement, so connections are shared and not lent out: a statement is sent on the one with
//! the least to do, behind what is already on its way there. There are never more than the bound, and they are made
//! when they are needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use store::StoreError;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use tokio_postgres::Row;

use crate::connection::{Connection, Connector, Parameters};
use crate::fault::Fault;
use crate::statements::Sql;

/// How often a change is made that the database undoes because of others.
pub(crate) const TRIES: usize = 5;
/// Statements on their way per connection, at most: beyond that callers wait for their turn.
const IN_FLIGHT: usize = 32;
/// A database that says nothing for this long to a question about few rows does not work.
const SHORT: Duration = Duration::from_secs(5);
/// And to one about many.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Readers {
    connector: Arc<Connector>,
    slots: Vec<Slot>,
    turns: Semaphore,
    patience: Duration,
    closed: AtomicBool,
}

#[derive(Default)]
struct Slot {
    connection: Mutex<Option<Arc<Connection>>>,
    /// Statements on their way.
    load: AtomicUsize,
}

/// How much a statement may have to do.
#[derive(Clone, Copy)]
pub(crate) enum Effort {
    Few,
    Many,
}

struct Turn<'r>(&'r Slot);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn lost_in_a_change() -> Fault {
    let why = "the connection to the database was lost; the change may have been made, or not";
    StoreError::Unavailable(why.into()).into()
}

pub(crate) fn closed() -> Fault {
    Fault::Refused(StoreError::closed())
}

impl Readers {
    pub(crate) fn new(connector: Arc<Connector>, connections: usize, patience: Duration) -> Readers {
        let connections = connections.max(1);
        let slots = (0..connections).map(|_| Slot::default()).collect();
        let turns = Semaphore::new(connections * IN_FLIGHT);
        Readers { connector, slots, turns, patience, closed: AtomicBool::new(false) }
    }

    /// Asks, and asks once more if the connection was lost: for statements that change nothing.
    pub(crate) async fn read(
        &self,
        sql: Sql,
        effort: Effort,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        match self.once(sql, effort, parameters).await {
            Err(fault) if fault.is_lost() && !matches!(fault, Fault::Silent) => {
                self.once(sql, effort, parameters).await
            }
            answer => answer,
        }
    }

    /// Asks for a change that a single statement makes. Done again only when the database says that it undid it.
    pub(crate) async fn change(&self, sql: Sql, parameters: Parameters<'_>) -> Result<Vec<Row>, Fault> {
        for _ in 1..TRIES {
            match self.once(sql, Effort::Many, parameters).await {
                Err(fault) if fault.is_collision() => {}
                Err(fault) if fault.is_lost() => {
                    return Err(lost_in_a_change());
                }
                answer => return answer,
            }
        }
        self.once(sql, Effort::Many, parameters).await
    }

    async fn once(&self, sql: Sql, effort: Effort, parameters: Parameters<'_>) -> Result<Vec<Row>, Fault> {
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        let turn = timeout(self.patience, self.turns.acquire()).await;
        let _turn = match turn {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(Fault::Away("the database is busy".into())),
        };
        let Some(slot) = self.slots.iter().min_by_key(|slot| slot.load.load(Ordering::Relaxed)) else {
            return Err(closed());
        };
        slot.load.fetch_add(1, Ordering::Relaxed);
        let _load = Turn(slot);
        let connection = self.connection(slot).await?;
        let wait = match effort {
            Effort::Few => SHORT,
            Effort::Many => LONG,
        };
        let answer = self.connector.answered(wait, connection.query(sql, parameters)).await;
        if matches!(&answer, Err(fault) if fault.spoils_connection()) {
            let mut held = slot.connection.lock().await;
            if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &connection)) {
                *held = None;
            }
        }
        answer
    }

    async fn connection(&self, slot: &Slot) -> Result<Arc<Connection>, Fault> {
        let mut held = slot.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| !connection.is_closed()) {
            self.connector.is_heard()?;
            return Ok(connection.clone());
        }
        *held = None;
        match self.connector.connect().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *held = Some(connection.clone());
                Ok(connection)
            }
            // A database that takes no more connections still serves those it has.
            Err(fault) => {
                drop(held);
                self.any_connection().filter(|_| self.connector.is_heard().is_ok()).ok_or(fault)
            }
        }
    }

    fn any_connection(&self) -> Option<Arc<Connection>> {
        let held = self.slots.iter().filter_map(|slot| slot.connection.try_lock().ok()?.clone());
        held.into_iter().find(|connection| !connection.is_closed())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.turns.close();
        for slot in &self.slots {
            *slot.connection.lock().await = None;
        }
    }
}
