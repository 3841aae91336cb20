//! `keys`: what the installation's keys are, and others in their place.

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use serde_json::Value;

use super::{Session, list};

const ROOT: &str = "/hangar/v1/keys";

#[derive(Subcommand, Clone, Debug)]
pub enum Keys {
    /// Show the ids of the installation's keys
    List,
    /// Put another key in the place of one, while everything is served
    Rotate {
        /// what to rotate
        #[arg(value_enum)]
        what: What,
    },
}

/// Keys that can be rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// the key that encrypts the data keys of control planes
    Data,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Data => "data",
        }
    }
}

pub async fn run(session: &Session, keys: Keys) -> anyhow::Result<()> {
    let hosting = session.hosting(&session.files.load()?).await?;
    match keys {
        Keys::List => {
            let found = hosting.api.get_path(ROOT).await.context("error listing keys")?;
            list::print(&lines(&found))
        }
        Keys::Rotate { what } => {
            let step = session.progress.step(format!("Rotating the {} key...", what.name()));
            let done = hosting.api.upload(&format!("{ROOT}/{}/rotate", what.name()), Vec::new()).await;
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
