//! Terraform's states in and out of a control plane, as somebody does who moves between the two.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use end_to_end::{ControlPlane, Server, binary, tools_dir};
use serde_json::{Value, json};

use super::moto::Moto;
use super::terraform::{NOTES, current, note, with_notes, with_provider, with_provider_and};
use super::{eventually, exists, good, object};

/// What `hangar` says in a control plane; it has to succeed.
fn hangar(plane: &ControlPlane, arguments: &[&str]) -> String {
    let output =
        Command::new(binary()).arg("--kubeconfig").arg(&plane.kubeconfig).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn state(directory: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(directory.join("terraform.tfstate")).unwrap()).unwrap()
}

#[test]
fn out_and_in_again() {
    let (server, plane, notes) = with_notes();
    good(&plane, &["create", "-f", "-"], &note("first", "hello", "world").to_string());
    current(&plane, "first");
    let out = server.dir().join("out");
    hangar(&plane, &["export", "tfstate", "note", "first", "-d", out.to_str().unwrap()]);
    let exported = state(&out);
    let resource = &exported["resources"][0];
    assert_eq!((&resource["type"], &resource["name"]), (&json!("memo_note"), &json!("first")));
    assert_eq!(resource["instances"][0]["attributes"]["length"], 5);
    let config = std::fs::read_to_string(out.join("main.tf")).unwrap();
    assert!(
        config.contains("resource \"memo_note\" \"first\" {\n  text = \"world\"\n  title = \"hello\"\n}"),
        "{config}"
    );
    assert!(!exists(&plane, "secret", "first-notes-export"), "nothing stays behind");

    // The object goes, the resource stays, and is taken over from the file.
    let retain = r#"{"metadata": {"annotations": {"hangar.dev/deletion-policy": "retain"}}}"#;
    good(&plane, &["patch", NOTES, "first", "--type=merge", "-p", retain], "");
    good(&plane, &["delete", NOTES, "first"], "");
    let file = notes.join("note-hello");
    let before = file.metadata().unwrap().modified().unwrap();
    let file_of_it = out.join("terraform.tfstate");
    let import = |more: &[&str]| {
        let mut all = vec!["import", "tfstate", file_of_it.to_str().unwrap()];
        all.extend(more);
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    // A try that fails leaves what the next one goes on with.
    let failed = Command::new(binary())
        .arg("--kubeconfig")
        .arg(&plane.kubeconfig)
        .args(import(&["--provider-secret", "nowhere"]))
        .output()
        .unwrap();
    let said = String::from_utf8(failed.stdout).unwrap();
    let why = "memo_note.first is not taken over: Secret default/nowhere does not exist (spec.providerRef)\n";
    assert_eq!((failed.status.success(), said.as_str()), (false, why));
    for _ in 0..2 {
        let arguments = import(&[]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(hangar(&plane, &arguments), "memo_note.first is Note default/first now\n");
    }
    let taken = current(&plane, "first");
    assert_eq!(taken["spec"]["resource"], json!({"title": "hello", "text": "world", "id": "note-hello"}));
    assert!(!exists(&plane, "secret", "first-notes-import"));
    // Looked at again, there is nothing to do.
    good(&plane, &["annotate", NOTES, "first", "hangar.dev/reconcile=now"], "");
    std::thread::sleep(std::time::Duration::from_secs(1));
    current(&plane, "first");
    assert_eq!(file.metadata().unwrap().modified().unwrap(), before, "it was written to");
    good(&plane, &["delete", NOTES, "first"], "");
    assert!(!file.exists());
}

#[test]
fn a_plan_from_a_file() {
    let (server, plane, notes) = with_notes();
    let file = server.dir().join("note.json");
    std::fs::write(&file, note("first", "hello", "world").to_string()).unwrap();
    let said = hangar(&plane, &["plan", "-f", file.to_str().unwrap()]);
    assert!(said.contains("plan of Note default/first: create in memo_note (memo)"), "{said}");
    assert!(!notes.join("note-hello").exists() && !exists(&plane, NOTES, "first"));
}

#[test]
fn in_a_bucket() {
    let moto = Moto::start();
    let (server, plane, _) = with_notes();
    assert_eq!(moto.s3("PUT", "states").0, 200);
    let config = json!({
        "bucket": "states", "key": "notes/first.tfstate", "region": "us-east-1", "access_key": "x", "secret_key": "y",
        "endpoints": {"s3": moto.url()}, "use_path_style": true,
    });
    good(&plane, &["create", "secret", "generic", "backend", &format!("--from-literal=s3={config}")], "");
    let mut first = note("first", "hello", "world");
    first["spec"]["backendRef"] = json!({"name": "backend"});
    good(&plane, &["create", "-f", "-"], &first.to_string());
    // This machine is not for tenants, until the operator says so of a control plane.
    let told = eventually("the refusal", || {
        let message = object(&plane, NOTES, "first")["status"]["conditions"].to_string();
        message.contains("the backend s3 cannot be used").then_some(message)
    });
    assert!(told.contains("operator's egress policy") && !told.contains("refused"), "{told}");
    allow_loopback(&server, "team");
    good(&plane, &["annotate", NOTES, "first", "hangar.dev/reconcile=now"], "");
    assert!(current(&plane, "first")["spec"].get("state").is_none());
    let kept = || moto.s3("GET", "states/notes/first.tfstate");
    let state: Value = serde_json::from_str(&kept().1).unwrap();
    assert_eq!(state["resources"][0]["instances"][0]["attributes"]["text"], "world");
    good(&plane, &["delete", NOTES, "first"], "");
    assert_eq!(kept().0, 404, "the state goes with the resource");
}

/// Has the control plane reach servers of the tests, by its object.
fn allow_loopback(server: &Server, name: &str) {
    let path = format!("/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes/{name}");
    let patch = json!({"spec": {"egress": {"allow": ["127.0.0.0/8"]}}});
    server.client().patch(&path, "merge", &patch).ok();
    let allowed = || {
        // Told when the operator of control planes has looked at it.
        let object = server.client().get(&path).ok();
        (object["status"]["observedGeneration"] == object["metadata"]["generation"]).then_some(())
    };
    eventually("the range is allowed", allowed);
}

/// The same by the flag, which is for all.
#[test]
fn in_a_bucket_that_all_may_reach() {
    let moto = Moto::start();
    let program = tools_dir().join("providers/debug/terraform-provider-memo");
    let flags = |_: &Path| vec!["--egress-allow=127.0.0.0/8".to_owned()];
    let (_server, plane, _) = with_provider_and(&program, "memo", "note", flags);
    assert_eq!(moto.s3("PUT", "states").0, 200);
    let config = json!({
        "bucket": "states", "key": "first.tfstate", "region": "us-east-1", "access_key": "x", "secret_key": "y",
        "endpoint": moto.url(), "use_path_style": true,
    });
    good(&plane, &["create", "secret", "generic", "backend", &format!("--from-literal=s3={config}")], "");
    let mut first = note("first", "hello", "world");
    first["spec"]["backendRef"] = json!({"name": "backend"});
    good(&plane, &["create", "-f", "-"], &first.to_string());
    current(&plane, "first");
    assert_eq!(moto.s3("GET", "states/first.tfstate").0, 200);
    good(&plane, &["delete", NOTES, "first"], "");
}

/// The provider of things, which have identities, as a program in a directory.
pub fn shelf(directory: &Path) -> PathBuf {
    let shelf = binary().with_file_name("examples").join("shelf");
    assert!(shelf.exists(), "{} is not built: cargo build -p terraform --example shelf", shelf.display());
    let program = directory.join("terraform-provider-shelf");
    std::fs::write(&program, format!("#!/bin/sh\nIDENTITY=1 exec {}\n", shelf.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A server with it.
pub fn with_shelf() -> (Server, ControlPlane, PathBuf) {
    let scripts = tempfile::TempDir::new().unwrap();
    with_provider(&shelf(scripts.path()), "shelf", "thing")
}

/// A resource that is there already, by its id or its identity: the manifest that is printed takes it over as it is.
#[test]
fn by_id_and_by_identity() {
    let (_server, plane, things) = with_shelf();
    let kind = "things.thing.shelf.kubeform.com";
    let is_current =
        |name: &str| Some(object(&plane, kind, name)).filter(|now| now["status"]["phase"] == "Current");
    for (number, by) in ["id", "identity"].into_iter().enumerate() {
        let maker = format!("maker-of-{by}");
        let thing = json!({
            "apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing",
            "metadata": {"name": maker, "annotations": {"hangar.dev/deletion-policy": "retain"}},
            "spec": {"resource": {"name": by, "size": 7}, "providerRef": {"name": "shelf-provider-secret"}},
        });
        good(&plane, &["create", "-f", "-"], &thing.to_string());
        let made = eventually("the phase Current", || is_current(&maker));
        let id = made["spec"]["resource"]["id"].as_str().unwrap().to_owned();
        good(&plane, &["delete", kind, &maker], "");

        let identity = json!({"name": by}).to_string();
        let which = if by == "id" { vec![id.as_str()] } else { vec!["--identity", identity.as_str()] };
        let import = ["import", "terraform", "shelf", "shelf_thing", "--name", by];
        let manifest = hangar(&plane, &[&import[..], &which[..]].concat());
        assert!(manifest.contains("size: 7") && manifest.contains(&format!("id: {id}")), "{manifest}");
        let probes = || good(&plane, &["get", "resources.terraform.hangar.dev", "-o", "name"], "");
        eventually("the end of the probe", || probes().is_empty().then_some(()));
        let file = things.join(format!("{id}.json"));
        let before = std::fs::read_to_string(&file).unwrap();
        good(&plane, &["apply", "-f", "-"], &manifest);
        let found = eventually("the phase Current", || is_current(by));
        assert_eq!(found["spec"]["state"]["id"], json!(id));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "taken over without a change");
        let files = std::fs::read_dir(&things).unwrap().flatten();
        let count = files.filter(|one| one.path().extension().is_some_and(|end| end == "json")).count();
        assert_eq!(count, number + 1);
    }
}
