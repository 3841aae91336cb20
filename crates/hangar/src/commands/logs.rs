//! `logs`: what was asked of a control plane, from the server's audit log.

use std::io::{self, Write};

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::Session;
use super::create::check_name;
use super::moment::Moment;
use super::whole::ROOT;

#[derive(Args, Clone, Debug)]
pub struct Logs {
    /// name of the control plane
    name: String,
    /// the audit log: who asked for what, and what became of it
    #[arg(long)]
    audit: bool,
    /// from then on: a time like 2026-01-31T12:00:00Z, or -5m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<Moment>,
    /// json prints the events as they are
    #[arg(short, long, value_name = "FORMAT", default_value = "")]
    output: String,
}

pub async fn run(session: &Session, logs: Logs) -> anyhow::Result<()> {
    check_name(&logs.name)?;
    if !logs.audit {
        bail!("say --audit: the audit log is what there is of a single control plane");
    }
    if !matches!(logs.output.as_str(), "" | "json") {
        bail!("unsupported output format: {:?} (only 'json' is supported)", logs.output);
    }
    let since = match logs.since {
        None => String::new(),
        Some(moment) => match moment.time(Timestamp::now()) {
            Some(time) => format!("?since={time}"),
            None => bail!("--since wants a time, not a revision"),
        },
    };
    let hosting = session.hosting(&session.files.load()?).await?;
    let path = format!("{ROOT}/{}/audit{since}", logs.name);
    let mut out = Lines { plain: logs.output.is_empty(), rest: Vec::new(), to: io::stdout().lock() };
    let done = hosting.api.download(&path, &mut out).await;
    match done.and_then(|()| Ok(out.to.flush()?)) {
        // A reader who has seen enough is no failure.
        Err(error) if is_gone(&error) => Ok(()),
        done => done.context("error reading the audit log"),
    }
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Events as they come, each written once it is whole.
struct Lines<W> {
    plain: bool,
    rest: Vec<u8>,
    to: W,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(bytes.len()) };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice(line).ok().filter(|_| self.plain) {
                Some(event) => writeln!(self.to, "{}", sentence(&event))?,
                None => self.to.write_all(line)?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// When, who, what, and how it ended.
fn sentence(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    let user = match event.pointer("/impersonatedUser/username").and_then(Value::as_str) {
        Some(other) => format!("{} as {other}", text("/user/username")),
        None => text("/user/username").to_owned(),
    };
    let code = event.pointer("/responseStatus/code").map_or_else(|| "-".to_owned(), Value::to_string);
    format!("{} {user} {} {} {code}", text("/stageTimestamp"), text("/verb"), text("/requestURI"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_become_sentences() {
        let event = json!({
            "stageTimestamp": "2026-01-02T03:04:05.000000Z", "verb": "get", "requestURI": "/api/v1/pods",
            "user": {"username": "jane"}, "responseStatus": {"code": 200},
        });
        let expected = "2026-01-02T03:04:05.000000Z jane get /api/v1/pods 200\n";
        for plain in [true, false] {
            let mut lines = Lines { plain, rest: Vec::new(), to: Vec::new() };
            // However the bytes come.
            for byte in format!("{event}\n").as_bytes() {
                lines.write_all(&[*byte]).unwrap();
            }
            let shown = String::from_utf8(lines.to).unwrap();
            assert_eq!(shown, if plain { expected.to_owned() } else { format!("{event}\n") });
        }
        let other = json!({"user": {"username": "a"}, "impersonatedUser": {"username": "b"}});
        assert_eq!(sentence(&other), "- a as b - - -");
    }
}
