//! Watches and lists on the wire: resumption, order, bookmarks, selectors, and the mistakes that other servers made.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

use std::time::{Duration, Instant};

use end_to_end::{Client, Server, Watch};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NODES: &str = "/api/v1/nodes";
const SOON: Duration = Duration::from_secs(20);

fn create(client: &Client, name: &str, colour: &str) -> Value {
    client.post(MAPS, &json!({"metadata": {"name": name, "labels": {"colour": colour, "test": "yes"}}})).ok()
}

fn recolour(client: &Client, name: &str, colour: &str) -> Value {
    client
        .patch(&format!("{MAPS}/{name}"), "merge", &json!({"metadata": {"labels": {"colour": colour}}}))
        .ok()
}

fn delete(client: &Client, name: &str) {
    client.delete(&format!("{MAPS}/{name}")).ok();
}

fn version(object: &Value) -> u128 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap();
    assert!(!text.starts_with('0') || text == "0", "{text}");
    text.parse().unwrap()
}

/// A watch on the ConfigMaps of these tests, with more in the query.
fn watch(client: &Client, query: &str) -> Watch {
    client.watch(&format!("{MAPS}?watch=1&labelSelector=test%3Dyes&{query}"))
}

#[test]
fn every_change_is_seen_once_and_in_order() {
    let server = Server::start();
    let client = server.client();
    let from = version(&client.get(MAPS).ok());
    let watch = watch(&client, &format!("resourceVersion={from}"));
    create(&client, "a", "red");
    recolour(&client, "a", "blue");
    create(&client, "b", "red");
    delete(&client, "a");
    let events: Vec<Value> = (0..4).map(|_| watch.next()).collect();
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["ADDED", "MODIFIED", "ADDED", "DELETED"]);
    let versions: Vec<u128> = events.iter().map(|event| version(&event["object"])).collect();
    assert!(versions.is_sorted_by(|a, b| a < b) && versions[0] > from, "{versions:?} after {from}");
    // The last object, with the revision of its deletion.
    assert_eq!(events[3]["object"]["metadata"]["labels"]["colour"], "blue");
    watch.silent();
}

#[test]
fn a_watch_without_a_version_begins_with_what_is_there() {
    let server = Server::start();
    let client = server.client();
    create(&client, "a", "red");
    create(&client, "b", "red");
    for query in ["", "resourceVersion=0"] {
        let watch = watch(&client, query);
        assert_eq!(watch.brief(2), ["ADDED a", "ADDED b"], "{query}");
        recolour(&client, "a", if query.is_empty() { "blue" } else { "green" });
        assert_eq!(watch.brief(1), ["MODIFIED a"], "{query}");
    }
}

#[test]
fn a_watch_goes_on_where_another_ended() {
    let server = Server::start();
    let client = server.client();
    let first = version(&create(&client, "a", "red"));
    let second = version(&recolour(&client, "a", "blue"));
    delete(&client, "a");
    create(&client, "b", "red");
    assert_eq!(
        watch(&client, &format!("resourceVersion={first}")).brief(3),
        ["MODIFIED a", "DELETED a", "ADDED b"]
    );
    assert_eq!(watch(&client, &format!("resourceVersion={second}")).brief(2), ["DELETED a", "ADDED b"]);
}

#[test]
fn a_watch_goes_on_after_a_restart_of_the_server() {
    let mut server = Server::start();
    let client = server.client();
    let first = version(&create(&client, "a", "red"));
    let open = watch(&client, &format!("resourceVersion={first}"));
    recolour(&client, "a", "blue");
    assert_eq!(open.brief(1), ["MODIFIED a"]);
    server.restart();
    // The one that was open has ended, and did not end with an error.
    assert!(open.to_end(SOON).iter().all(|event| event["type"] != "ERROR"));
    let client = server.client();
    let resumed = watch(&client, &format!("resourceVersion={first}"));
    assert_eq!(resumed.brief(1), ["MODIFIED a"]);
    let second = version(&create(&client, "b", "red"));
    assert!(second > first, "{second} after {first}");
    assert_eq!(resumed.brief(1), ["ADDED b"]);
}

#[test]
fn selectors_turn_changes_into_comings_and_goings() {
    let server = Server::start();
    let client = server.client();
    let red = client.watch(&format!("{MAPS}?watch=1&labelSelector=colour%3Dred"));
    let named = client.watch(&format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Da"));
    create(&client, "a", "blue");
    create(&client, "b", "red");
    recolour(&client, "a", "red");
    recolour(&client, "b", "blue");
    recolour(&client, "b", "green");
    recolour(&client, "a", "blue");
    delete(&client, "a");
    assert_eq!(red.brief(4), ["ADDED b", "ADDED a", "DELETED b", "DELETED a"]);
    red.silent();
    assert_eq!(named.brief(4), ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]);
    named.silent();
}

