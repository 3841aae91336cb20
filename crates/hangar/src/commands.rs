//! What the commands do. Each is a file: its flags, and `run`.
//!
//! A command looks first, then acts on the server, then changes the kubeconfig in one step; a failure on the way
//! leaves the files as they were.

pub mod adopt;
pub mod aws;
pub mod check;
pub mod config;
pub mod create;
pub mod ctx;
pub mod delete;
pub mod import;
pub mod init;
pub mod keys;
pub mod kubeconfig;
pub mod list;
pub mod logs;
pub mod machine;
mod moment;
pub mod moving;
pub mod plan;
pub mod revoke;
mod rotation;
pub mod tf;
pub mod version;
mod waiting;
pub mod whole;

use std::time::Duration;

use serde_json::Value;

use crate::hosting::{Hosting, NotFound};
use crate::kubeconfig::{Files, Kubeconfig};
use crate::progress::Progress;

/// Which program is spoken to: the same file under two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Hangar,
    /// KubeFlex's command line, word for word.
    Kflex,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Program::Hangar => "hangar",
            Program::Kflex => "kflex",
        }
    }
}

/// What every command is given.
#[derive(Clone, Debug)]
pub struct Session {
    pub program: Program,
    pub files: Files,
    pub progress: Progress,
    pub verbosity: i32,
}

impl Session {
    async fn hosting(&self, kubeconfig: &Kubeconfig) -> Result<Hosting, NotFound> {
        let found = Hosting::find(kubeconfig, self.program.name()).await;
        match (found, self.files.missing()) {
            // Then that is the reason, not that nobody has said which context it is.
            (Err(NotFound::Unknown(_)), Some(path)) => Err(NotFound::NoFile(path.to_owned())),
            (found, _) => found,
        }
    }
}

/// One condition of an object.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

fn condition_status<'a>(object: &'a Value, kind: &str) -> &'a str {
    condition(object, kind).and_then(|one| one["status"].as_str()).unwrap_or("Unknown")
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn type_of(object: &Value) -> &str {
    object["spec"]["type"].as_str().unwrap_or("k8s")
}

/// `30s`, `1m30s`, `1h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is not a duration like 30s, 5m or 1h");
    let (mut total, mut digits) = (Duration::ZERO, String::new());
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        let unit = match letter {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            _ => return Err(refused()),
        };
        let number: u64 = digits.parse().map_err(|_| refused())?;
        total += Duration::from_secs(number.checked_mul(unit).ok_or_else(refused)?);
        digits.clear();
    }
    if !digits.is_empty() {
        if total > Duration::ZERO {
            return Err(refused());
        }
        total = Duration::from_secs(digits.parse().map_err(|_| refused())?);
    }
    if text.is_empty() { Err(refused()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_secs), "{text}");
        };
        check("30s", Some(30));
        check("1m30s", Some(90));
        check("2h", Some(7_200));
        check("45", Some(45));
        check("0s", Some(0));
        check("", None);
        check("s", None);
        check("5x", None);
        check("1m30", None);
        check("-5s", None);
        check("99999999999999999999h", None);
    }
}
