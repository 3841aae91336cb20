//! A process that serves until it is told to stop, and how it ends: nothing acknowledged is lost, nobody is cut off.

use std::time::Duration;

use anyhow::Context;
use apiserver::Engines;
use runtime::FleetError;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::controlling;

/// What a load balancer takes to notice that `/readyz` says no.
const NOTICED: u64 = 5;

/// How long a process serves on after it was asked to end. Alone on its store, there is nobody to turn to.
pub fn delay(asked: Option<u64>, shared: bool) -> Duration {
    Duration::from_secs(asked.unwrap_or(if shared { NOTICED } else { 0 }))
}

/// Everything that has to end.
pub struct Running<T> {
    pub interrupts: Interrupts,
    pub engines: Engines,
    /// Ends the controllers.
    pub stop: CancellationToken,
    /// Ends the listener.
    pub closing: CancellationToken,
    /// How long to serve between saying that it is the end and it being the end.
    pub delay: Duration,
    pub serving: JoinHandle<T>,
    pub controlling: controlling::Running,
}

impl<T> Running<T> {
    pub async fn until_stopped(mut self) -> anyhow::Result<()> {
        let ended = tokio::select! {
            () = self.interrupts.next() => Ok(()),
            // Control planes without controllers are no control planes: better to stop and be seen to.
            ended = &mut self.controlling => Err(controllers_ended(ended)),
            // Whoever this was served to is gone.
            _ = &mut self.serving => Ok(()),
        };
        tracing::info!("stopping");
        self.engines.iter().for_each(|engine| engine.retire());
        self.stop.cancel();
        let controllers = async {
            if !self.controlling.is_finished() {
                let _ = self.controlling.await;
            }
        };
        // Who asks twice is in a hurry.
        let noticed = async {
            tokio::select! {
                () = tokio::time::sleep(self.delay) => {}
                () = self.interrupts.next() => {}
            }
        };
        // Leases are given back at once, and those who come are served until it is known that they should not.
        futures::join!(controllers, noticed);
        self.closing.cancel();
        self.engines.iter().for_each(|engine| engine.stop());
        if !self.serving.is_finished() {
            let _ = self.serving.await;
        }
        if let Some(log) = &self.engines.default_store().config.audit {
            log.flush().await;
        }
        for engine in self.engines.iter() {
            engine.store.close().await;
        }
        ended
    }
}

/// Why there are no controllers any more.
pub fn controllers_ended(ended: Result<Result<(), FleetError>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow::anyhow!("the controllers ended by themselves"),
        Ok(Err(error)) => anyhow::Error::from(error).context("the controllers failed"),
        Err(error) => anyhow::Error::from(error).context("the controllers failed"),
    }
}

/// Makes a limit of the size of files (`ulimit -f`, `LimitFSIZE=`) an error of the write that meets it, where the signal
/// of the kernel would end the process.
pub fn file_size_limit_is_an_error() -> anyhow::Result<()> {
    // The handler stays for as long as the process runs, whoever listens.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
        .map(drop)
        .context("cannot wait for signals")
}

/// Requests to end, from when this was made: whoever is told that a server is up may stop it at once.
pub struct Interrupts {
    terminate: Signal,
    interrupt: Signal,
}

impl Interrupts {
    pub fn listen() -> anyhow::Result<Interrupts> {
        let listen = |kind| signal(kind).context("cannot wait for signals");
        Ok(Interrupts {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Resolves when somebody asks the process to end.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;

    const FILE: &str = "PROCESS_TEST_FILE";

    #[test]
    fn a_limit_of_the_size_of_files_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let status = Command::new("sh")
            .args(["-c", "ulimit -f 16; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "process::tests::in_a_child_with_small_files", "--ignored"])
            .env(FILE, directory.path().join("file"))
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
    }

    #[tokio::test]
    #[ignore = "run by a_limit_of_the_size_of_files_is_an_error, in a process of its own"]
    async fn in_a_child_with_small_files() {
        let Some(path) = std::env::var_os(FILE) else { return };
        file_size_limit_is_an_error().unwrap();
        let mut file = std::fs::File::create(path).unwrap();
        let error = (0..1_000).find_map(|_| file.write_all(&[0; 1_000]).err()).unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    }
}
