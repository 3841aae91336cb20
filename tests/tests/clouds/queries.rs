//! What exists in a cloud and is nobody's object: found, and taken over all at once.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use end_to_end::{ControlPlane, Server, binary};
use serde_json::{Value, json};

use super::aws::Operator;
use super::states::{shelf, with_shelf};
use super::{eventually, exists, good, object};

const THINGS: &str = "things.thing.shelf.kubeform.com";
const QUERIES: &str = "queries.terraform.hangar.dev";
const NAMES: [&str; 3] = ["ant", "bee", "bug"];

fn import(plane: &ControlPlane, more: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("--kubeconfig").arg(&plane.kubeconfig).args(["import", "terraform", "shelf", "shelf_thing"]);
    command.args(more).output().unwrap()
}

/// What it prints, and what it says on the side; it has to succeed.
fn imported(plane: &ControlPlane, more: &[&str]) -> (String, String) {
    let output = import(plane, more);
    let aside = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{more:?}: {aside}");
    (String::from_utf8(output.stdout).unwrap(), aside)
}

fn current(plane: &ControlPlane, kind: &str, name: &str) -> Value {
    eventually("the phase Current", || {
        Some(object(plane, kind, name)).filter(|now| now["status"]["phase"] == "Current")
    })
}

/// Things that were made once, and have no objects any more.
fn leave_behind(plane: &ControlPlane) {
    for name in NAMES {
        let thing = json!({
            "apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing",
            "metadata": {"name": name, "annotations": {"hangar.dev/deletion-policy": "retain"}},
            "spec": {"resource": {"name": name, "size": 7}, "providerRef": {"name": "shelf-provider-secret"}},
        });
        good(plane, &["create", "-f", "-"], &thing.to_string());
        current(plane, THINGS, name);
        good(plane, &["delete", THINGS, name], "");
    }
}

fn asked(things: &Path, method: &str) -> usize {
    let calls = std::fs::read_to_string(things.join("calls")).unwrap_or_default();
    calls.lines().filter(|call| *call == method).count()
}

