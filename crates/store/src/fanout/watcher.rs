//! One watch: the log until it has caught up, then its channel, and back when it has fallen behind.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;

use super::hub::{Found, Hub, Subscription};
use super::{Chunk, Cursor, Kinds, Log, Telling};
use crate::{Delivery, Event, Feed, Position, Revision, Scope, StoreError, TenantId, Watch, WatchError};

/// The changes of `scope` after `from`, which the caller knows to be readable.
pub fn watch(
    hub: &Arc<Hub>,
    log: Arc<dyn Log>,
    tenant: TenantId,
    scope: Scope,
    from: Revision,
    telling: Telling,
) -> Watch {
    // Before the log is first read: what is committed from here on is in the channel.
    let subscription = hub.subscribe(tenant, &scope);
    // All of that revision lies behind, wherever its last change stands in the log.
    let start = Cursor { revision: from, position: Position(u64::MAX) };
    // In a box, because the stream moves it with every delivery.
    let reader = Box::new(Reader::new(subscription, Source::Tenant { log, tenant, scope }, start, telling));
    futures::stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        match reader.next().await {
            Ok(delivery) => Some((Ok(delivery), Some(reader))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

/// The changes of some types in all tenants after `from`, or after now.
pub async fn feed(
    hub: &Arc<Hub>,
    log: Arc<dyn Log>,
    kinds: Kinds,
    from: impl AsyncFnOnce() -> Result<Position, StoreError>,
) -> Result<Feed, StoreError> {
    let subscription = hub.subscribe_to_all();
    let start = Cursor { revision: Revision(0), position: from().await? };
    let source = Source::All { log, kinds };
    let reader = Box::new(Reader::new(subscription, source, start, Telling::OnBeats));
    Ok(futures::stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        loop {
            match reader.next().await {
                Ok(Delivery::Event(event)) => return Some((Ok(event), Some(reader))),
                Ok(Delivery::Progress(_)) => {}
                Err(error) => return Some((Err(error), None)),
            }
        }
    })
    .boxed())
}

enum Source {
    Tenant { log: Arc<dyn Log>, tenant: TenantId, scope: Scope },
    All { log: Arc<dyn Log>, kinds: Kinds },
}

impl Source {
    async fn read(&self, after: Cursor) -> Result<Chunk, StoreError> {
        match self {
            Source::Tenant { log, tenant, scope } => log.tenant_events(*tenant, scope, after).await,
            Source::All { log, kinds } => log.all_events(kinds, after.position).await,
        }
    }

    fn wants(&self, event: &Event) -> bool {
        match self {
            Source::Tenant { scope, .. } => scope.contains(&event.key),
            Source::All { kinds, .. } => kinds.contains(&event.key.kind),
        }
    }
}

enum Mode {
    /// Reads the log.
    Behind,
    /// Has read everything that was committed before it joined its channel.
    Live,
}

struct Reader {
    subscription: Subscription,
    source: Source,
    mode: Mode,
    /// Read, and on its way out: a chunk of the log or a handful from the channel, never more.
    out: VecDeque<Arc<Event>>,
    /// Everything up to here has been delivered or is in `out`.
    read: Cursor,
    telling: Telling,
    /// The beat of the hub, and the revision, that progress was last told at.
    beat: Option<u64>,
    told: Revision,
}

impl Reader {
    fn new(subscription: Subscription, source: Source, read: Cursor, telling: Telling) -> Reader {
        let (out, told) = (VecDeque::new(), read.revision);
        Reader { subscription, source, mode: Mode::Behind, out, read, telling, beat: None, told }
    }

    async fn next(&mut self) -> Result<Delivery, WatchError> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Ok(Delivery::Event(event));
            }
            match self.mode {
                Mode::Behind => self.read_log().await?,
                Mode::Live => {
                    if let Some(progress) = self.read_channel().await? {
                        return Ok(progress);
                    }
                }
            }
        }
    }

    async fn read_log(&mut self) -> Result<(), WatchError> {
        if self.subscription.hub().is_closed() {
            return Err(WatchError::Closed);
        }
        // First the place in the channel, then the log: an event between the two is met twice, and dropped by its
        // position; it cannot be missed.
        self.subscription.skip();
        let chunk = self.source.read(self.read).await.map_err(|error| self.fatal(error))?;
        self.out.extend(chunk.events);
        self.read = chunk.read;
        if chunk.caught_up {
            self.mode = Mode::Live;
        }
        Ok(())
    }

    /// Takes what the channel has; with nothing there, tells progress if that is due, or waits.
    async fn read_channel(&mut self) -> Result<Option<Delivery>, WatchError> {
        let channel = self.subscription.channel.clone();
        let mut woken = std::pin::pin!(channel.wake.notified());
        // Before looking, so that what comes while looking wakes.
        woken.as_mut().enable();
        let published = self.subscription.revision();
        if self.take() {
            return Ok(None);
        }
        // All that was published up to that revision has been taken.
        self.read.revision = self.read.revision.max(published);
        if self.subscription.tenant_deleted() {
            return Err(WatchError::TenantDeleted);
        }
        let hub = self.subscription.hub();
        if hub.is_closed() {
            return Err(WatchError::Closed);
        }
        let beat = Some(hub.beats());
        let news = self.telling == Telling::AtOnce && self.told < self.read.revision;
        if std::mem::replace(&mut self.beat, beat) != beat || news {
            self.told = self.read.revision;
            return Ok(Some(Delivery::Progress(self.read.revision)));
        }
        woken.await;
        // Without waiting for the next wake first: this is why it was woken, most likely.
        self.take();
        Ok(None)
    }

    /// Takes what the channel has. Returns whether there is something to do now.
    fn take(&mut self) -> bool {
        let (read, out, source) = (&mut self.read, &mut self.out, &self.source);
        let found = self.subscription.take(|event| {
            // What was met in the log already is dropped by its position.
            if event.position > read.position {
                *read = Cursor { revision: event.revision, position: event.position };
                if source.wants(event) {
                    out.push_back(event.clone());
                }
            }
        });
        match found {
            Found::Nothing => return false,
            Found::Events => {}
            Found::Behind => self.mode = Mode::Behind,
        }
        true
    }

    fn fatal(&self, error: StoreError) -> WatchError {
        match error {
            StoreError::Compacted { asked, .. } => WatchError::Compacted { after: asked },
            StoreError::NoTenant => WatchError::TenantDeleted,
            _ if self.subscription.hub().is_closed() => WatchError::Closed,
            other => WatchError::Failed(other.to_string()),
        }
    }
}
