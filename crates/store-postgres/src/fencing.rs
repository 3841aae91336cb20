//! Changes of the directory through a fenced handle: the fence is judged in the same transaction.
//!
//! The tenant of the fence stays locked from then to the commit. Whoever wants what it stands for writes there, so
//! either that comes first and is seen, or it waits until what was done before it is done.

use store::codec::{integer, number};
use store::{Revision, TenantId};
use tokio_postgres::Row;

use crate::batch::Post;
use crate::connection::{Connection, Parameters};
use crate::fault::Fault;
use crate::readers::{LONG, TRIES, lost_in_a_change};
use crate::statements::Sql;
use crate::store::Postgres;

impl Postgres {
    /// A change that a single statement makes and others see; `tenant` is the one whose row it changes.
    pub(crate) async fn change(
        &self,
        tenant: Option<TenantId>,
        sql: Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        if self.fence().is_none() {
            return self.readers().change(sql, parameters).await;
        }
        let mut tried = 0;
        loop {
            tried += 1;
            let seat = self.bench_of_fenced().seat().await?;
            let work = async {
                seat.connection.begin().await?;
                let done = async {
                    self.must_stand(&seat.connection, tenant).await?;
                    seat.connection.query(sql, parameters).await
                };
                seat.connection.end(done.await).await
            };
            let done = self.connector().answered(LONG, work).await;
            match seat.leave(done) {
                Err(fault) if fault.is_collision() && tried < TRIES => {}
                Err(fault) if fault.is_lost() => return Err(lost_in_a_change()),
                done => return done,
            }
        }
    }

    /// Judges the fence of this handle, if it has one, and holds it up to the end of the transaction. `also` is locked
    /// with it, in the order in which all lock tenants.
    pub(crate) async fn must_stand(
        &self,
        connection: &Connection,
        also: Option<TenantId>,
    ) -> Result<(), Fault> {
        let Some(fence) = self.fence().map(Post::new).transpose()? else { return Ok(()) };
        let tenant = integer(fence.tenant.0);
        let ids: Vec<i64> = also.map(|also| integer(also.0)).into_iter().chain([tenant]).collect();
        let locked = connection.query(Sql::LockTenants, &[&ids]).await?;
        let mut lives = false;
        for row in locked {
            lives |= row.try_get::<_, i64>(0)? == tenant;
        }
        let (tenants, keys) = (vec![tenant], vec![fence.key.as_slice()]);
        let read = connection.query(Sql::ReadKeys, &[&tenants, &keys]).await?;
        let modified = match read.first().filter(|_| lives) {
            Some(row) => Some(Revision(number(row.try_get(2)?))),
            None => None,
        };
        Ok(fence.must_stand(modified)?)
    }
}
