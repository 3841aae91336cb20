//! Lists that are sent in pieces say the same as lists that are not.

use std::io::Read;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use objects::{Value, meta};
use serde_json::json;
use store::{Expect, Key, Operation, Retention};
use wire::protobuf::Kind;

use crate::Body;
use crate::fixture::{Fixture, administrator};

const PATH: &str = "/api/v1/namespaces/default/configmaps";
/// The most that a piece may have in these tests: what is collected for the first one, and one page more.
const MOST: usize = 384 << 10;

/// A server with config maps of different sizes in its control plane `a`; a third of them has the label `x=1`.
async fn with_objects(count: usize, size: usize) -> (Fixture, Vec<Value>) {
    let fixture = Fixture::new().await;
    for index in 0..count {
        let object = json!({
            "metadata": {
                "name": format!("c-{index:04}"),
                "labels": if index % 3 == 0 { json!({"x": "1", "n": index.to_string()}) } else { json!(null) },
                "annotations": {"labels": "{\"x\":\"1\"}"},
            },
            "data": {"text": "ä\"\\".repeat(size / 4 * (index % 3) / 2), "labels": "x"},
        });
        let (code, text) = fixture.ask("a", "POST", PATH, &object.to_string()).await;
        assert_eq!(code, 201, "{text}");
    }
    // What is there, by another way than a list.
    let mut objects = Vec::new();
    for name in std::iter::once("kube-root-ca.crt".to_owned()).chain((0..count).map(|i| format!("c-{i:04}")))
    {
        let (code, text) = fixture.ask("a", "GET", &format!("{PATH}/{name}"), "").await;
        if code == 200 {
            objects.push(serde_json::from_str(&text).unwrap());
        }
    }
    objects.sort_by_key(|object: &Value| meta::name(object).to_owned());
    (fixture, objects)
}

async fn list(fixture: &Fixture, query: &str, accept: &str, gzip: bool) -> Response<Body> {
    let mut request = Request::builder().uri(format!("{PATH}?{query}")).header(header::ACCEPT, accept);
    if gzip {
        request = request.header(header::ACCEPT_ENCODING, "gzip");
    }
    let response = fixture.send(administrator("a"), request, "").await;
    assert_eq!(response.status(), 200, "{query} {accept}");
    response
}

/// The whole body, decompressed; and the size of its largest piece.
async fn read(response: Response<Body>) -> (Vec<u8>, usize) {
    let gzip = response.headers().get(header::CONTENT_ENCODING).is_some();
    let (mut body, mut bytes, mut largest) = (response.into_body(), Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        largest = largest.max(data.len());
        bytes.extend_from_slice(&data);
    }
    if gzip {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
        bytes = plain;
    }
    (bytes, largest)
}

fn decode(accept: &str, bytes: &[u8]) -> Value {
    if accept.starts_with("application/yaml") {
        return wire::yaml::decode(bytes).unwrap().value;
    }
    if accept.starts_with("application/vnd.kubernetes.protobuf") {
        return wire::protobuf::decode(bytes, Kind { api_version: "v1", kind: "unknown" }).unwrap();
    }
    serde_json::from_slice(bytes).unwrap()
}

/// The items of a list in any shape, as far as the shape shows them.
fn items(list: &Value) -> Vec<Value> {
    match list["kind"].as_str().unwrap() {
        "Table" => {
            assert_eq!(list["columnDefinitions"][0]["name"], "Name");
            let rows = list["rows"].as_array().unwrap();
            rows.iter().for_each(|row| assert_eq!(row["cells"][0], row["object"]["metadata"]["name"]));
            rows.iter().map(|row| json!({"metadata": row["object"]["metadata"]})).collect()
        }
        "PartialObjectMetadataList" => {
            let items = list["items"].as_array().cloned().unwrap_or_default();
            items.iter().map(|item| json!({"metadata": item["metadata"]})).collect()
        }
        kind => {
            assert_eq!(kind, "ConfigMapList");
            list["items"].as_array().cloned().unwrap_or_default()
        }
    }
}

