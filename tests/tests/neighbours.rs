//! A control plane whose clients do not read, under a limit of memory, and another one beside it.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use end_to_end::{ControlPlane, Server};
use serde_json::json;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_secs(90);

/// 64 lists of 100 MB are asked for at once, of a server with 512 MiB, and nobody reads them. Lists are sent in pieces, so that
/// each begins or is refused with 429; the server goes on, and other control planes are served.
#[test]
fn unread_lists_under_a_limit_of_memory_harm_nobody() {
    let server = Server::start_with_memory(512 << 20);
    let [loud, quiet] = ["loud", "quiet"].map(|name| ControlPlane::create(&server, name));
    let [of_loud, of_quiet] = [&loud, &quiet].map(|plane| Arc::new(server.client_as(plane.credentials())));
    let object = |name: String, size| json!({"metadata": {"name": name}, "data": {"text": "x".repeat(size)}});
    for number in 0..1_000 {
        of_loud.post(&loud.path(CONFIG_MAPS), &object(format!("large-{number}"), 100_000)).ok();
    }
    of_quiet.post(&quiet.path(CONFIG_MAPS), &object("note".to_owned(), 1_000)).ok();

    let (sender, answers) = channel();
    for _ in 0..64 {
        let (sender, client, path) = (sender.clone(), of_loud.clone(), loud.path(CONFIG_MAPS));
        std::thread::spawn(move || sender.send(client.hold(&path)));
    }
    let mut held = Vec::new();
    for _ in 0..64 {
        let answer = answers.recv_timeout(PATIENCE).expect("an answer");
        held.push(answer.expect("an answer that begins"));
    }
    let codes: Vec<u16> = held.iter().map(|(code, _)| *code).collect();
    assert!(codes.iter().all(|code| matches!(code, 200 | 429)), "{codes:?}");

    for number in 0..20 {
        of_quiet.get(&quiet.path(CONFIG_MAPS)).ok();
        let name = format!("other-{number}");
        of_quiet.post(&quiet.path(CONFIG_MAPS), &object(name.clone(), 50_000)).ok();
        of_quiet.delete(&quiet.path(&format!("{CONFIG_MAPS}/{name}"))).ok();
    }
    of_loud.delete(&loud.path(&format!("{CONFIG_MAPS}/large-0"))).ok();
    drop(held);
    let page = of_loud.get(&loud.path(&format!("{CONFIG_MAPS}?limit=10"))).ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 10);
}
