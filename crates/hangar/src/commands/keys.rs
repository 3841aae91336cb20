//! `keys`: what the installation's keys are, and others in their place.

use anyhow::Context;
use clap::Subcommand;
use serde_json::Value;

use super::rotation::{self, Rotation};
use super::{Session, list};

const ROOT: &str = "/hangar/v1/keys";

#[derive(Subcommand, Clone, Debug)]
pub enum Keys {
    /// Show the ids of the installation's keys
    List,
    /// Put another key in the place of one, while everything is served
    Rotate {
        #[command(subcommand)]
        what: What,
    },
}

/// Keys that can be rotated.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// The key that encrypts the data keys of control planes
    Data,
    /// The key of service accounts' tokens; the old one verifies until everything that it signed has expired
    Tokens(Rotation),
    /// The authority of client certificates, in the same way; kubeconfigs that the server keeps are written anew
    Clients(Rotation),
}

pub async fn run(session: &Session, keys: Keys) -> anyhow::Result<()> {
    match &keys {
        Keys::Rotate { what: What::Tokens(rotation) } => {
            return rotation::run(session, "tokens", rotation).await;
        }
        Keys::Rotate { what: What::Clients(rotation) } => {
            return rotation::run(session, "clients", rotation).await;
        }
        Keys::List | Keys::Rotate { what: What::Data } => {}
    }
    let hosting = session.hosting(&session.files.load()?).await?;
    match keys {
        Keys::List => {
            let found = hosting.api.get_path(ROOT).await.context("error listing keys")?;
            list::print(&lines(&found))
        }
        Keys::Rotate { .. } => {
            let step = session.progress.step("Rotating the data key...");
            let done = hosting.api.upload(&format!("{ROOT}/data/rotate"), Vec::new()).await;
            let done = done.context("error rotating a key")?;
            step.done();
            let text = |field: &str| done[field].as_str().unwrap_or_default().to_owned();
            list::print(&format!(
                "key {} encrypts now; {} rows were encrypted anew\n",
                text("current"),
                done["rewritten"].as_u64().unwrap_or_default()
            ))
        }
    }
}

/// A line for each key: what it is for, its id, and whether it is the one in use.
fn lines(found: &Value) -> String {
    let mut text = String::from("KEY\tID\tSTATE\n");
    for (name, row) in found.as_object().into_iter().flatten() {
        for id in row["known"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let state = if row["current"] == id { "in use" } else { "decrypts only" };
            text.push_str(&format!("{name}\t{id}\t{state}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_read_as_lines() {
        let found = json!({"data": {"current": "aa", "known": ["aa", "bb"]}});
        assert_eq!(lines(&found), "KEY\tID\tSTATE\ndata\taa\tin use\ndata\tbb\tdecrypts only\n");
    }
}
