//! The processes that share a store: who is there.
//!
//! A process is there for as long as it says so, by a key of its own that it writes again and again. Who has seen nothing
//! new there for [`Terms::expiry`] by their own clock takes the key away: no two clocks are ever compared. A member that is
//! gone never comes back: a process that finds itself gone begins again under another name. One that could not say that
//! it is there for a shorter time gives up by itself, well before others can think so.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use objects::CompactString;
use store::{Change, Delivery, Expect, Key, Operation, Revision, Scope, Store, StoreError, TenantId};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lease::Terms;

/// The row of the directory that has the members' keys.
const TENANT: &str = "_members";
const KIND: &str = "_members";

/// All members, in one order for everybody.
pub(crate) type Roster = Arc<Vec<CompactString>>;

/// This process for as long as it is a member.
#[derive(Clone)]
pub(crate) struct Session {
    pub member: CompactString,
    /// Cancelled when others may take it for gone.
    pub ended: CancellationToken,
    pub roster: watch::Receiver<Roster>,
    tenant: TenantId,
}

impl Session {
    /// When the list of members is another, or this one is not in it any more.
    pub async fn changed(&mut self) {
        tokio::select! {
            () = self.ended.cancelled() => {}
            // An error is the end of the session.
            _ = self.roster.changed() => {}
        }
    }

    /// Whether a member is certainly gone. The roster may not have heard of a new one yet.
    pub async fn is_gone(&self, store: &dyn Store, member: &str) -> Result<bool, StoreError> {
        if self.roster.borrow().iter().any(|one| one == member) {
            return Ok(false);
        }
        Ok(store.get(self.tenant, &key(member)).await?.is_none())
    }
}

fn key(member: &str) -> Key {
    Key::new(KIND, "", member)
}

/// How a member's key was last seen.
struct Sight {
    modified: Revision,
    since: Instant,
}

/// What keeps a process a member.
pub(crate) struct Keeper {
    pub store: Arc<dyn Store>,
    /// What its names begin with.
    pub process: String,
    pub terms: Terms,
    pub sessions: watch::Sender<Option<Session>>,
    pub leaving: CancellationToken,
}

impl Keeper {
    /// Session after session until it leaves; whatever the store does is waited out.
    pub async fn keep(self) {
        for number in 0_u64.. {
            if let Err(error) = self.session(&format!("{}.{number}", self.process)).await {
                tracing::debug!(%error, "the other processes of the store cannot be joined");
            }
            if self.leaving.run_until_cancelled(tokio::time::sleep(self.terms.renewal)).await.is_none() {
                return;
            }
        }
    }

    async fn session(&self, member: &str) -> Result<(), StoreError> {
        let tenant = store::own_tenant(&*self.store, TENANT).await?;
        let asked = Instant::now();
        let there = self.store.write(tenant, vec![said(member, Expect::Absent, 0)]).await?;
        let roster = watch::Sender::new(Roster::default());
        let session = Session {
            member: member.into(),
            ended: CancellationToken::new(),
            roster: roster.subscribe(),
            tenant,
        };
        let _ended = session.ended.clone().drop_guard();
        self.sessions.send_replace(Some(session));
        tokio::select! {
            () = self.say_so(tenant, member, Sight { modified: there, since: asked }) => {}
            () = self.look_after(tenant, &roster) => {}
            () = self.leaving.cancelled() => {
                let leave = Operation::Delete { key: key(member), expect: Expect::Any };
                self.store.write(tenant, vec![leave]).await?;
            }
        }
        self.sessions.send_replace(None);
        Ok(())
    }

    /// Until others may think otherwise. `last` is when it was certain, not when the answer came.
    async fn say_so(&self, tenant: TenantId, member: &str, mut last: Sight) {
        for times in 1.. {
            tokio::time::sleep(self.terms.renewal).await;
            let asked = Instant::now();
            let written =
                self.store.write(tenant, vec![said(member, Expect::Modified(last.modified), times)]);
            match tokio::time::timeout_at(last.since + self.terms.giving_up, written).await {
                Ok(Ok(modified)) => last = Sight { modified, since: asked },
                // Nobody else writes it: an earlier one was written though its answer was lost.
                Ok(Err(StoreError::Conflict { current: Some(entry), .. })) => {
                    last = Sight { modified: entry.modified, since: asked };
                }
                Ok(Err(StoreError::Conflict { .. } | StoreError::NoTenant)) => {
                    tracing::warn!(member, "the other processes took this one for gone");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(member, %error, "the leases could not be renewed"),
                Err(_) => {}
            }
            if last.since.elapsed() >= self.terms.giving_up {
                tracing::warn!(member, "the leases could not be renewed in time and are given up");
                return;
            }
        }
    }

    /// Tells who is there, and takes those away who do not say so.
    async fn look_after(&self, tenant: TenantId, roster: &watch::Sender<Roster>) {
        let mut seen = BTreeMap::new();
        loop {
            if let Err(error) = self.follow(tenant, &mut seen, roster).await {
                tracing::debug!(%error, "the other processes of the store cannot be seen");
            }
            tokio::time::sleep(self.terms.renewal).await;
        }
    }

    async fn follow(
        &self,
        tenant: TenantId,
        seen: &mut BTreeMap<CompactString, Sight>,
        roster: &watch::Sender<Roster>,
    ) -> Result<(), StoreError> {
        let scope = Scope::Kind(KIND.into());
        let page = self.store.range(tenant, &scope, None, None, 0).await?;
        let mut before = std::mem::take(seen);
        for entry in page.entries {
            // Whoever has said nothing new while nobody listened has said nothing new for as long.
            let same = before.remove(&entry.key.name).filter(|sight| sight.modified == entry.modified);
            let sight = same.unwrap_or_else(|| Sight { modified: entry.modified, since: Instant::now() });
            seen.insert(entry.key.name, sight);
        }
        let mut changes = self.store.watch(tenant, scope, page.revision).await?;
        loop {
            publish(roster, seen);
            let oldest = seen.iter().min_by_key(|(_, sight)| sight.since);
            let Some((member, Sight { modified, since })) = oldest else { return Ok(()) };
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(Delivery::Event(event))) if event.change == Change::Deleted => {
                        seen.remove(&event.key.name);
                    }
                    Some(Ok(Delivery::Event(event))) => {
                        let sight = Sight { modified: event.revision, since: Instant::now() };
                        seen.insert(event.key.name.clone(), sight);
                    }
                    Some(Ok(Delivery::Progress(_))) => {}
                    Some(Err(_)) | None => return Ok(()),
                },
                () = tokio::time::sleep_until(*since + self.terms.expiry) => {
                    let expect = Expect::Modified(*modified);
                    let take_away = Operation::Delete { key: key(member), expect };
                    match self.store.write(tenant, vec![take_away]).await {
                        Ok(_) => tracing::info!(member = %member, "another process of the store is gone"),
                        // It has said something that was not heard, or somebody else was quicker.
                        Err(StoreError::Conflict { .. }) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                    let member = member.clone();
                    seen.remove(&member);
                }
            }
        }
    }
}

/// A member's key, as it is written for the so-manieth time: every time is a change.
fn said(member: &str, expect: Expect, times: u64) -> Operation {
    Operation::Put { key: key(member), expect, value: Bytes::from(times.to_string()) }
}

fn publish(roster: &watch::Sender<Roster>, seen: &BTreeMap<CompactString, Sight>) {
    roster.send_if_modified(|roster| {
        let changed = !roster.iter().eq(seen.keys());
        if changed {
            *roster = Arc::new(seen.keys().cloned().collect());
        }
        changed
    });
}
