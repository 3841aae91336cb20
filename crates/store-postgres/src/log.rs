//! The log as watches read it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::codec::{Bounds, integer, number};
use store::fanout::{Chunk, Cursor, Kinds, Log};
use store::{Event, Position, Revision, Scope, StoreError, TenantId};
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::readers::{Effort, Readers};
use crate::snapshot::{self, Line, Point};
use crate::statements::Sql;

/// Lines looked at for one chunk, and bytes of values taken into it, about.
pub(crate) const LINES: i64 = 512;
pub(crate) const BYTES: i64 = 1 << 20;

/// A watch that reads the log while the database is away waits for it, up to this long: the log is still there when
/// it is back, and nobody need begin anew.
const OUTAGE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct RemoteLog(Arc<Readers>);

impl RemoteLog {
    pub(crate) fn new(readers: Arc<Readers>) -> Self {
        RemoteLog(readers)
    }

    /// Whether to ask again, after a pause.
    async fn again(&self, fault: &Fault, until: Instant) -> bool {
        let wait = fault.is_unavailable() && !self.0.is_closed() && Instant::now() < until;
        if wait {
            tokio::time::sleep(PAUSE).await;
        }
        wait
    }

    async fn tenant_chunk(&self, tenant: TenantId, bounds: &Bounds, after: Cursor) -> Result<Chunk, Fault> {
        let (id, revision, position) =
            (integer(tenant.0), integer(after.revision.0), integer(after.position.0));
        let rows = self
            .0
            .read(
                Sql::TenantLines,
                Effort::Many,
                &[&id, &revision, &position, &bounds.from, &bounds.to, &LINES, &BYTES],
            )
            .await?;
        let first = rows.first().ok_or(StoreError::NoTenant)?;
        let point = Point::from_row(first)?;
        point.readable(after.revision)?;
        let end = Cursor { revision: point.revision, position: Position(number(first.try_get(2)?)) };
        let lines = Lines::read(&rows, 3, |_| Ok(true))?;
        let last = lines.events.last();
        let read = match last {
            Some(last) if !lines.all => Cursor { revision: last.revision, position: last.position },
            _ => end,
        };
        Ok(Chunk { events: lines.events, read, caught_up: lines.all })
    }

    async fn chunk(&self, kinds: &Kinds, after: Position) -> Result<Chunk, Fault> {
        let rows =
            self.0.read(Sql::AllLines, Effort::Many, &[&integer(after.0), &i64::MAX, &LINES, &BYTES]).await?;
        let first =
            rows.first().ok_or_else(|| StoreError::Failed("the database has lost its counter".into()))?;
        let (end, dropped) = (number(first.try_get(0)?), number(first.try_get(1)?));
        if after.0 < dropped {
            return Err(StoreError::Compacted { asked: Revision(after.0), oldest: Revision(dropped) }.into());
        }
        let mut lines = Lines::read(&rows, 2, |row| Ok(row.try_get(3)?))?;
        lines.events.retain(|event| kinds.contains(&event.key.kind));
        let position = if lines.all { Position(end) } else { lines.last };
        let read = Cursor { revision: Revision(0), position };
        Ok(Chunk { events: lines.events, read, caught_up: lines.all })
    }
}

/// What a page of the log holds.
pub(crate) struct Lines {
    pub events: Vec<Arc<Event>>,
    pub deleted: Vec<TenantId>,
    pub last: Position,
    /// Whether there was no more when it was read.
    pub all: bool,
}

impl Lines {
    /// From rows that have the number of lines found in column `counted`, and the line after that.
    pub(crate) fn read(
        rows: &[Row],
        counted: usize,
        lives: impl Fn(&Row) -> Result<bool, Fault>,
    ) -> Result<Lines, Fault> {
        let found: i64 = rows.first().map_or(Ok(0), |row| row.try_get(counted))?;
        // Between the two stands, where lines are of all tenants, whether the tenant lives.
        let first_column = if counted == 2 { counted + 2 } else { counted + 1 };
        let mut lines = Vec::with_capacity(rows.len());
        for row in rows {
            lines.extend(snapshot::line(row, first_column, lives(row)?)?);
        }
        lines.sort_by_key(|(position, _)| *position);
        let last = lines.last().map_or(Position(0), |(position, _)| *position);
        let all = lines.len() as i64 == found && found < LINES;
        let (mut events, mut deleted) = (Vec::with_capacity(lines.len()), Vec::new());
        for (_, line) in lines {
            match line {
                Line::Event(event) => events.push(event),
                Line::TenantDeleted(tenant) => deleted.push(tenant),
                Line::Forgotten => {}
            }
        }
        Ok(Lines { events, deleted, last, all })
    }
}

#[async_trait]
impl Log for RemoteLog {
    async fn tenant_events(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Cursor,
    ) -> Result<Chunk, StoreError> {
        let bounds = Bounds::of(scope)?;
        let until = Instant::now() + OUTAGE;
        loop {
            match self.tenant_chunk(tenant, &bounds, after).await {
                Err(fault) if self.again(&fault, until).await => {}
                answer => return Ok(answer?),
            }
        }
    }

    async fn all_events(&self, kinds: &Kinds, after: Position) -> Result<Chunk, StoreError> {
        let until = Instant::now() + OUTAGE;
        loop {
            match self.chunk(kinds, after).await {
                Err(fault) if self.again(&fault, until).await => {}
                answer => return Ok(answer?),
            }
        }
    }
}
