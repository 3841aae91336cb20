//! What a plugin writes, in our log: bounded in length and number, the rest counted and dropped.
//!
//! It is read for ever, whatever becomes of it: a plugin whose output nobody reads stops.

use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};

use super::call::Caller;
use crate::protocol::Call;
use crate::protocol::messages::{Empty, Stdio};

/// The other one is standard output.
const STDERR: i32 = 2;

/// One line; the rest of a longer one is dropped.
const LONGEST_LINE: u64 = 8 << 10;
/// So many lines in each of these periods.
const MOST_LINES: u32 = 100;
const PERIOD: Duration = Duration::from_secs(10);

/// Reads lines until the end, with a bound on what one line may take in memory.
pub struct Lines<R> {
    reader: BufReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(reader: R) -> Lines<R> {
        Lines { reader: BufReader::new(reader) }
    }

    pub async fn next(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await.ok()?;
        if read == 0 {
            return None;
        }
        if line.last() != Some(&b'\n') {
            self.skip_line().await;
        }
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    async fn skip_line(&mut self) {
        loop {
            let Ok(buffered) = self.reader.fill_buf().await else { return };
            if buffered.is_empty() {
                return;
            }
            match buffered.iter().position(|byte| *byte == b'\n') {
                Some(at) => return self.reader.consume(at + 1),
                None => {
                    let all = buffered.len();
                    self.reader.consume(all);
                }
            }
        }
    }

    /// Passes on what comes, as much of it as is sensible.
    pub async fn follow(mut self, program: String) {
        let mut budget = Budget { began: Instant::now(), lines: 0, dropped: 0 };
        while let Some(line) = self.next().await {
            if let Some(dropped) = budget.take(Instant::now()) {
                if dropped > 0 {
                    tracing::debug!(program, dropped, "the provider wrote more than is kept");
                }
                emit(&program, &line);
            }
        }
    }
}

/// Passes on what a plugin writes after its handshake: those of go-plugin keep it to themselves until they are asked for
/// it, and stop when they have kept too much.
pub async fn relay(caller: Caller, program: String) {
    // Go answers with the first line that is written, however late that is. Others have no such call, and write to
    // where everybody does.
    let asked = caller.stream::<_, Stdio>(Call::StreamStdio, Empty {}, Duration::MAX);
    let Ok(mut written) = asked.await else { return };
    let pipe = || {
        let (ours, theirs) = tokio::io::duplex(LONGEST_LINE as usize);
        tokio::spawn(Lines::new(theirs).follow(program.clone()));
        ours
    };
    let (mut stdout, mut stderr) = (pipe(), pipe());
    while let Ok(Some(part)) = written.message().await {
        let pipe = if part.channel == STDERR { &mut stderr } else { &mut stdout };
        if pipe.write_all(&part.data).await.is_err() {
            return;
        }
    }
}

struct Budget {
    began: Instant,
    lines: u32,
    dropped: u64,
}

impl Budget {
    /// Whether one more line fits; if so, how many were dropped since the last one.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.began) >= PERIOD {
            self.began = now;
            self.lines = 0;
        }
        if self.lines >= MOST_LINES {
            self.dropped += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Go plugins write JSON lines with a level; others write text. All of it is for those who look closely: a provider
/// judges its own importance, and may write what it should not.
fn emit(program: &str, line: &str) {
    let json: Option<serde_json::Value> =
        line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten();
    let field = |name: &str| json.as_ref().and_then(|json| json.get(name)).and_then(|value| value.as_str());
    let message = field("@message").unwrap_or(line);
    match field("@level") {
        Some("trace") => tracing::trace!(target: "terraform::provider", program, "{message}"),
        Some(level) => tracing::debug!(target: "terraform::provider", program, level, "{message}"),
        None => tracing::debug!(target: "terraform::provider", program, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_bounded() {
        let long = "x".repeat(100_000);
        let text = format!("one\n{long}\nthree\r\nlast");
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.next().await.as_deref(), Some("one"));
        assert_eq!(lines.next().await.map(|line| line.len()), Some(LONGEST_LINE as usize));
        assert_eq!(lines.next().await.as_deref(), Some("three"));
        assert_eq!(lines.next().await.as_deref(), Some("last"));
        assert_eq!(lines.next().await, None);
    }

    #[test]
    fn a_flood_is_counted() {
        let began = Instant::now();
        let mut budget = Budget { began, lines: 0, dropped: 0 };
        let kept = (0..1_000).filter(|_| budget.take(began).is_some()).count();
        assert_eq!(kept, MOST_LINES as usize);
        assert_eq!(budget.take(began + PERIOD), Some(1_000 - u64::from(MOST_LINES)));
        assert_eq!(budget.take(began + PERIOD), Some(0));
    }
}
