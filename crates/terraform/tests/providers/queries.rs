//! What exists and nobody manages: asked of a provider that lists it, and of providers that do it wrong.

use std::time::Duration;

use auth::Secret;
use futures::StreamExt as _;
use provision::Pace;
use serde_json::{Value as Json, json};
use terraform::plugin::{Launch, Lease, Limits, Listing, PluginError, Told};
use terraform::shape;

use super::plane::*;
use super::world::*;

/// At once: they mostly wait.
const TOGETHER: usize = 4;

/// With identities, and so with lists; with two types more, one that is listed without identities and one that is not.
fn launch() -> Launch {
    let mut launch = Launch::new(shelf_program());
    for (name, value) in [("IDENTITY", "1"), ("TYPES", "3")] {
        launch.environment.insert(name.into(), Secret::new(value.to_owned()));
    }
    launch
}

fn impatient() -> World {
    World::with(|settings| {
        // Enough for 100 MB, and for a provider that starts on a loaded machine.
        let look = Duration::from_secs(12);
        settings.limits = Limits { look, answer_bytes: 64 << 20, ..settings.limits };
    })
}

async fn lease(world: &World) -> Lease {
    world.pool.lease(&launch(), DIGEST, &world.config()).await.unwrap()
}

async fn fill(lease: &Lease, names: &[&str]) {
    for name in names {
        create(lease, json!({"name": name})).await;
    }
}

async fn list(lease: &Lease, config: Json, most: usize) -> Result<Told<Listing>, PluginError> {
    let schema = lease.catalogue().list(THING)?;
    let config = shape::desired(&schema.block, &config).unwrap();
    lease.judge(lease.list(THING, &config, most).await)
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.found.iter().filter_map(|one| one.identity.field("name").as_str()).collect()
}

#[tokio::test]
async fn what_exists_is_listed() {
    let world = World::new();
    let lease = lease(&world).await;
    fill(&lease, &["ant", "bee", "bug"]).await;
    for (config, most, expected, more) in [
        (json!({}), 100, vec!["ant", "bee", "bug"], false),
        (json!({"namePrefix": "b"}), 100, vec!["bee", "bug"], false),
        (json!({"namePrefix": "c"}), 100, vec![], false),
        // As many as there are is all of them; one less is not.
        (json!({}), 3, vec!["ant", "bee", "bug"], false),
        (json!({}), 2, vec!["ant", "bee"], true),
    ] {
        let listing = list(&lease, config.clone(), most).await.unwrap().answer;
        assert_eq!((names(&listing), listing.more), (expected, more), "{config} {most}");
    }
    assert_eq!(list(&lease, json!({}), 1).await.unwrap().answer.found[0].name, "the thing ant");
    let refused = list(&lease, json!({"namePrefix": ""}), 1).await.unwrap_err();
    assert_eq!(refused.to_string(), "name_prefix: a prefix has letters");
    world.fault("ListResource: warn");
    let told = list(&lease, json!({}), 100).await.unwrap();
    assert_eq!((told.answer.found.len(), told.warnings.warnings().count()), (3, 1));
    for (name, says) in [
        ("shelf_other", "the provider has no resource type \"shelf_other\""),
        ("shelf_kind1_thing", "the provider has no identity of type \"shelf_kind1_thing\""),
        ("shelf_kind2_thing", "the provider has no list of type \"shelf_kind2_thing\""),
    ] {
        assert_eq!(lease.catalogue().listed(name).unwrap_err().to_string(), says);
    }
}

/// One that lists for ever is heard until there is enough.
#[tokio::test]
async fn a_list_without_an_end() {
    let world = World::new();
    let lease = lease(&world).await;
    fill(&lease, &["one"]).await;
    world.fault("ListResource: endless");
    let listing = list(&lease, json!({}), 1_000).await.unwrap().answer;
    assert!(listing.found.len() == 1_000 && listing.more);
    world.fault("");
    assert!(!list(&lease, json!({}), 1_000).await.unwrap().answer.more, "the process serves on");
}

