//! `hangar import`: a control plane from where another system keeps it. What is imported from Terraform is in `tf`.

mod aws;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, bail};
use apiserver::foreign::{self, Brought, Foreign};
use clap::{Args, Subcommand};
use serde_json::Value;
use store::Revision;
use store::export::{Encoder, Header};
use store_postgres::kine;
use wire::protobuf::{self, Kind};

use super::tf::{resource, state};
use super::whole::{Entering, import_path};
use super::{Session, create, create::check_new_name, list};
use crate::stores;

#[derive(Subcommand, Clone, Debug)]
pub enum Import {
    /// From the PostgreSQL table in which kine keeps it, as KubeFlex's shared backend does
    Kine(Kine),
    /// Of AWS: objects that take over what the account of the usual credentials has, as it is
    Aws(Box<aws::ImportAws>),
    /// Resources of a Terraform provider, by id or identity, or all of a type: prints the objects that take them over
    Terraform(Box<resource::ImportResource>),
    /// The resources of a state file of Terraform: makes the objects that take them over
    Tfstate(Box<state::ImportState>),
}

#[derive(Args, Clone, Debug)]
pub struct Kine {
    /// the name of the control plane to make
    name: String,
    /// the database, like postgres://user:password@host/database; KubeFlex names it as the control plane, with _ for -
    #[arg(long, value_name = "ADDRESS", env = "HANGAR_IMPORT_FROM", hide_env_values = true)]
    from: String,
    /// kine's table, or SCHEMA.TABLE
    #[arg(long, value_name = "TABLE", default_value = "kine")]
    table: String,
    /// the store to keep it in, where the server has several
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
    #[command(flatten)]
    entering: Entering,
}

pub async fn run(session: &Session, import: Import) -> anyhow::Result<()> {
    let kine = match import {
        Import::Kine(kine) => kine,
        Import::Aws(import) => return Box::pin(aws::run(*import)).await,
        // These need no hosting control plane, and are run without a session.
        Import::Terraform(_) | Import::Tfstate(_) => return Ok(()),
    };
    let name = kine.name.as_str();
    check_new_name(name)?;
    let kubeconfig = session.files.load()?;
    if let Some(why) = kubeconfig.taken(name) {
        bail!("{why}: choose another name");
    }
    let hosting = session.hosting(&kubeconfig).await?;
    let step = session.progress.step("Reading kine's table...");
    let table = kine::read(&kine.from, &stores::surroundings(), &kine.table).await?;
    let root = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt";
    let root = hosting.api.get_path(root).await.context("error asking what control planes trust")?;
    let authority = root["data"]["ca.crt"].as_str().unwrap_or_default();
    let (latest, (found, unread)) = (Revision(table.revision), objects(table.rows)?);
    let mut brought = foreign::bring(found, authority)?;
    for (kind, count) in unread {
        *brought.not_served.entry(kind).or_default() += count;
    }
    if brought.objects == 0 {
        bail!("table {:?} holds no object of an API server", kine.table);
    }
    step.done();
    let step = session.progress.step(format!("Importing control plane {name}..."));
    let path = import_path(name, None, kine.store.as_deref())?;
    let made = hosting.api.upload(&path, export(&brought, latest)?).await;
    let made = made.context("error importing")?;
    step.done();
    list::print(&report(&brought))?;
    create::settle(session, &hosting, name, made, &kine.entering.into()).await
}

/// What the rows hold, and by kind how many hold nothing that can be read.
fn objects(rows: Vec<kine::Row>) -> anyhow::Result<(Vec<Foreign>, BTreeMap<String, usize>)> {
    let (mut found, mut unread) = (Vec::with_capacity(rows.len()), BTreeMap::new());
    for row in rows {
        if row.value.starts_with(b"k8s:enc:") {
            bail!(
                "{} is encrypted at rest: let its API server write everything in the clear first (the identity \
                 provider in its EncryptionConfiguration)",
                row.key
            );
        }
        match object(&row.value) {
            Some(object) => found.push(Foreign {
                object,
                created: Revision(row.created),
                modified: Revision(row.modified),
            }),
            // Some is not meant to be: what the API server notes for itself.
            None => *unread.entry(resource(&row.key).to_owned()).or_default() += 1,
        }
    }
    Ok((found, unread))
}

fn object(value: &[u8]) -> Option<Value> {
    let object: Value = match value.first() {
        Some(b'{') => serde_json::from_slice(value).ok()?,
        _ => protobuf::decode(value, Kind { api_version: "", kind: "" }).ok()?,
    };
    let is_text = |field: &str| object[field].as_str().is_some_and(|text| !text.is_empty());
    (is_text("kind") && is_text("apiVersion") && object["metadata"].is_object()).then_some(object)
}

/// `/registry/masterleases/10.0.0.1` is of `masterleases`.
fn resource(key: &str) -> &str {
    key.split('/').nth(2).unwrap_or(key)
}

fn export(brought: &Brought, latest: Revision) -> anyhow::Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    encoder.header(&Header { revision: latest, latest });
    for entry in &brought.entries {
        encoder.entry(entry)?;
    }
    Ok(encoder.finish().to_vec())
}

fn report(brought: &Brought) -> String {
    let mut text = format!("Imported {} objects.\n", brought.objects);
    for (what, kinds) in
        [("Left behind, as of no use here", &brought.left_out), ("Not served here", &brought.not_served)]
    {
        for (kind, count) in kinds {
            let _ = writeln!(text, "{what}: {count} of {kind}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(key: &str, value: &[u8]) -> kine::Row {
        kine::Row { key: key.to_owned(), created: 1, modified: 2, value: value.to_vec().into() }
    }

    #[test]
    fn values_in_both_forms() {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}});
        let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "t"}});
        let rows = vec![
            row("/registry/configmaps/default/m", &protobuf::encode(&map).unwrap()),
            row("/registry/example.com/toys/default/t", toy.to_string().as_bytes()),
            row("/registry/health", br#"{"health":"true"}"#),
            row("/registry/masterleases/10.0.0.1", b"k8s\0nonsense"),
        ];
        let (found, unread) = objects(rows).unwrap();
        let kinds: Vec<&str> = found.iter().filter_map(|one| one.object["kind"].as_str()).collect();
        assert_eq!(kinds, ["ConfigMap", "Toy"]);
        assert_eq!(found[0].object["data"], map["data"]);
        assert_eq!(unread, BTreeMap::from([("health".to_owned(), 1), ("masterleases".to_owned(), 1)]));
    }

    #[test]
    fn what_is_encrypted_is_refused() {
        let rows = vec![row("/registry/secrets/default/s", b"k8s:enc:aescbc:v1:key1:...")];
        let error = objects(rows).err().unwrap().to_string();
        assert!(error.starts_with("/registry/secrets/default/s is encrypted at rest"), "{error}");
    }

    #[test]
    fn an_export_that_can_be_imported() {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}});
        let (found, _) = objects(vec![row("/registry/configmaps/n/m", map.to_string().as_bytes())]).unwrap();
        let brought = foreign::bring(found, "").unwrap();
        let mut decoder = store::export::Decoder::new();
        decoder.push(&export(&brought, Revision(9)).unwrap());
        let entry = decoder.next_entry().unwrap().unwrap();
        assert_eq!((entry.key.name.as_str(), entry.created, entry.modified), ("m", Revision(1), Revision(2)));
        assert!(decoder.next_entry().unwrap().is_none());
        assert_eq!(decoder.finish().unwrap().latest, Revision(9));
        assert_eq!(report(&brought), "Imported 1 objects.\n");
    }
}
