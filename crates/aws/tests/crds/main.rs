//! The derived definitions against the published ones.
//!
//! `published.jsonl.gz` has a digest of each definition that ACK publishes: names, types, rules; no text. A newer
//! list can be given by `HANGAR_ACK_CRDS`. Fields that only we have are those of a newer model.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

use std::io::Read;

use aws::crd::{self, digest};
use aws::kinds;
use serde_json::Value;

/// Differences that are meant, with their reasons.
const MEANT: &[(&str, &str)] = &[
    // Published with an older runtime than all others, when the region could be absent.
    ("elasticsearchservice/ElasticsearchDomain", "status.ackResourceMetadata (r)"),
];

fn published() -> Vec<Value> {
    let mut text = String::new();
    match std::env::var_os("HANGAR_ACK_CRDS") {
        Some(file) => text = std::fs::read_to_string(file).unwrap(),
        None => {
            let compressed = include_bytes!("published.jsonl.gz").as_slice();
            flate2::read::GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
        }
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_published_kind_is_derived_with_all_its_fields() {
    let published = published();
    assert!(published.len() >= 257);
    let mut faults = Vec::new();
    for one in &published {
        let (service, kind) = (one["service"].as_str().unwrap(), one["kind"].as_str().unwrap());
        let name = format!("{service}/{kind}");
        let Some(facts) = kinds::find(service, kind) else {
            faults.push(format!("{name} is not derived"));
            continue;
        };
        let difference = digest::compare(one, &digest::digest(&crd::definition(facts).unwrap()));
        let meant =
            |path: &&String| !MEANT.iter().any(|(kind, fault)| *kind == name && path.starts_with(fault));
        let all = difference.missing.iter().chain(&difference.differing).filter(meant);
        faults.extend(all.map(|path| format!("{name}: {path}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_kind_is_derived_that_is_not_published() {
    let published = published();
    for facts in kinds::all() {
        let same = |one: &&Value| one["service"] == facts.service && one["kind"] == facts.kind;
        assert!(published.iter().any(|one| same(&one)), "{facts:?}");
    }
}

#[test]
fn the_page_of_kinds_is_fresh() {
    let page = include_str!("../../../../docs/aws-kinds.md");
    assert_eq!(page, kinds::table::page(), "run `cargo run -p aws --example kinds`");
}

#[test]
fn the_table_of_places_is_fresh() {
    let table = include_str!("../../data/places.txt");
    assert_eq!(table, kinds::places::table().unwrap(), "run `cargo run -p aws --example kinds`");
}
