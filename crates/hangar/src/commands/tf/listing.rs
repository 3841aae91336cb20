//! `hangar import terraform --list` and `--all`: what exists of a type, as a table or as the manifests that take it over.
//!
//! The server asks the provider: a query is made for a moment. Each of what it found is then taken over as by
//! `--identity`, several at a time.

use std::collections::BTreeSet;

use ::terraform::definition::GROUP;
use ::terraform::dialect::IMPORT_IDENTITY;
use ::terraform::queries::kinds::{MOST, PLURAL, QUERY, USUALLY};
use anyhow::bail;
use clap::Args;
use futures::StreamExt as _;
use http::Method;
use serde_json::{Value, json};

use super::resource::{Existing, ImportResource, words};
use super::{Kind, Plane, is_current, object_name};
use crate::commands::list::print;

/// Taken over at the same time: each is an object for a moment.
const AT_ONCE: usize = 8;
/// Of a name that is made here, so that there is room for what others make of it.
const LONGEST_NAME: usize = 100;

#[derive(Args, Clone, Debug)]
pub struct Listing {
    /// show what exists of the type, if the provider can list it
    #[arg(long, group = "lists", conflicts_with_all = ["id", "identity", "name"])]
    list: bool,
    /// print the objects that take over all that exists of the type and has none in the namespace yet
    #[arg(long, group = "lists", conflicts_with_all = ["id", "identity", "name"])]
    all: bool,
    /// what to list, as a JSON object with the fields of the provider's list of the type
    #[arg(long, value_name = "JSON", requires = "lists", value_parser = config)]
    config: Option<Value>,
    /// how many to list at most
    #[arg(long, value_name = "NUMBER", requires = "lists", default_value_t = USUALLY,
          value_parser = clap::value_parser!(u64).range(1..=MOST))]
    limit: u64,
}

fn config(text: &str) -> Result<Value, String> {
    let object = serde_json::from_str(text).ok().filter(Value::is_object);
    object.ok_or_else(|| "the configuration is a JSON object, such as {\"region\": \"eu-west-1\"}".to_owned())
}

impl Listing {
    pub fn is_wanted(&self) -> bool {
        self.list || self.all
    }
}

pub async fn run(plane: &Plane, import: &ImportResource, reference: &str) -> anyhow::Result<()> {
    let listing = &import.listing;
    let answer = ask(plane, import, reference).await?;
    let found = answer["found"].as_array().map_or(&[][..], Vec::as_slice);
    if found.is_empty() {
        eprintln!("no {} was found", import.type_name);
        return Ok(());
    }
    let shown = match listing.list {
        true => print(&table(found)),
        false => print_all(plane, import, reference, found).await,
    };
    if answer["complete"] == false {
        eprintln!("there are more than these {}; --limit and --config say which are listed", found.len());
    }
    shown
}

/// What the provider finds, by a query that goes again.
async fn ask(plane: &Plane, import: &ImportResource, reference: &str) -> anyhow::Result<Value> {
    let kind = Kind { group: GROUP.into(), kind: QUERY.into(), plural: PLURAL.into() };
    if !plane.serves(&kind).await? {
        bail!("the server cannot list what providers have");
    }
    let query = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"generateName": "import-"},
        "spec": {
            "provider": import.provider, "type": import.type_name, "providerRef": {"name": reference},
            "config": import.listing.config.clone().unwrap_or_else(|| json!({})),
            "limit": import.listing.limit,
        },
    });
    let collection = kind.collection(&import.namespace);
    let query = plane.send(Method::POST, &collection, &query).await?;
    let path = format!("{collection}/{}", query["metadata"]["name"].as_str().unwrap_or_default());
    let answered = Box::pin(plane.until(&path, import.timeout, is_current)).await;
    plane.delete(&path).await?;
    Ok(answered?["status"].take())
}

