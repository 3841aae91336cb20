//! What appears on a server, seen by one watch: asking again and again would be load of our own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::target::{Connection, Request};

type Expected = Arc<Mutex<HashMap<String, oneshot::Sender<String>>>>;

/// Under which name an object is expected, and what is wanted of it; none for one that is not there yet.
pub type Pick = fn(&Value) -> Option<(String, String)>;

pub struct Arrivals(Expected);

impl Arrivals {
    /// `path` is a collection, with a query.
    pub async fn watch(connection: &Connection, path: &str, pick: Pick) -> anyhow::Result<Arrivals> {
        let list = connection.json(Request::get(format!("{path}&limit=1"))).await?;
        let from = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
        let watch = Request::get(format!("{path}&watch=1&resourceVersion={from}"));
        let response = connection.send(watch).await?;
        anyhow::ensure!(response.status().is_success(), "a watch was answered with {}", response.status());
        let arrivals = Arrivals(Arc::default());
        let expected = arrivals.0.clone();
        let connection = connection.clone();
        tokio::spawn(async move {
            let (mut body, mut pending) = (response.into_body(), Vec::new());
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                pending.extend_from_slice(&data);
                while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = pending.drain(..=end).collect();
                    let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                    arrived(&expected, pick(&event["object"]));
                }
            }
            drop(connection);
        });
        Ok(arrivals)
    }

    pub fn expect(&self, name: impl Into<String>) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        if let Ok(mut expected) = self.0.lock() {
            expected.insert(name.into(), sender);
        }
        receiver
    }
}

fn arrived(expected: &Mutex<HashMap<String, oneshot::Sender<String>>>, found: Option<(String, String)>) {
    let Some((name, what)) = found else { return };
    let waiting = expected.lock().ok().and_then(|mut expected| expected.remove(&name));
    if let Some(waiting) = waiting {
        // Whoever waited may have lost patience.
        let _ = waiting.send(what);
    }
}
