//! One process, kept running: started, told to end, and started again when it ends by itself.

use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use listener::relay::Relay;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Launch;
use super::news::News;
use super::room::Room;

/// Between an end and the next start: longer with every end, until it has run for a while.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const A_WHILE: Duration = Duration::from_secs(60);
/// To end in peace: what is running in it is told to end, and given its time.
const PATIENCE: Duration = Duration::from_secs(15);

/// How a process is.
#[derive(Clone, Default)]
pub struct Sight {
    /// Its id, and the way to ask it, while it runs.
    pub running: Option<(u32, Relay)>,
    /// How often it has ended without being told to, and why the last time.
    pub ends: u32,
    pub why: String,
    /// It has ended for good.
    pub over: bool,
}

/// Where it is told how a process is.
pub struct Teller {
    pub name: String,
    pub sight: watch::Sender<Sight>,
    pub news: Arc<News>,
}

impl Teller {
    fn tell(&self, change: impl FnOnce(&mut Sight)) {
        self.sight.send_modify(change);
        self.news.add(&self.name);
    }
}

/// Keeps the process of a room running, until there is no room any more or `stop`. Another room under the same name
/// is another start.
pub async fn keep(
    launch: Arc<Launch>,
    mut room: watch::Receiver<Option<Arc<Room>>>,
    teller: Teller,
    stop: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(wanted) = room.borrow_and_update().clone() else { break };
        let began = Instant::now();
        let why = match start(&launch, &wanted).await {
            Ok((mut child, relay)) => {
                let id = child.id().unwrap_or_default();
                tracing::info!(control_plane = wanted.name, process = id, "started");
                teller.tell(|sight| sight.running = Some((id, relay)));
                let ended = tokio::select! {
                    ended = child.wait() => Some(ended),
                    _ = room.changed() => None,
                    () = stop.cancelled() => None,
                };
                teller.tell(|sight| sight.running = None);
                match ended {
                    Some(Ok(status)) => said(status),
                    Some(Err(error)) => error.to_string(),
                    None => {
                        end(child).await;
                        if stop.is_cancelled() {
                            break;
                        }
                        continue;
                    }
                }
            }
            Err(error) => format!("it cannot be started: {error}"),
        };
        pause = if began.elapsed() > A_WHILE { FIRST_PAUSE } else { pause };
        tracing::warn!(control_plane = wanted.name, why, again_in = ?pause, "the process of a control plane ended");
        teller.tell(|sight| {
            sight.ends = sight.ends.saturating_add(1);
            sight.why = why;
        });
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            _ = room.changed() => {}
            () = stop.cancelled() => break,
        }
    }
    teller.tell(|sight| sight.over = true);
}

fn said(status: ExitStatus) -> String {
    format!("it ended with {status}")
}

/// Its standard input is our end of a socket: it serves on it, and knows by its end that we are gone, however we went.
async fn start(
    launch: &Launch,
    room: &Room,
) -> Result<(Child, Relay), Box<dyn std::error::Error + Send + Sync>> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let child = Command::new(&launch.program)
        .args(["serve", "--on-stdin"])
        .args(&launch.arguments)
        .args(room.arguments(launch.audited))
        .env_clear()
        .envs(launch.environment.iter().cloned())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        // An interrupt from the keyboard is for this process, which then ends that one.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let relay = Relay::open(UnixStream::from_std(ours)?).await?;
    Ok((child, relay))
}

async fn end(mut child: Child) {
    // The connection may outlive its relay for as long as answers are being read.
    let asked = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
    if let Some(id) = asked {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
    if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
        tracing::warn!("the process of a control plane did not end in time and was killed");
        let _ = child.kill().await;
    }
}