const FAULTS: [(&str, &str); 13] = [
    (
        "ValidateListResourceConfig: die",
        "the provider ended during ValidateListResourceConfig (exit status: 42)",
    ),
    (
        "ValidateListResourceConfig: garbage",
        "the provider answered ValidateListResourceConfig with what is no answer",
    ),
    ("ListResource: die", "the provider ended during ListResource (exit status: 42)"),
    ("ListResource: die-half", "the provider ended during ListResource (exit status: 42)"),
    ("ListResource: hang", "the provider did not answer ListResource within 12 seconds"),
    ("ListResource: endless-warnings", "the provider did not answer ListResource within 12 seconds"),
    // More than anybody reads: it takes too long, or the connection is given up.
    ("ListResource: flood", "ListResource"),
    ("ListResource: refuse", "the rest of the shelf is locked"),
    ("ListResource: fail", "the provider failed in ListResource: the shelf is out of order"),
    ("ListResource: garbage", "the provider answered ListResource with what is no answer"),
    ("ListResource: huge", "the provider answered ListResource with more than 67108864 bytes"),
    ("ListResource: nameless", "a resource in it has no identity"),
    ("ListResource: bad-msgpack", "found a byte that means nothing"),
];

/// Said in one sentence, and over with its cause.
async fn wrong(fault: &str, says: &str) {
    let world = impatient();
    fill(&lease(&world).await, &["one", "two"]).await;
    world.fault(fault);
    let error = list(&lease(&world).await, json!({}), 100).await.unwrap_err();
    assert!(error.to_string().contains(says), "{fault}: {error}");
    world.fault("");
    let again = loop {
        // One that ended is started again after a pause.
        match world.pool.lease(&launch(), DIGEST, &world.config()).await {
            Ok(lease) => break lease,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    assert_eq!(names(&list(&again, json!({}), 100).await.unwrap().answer), ["one", "two"], "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_list() {
    let each = |(fault, says)| wrong(fault, says);
    futures::stream::iter(FAULTS).map(each).buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
}

const QUERIES: &str = "queries.terraform.hangar.dev";

async fn plane_in(world: World) -> Plane {
    let plane = Plane::of(world, "shelf", launch()).await;
    plane.provider_secret().await;
    plane
}

fn query(name: &str, mut spec: Json) -> Json {
    for (field, value) in [("provider", json!("shelf")), ("type", json!(THING))] {
        if spec.get(field).is_none() {
            spec[field] = value;
        }
    }
    if spec.get("providerRef").is_none() {
        spec["providerRef"] = json!({"name": "shelf"});
    }
    json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Query", "metadata": {"name": name}, "spec": spec,
    })
}

async fn inhabited() -> Plane {
    let plane = plane_in(World::new()).await;
    fill(&lease(&plane.world).await, &["ant", "bee", "bug"]).await;
    plane
}

/// What a query found: names by identities.
fn found(query: &Json) -> Vec<&str> {
    let found = query["status"]["found"].as_array().into_iter().flatten();
    found.filter_map(|one| one["identity"]["name"].as_str()).collect()
}

#[tokio::test]
async fn a_query_is_asked_once() {
    let plane = inhabited().await;
    plane.create(QUERIES, query("all", json!({}))).await;
    let all = plane.current(QUERIES, "all").await;
    assert_eq!((found(&all), &all["status"]["complete"]), (vec!["ant", "bee", "bug"], &json!(true)));
    assert_eq!(all["status"]["found"][0], json!({"name": "the thing ant", "identity": {"name": "ant"}}));
    assert_eq!(
        (&all["spec"]["limit"], message(&all, "Ready").as_str()),
        (&json!(100), "3 resources were found")
    );
    assert!(all["status"]["askedTime"].is_string());
    // Neither by an edit of its Secret, nor of what is no question, is it asked again.
    let directory = plane.world.cloud.path().to_str().unwrap();
    let data = json!({"stringData": {"provider": json!({"directory": directory}).to_string() + " "}});
    plane.patch("secrets", "shelf", data).await;
    plane.patch(QUERIES, "all", json!({"metadata": {"labels": {"a": "b"}}})).await;
    plane.rest().await;
    assert_eq!(plane.asked("ListResource"), 1);
    // Who wants to know it anew says so; an edit is another question.
    fill(&lease(&plane.world).await, &["cat"]).await;
    plane.nudge(QUERIES, "all").await;
    plane.until(QUERIES, "all", |now| now.is_some_and(|now| found(now).len() == 4)).await;
    plane.patch(QUERIES, "all", json!({"spec": {"config": {"namePrefix": "b"}}})).await;
    assert_eq!(found(&plane.current(QUERIES, "all").await), ["bee", "bug"]);
    plane.patch(QUERIES, "all", json!({"spec": {"config": null, "limit": 2}})).await;
    let cut = plane.current(QUERIES, "all").await;
    assert_eq!((found(&cut), &cut["status"]["complete"]), (vec!["ant", "bee"], &json!(false)));
    assert_eq!(message(&cut, "Ready"), "2 resources were found, and there are more");
    assert_eq!(plane.asked("ListResource"), 4);
    for limit in [0, 1_001] {
        assert!(plane.try_create(QUERIES, query("more", json!({"limit": limit}))).await.is_err());
    }
    // What answered stays over a restart, and nobody is asked.
    let mut plane = plane;
    plane.restart().await;
    plane.rest().await;
    assert_eq!(plane.asked("ListResource"), 4);
    assert_eq!(plane.applies(), 4, "nothing is made by a query");
}

/// What has an object already is said to; by another Secret it may be another account's.
#[tokio::test]
async fn who_has_it_already() {
    let plane = inhabited().await;
    plane.thing("mine", json!({"resource": {"name": "cow"}})).await;
    plane.current(THINGS, "mine").await;
    let annotations = json!({"hangar.dev/import-identity": json!({"name": "bee"}).to_string()});
    let taken = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Resource",
        "metadata": {"name": "taken", "annotations": annotations},
        "spec": {"provider": "shelf", "type": THING, "resource": {}, "providerRef": {"name": "shelf"}},
    });
    plane.create("resources.terraform.hangar.dev", taken).await;
    plane.current("resources.terraform.hangar.dev", "taken").await;
    plane.create(QUERIES, query("all", json!({}))).await;
    let all = plane.current(QUERIES, "all").await;
    let objects: Vec<&Json> =
        all["status"]["found"].as_array().unwrap().iter().map(|one| &one["object"]).collect();
    assert_eq!(objects, [&Json::Null, &json!("Resource/taken"), &Json::Null, &json!("Thing/mine")]);
    let directory = plane.world.cloud.path();
    plane.secret("other", "provider", json!({"directory": directory})).await;
    plane.create(QUERIES, query("other", json!({"providerRef": {"name": "other"}}))).await;
    let other = plane.current(QUERIES, "other").await;
    assert!(!other["status"]["found"].to_string().contains("object"), "{other:#}");
}