/// What is on the shelf, and how often it was changed.
fn on_shelf(things: &Path) -> (Vec<String>, usize) {
    let files = std::fs::read_dir(things).unwrap().flatten().map(|one| one.path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut all: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    all.sort();
    (all, asked(things, "ApplyResourceChange"))
}

#[test]
fn found_and_taken_over() {
    let (_server, plane, things) = with_shelf();
    leave_behind(&plane);
    let before = on_shelf(&things);

    let query = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Query", "metadata": {"name": "mine"},
        "spec": {
            "provider": "shelf", "type": "shelf_thing", "config": {"namePrefix": "b"},
            "providerRef": {"name": "shelf-provider-secret"},
        },
    });
    good(&plane, &["apply", "-f", "-"], &query.to_string());
    let found = current(&plane, QUERIES, "mine");
    let expected = json!([
        {"name": "the thing bee", "identity": {"name": "bee"}},
        {"name": "the thing bug", "identity": {"name": "bug"}},
    ]);
    assert_eq!((&found["status"]["found"], &found["status"]["complete"]), (&expected, &json!(true)));
    let shown = good(&plane, &["get", QUERIES], "");
    assert!(shown.contains("shelf_thing   Current   true"), "{shown}");

    // The same by the command line.
    let (table, aside) = imported(&plane, &["--list"]);
    let expected = "NAME           IDENTITY        OBJECT\n\
                    the thing ant  {\"name\":\"ant\"}\n\
                    the thing bee  {\"name\":\"bee\"}\n\
                    the thing bug  {\"name\":\"bug\"}\n";
    assert_eq!((table.as_str(), aside.as_str()), (expected, ""));
    let (table, aside) = imported(&plane, &["--list", "--config", r#"{"namePrefix": "b"}"#, "--limit", "1"]);
    assert!(table.contains("bee") && !table.contains("bug"), "{table}");
    assert!(aside.contains("there are more than these 1"), "{aside}");
    let none = imported(&plane, &["--list", "--config", r#"{"namePrefix": "z"}"#]);
    assert_eq!(none, (String::new(), "no shelf_thing was found\n".to_owned()));
    for (wrong, says) in [
        (vec!["--list", "123"], "cannot be used with"),
        (vec!["--all", "--identity", "{}"], "cannot be used with"),
        (vec!["--list", "--all"], "cannot be used with"),
        (vec!["123", "--limit", "7"], "required"),
        (vec!["--list", "--limit", "1001"], "1001 is not in 1..=1000"),
        (vec!["--list", "--config", "b"], "the configuration is a JSON object"),
        (vec!["--list", "--config", r#"{"prefix": "b"}"#], "the provider has no such field"),
        (vec!["--list", "--config", r#"{"namePrefix": ""}"#], "a prefix has letters"),
    ] {
        let output = import(&plane, &wrong);
        let aside = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && aside.contains(says), "{wrong:?}: {aside}");
    }

    // One is an object already; the others become objects as they are.
    let (manifest, _) = imported(&plane, &["--identity", r#"{"name": "bee"}"#, "--name", "bee"]);
    good(&plane, &["apply", "-f", "-"], &manifest);
    current(&plane, THINGS, "bee");
    let (table, _) = imported(&plane, &["--list"]);
    assert!(table.contains("the thing bee  {\"name\":\"bee\"}  Thing/bee\n"), "{table}");
    let (manifests, aside) = imported(&plane, &["--all"]);
    assert_eq!(aside, "1 of 3 have objects already, and are left out\n");
    good(&plane, &["apply", "-f", "-"], &manifests);
    for name in ["thing-the-thing-ant", "thing-the-thing-bug"] {
        let taken = current(&plane, THINGS, name);
        assert_eq!(taken["spec"]["resource"]["size"], 7, "{taken:#}");
    }
    assert_eq!(on_shelf(&things), before, "something was changed");
    let (manifests, aside) = imported(&plane, &["--all"]);
    assert_eq!((manifests.as_str(), aside.as_str()), ("", "3 of 3 have objects already, and are left out\n"));
    assert_eq!(good(&plane, &["get", QUERIES, "-o", "name"], ""), "query.terraform.hangar.dev/mine\n");
    let probes = || good(&plane, &["get", "resources.terraform.hangar.dev", "-o", "name"], "");
    eventually("the end of the probes", || probes().is_empty().then_some(()));
}

/// The cluster is a control plane of a server that knows nothing of Terraform.
#[test]
fn on_a_cluster_that_is_there_already() {
    let server = Server::start();
    let cluster = ControlPlane::create(&server, "cluster");
    let (plugins, things) = (server.dir().join("plugins"), server.dir().join("things"));
    for directory in [&plugins, &things] {
        std::fs::create_dir(directory).unwrap();
    }
    shelf(&plugins);
    let operator = Command::new(binary())
        .arg("operator")
        .arg("--kubeconfig")
        .arg(&cluster.kubeconfig)
        .arg("--clouds-only")
        .arg("--terraform-plugin-dir")
        .arg(&plugins)
        .args(super::terraform::shown(&things))
        .stderr(Stdio::null())
        .spawn();
    let _operator = Operator(operator.unwrap());
    eventually("its kinds", || exists(&cluster, "crd", QUERIES).then_some(()));
    good(&cluster, &["wait", "--for=condition=Established", &format!("crd/{QUERIES}")], "");
    let provider = format!("--from-literal=provider={}", json!({"directory": things}));
    good(&cluster, &["create", "secret", "generic", "shelf", &provider], "");
    let of_shelf = |kind: &str, name: &str, own: Value| {
        let mut spec = json!({"provider": "shelf", "type": "shelf_thing", "providerRef": {"name": "shelf"}});
        spec.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        json!({
            "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        })
        .to_string()
    };
    good(
        &cluster,
        &["apply", "-f", "-"],
        &of_shelf("Resource", "kept", json!({"resource": {"name": "ant"}})),
    );
    current(&cluster, "resources.terraform.hangar.dev", "kept");
    // Nobody is there to refuse what the provider would not take: it is told.
    good(&cluster, &["apply", "-f", "-"], &of_shelf("Query", "all", json!({"config": {"prefix": "a"}})));
    eventually("the reason", || {
        let told = object(&cluster, QUERIES, "all")["status"].to_string();
        told.contains("the provider has no such field (spec.config.prefix)").then_some(())
    });
    good(&cluster, &["replace", "-f", "-"], &of_shelf("Query", "all", json!({})));
    let expected = json!([{"name": "the thing ant", "identity": {"name": "ant"}, "object": "Resource/kept"}]);
    assert_eq!(current(&cluster, QUERIES, "all")["status"]["found"], expected);
    // Asked once, although the operator sees its own writes.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(asked(&things, "ListResource"), 1);
}
