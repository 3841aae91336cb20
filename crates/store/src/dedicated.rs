//! Every tenant in a database of its own, for those who want to share none: an [`Embedded`] each.
//!
//! | in the directory | what it is |
//! |---|---|
//! | `ledger.db` | who there is: their ids, names and records ([`ledger`]) |
//! | `ID/` | the database of one tenant, which has the same id in it |
//!
//! Nothing of this is there before the first tenant is: a store that nobody uses costs nothing.
//!
//! A row of the ledger is there before its directory is, and goes after it. So a tenant is there or not by what its row says,
//! and a directory that nobody knows does not come about: whatever was broken off is taken away at the next start.
//!
//! A database is opened when it is first asked for something, and closed when nobody has for a while ([`rooms`]): a tenant at
//! rest costs its files. Those who follow all tenants are told by [`trail`], which is in memory: after a kill, what it knew is
//! as good as compacted.

mod ledger;
mod rooms;
mod store;
#[cfg(test)]
mod tests;
mod trail;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{RwLock, watch};

use self::ledger::Ledger;
use self::rooms::Rooms;
use self::trail::Trail;
use crate::embedded::{self, OpenError};
use crate::{Fence, Retention};

/// How a store of databases is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of each database.
    pub each: embedded::Options,
    /// How long one is open that nobody uses.
    pub rest_after: Duration,
    /// How many may be open that nobody uses now: beyond it, the one that was used longest ago is closed.
    pub open_at_rest: usize,
    /// What is remembered for those who follow all tenants and fell behind.
    pub trail: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            // One tenant's share: there may be many of them open at once.
            each: embedded::Options {
                cache_bytes: 8 << 20,
                event_bytes: 4 << 20,
                // There may be thousands.
                reserve_bytes: 0,
                ..embedded::Options::default()
            },
            rest_after: Duration::from_secs(60),
            open_at_rest: 64,
            trail: Retention { age: Duration::from_secs(60), bytes: 8 << 20 },
        }
    }
}

/// A store of databases in a directory of this machine.
#[derive(Clone)]
pub struct Dedicated {
    house: Arc<House>,
    /// What all changes made through this handle depend on.
    fence: Option<Arc<Fence>>,
}

/// Shared by all handles.
struct House {
    directory: PathBuf,
    options: Options,
    ledger: Ledger,
    rooms: Rooms,
    trail: Arc<Trail>,
    /// Held by all changes together, or by one that depends on a fence alone: no other comes between its look at the fence
    /// and its commit, which are in two databases.
    gate: RwLock<()>,
}

impl Dedicated {
    /// Opens the store in `directory`, if there is one, and takes away what was left half made or half removed; if there is
    /// none, it is made with the first tenant. A second process is refused.
    pub fn open(directory: &Path, options: Options) -> Result<Dedicated, OpenError> {
        let (ledger, begin) = Ledger::open(directory)?;
        let house = House {
            directory: directory.to_owned(),
            trail: Trail::new(begin, options.trail),
            options,
            ledger,
            rooms: Rooms::default(),
            gate: RwLock::default(),
        };
        house.clear_up()?;
        Ok(Dedicated { house: Arc::new(house), fence: None })
    }

    /// Whether there is, or was, a tenant: before, there is nothing to look after.
    pub fn begun(&self) -> watch::Receiver<bool> {
        self.house.ledger.begun()
    }
}
