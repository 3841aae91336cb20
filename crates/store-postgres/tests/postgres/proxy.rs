//! A way to the database that can be cut at the worst moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

pub struct Proxy {
    pub port: u16,
    /// The next commit of a batch arrives, and its answer does not.
    pub swallow: Arc<AtomicBool>,
    /// How often that has happened.
    pub swallowed: Arc<AtomicUsize>,
    pub hold: Arc<Hold>,
    _task: AbortOnDropHandle<()>,
}

/// Keeps a commit on its way, as long as it takes.
#[derive(Default)]
pub struct Hold {
    /// The next commit of a batch.
    pub wanted: AtomicBool,
    pub held: Notify,
    pub release: Notify,
}

impl Proxy {
    pub async fn to(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (swallow, swallowed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let hold = Arc::new(Hold::default());
        let (armed, count, holding) = (swallow.clone(), swallowed.clone(), hold.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (armed, count, holding) = (armed.clone(), count.clone(), holding.clone());
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                    pass(client, server, armed, count, holding).await;
                });
            }
        });
        Proxy { port: own, swallow, swallowed, hold, _task: AbortOnDropHandle::new(task) }
    }
}

async fn pass(
    client: TcpStream,
    server: TcpStream,
    armed: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    hold: Arc<Hold>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mute = Arc::new(AtomicBool::new(false));
    let muted = mute.clone();
    let asking = async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok(length @ 1..) = from_client.read(&mut buffer).await else { return };
            let said = &buffer[..length];
            let commits = said.windows(7).any(|window| window == b"COMMIT\0");
            if commits && hold.wanted.swap(false, Ordering::SeqCst) {
                hold.held.notify_one();
                hold.release.notified().await;
            }
            if commits && armed.swap(false, Ordering::SeqCst) {
                mute.store(true, Ordering::SeqCst);
                count.fetch_add(1, Ordering::SeqCst);
            }
            if to_server.write_all(said).await.is_err() {
                return;
            }
        }
    };
    let answering = async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok(length @ 1..) = from_server.read(&mut buffer).await else { return };
            // The database has answered, so the commit is done; and nobody hears of it.
            if muted.load(Ordering::SeqCst) || to_client.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { () = asking => {}, () = answering => {} }
}
