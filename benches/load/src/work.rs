//! The closed loop: workers that send their next request when the last one is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::statistics::Latencies;
use crate::target::{Connection, Request};

/// What a round of work came to. There is one only if all requests succeeded.
#[derive(Default)]
pub struct Done {
    pub operations: usize,
    pub took: Duration,
    pub latencies: Latencies,
    pub bytes: usize,
}

impl Done {
    pub fn merge(&mut self, other: Done) {
        self.operations += other.operations;
        self.took += other.took;
        self.latencies.extend(other.latencies);
        self.bytes += other.bytes;
    }
}

/// Sends the requests with these numbers, `workers` at a time, over the connections in turn.
pub async fn closed_loop<M>(
    connections: &[Connection],
    workers: usize,
    count: usize,
    make: M,
) -> anyhow::Result<Done>
where
    M: Fn(usize) -> Request + Send + Sync + 'static,
{
    let (make, next) = (Arc::new(make), Arc::new(AtomicUsize::new(0)));
    let began = Instant::now();
    let tasks = connections.iter().cycle().take(workers.min(count)).map(|connection| {
        let (make, next, connection) = (make.clone(), next.clone(), connection.clone());
        tokio::spawn(async move {
            let mut done = Done::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(done);
                }
                let request = make(number);
                let sent = Instant::now();
                done.bytes += connection.succeed(request).await?.len();
                done.latencies.push(sent.elapsed());
            }
        })
    });
    let mut all = Done { operations: count, ..Done::default() };
    for done in try_join_all(tasks.collect::<Vec<_>>()).await? {
        let done = done?;
        all.bytes += done.bytes;
        all.latencies.extend(done.latencies);
    }
    all.took = began.elapsed();
    Ok(all)
}