/// Each is one clear condition, and passes with its cause.
#[tokio::test]
async fn what_can_be_wrong_with_a_query() {
    let plane = inhabited().await;
    for (name, spec, says) in [
        (
            "provider",
            json!({"provider": "none"}),
            "there is no Provider \"none\" that is ready (spec.provider)",
        ),
        (
            "type",
            json!({"type": "shelf_other"}),
            "the provider has no resource type \"shelf_other\" (spec.type)",
        ),
        (
            "list",
            json!({"type": "shelf_kind2_thing"}),
            "the provider has no list of type \"shelf_kind2_thing\" (spec.type)",
        ),
        (
            "identity",
            json!({"type": "shelf_kind1_thing"}),
            "the provider has no identity of type \"shelf_kind1_thing\" (spec.type)",
        ),
        ("value", json!({"config": {"namePrefix": ""}}), "a prefix has letters (spec.config.namePrefix)"),
        ("nothing", json!({"providerRef": {"name": ""}}), "the provider needs a configuration"),
    ] {
        plane.create(QUERIES, query(name, spec)).await;
        let failed = plane.failed(QUERIES, name, says).await;
        assert_eq!(message(&failed, "Ready"), message(&failed, "Stalled"), "one reason");
        plane.patch(QUERIES, name, query(name, json!({"config": null}))).await;
        assert_eq!(found(&plane.current(QUERIES, name).await).len(), 3, "{name}");
    }
    // What the list's own schema forbids is refused at once, as far as the provider is known.
    for (config, says) in [
        (json!({"prefix": "a"}), "the provider has no such field"),
        (json!({"name_prefix": "a"}), "the provider has no such field"),
        (json!({"namePrefix": ["a"]}), "expected a string"),
        (json!({"passPhrase": "open sesame"}), "this is sensitive; a query has no Secret to take it from"),
    ] {
        let refused =
            plane.try_create(QUERIES, query("refused", json!({"config": config}))).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{config}: {refused}");
    }
    // A Secret that comes later, and then says what it should.
    plane.create(QUERIES, query("early", json!({"providerRef": {"name": "late"}}))).await;
    plane.failed(QUERIES, "early", "Secret default/late does not exist (spec.providerRef)").await;
    plane.secret("late", "other", json!({})).await;
    plane.failed(QUERIES, "early", "Secret default/late has no key \"provider\" (spec.providerRef)").await;
    let wrong = json!({"directory": "/nowhere", "account_key": "key-of-the-account"});
    let data = json!({"stringData": {"provider": wrong.to_string()}});
    plane.patch("secrets", "late", data).await;
    let failed =
        plane.failed(QUERIES, "early", "there is no such directory of the account (sensitive)").await;
    assert!(!failed["status"].to_string().contains("key-of-the-account"), "{failed:#}");
    let right = json!({"directory": plane.world.cloud.path()}).to_string();
    plane.patch("secrets", "late", json!({"stringData": {"provider": right}})).await;
    assert_eq!(found(&plane.current(QUERIES, "early").await).len(), 3);
}

