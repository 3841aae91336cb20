//! A server that was frozen while it had the lease of the operator, and runs again when another has it.

use std::collections::BTreeSet;
use std::time::Duration;

use end_to_end::{Client, Engine, Server};
use serde_json::json;

use crate::several::{CONTROL_PLANES, Stores, eventually};

/// Enough that whoever is frozen when the first of them are there has others in hand.
const MANY: usize = 24;
/// For the one that was frozen to do what it must not.
const TEMPTATION: Duration = Duration::from_secs(5);

/// Those that there are, in any store, but for the hosting one.
fn in_stores(client: &Client) -> BTreeSet<String> {
    let all = client.get("/hangar/v1/control-planes").ok();
    let names = all["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned());
    names.filter(|name| name != "host").collect()
}

/// Control planes are made in three stores when the maker is frozen, and taken away by the next before it runs again: their
/// names are free, so that nothing but a fence keeps it from making them once more.
pub fn an_old_operator_writes_to_no_store() {
    let stores = Stores::start();
    let mut one = stores.server(Engine::Postgres);
    let mut two = one.twin();
    for server in [&mut one, &mut two] {
        server.forgive("the store is unavailable");
    }
    let operates = |server: &Server| server.leases("default").contains("operator");
    eventually("somebody operates", || operates(&one) || operates(&two));
    let (old, next) = if operates(&one) { (&one, &two) } else { (&two, &one) };
    let client = next.client();
    let names: Vec<String> = (0..MANY).map(|number| format!("c{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let store = ["pg", "etcd", "default"][number % 3];
        let object = json!({
            "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": name}, "spec": {"type": "k8s", "store": store},
        });
        client.post(CONTROL_PLANES, &object).ok();
    }
    eventually("some are there", || in_stores(&client).len() > MANY / 4);
    old.signal("STOP");
    let made = in_stores(&client).len();
    println!("frozen when {made} of {MANY} were there");
    names.iter().for_each(|name| drop(client.delete(&format!("{CONTROL_PLANES}/{name}")).ok()));
    eventually("the next operates", || operates(next));
    eventually("all are gone", || {
        client.get(CONTROL_PLANES).ok()["items"].as_array().unwrap().is_empty()
            && in_stores(&client).is_empty()
    });
    old.signal("CONT");
    eventually("it serves again", || {
        old.client().try_send("GET", "/readyz", None, b"").is_ok_and(|answer| answer.code == 200)
    });
    std::thread::sleep(TEMPTATION);
    assert_eq!(in_stores(&client), BTreeSet::new(), "the old operator made them again:\n{}", old.log());
}
