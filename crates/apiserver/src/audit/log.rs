//! The file that lines are written to: by one thread, from a queue that is bounded in bytes, rotated by size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::policy::Policy;

/// What happens to a request whose line finds the queue full, because the disk is slower than the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits: nothing is done that is not told of.
    #[default]
    Block,
    /// Its line is lost and counted: the server is never slower than without a log.
    Drop,
}

#[derive(Clone, Debug)]
pub struct LogOptions {
    pub path: PathBuf,
    pub policy: Policy,
    pub when_full: WhenFull,
    /// A file that would grow beyond this is put aside under its name and the time.
    pub rotate_at: u64,
    /// How many files put aside are kept.
    pub keep: usize,
    /// Bytes of lines that may wait to be written.
    pub queue: u32,
}

impl LogOptions {
    pub fn new(path: impl Into<PathBuf>, policy: Policy) -> Self {
        LogOptions {
            path: path.into(),
            policy,
            when_full: WhenFull::Block,
            // As upstream's default.
            rotate_at: 100 << 20,
            keep: 10,
            // A second of what a disk can take; lines with bodies are megabytes.
            queue: 64 << 20,
        }
    }
}

/// The audit log of a process. Cheap to clone; the thread ends with the last clone, after all that was queued.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    policy: Policy,
    when_full: WhenFull,
    /// The most that one line may take of the room: all of it.
    capacity: u32,
    room: Arc<Semaphore>,
    queue: UnboundedSender<Message>,
    counters: Arc<Counters>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub written: AtomicU64,
    /// Not written: no room, or the disk refused.
    pub lost: AtomicU64,
}

enum Message {
    /// The room is given back once the line is written.
    Line(Vec<u8>, OwnedSemaphorePermit),
    Flush(oneshot::Sender<()>),
}

impl Log {
    /// Opens the file and starts the thread that writes it.
    pub fn open(options: LogOptions) -> io::Result<Log> {
        let file = Rotating::open(&options)?;
        let (queue, messages) = unbounded_channel();
        let counters = Arc::new(Counters::default());
        let (counted, capacity) = (counters.clone(), options.queue.max(1));
        std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || write_all(file, messages, &counted))?;
        let room = Arc::new(Semaphore::new(capacity as usize));
        let (path, policy, when_full) = (options.path, options.policy, options.when_full);
        Ok(Log { shared: Arc::new(Shared { path, policy, when_full, capacity, room, queue, counters }) })
    }

    /// All files that lines are in, oldest first.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = put_aside(&self.shared.path)?;
        files.push(self.shared.path.clone());
        Ok(files)
    }

    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Resolves when everything queued before is with the operating system.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.shared.queue.send(Message::Flush(done)).is_ok() {
            let _ = flushed.await;
        }
    }

    pub(crate) async fn write(&self, line: Vec<u8>) {
        if let Some(line) = self.try_write(line)
            && let Ok(room) = self.shared.room.clone().acquire_many_owned(self.need(&line)).await
        {
            self.send(line, room);
        }
    }

    /// The same where nobody can wait.
    pub(crate) fn write_later(&self, line: Vec<u8>) {
        let Some(line) = self.try_write(line) else { return };
        let log = self.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { log.write(line).await })),
            Err(_) => self.lost(),
        }
    }

    /// Gives the line back if it has to wait for room.
    fn try_write(&self, line: Vec<u8>) -> Option<Vec<u8>> {
        match self.shared.room.clone().try_acquire_many_owned(self.need(&line)) {
            Ok(room) => self.send(line, room),
            Err(_) if self.shared.when_full == WhenFull::Block => return Some(line),
            Err(_) => self.lost(),
        }
        None
    }

    fn need(&self, line: &[u8]) -> u32 {
        u32::try_from(line.len()).unwrap_or(u32::MAX).min(self.shared.capacity)
    }

    fn send(&self, line: Vec<u8>, room: OwnedSemaphorePermit) {
        if self.shared.queue.send(Message::Line(line, room)).is_err() {
            self.lost();
        }
    }

    fn lost(&self) {
        self.shared.counters.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lines taken from the queue at once, and flushed together.
const BATCH: usize = 1_024;

fn write_all(mut file: Rotating, mut queue: UnboundedReceiver<Message>, counters: &Counters) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut flushes = Vec::new();
    let mut failing = false;
    while queue.blocking_recv_many(&mut batch, BATCH) > 0 {
        let mut failure = None;
        let mut lines = 0;
        for message in batch.drain(..) {
            match message {
                Message::Line(line, _room) => match file.write(&line) {
                    Ok(()) => lines += 1,
                    Err(error) => {
                        counters.lost.fetch_add(1, Ordering::Relaxed);
                        failure = Some(error);
                    }
                },
                Message::Flush(done) => flushes.push(done),
            }
        }
        if let Err(error) = file.flush() {
            failure = Some(error);
        }
        counters.written.fetch_add(lines, Ordering::Relaxed);
        // Said once, not for every line while a disk is full.
        match &failure {
            Some(error) if !failing => {
                tracing::error!(path = %file.path.display(), %error, "audit events are lost: the log cannot be written");
            }
            None if failing => {
                tracing::info!(path = %file.path.display(), "the audit log can be written again")
            }
            _ => {}
        }
        failing = failure.is_some();
        for done in flushes.drain(..) {
            // Whoever waited may have gone.
            let _ = done.send(());
        }
    }
}

struct Rotating {
    path: PathBuf,
    file: BufWriter<File>,
    size: u64,
    rotate_at: u64,
    keep: usize,
}

impl Rotating {
    fn open(options: &LogOptions) -> io::Result<Self> {
        if let Some(parent) = options.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        let (file, size) = append(&options.path)?;
        let (path, rotate_at, keep) = (options.path.clone(), options.rotate_at, options.keep);
        Ok(Rotating { path, file, size, rotate_at, keep })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + line.len() as u64 > self.rotate_at {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S.%6f").to_string();
        let (stem, extension) = parts(&self.path);
        fs::rename(&self.path, self.path.with_file_name(format!("{stem}-{now}{extension}")))?;
        (self.file, self.size) = append(&self.path)?;
        self.prune()
    }

    /// Removes the oldest of the files put aside.
    fn prune(&self) -> io::Result<()> {
        let aside = put_aside(&self.path)?;
        let excess = aside.len().saturating_sub(self.keep);
        aside.iter().take(excess).try_for_each(fs::remove_file)
    }
}

/// `audit` and `.log`.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let extension = text(path.extension()).map(|extension| format!(".{extension}"));
    (text(path.file_stem()).unwrap_or_default(), extension.unwrap_or_default())
}

/// Files that were put aside, oldest first: their names sort by age.
fn put_aside(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stem, extension) = parts(path);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut aside: Vec<PathBuf> = fs::read_dir(directory.unwrap_or(Path::new(".")))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let time = name.strip_prefix(&stem).and_then(|name| name.strip_prefix('-'));
            let time = time.and_then(|time| time.strip_suffix(extension.as_str()));
            time.is_some_and(|time| time.starts_with(|first: char| first.is_ascii_digit()))
        })
        .collect();
    aside.sort();
    Ok(aside)
}

/// For its owner's eyes only.
fn append(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok((BufWriter::with_capacity(64 << 10, file), size))
}