/// What is wrong with fields is found all the same where the provider came later.
#[tokio::test]
async fn a_query_before_its_provider() {
    let plane = Plane::bare_in(World::with(scripts)).await;
    plane.provider_secret().await;
    let provider = |name: &str| {
        let directory = plane.world.cloud.path();
        let path = directory.join(format!("terraform-provider-{name}"));
        super::conditions::program(
            &path,
            format!("#!/bin/sh\nIDENTITY=1 exec {}\n", shelf_program().display()).as_bytes(),
        );
        json!({
            "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Provider", "metadata": {"name": name},
            "spec": {"path": path},
        })
    };
    // The kind is there with the first provider.
    plane.create(terraform::providers::RESOURCE, provider("first")).await;
    plane.until(terraform::providers::RESOURCE, "first", |now| is_true(now, "Ready")).await;
    let wrong = [
        ("unknown", json!({"prefix": "a"}), "the provider has no such field (spec.config.prefix)"),
        (
            "hidden",
            json!({"passPhrase": "open sesame"}),
            "this is sensitive; a query has no Secret to take it from",
        ),
    ];
    for (name, config, _) in &wrong {
        plane.create(QUERIES, query(name, json!({"provider": "second", "config": config}))).await;
        plane.failed(QUERIES, name, "there is no Provider \"second\" that is ready").await;
    }
    plane.create(terraform::providers::RESOURCE, provider("second")).await;
    for (name, _, says) in wrong {
        let failed = plane.failed(QUERIES, name, says).await;
        assert!(!failed["status"].to_string().contains("sesame"), "{failed:#}");
    }
    assert_eq!(plane.asked("ListResource"), 0);
}

