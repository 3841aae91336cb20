//! What only a database can tell: whether control planes that nobody uses ask it anything.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::database::Database;
use super::{Server, run_command};

/// What is still to be done when a control plane is Ready is not its idle cost.
const SETTLING: Duration = Duration::from_secs(15);
/// Every thirty seconds a server compacts.
const WINDOW: Duration = Duration::from_secs(60);

/// What the database is asked in a minute by a server with one control plane, and by the same with many.
pub fn idle(
    program: &Path,
    server: &Server,
    database: &Database,
    many: usize,
    scratch: &Path,
) -> anyhow::Result<Option<Value>> {
    let Some(with_one) = asked(database) else { return Ok(None) };
    // Each becomes a context there; the server's own file stays as it is.
    let kubeconfig = scratch.join("idle.kubeconfig");
    std::fs::copy(&server.kubeconfig, &kubeconfig)?;
    for number in 0..many {
        let mut create = Command::new(program);
        create.args(["create", "--no-switch", &format!("idle-{number}")]).env("KUBECONFIG", &kubeconfig);
        run_command(create.stdout(Stdio::null()).stderr(Stdio::null()))?;
    }
    let with_many = asked(database);
    let line = json!({
        "scenario": "idle control planes",
        "seconds": WINDOW.as_secs(),
        "control_planes": many,
        "asked_with_one": with_one,
        "asked_with_many": with_many,
    });
    println!("{line}");
    Ok(Some(line))
}

/// Questions to the database while nobody asks the server anything. None if there is no database.
fn asked(database: &Database) -> Option<u64> {
    std::thread::sleep(SETTLING);
    let before = database.asked()?;
    std::thread::sleep(WINDOW);
    Some(database.asked()?.saturating_sub(before))
}