fn table(found: &[Value]) -> String {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let rows = found.iter().map(|one| [text(one, "name"), one["identity"].to_string(), text(one, "object")]);
    let head = ["NAME", "IDENTITY", "OBJECT"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (names, identities) = (width(0), width(1));
    let line = |[name, identity, object]: &[String; 3]| {
        format!("{name:<names$}  {identity:<identities$}  {object}").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

async fn print_all(
    plane: &Plane,
    import: &ImportResource,
    reference: &str,
    found: &[Value],
) -> anyhow::Result<()> {
    let free: Vec<&Value> = found.iter().filter(|one| one["object"].is_null()).collect();
    if free.len() < found.len() {
        eprintln!("{} of {} have objects already, and are left out", found.len() - free.len(), found.len());
    }
    let there = plane.get(&import.kind().collection(&import.namespace)).await?.unwrap_or_default();
    let there = there["items"].as_array().into_iter().flatten();
    let there = there.filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned)).collect();
    let named = free.iter().zip(names(&import.type_name, &free, there));
    let each = named.map(|(one, name)| {
        let existing = Existing { by: IMPORT_IDENTITY, which: one["identity"].to_string(), id: None, name };
        async move { (import.manifest(plane, reference, &existing).await, existing) }
    });
    let mut manifests = futures::stream::iter(each).buffered(AT_ONCE);
    let mut failed = 0;
    while let Some((manifest, existing)) = Box::pin(manifests.next()).await {
        match manifest {
            Ok(manifest) => print(&manifest)?,
            Err(error) => {
                failed += 1;
                eprintln!("{} is not taken over: {error:#}", existing.which);
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} of {} resources were not taken over", free.len()),
    }
}

/// What the objects are called: after what is found, and none as another, of these or of those that are there.
fn names(type_name: &str, found: &[&Value], mut taken: BTreeSet<String>) -> Vec<String> {
    let rest = type_name.split_once('_').map_or(type_name, |(_, rest)| rest);
    let name = |one: &&Value| {
        let said = object_name([one["name"].as_str().unwrap_or_default()]);
        let known_by = words(&one["identity"]);
        let usual = object_name([rest, if said.is_empty() { &known_by } else { &said }]);
        let usual = usual.get(..LONGEST_NAME).map_or(usual.as_str(), |cut| cut.trim_end_matches('-'));
        let others = (2..).map(|number| format!("{usual}-{number}"));
        let mut all = std::iter::once(usual.to_owned()).chain(others);
        let free = all.find(|name| taken.insert(name.clone()));
        free.unwrap_or_default()
    };
    found.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_twice() {
        let long = "x".repeat(300);
        let found = [
            json!({"name": "Web", "identity": {"id": "1"}}),
            json!({"name": "web", "identity": {"id": "2"}}),
            json!({"name": "網", "identity": {"region": "eu", "id": 3}}),
            json!({"name": "", "identity": {"id": "mine"}}),
            json!({"name": long, "identity": {"id": "4"}}),
            json!({"name": long, "identity": {"id": "5"}}),
        ];
        let found: Vec<&Value> = found.iter().collect();
        let cut = format!("load-balancer-{}", "x".repeat(86));
        assert_eq!(
            names("cloud_load_balancer", &found, BTreeSet::from(["load-balancer-mine".to_owned()])),
            [
                "load-balancer-web",
                "load-balancer-web-2",
                "load-balancer-3-eu",
                "load-balancer-mine-2",
                &cut,
                &format!("{cut}-2"),
            ]
        );
    }

    #[test]
    fn a_table() {
        let found = [
            json!({"name": "a", "identity": {"name": "long"}, "object": "Thing/a"}),
            json!({"name": "the other", "identity": {"name": "b"}}),
        ];
        let expected = "NAME       IDENTITY         OBJECT\n\
                        a          {\"name\":\"long\"}  Thing/a\n\
                        the other  {\"name\":\"b\"}\n";
        assert_eq!(table(&found), expected);
    }
}