fn is_true(object: Option<&Json>, kind: &str) -> bool {
    let conditions = object.and_then(|object| object.pointer("/status/conditions")).and_then(Json::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

/// Told on the query, and beside it others are served; nothing of what the provider is configured with is told.
async fn told(fault: &str, says: &str) {
    let plane = plane_in(impatient()).await;
    let elsewhere = plane.world.part("elsewhere");
    plane.secret("elsewhere", "provider", json!({"directory": elsewhere})).await;
    plane.world.fault(fault);
    plane.create(QUERIES, query("sick", json!({}))).await;
    let sick = plane.failed(QUERIES, "sick", says).await;
    assert_eq!(message(&sick, "Ready"), message(&sick, "Stalled"), "one reason");
    plane.create(QUERIES, query("well", json!({"providerRef": {"name": "elsewhere"}}))).await;
    plane.current(QUERIES, "well").await;
    plane.world.fault("");
    plane.current(QUERIES, "sick").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_on_a_query() {
    let chosen = ["die-half", "hang", "refuse", "nameless", "flood"];
    let faults = FAULTS.into_iter().filter(|(fault, _)| chosen.iter().any(|one| fault.ends_with(one)));
    let each = |(fault, says)| told(fault, says);
    futures::stream::iter(faults).map(each).buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
}

/// A provider that says more than it should, of its configuration or of what it found.
#[tokio::test]
async fn nothing_secret_is_told() {
    let plane = plane_in(World::new()).await;
    let directory = plane.world.cloud.path();
    let config =
        json!({"directory": directory, "password": "open sesame", "account_key": "key-of-the-account"});
    plane.secret("secretive", "provider", config).await;
    let lease = lease(&plane.world).await;
    create(&lease, json!({"name": "key-of-the-account"})).await;
    create(&lease, json!({"name": "open sesame", "note": "of the thing"})).await;
    plane.world.fault("ListResource: warn");
    plane.create(QUERIES, query("all", json!({"providerRef": {"name": "secretive"}}))).await;
    let all = plane.current(QUERIES, "all").await;
    // An identity is what a resource is known by, and goes out as it is, unless the provider calls it secret.
    let expected = json!([
        {"name": "the thing (sensitive)", "identity": {"name": "key-of-the-account"}},
        {"name": "the thing (sensitive)", "identity": {"name": "(sensitive)"}},
    ]);
    assert_eq!(all["status"]["found"], expected);
    let status = all["status"].to_string();
    assert!(!status.contains("sesame") && !status.contains("of the thing"), "{status}");
}

/// More than there are workers.
const MANY: usize = 140;

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_hang_keep_nobody_else_waiting() {
    let plane = plane_in(World::new()).await;
    let elsewhere = plane.world.part("elsewhere");
    plane.secret("elsewhere", "provider", json!({"directory": elsewhere})).await;
    plane.world.fault("ListResource: hang");
    for number in 0..MANY {
        plane.create(QUERIES, query(&format!("sick-{number}"), json!({}))).await;
    }
    let last = format!("sick-{}", MANY - 1);
    plane.until(QUERIES, &last, |query| message(query.unwrap(), "Ready").contains("many calls")).await;
    plane.create(QUERIES, query("well", json!({"providerRef": {"name": "elsewhere"}}))).await;
    plane.current(QUERIES, "well").await;
    assert!(plane.asked("ListResource") < MANY, "those that were too many have not begun");
}

/// A list is a call that the account bears, or not yet.
#[tokio::test]
async fn queries_are_asked_at_the_pace_of_the_account() {
    let mut plane = plane_in(World::new()).await;
    plane.pace = Pace { per_second: 0.0001, burst: 1.0 };
    plane.restart().await;
    plane.create(QUERIES, query("first", json!({}))).await;
    plane.current(QUERIES, "first").await;
    plane.create(QUERIES, query("second", json!({}))).await;
    plane.waits(QUERIES, "second", "ListResource waits: too many calls to this account already").await;
    assert_eq!(plane.asked("ListResource"), 1);
}