#[test]
fn what_leaves_a_selection_is_told_with_its_new_version_and_its_old_look() {
    let server = Server::start();
    let client = server.client();
    create(&client, "a", "red");
    let watch = client.watch(&format!("{MAPS}?watch=1&labelSelector=colour%3Dred"));
    assert_eq!(watch.brief(1), ["ADDED a"]);
    let left = version(&recolour(&client, "a", "blue"));
    let event = watch.next();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["colour"], "red");
    assert_eq!(version(&event["object"]), left);
}

#[test]
fn initial_events_end_with_a_bookmark() {
    let server = Server::start();
    let client = server.client();
    create(&client, "a", "red");
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let listing = watch(&client, query);
    assert_eq!(listing.brief(1), ["ADDED a"]);
    let end = listing.next();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!((&end["object"]["kind"], &end["object"]["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    let at = version(&end["object"]);
    create(&client, "b", "red");
    assert_eq!(listing.brief(1), ["ADDED b"]);
    // Whoever begins at the bookmark sees what came after it.
    assert_eq!(watch(&client, &format!("resourceVersion={at}")).brief(1), ["ADDED b"]);
    // And without initial events, there are none.
    let fresh =
        watch(&client, "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    fresh.silent();
    create(&client, "c", "red");
    assert_eq!(fresh.brief(1), ["ADDED c"]);
}

#[test]
fn a_watch_ends_when_it_was_to_end_and_bookmarks_come_to_those_who_ask() {
    let server = Server::start();
    let client = server.client();
    create(&client, "a", "red");
    let began = Instant::now();
    let events = watch(&client, "timeoutSeconds=2").to_end(SOON);
    assert!(began.elapsed() >= Duration::from_secs(1), "ended after {:?}", began.elapsed());
    assert_eq!(events.len(), 1, "nobody asked for bookmarks: {events:?}");
    let events = watch(&client, "timeoutSeconds=2&allowWatchBookmarks=true").to_end(SOON);
    assert!(events.iter().skip(1).all(|event| event["type"] == "BOOKMARK"), "{events:?}");
}

#[test]
fn concurrent_watchers_see_the_same_order() {
    let server = Server::start();
    let client = server.client();
    let from = version(&client.get(MAPS).ok());
    let watches: Vec<Watch> = (0..8).map(|_| watch(&client, &format!("resourceVersion={from}"))).collect();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let client = client.clone();
            std::thread::spawn(move || {
                for n in 0..10 {
                    create(&client, &format!("w{writer}-{n}"), "red");
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let seen: Vec<Vec<u128>> =
        watches.iter().map(|watch| (0..40).map(|_| version(&watch.next()["object"])).collect()).collect();
    assert!(seen[0].is_sorted_by(|a, b| a < b), "{:?}", seen[0]);
    assert!(seen.iter().all(|order| *order == seen[0]));
}

#[test]
fn versions_of_lists() {
    let server = Server::start();
    let client = server.client();
    let empty = client.get("/api/v1/namespaces/default/secrets?limit=5").ok();
    assert!(version(&empty) > 0, "the version of an empty list is the snapshot's");
    let a = version(&create(&client, "a", "red"));
    recolour(&client, "a", "blue");
    let b = version(&create(&client, "b", "red"));
    let list = |query: &str| client.get(&format!("{MAPS}?labelSelector=test%3Dyes&{query}"));
    let names = |answer: Value| -> Vec<String> {
        let items = answer["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    // A write is in every list that begins after it.
    assert!(version(&list("").ok()) >= b);
    assert_eq!(names(list("").ok()), ["a", "b"]);
    assert_eq!(names(list("resourceVersion=0").ok()), ["a", "b"]);
    assert_eq!(names(list(&format!("resourceVersion={a}")).ok()), ["a", "b"]);
    assert_eq!(
        names(list(&format!("resourceVersion={a}&resourceVersionMatch=NotOlderThan")).ok()),
        ["a", "b"]
    );
    let exact = list(&format!("resourceVersion={a}&resourceVersionMatch=Exact")).ok();
    assert_eq!(version(&exact), a);
    assert_eq!(exact["items"][0]["metadata"]["labels"]["colour"], "red");
    assert_eq!(names(exact), ["a"]);
    // One that is not yet: it is waited for, and then said that it is too large.
    let began = Instant::now();
    let future = list("resourceVersion=99999999&resourceVersionMatch=NotOlderThan");
    assert_eq!(future.code, 504, "{}", future.text());
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    let status = future.json();
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{status}");
    assert_eq!(status["details"]["retryAfterSeconds"], 1, "{status}");
}

#[test]
fn pages_are_of_one_moment() {
    let server = Server::start();
    let client = server.client();
    for name in ["a", "b", "c", "d", "e"] {
        create(&client, name, "red");
    }
    let page =
        |token: &str| client.get(&format!("{MAPS}?limit=2&labelSelector=test%3Dyes&continue={token}")).ok();
    let mut current = page("");
    let at = version(&current);
    let mut names = Vec::new();
    let mut pages = 0;
    loop {
        assert_eq!(version(&current), at, "every page is of the first one's moment");
        let items = current["items"].as_array().unwrap();
        names.extend(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
        pages += 1;
        let token = current["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
        // What happens meanwhile is not in it.
        delete(&client, ["c", "d", "e"][pages - 1]);
        create(&client, &format!("new-{pages}"), "red");
        current = page(&token);
    }
    assert_eq!((pages, names), (3, ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec()));
}

#[test]
fn what_an_update_may_not_touch() {
    let server = Server::start();
    let client = server.client();
    let path = format!("{MAPS}/a");
    let made = create(&client, "a", "red");
    // No object comes from an update, none loses what the server gave it.
    assert_eq!(client.put(&format!("{MAPS}/nosuch"), &json!({"metadata": {"name": "nosuch"}})).code, 404);
    let bare = client.put(&path, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).ok();
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(bare["metadata"][field], made["metadata"][field], "{field}");
    }
    // The same again changes nothing at all.
    let same = client.put(&path, &bare).ok();
    assert_eq!(same["metadata"]["resourceVersion"], bare["metadata"]["resourceVersion"]);
    let generated = client.post(MAPS, &json!({"metadata": {"generateName": "g-"}})).ok();
    let name = generated["metadata"]["name"].as_str().unwrap();
    assert!(name.len() == 7 && name.starts_with("g-"), "{name}");
}

#[test]
fn generations_count_what_is_wanted() {
    let server = Server::start();
    let client = server.client();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let path = format!("{deployments}/web");
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "d"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    client.post(deployments, &json!({"metadata": {"name": "web", "generation": 7}, "spec": spec})).ok();
    let after =
        |path: &str, patch: Value| client.patch(path, "merge", &patch).ok()["metadata"]["generation"].clone();
    assert_eq!(after(&path, json!({"metadata": {"labels": {"x": "y"}}})), 1);
    assert_eq!(after(&format!("{path}/status"), json!({"status": {"replicas": 3}})), 1);
    assert_eq!(after(&path, json!({"status": {"replicas": 4}})), 1);
    assert_eq!(after(&path, json!({"spec": {"replicas": 3}})), 2);
    assert_eq!(after(&path, json!({"spec": {"replicas": 3}})), 2);
    assert_eq!(
        client.get(&path).ok()["status"]["replicas"],
        3,
        "the main endpoint does not write the status"
    );
}

#[test]
fn an_absent_field_is_selected_as_what_it_means() {
    let server = Server::start();
    let client = server.client();
    client.post(NODES, &json!({"metadata": {"name": "n1"}})).ok();
    let count = |selector: &str| {
        client.get(&format!("{NODES}?fieldSelector={selector}")).ok()["items"].as_array().unwrap().len()
    };
    assert_eq!(count("spec.unschedulable%3Dfalse"), 1);
    assert_eq!(count("spec.unschedulable%3Dtrue"), 0);
    assert_eq!(count("spec.unschedulable%21%3Dtrue"), 1);
    client.patch(&format!("{NODES}/n1"), "merge", &json!({"spec": {"unschedulable": true}})).ok();
    assert_eq!(count("spec.unschedulable%3Dtrue"), 1);
}

#[test]
fn tables_and_metadata_are_watched_too() {
    let server = Server::start();
    let client = server.client();
    create(&client, "a", "red");
    let table = client.with("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    let rows = watch(&table, "");
    let first = rows.next();
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    create(&client, "b", "red");
    // Columns are told once.
    let second = rows.next();
    assert_eq!(second["object"]["columnDefinitions"], Value::Null, "{second}");
    let partial = client.with("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let event = watch(&partial, "").next();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"]["data"], Value::Null);
}