const ACCEPTS: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/yaml;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/yaml;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_representation_in_pieces() {
    let (fixture, objects) = with_objects(200, 4_000).await;
    let with_label = |object: &&Value| meta::labels(object).is_some();
    let selections: [(&str, Vec<&Value>); 6] = [
        ("", objects.iter().collect()),
        ("labelSelector=x", objects.iter().filter(with_label).collect()),
        ("labelSelector=!x", objects.iter().filter(|object| !with_label(object)).collect()),
        ("labelSelector=n%20in%20(3,33,4,198)", [4, 34, 199].map(|at| &objects[at - 1]).to_vec()),
        ("fieldSelector=metadata.name=c-0007", vec![&objects[7]]),
        ("labelSelector=nobody=has", Vec::new()),
    ];
    let mut in_pieces = 0;
    for accept in ACCEPTS {
        for (selector, expected) in &selections {
            for limit in [None, Some(1), Some(7), Some(150), Some(1_000)] {
                if limit == Some(1) && expected.len() > 10 {
                    continue;
                }
                let context = format!("{accept} {selector} {limit:?}");
                let (mut found, mut token, mut revisions) = (Vec::new(), String::new(), Vec::new());
                loop {
                    let limit = limit.map_or_else(String::new, |limit| format!("&limit={limit}"));
                    let query = format!("{selector}{limit}&continue={token}");
                    let response = list(&fixture, &query, accept, false).await;
                    in_pieces += usize::from(response.body().size_hint().exact().is_none());
                    let (bytes, largest) = read(response).await;
                    assert!(largest <= MOST, "{context}: a piece of {largest} bytes");
                    let (zipped, _) = read(list(&fixture, &query, accept, true).await).await;
                    // The ages in tables may differ.
                    let same = match accept.contains("as=Table") {
                        true => items(&decode(accept, &zipped)) == items(&decode(accept, &bytes)),
                        false => zipped == bytes,
                    };
                    assert!(same, "{context}: compressed");
                    let answer = decode(accept, &bytes);
                    found.append(&mut items(&answer));
                    revisions.push(meta::text(&answer, "resourceVersion").to_owned());
                    if selector.is_empty() && found.len() < objects.len() && token.is_empty() {
                        let left = objects.len() - found.len();
                        // Engines tell it where they know it without counting.
                        let told = answer["metadata"]["remainingItemCount"].as_u64();
                        assert_eq!(told.unwrap_or(left as u64), left as u64, "{context}");
                    }
                    token = meta::text(&answer, "continue").to_owned();
                    if token.is_empty() {
                        break;
                    }
                }
                revisions.dedup();
                assert_eq!(revisions.len(), 1, "{context}");
                let whole = !accept.contains("as=");
                let expected: Vec<Value> = expected
                    .iter()
                    .map(|object| {
                        if !whole {
                            return json!({"metadata": object["metadata"]});
                        }
                        let mut item = (*object).clone();
                        if accept.ends_with("protobuf") {
                            // Items of a message do not say their type.
                            item.as_object_mut()
                                .unwrap()
                                .retain(|name, _| name != "kind" && name != "apiVersion");
                        }
                        item
                    })
                    .collect();
                let names = |all: &[Value]| -> Vec<String> {
                    all.iter().map(|object| meta::name(object).to_owned()).collect()
                };
                assert_eq!(names(&found), names(&expected), "{context}");
                let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
                assert_eq!(differs, None, "{context}");
            }
        }
    }
    assert!(in_pieces > ACCEPTS.len(), "the collection is large enough for this test");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_nobody_reads_hold_little() {
    let (fixture, objects) = with_objects(60, 100_000).await;
    let whole: usize = objects.iter().map(|object| object.to_string().len()).sum();
    assert!(whole > 3 << 20, "{whole}");
    let budget = fixture.engine.fairness.budget();
    for path in ["", "watch=true", "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"] {
        let mut unread = Vec::new();
        for _ in 0..4 {
            let mut response = list(&fixture, path, "application/json", false).await;
            let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
            unread.push((response, first));
        }
        let (used, waiting) = (budget.used(), unread.iter().map(|(_, first)| first.len()).sum::<usize>());
        assert!(used >= waiting && used <= 4 * 2 * MOST, "{path}: {used} bytes for 4 unread lists");
        drop(unread);
        assert_eq!(budget.used(), 0, "{path}");
    }
}

/// Begins a list and reads its first piece.
async fn begun(fixture: &Fixture, accept: &str) -> (Body, Bytes) {
    let mut body = list(fixture, "", accept, false).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    (body, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_whose_revision_is_compacted_is_cut() {
    let (fixture, _) = with_objects(60, 100_000).await;
    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let (body, _) = begun(&fixture, accept).await;
        let (body_of_present, _) = begun(&fixture, accept).await;
        let retention = Retention { age: std::time::Duration::ZERO, bytes: 0 };
        // Without a newer revision there is nothing to compact.
        fixture.engine.store.compact(retention).await.unwrap();
        assert!(body_of_present.collect().await.is_ok());
        let change = json!({"metadata": {"labels": {"y": accept.len().to_string()}}}).to_string();
        let request = Request::builder()
            .method("PATCH")
            .uri(format!("{PATH}/c-0050"))
            .header("content-type", "application/merge-patch+json");
        assert_eq!(fixture.send(administrator("a"), request, change).await.status(), 200);
        fixture.engine.store.compact(retention).await.unwrap();
        assert!(body.collect().await.is_err(), "{accept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_with_a_damaged_object_is_an_error_or_cut() {
    let (fixture, _) = with_objects(60, 100_000).await;
    let (plane, store) = (fixture.engine.planes.find("a").await.unwrap().unwrap(), &fixture.engine.store);
    let damage = async |name: &str| {
        let (key, value) = (Key::new("configmaps", "default", name), Bytes::from_static(b"\x01damaged"));
        store.write(plane.id, vec![Operation::Put { key, expect: Expect::Any, value }]).await.unwrap();
    };
    damage("c-0059-damaged").await;
    for accept in ACCEPTS {
        let request = Request::builder().uri(PATH).header(header::ACCEPT, accept);
        let response = fixture.send(administrator("a"), request, "").await;
        let in_pieces = accept.starts_with("application/json") && !accept.contains("as=");
        // Rows and metadata of these objects are so small that all of them are made before the answer begins.
        assert_eq!(response.status() == 200, in_pieces || accept == "application/yaml", "{accept}");
        if response.status() == 200 {
            let error = response.into_body().collect().await.expect_err(accept).to_string();
            assert!(error.contains("c-0059-damaged"), "{error}");
        }
    }
    let watch = list(&fixture, "watch=true", "application/json", false).await;
    let (lines, mut body) = (&mut Vec::new(), watch.into_body());
    while let Some(frame) = body.frame().await {
        lines.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    let last = lines.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
    let last: Value = serde_json::from_slice(last).unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(500)));

    // One that is met before the answer begins is told of.
    damage("a-damaged").await;
    for accept in ACCEPTS {
        let request = Request::builder().uri(PATH).header(header::ACCEPT, accept);
        let response = fixture.send(administrator("a"), request, "").await;
        assert_eq!(response.status(), 500, "{accept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_begins_with_everything_and_goes_on() {
    let (fixture, objects) = with_objects(100, 8_000).await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut body = list(&fixture, query, "application/json", false).await.into_body();
    let (mut bytes, mut events) = (Vec::new(), Vec::new());
    let mut changed = false;
    while events.len() < objects.len() + 2 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.len() <= MOST);
        bytes.extend_from_slice(&frame);
        if !changed {
            // While the beginning is still being sent.
            let new = json!({"metadata": {"name": "a-new"}}).to_string();
            assert_eq!(fixture.ask("a", "POST", PATH, &new).await.0, 201);
            changed = true;
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = bytes.drain(..=end).collect();
            events.push(serde_json::from_slice::<Value>(&line).unwrap());
        }
    }
    for (event, object) in events.iter().zip(&objects) {
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), object));
    }
    let (bookmark, new) = (&events[objects.len()], &events[objects.len() + 1]);
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!((&new["type"], meta::name(&new["object"])), (&json!("ADDED"), "a-new"));
}
