//! The installation on this machine: started in the background, looked at, stopped.
//!
//! Who runs holds the lock of the data directory, whatever its store is, and has its process id in it. No other file has
//! to be right.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;

use super::{Session, condition_status};
use crate::api::{self, Api};
use crate::configuration;
use crate::hosting;
use crate::kubeconfig::Kubeconfig;

/// A disk full of history takes a while to open, and a busy server a while to close.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Args, Clone, Debug, Default)]
pub struct Where {
    /// where everything is kept [default: ~/.hangar]
    #[arg(long, value_name = "DIR", env = "HANGAR_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

impl Where {
    pub fn dir(&self) -> anyhow::Result<PathBuf> {
        let dir = hosting::data_dir(self.data_dir.as_deref());
        // The server runs elsewhere.
        configuration::absolute(&dir.context("$HOME is not set: say where data is with --data-dir")?)
    }
}

const LOCK: &str = "lock";
/// How often it is tried to take it: whoever only looks has it for a moment.
const TRIES: u32 = 10;

/// Says that this process serves from a data directory, for as long as what is returned is kept. Who finds another there
/// is not told: its store may be one for several, and refuses it otherwise.
pub async fn hold(data_dir: &Path) -> anyhow::Result<Option<File>> {
    let path = data_dir.join(LOCK);
    let failed = || format!("cannot write {}", path.display());
    let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = match opened {
        // Reads can still be served. Without a file nobody else can write there either.
        Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {
            File::open(&path).with_context(failed)?
        }
        opened => opened.with_context(failed)?,
    };
    for _ in 0..TRIES {
        if fs4::FileExt::try_lock(&file).is_ok() {
            // On a full or read-only disk `status` and `stop` do not know the process; that is no reason not to serve.
            let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            if let Err(error) = written {
                tracing::warn!(%error, path = %path.display(), "the process id could not be written");
            }
            return Ok(Some(file));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}

/// The process that serves from a data directory.
pub fn running(data_dir: &Path) -> anyhow::Result<Option<u32>> {
    let path = data_dir.join(LOCK);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    match fs4::FileExt::try_lock_shared(&file) {
        Ok(()) => Ok(None),
        Err(_) => {
            let holder = std::io::read_to_string(&file).unwrap_or_default();
            let pid = holder
                .trim()
                .parse()
                .with_context(|| format!("{} does not say who holds it", path.display()))?;
            Ok(Some(pid))
        }
    }
}

pub fn log_file(data_dir: &Path) -> PathBuf {
    data_dir.join("log")
}

/// What `hangar up` is told at every start in the background.
pub fn config_file(data_dir: &Path) -> PathBuf {
    data_dir.join("config.yaml")
}

/// Starts `hangar up` so that it stays when we go; returns its kubeconfig once it answers.
pub async fn start(data_dir: &Path) -> anyhow::Result<Kubeconfig> {
    crate::files::private_dir(data_dir)?;
    let log = log_file(data_dir);
    let mut child = spawn(data_dir, &log)?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().context("cannot wait for the server")? {
            bail!("the server ended at once ({status}): {}", last_words(&log));
        }
        // It holds the data directory before it writes the kubeconfig, and answers after that.
        if running(data_dir).is_ok_and(|pid| pid == Some(child.id()))
            && let Some(found) = hosting::embedded(data_dir)
            && let Ok(api) = Api::of_context(&found, found.current()).await
            && api.is_hosting().await.is_ok_and(|hosting| hosting)
        {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let _ = child.kill();
    let _ = child.wait();
    bail!("the server does not answer after {PATIENCE:?}; its log is {}", log.display())
}

fn spawn(data_dir: &Path, log: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find our own program")?;
    let opened = File::options().create(true).append(true).open(log);
    let file = opened.with_context(|| format!("cannot write {}", log.display()))?;
    let also = file.try_clone().with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(&program);
    command.arg0("hangar").arg("up").arg("--data-dir").arg(data_dir);
    // The kubeconfig is where we look for it, whatever the environment says.
    command.arg("--kubeconfig").arg(data_dir.join("kubeconfig"));
    command.arg("--config").arg(config_file(data_dir));
    // A group of its own: what is typed at our terminal is not for it.
    command.stdin(Stdio::null()).stdout(file).stderr(also).process_group(0).current_dir("/");
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    last.strip_prefix("hangar: ").unwrap_or(last).to_owned()
}

pub async fn status(_: &Session, place: Where) -> anyhow::Result<()> {
    let dir = place.dir()?;
    let Some(pid) = running(&dir)? else { bail!("not running (data directory {})", dir.display()) };
    let found = hosting::embedded(&dir);
    let found =
        found.with_context(|| format!("running (pid {pid}), but {} has no kubeconfig", dir.display()))?;
    let api = Api::of_context(&found, found.current()).await?;
    let version = api
        .version()
        .await
        .with_context(|| format!("running (pid {pid}), but {} does not answer", api.server))?;
    let all = api.list(api::CONTROL_PLANES).await.context("error listing control planes")?;
    let ready = all.iter().filter(|one| condition_status(one, "Ready") == "True").count();
    let text = format!(
        "hangar is running (pid {pid}) at {}\n  Kubernetes      {version}\n  control planes  {} ({ready} ready)\n  \
         data            {}\n  log             {}\n",
        api.server,
        all.len(),
        dir.display(),
        log_file(&dir).display()
    );
    super::list::print(&text)
}

pub async fn stop(session: &Session, place: Where) -> anyhow::Result<()> {
    let dir = place.dir()?;
    let Some(pid) = running(&dir)? else { bail!("not running (data directory {})", dir.display()) };
    let step = session.progress.step(format!("Stopping hangar (pid {pid})..."));
    // The standard library has no signals; every Unix has this program.
    let asked = Command::new("kill").args(["-TERM", &pid.to_string()]).stderr(Stdio::null()).status();
    if !asked.context("cannot run kill")?.success() {
        bail!("cannot stop process {pid}: it is not ours, or it is gone");
    }
    let began = Instant::now();
    while running(&dir)? == Some(pid) {
        if began.elapsed() > PATIENCE {
            bail!("process {pid} is still running {PATIENCE:?} after it was asked to stop");
        }
        tokio::time::sleep(PAUSE).await;
    }
    step.done();
    Ok(())
}
