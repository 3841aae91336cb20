//! Compares the derived definitions with published ones, kind by kind.
//!
//! `cargo run -p aws --example crds -- --against FILE [--rules DIRECTORY] [--extra] [SERVICE...]`: FILE has a
//! digest per line, as `aws::crd::digest` makes them; without it, the one that the tests keep is used.
//! `--rules` reads rule files from a directory instead of those in the binary; `--check` looks for words
//! that the models do not know; `--print` shows the definitions.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::io::Read;
use std::path::PathBuf;

use aws::crd::{self, digest};
use aws::kinds::KindFacts;
use aws::rules::{self, ServiceRules};
use serde_json::Value;

/// What was asked for.
#[derive(Default)]
struct Wishes {
    against: Option<PathBuf>,
    rules: Option<PathBuf>,
    extra: bool,
    check: bool,
    print: bool,
    services: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let wishes = wishes()?;
    let services = services(&wishes)?;
    if wishes.check {
        let faults: Vec<_> = services.iter().flat_map(|rules| rules::check::check(rules)).collect();
        faults.iter().for_each(|fault| println!("{fault}"));
        println!("{} faults", faults.len());
        return Ok(());
    }
    let published = published(&wishes)?;
    let (mut sound, mut newer, mut faulty, mut absent) = (0, 0, 0, published.len());
    for kind in services.iter().flat_map(|rules| KindFacts::of_service(rules)) {
        let definition = crd::definition(&kind)?;
        if wishes.print {
            println!("{definition:#}");
            continue;
        }
        let derived = digest::digest(&definition);
        let same = |one: &&Value| one["group"] == derived["group"] && one["kind"] == derived["kind"];
        let Some(one) = published.iter().find(same) else {
            println!("{kind:?}: not published");
            continue;
        };
        absent -= 1;
        let difference = digest::compare(one, &derived);
        let lists = [("missing", &difference.missing), ("differs", &difference.differing)];
        for (word, paths) in lists {
            paths.iter().for_each(|path| println!("{kind:?}: {word}: {path}"));
        }
        if wishes.extra {
            difference.extra.iter().for_each(|path| println!("{kind:?}: newer: {path}"));
        }
        match (difference.is_sound(), difference.extra.is_empty()) {
            (true, true) => sound += 1,
            (true, false) => newer += 1,
            (false, _) => faulty += 1,
        }
    }
    println!(
        "{sound} equal, {newer} equal but for fields of a newer model, {faulty} differ, {absent} not derived"
    );
    Ok(())
}

fn wishes() -> Result<Wishes, Box<dyn Error>> {
    let mut wishes = Wishes::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut path = || words.next().map(PathBuf::from).ok_or(format!("{word} needs a path"));
        match word.as_str() {
            "--against" => wishes.against = Some(path()?),
            "--rules" => wishes.rules = Some(path()?),
            "--extra" => wishes.extra = true,
            "--check" => wishes.check = true,
            "--print" => wishes.print = true,
            _ => wishes.services.push(word),
        }
    }
    Ok(wishes)
}

fn services(wishes: &Wishes) -> Result<Vec<&'static ServiceRules>, Box<dyn Error>> {
    let wanted = |name: &str| wishes.services.is_empty() || wishes.services.iter().any(|one| one == name);
    let mut services = Vec::new();
    for (name, text) in rules::FILES.iter().filter(|(name, _)| wanted(name)) {
        let text = match &wishes.rules {
            Some(directory) => std::fs::read_to_string(directory.join(format!("{name}.yaml")))?,
            None => (*text).to_owned(),
        };
        let rules: &ServiceRules = Box::leak(Box::new(ServiceRules::parse(name, &text)?));
        services.push(rules);
    }
    Ok(services)
}

fn published(wishes: &Wishes) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = match &wishes.against {
        Some(file) => std::fs::read_to_string(file)?,
        None => {
            let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/crds/published.jsonl.gz");
            let mut text = String::new();
            flate2::read::GzDecoder::new(std::fs::File::open(kept)?).read_to_string(&mut text)?;
            text
        }
    };
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
