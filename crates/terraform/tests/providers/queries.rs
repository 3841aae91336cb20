//! What exists and nobody manages: asked of a provider that lists it, and of providers that do it wrong.

use std::time::Duration;

use auth::Secret;
use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use terraform::plugin::{Launch, Lease, Limits, Listing, PluginError, Told};
use terraform::shape;

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
