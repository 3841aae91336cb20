//! What was, by the clock: the revision that a control plane had at a moment, and what was asked of it since one.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::SystemTime;

use apiserver::service::Failure;
use apiserver::{Engines, audit};
use bytes::Bytes;
use futures::{Stream, stream};
use jiff::Timestamp;
use objects::{Reason, Status, Value, meta};
use store::{Revision, StoreError};
use tokio::sync::mpsc;

use crate::{api, embedded, operations, operator};

fn moment(field: &str, text: &str) -> Result<Timestamp, Status> {
    let wrong = |_| Status::bad_request(format!("{field} must be a time like 2026-01-31T12:00:00Z"));
    text.parse().map_err(wrong)
}

/// When a control plane began, as far as its object tells.
async fn beginning(engines: &Engines, name: &str) -> Result<Option<Timestamp>, Failure> {
    let engine = engines.default_store();
    let hosting = embedded::client(engine.clone(), &engine.config.hosting);
    let object = api::get(&hosting, &operator::place(name)).await.map_err(Status::internal)?;
    Ok(object.and_then(|object| objects::time::parse(meta::text(&object, "creationTimestamp")).ok()))
}

/// The revision that was current at a moment.
pub async fn revision(engines: &Engines, name: &str, at: Option<&str>) -> Result<Revision, Failure> {
    let found = engines.find(name).await?;
    let (engine, plane) = found.ok_or_else(|| operations::no_such(name))?;
    let at = moment("at", at.unwrap_or_default())?;
    if beginning(engines, name).await?.is_some_and(|began| at < began) {
        return Err(Status::expired(format!("control plane {name:?} was not there at that time")).into());
    }
    match engine.store.revision_at(plane.id, SystemTime::from(at)).await {
        Ok(Some(revision)) => Ok(revision),
        Ok(None) => {
            let message = "this store does not know what was when: name a revision instead";
            Err(Status::bad_request(message).into())
        }
        Err(StoreError::Compacted { .. }) => {
            Err(Status::expired("what was at that time is no longer kept").into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Chunks that wait for a slow reader.
const AHEAD: usize = 16;
/// About the size of a chunk.
const CHUNK: usize = 64 << 10;

/// Lines of the audit log about a control plane, oldest first: since a moment, and never from before it began, so that
/// what went before under the same name is not told.
pub async fn audit(
    engines: &Engines,
    name: &str,
    since: Option<&str>,
) -> Result<impl Stream<Item = Result<Bytes, std::io::Error>> + Send + use<>, Failure> {
    let found = engines.find(name).await?;
    let (engine, plane) = found.ok_or_else(|| operations::no_such(name))?;
    let asked = since.map(|text| moment("since", text)).transpose()?;
    let since = asked.max(beginning(engines, name).await?);
    let Some(log) = &engine.config.audit else {
        let message = "there is no audit log: start the server with --audit-log FILE";
        return Err(Status::new(Reason::NotFound, message).into());
    };
    log.flush().await;
    let files = log.files().map_err(Status::internal)?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let whose = Whose { name: plane.name.to_string(), owner: plane.charter.owner.clone(), since };
    tokio::task::spawn_blocking(move || {
        if let Err(error) = read(&files, &whose, &sender) {
            // Whoever has gone needs no error.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Ok(stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver))))
}

/// What lines are looked for.
struct Whose {
    name: String,
    /// The uid of its object. Another of the same name may have gone in the second in which this one came.
    owner: Option<String>,
    since: Option<Timestamp>,
}

fn read(
    files: &[PathBuf],
    whose: &Whose,
    to: &mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> std::io::Result<()> {
    let mut chunk = Vec::new();
    let mut line = Vec::new();
    for path in files {
        let mut file = match File::open(path) {
            Ok(file) => BufReader::new(file),
            // Removed as too old since we looked.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        loop {
            line.clear();
            // Half a line at the end is one that is being written.
            if file.read_until(b'\n', &mut line)? == 0 || !line.ends_with(b"\n") {
                break;
            }
            if whose.is(&line) {
                chunk.extend_from_slice(&line);
            }
            if chunk.len() >= CHUNK && to.blocking_send(Ok(std::mem::take(&mut chunk).into())).is_err() {
                return Ok(());
            }
        }
    }
    if !chunk.is_empty() {
        let _ = to.blocking_send(Ok(chunk.into()));
    }
    Ok(())
}

/// Users write annotations into objects, and objects may be in the log: only what the server itself noted counts.
impl Whose {
    fn is(&self, line: &[u8]) -> bool {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return false };
        let at = event["stageTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let annotations = &event["annotations"];
        let owner = annotations[audit::CONTROL_PLANE_UID].as_str();
        annotations[audit::CONTROL_PLANE] == self.name.as_str()
            && self.since.is_none_or(|since| at.is_some_and(|at| at >= since))
            && owner.is_none_or(|owner| self.owner.as_deref() == Some(owner))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_of_who_the_server_says() {
        let at = |text: &str| text.parse::<Timestamp>().ok();
        let line_of = |name: &str, uid: Option<&str>, inside: &str| {
            json!({
                "stageTimestamp": "2026-01-02T03:04:05.000000Z",
                "annotations": {"hangar.dev/control-plane": name, "hangar.dev/control-plane-uid": uid},
                "requestObject": {"metadata": {"annotations": {"hangar.dev/control-plane": inside}}},
            })
            .to_string()
        };
        let line = |name: &str, inside: &str| line_of(name, None, inside);
        let check = |line: String, since: Option<Timestamp>, expected: bool| {
            let whose = Whose { name: "a".to_owned(), owner: Some("mine".to_owned()), since };
            assert_eq!(whose.is(line.as_bytes()), expected, "{line}");
        };
        check(line_of("a", Some("mine"), "b"), None, true);
        check(line_of("a", Some("before me"), "b"), None, false);
        check(line("a", "b"), None, true);
        check(line("b", "a"), None, false);
        check(line("a", "a"), at("2026-01-02T03:04:05Z"), true);
        check(line("a", "a"), at("2026-01-02T03:04:06Z"), false);
        check("no event".to_owned(), None, false);
    }
}
