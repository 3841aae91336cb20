//! Kubeconfigs as people have them: control planes' entries among minikube's, a cloud's and one's own.

use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::contexts::{Access, HostingError, Renamed};
use super::diagnosis::Status;
use super::document::{Document, List};
use super::files::{Files, Kubeconfig};
use super::installation::{HOSTING, Hosting};

const MIXED: &str = r"
apiVersion: v1
kind: Config
current-context: cp1
preferences: {colors: true}
x-somebody: {kept: yes}
clusters:
- {name: kind-kubeflex, cluster: {server: 'https://127.0.0.1:6443'}}
- {name: cp1-cluster, cluster: {server: 'https://127.0.0.1:6443/control-planes/cp1'}}
- name: minikube
  cluster:
    server: https://192.168.49.2:8443
    certificate-authority: ca.crt
    extensions: [{name: cluster_info, extension: {provider: minikube.sigs.k8s.io}}]
users:
- {name: kind-kubeflex, user: {token: a}}
- {name: cp1-admin, user: {token: b}}
- {name: minikube, user: {exec: {command: aws, args: [x]}}}
contexts:
- name: kind-kubeflex
  context:
    cluster: kind-kubeflex
    user: kind-kubeflex
    extensions: [{name: kubeflex, extension: {data: {is-hosting-cluster-ctx: 'true'}, metadata: {name: kubeflex}}}]
- name: cp1
  context:
    cluster: cp1-cluster
    user: cp1-admin
    namespace: work
    extensions:
    - {name: other, extension: {a: b}}
    - {name: kubeflex, extension: {data: {controlplane-name: cp1}, metadata: {name: kubeflex}}}
- name: minikube
  context: {cluster: minikube, user: minikube, extensions: [{name: context_info, extension: {v: 1}}]}
extensions:
- {name: mine, extension: {z: 1}}
- {name: kubeflex, extension: {data: {hosting-cluster-ctx-name: kind-kubeflex}, metadata: {name: kubeflex}}}
";

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn mixed() -> Kubeconfig {
    Kubeconfig::parse(MIXED.as_bytes()).unwrap()
}

fn parse(text: &str) -> Kubeconfig {
    Kubeconfig::parse(text.as_bytes()).unwrap()
}

fn whole(kubeconfig: &Kubeconfig) -> Value {
    kubeconfig.wholes().next().unwrap().clone()
}

fn access() -> Access {
    Access {
        cluster: json!({"server": "https://s"}),
        user: json!({"token": "t"}),
        namespace: Some("default".into()),
    }
}

/// Everything in the file that is not called one of these is as it was.
#[track_caller]
fn others_are_untouched(after: &Kubeconfig, changed: &[&str]) {
    let strip = |value: &Value| {
        let mut value = value.clone();
        for list in ["clusters", "users", "contexts", "extensions"] {
            if let Some(entries) = value[list].as_array_mut() {
                entries.retain(|entry| !changed.contains(&entry["name"].as_str().unwrap()));
            }
        }
        value["current-context"] = Value::Null;
        value
    };
    assert_eq!(strip(&whole(after)), strip(&whole(&mixed())));
}

#[test]
fn a_control_plane_enters_beside_the_others() {
    let mut kubeconfig = mixed();
    kubeconfig.admit("cp2", &access(), now());
    others_are_untouched(&kubeconfig, &["cp2", "cp2-cluster", "cp2-admin"]);
    assert_eq!(kubeconfig.access("cp2"), Ok(access()));
    assert_eq!(kubeconfig.control_plane_of("cp2"), Some("cp2"));
    let context = kubeconfig.get(List::Contexts, "cp2").unwrap();
    assert_eq!(
        *context,
        json!({"cluster": "cp2-cluster", "user": "cp2-admin", "namespace": "default", "extensions": [{
            "name": "kubeflex",
            "extension": {
                "data": {"controlplane-name": "cp2"},
                "metadata": {"creationTimestamp": "2026-01-02T03:04:05Z", "name": "kubeflex"},
            },
        }]})
    );
}

#[test]
fn entering_again_renews_credentials_and_keeps_the_rest() {
    let mut kubeconfig = mixed();
    kubeconfig.admit("cp1", &access(), now());
    others_are_untouched(&kubeconfig, &["cp1-cluster", "cp1-admin"]);
    assert_eq!(kubeconfig.get(List::Users, "cp1-admin"), Some(&json!({"token": "t"})));
}

#[test]
fn what_is_taken() {
    let check = |text: &str, name: &str, expected: Option<&str>| {
        assert_eq!(parse(text).taken(name).as_deref(), expected, "{name}");
    };
    check(MIXED, "cp1", None);
    check(MIXED, "cp2", None);
    check(MIXED, "minikube", Some("context \"minikube\" of the kubeconfig is not a control plane's"));
    let shared = "contexts: [{name: a, context: {cluster: cp-cluster, user: u}}]\nclusters: [{name: cp-cluster, cluster: {}}]";
    check(shared, "cp", Some("cluster \"cp-cluster\" of the kubeconfig is used by context \"a\""));
    // As KubeFlex leaves them that came by `kflex ctx`: without the extension, but with its names.
    check("contexts: [{name: cp, context: {cluster: cp-cluster, user: cp-admin}}]", "cp", None);
    check("clusters: [{name: cp-cluster, cluster: {}}]", "cp", None);
}

#[test]
fn forgetting_leaves_the_others() {
    let mut kubeconfig = mixed();
    kubeconfig.forget("cp1").unwrap();
    others_are_untouched(&kubeconfig, &["cp1", "cp1-cluster", "cp1-admin"]);
    assert_eq!(kubeconfig.current(), "kind-kubeflex");
    assert_eq!(kubeconfig.names(List::Clusters), ["kind-kubeflex", "minikube"]);
    assert_eq!(kubeconfig.forget("cp1"), Err("context cp1 not found for control plane cp1".to_owned()));

    // What is called otherwise is not the context's alone.
    kubeconfig.forget("minikube").unwrap();
    assert_eq!(kubeconfig.names(List::Users), ["kind-kubeflex", "minikube"]);

    // The hosting one takes its mark with it, and nothing is current any more.
    kubeconfig.forget("kind-kubeflex").unwrap();
    assert_eq!((kubeconfig.current(), kubeconfig.hosting()), ("", Err(HostingError::NotSet)));
}

#[test]
fn a_cluster_that_others_use_stays() {
    let text = "contexts: [{name: a, context: {cluster: a-cluster, user: a-admin}}, {name: b, context: {cluster: a-cluster, user: b}}]
clusters: [{name: a-cluster, cluster: {server: s}}]\nusers: [{name: a-admin, user: {}}]";
    let mut kubeconfig = parse(text);
    kubeconfig.forget("a").unwrap();
    assert_eq!(kubeconfig.names(List::Clusters), ["a-cluster"]);
    assert!(kubeconfig.names(List::Users).is_empty());
}

#[test]
fn renaming() {
    let mut kubeconfig = mixed();
    let renamed = kubeconfig.rename("cp1", "new", now()).unwrap();
    assert_eq!(renamed, Renamed { cluster: Some("new-cluster".into()), user: Some("new-admin".into()) });
    others_are_untouched(
        &kubeconfig,
        &["cp1", "cp1-cluster", "cp1-admin", "new", "new-cluster", "new-admin"],
    );
    assert!(!kubeconfig.has_context("cp1"));
    assert_eq!(kubeconfig.control_plane_of("new"), Some("cp1"));
    let before = mixed().access("cp1").unwrap();
    assert_eq!(kubeconfig.access("new"), Ok(before));

    // Another's context keeps its cluster and user.
    let renamed = kubeconfig.rename("minikube", "mine", now()).unwrap();
    assert_eq!(renamed, Renamed::default());
    assert_eq!(kubeconfig.access("mine"), mixed().access("minikube"));

    // The hosting one stays the hosting one.
    kubeconfig.rename("kind-kubeflex", "home", now()).unwrap();
    assert_eq!(kubeconfig.hosting(), Ok("home".to_owned()));
}

#[test]
fn renaming_refused() {
    let check = |old: &str, new: &str, why: &str| {
        let mut kubeconfig = mixed();
        assert_eq!(kubeconfig.rename(old, new, now()), Err(why.to_owned()));
    };
    check("none", "new", "no context 'none' is found in the kubeconfig");
    check("cp1", "minikube", "context 'minikube' is already in the kubeconfig");
    check("cp1", "", "a context needs a name");
}

#[test]
fn there_is_one_hosting_context() {
    let mut kubeconfig = mixed();
    kubeconfig.set_hosting("minikube", now()).unwrap();
    others_are_untouched(&kubeconfig, &["kind-kubeflex", "minikube", "kubeflex"]);
    assert_eq!(kubeconfig.hosting(), Ok("minikube".to_owned()));
    assert!(!kubeconfig.is_managed("kind-kubeflex"));
    let minikube = kubeconfig.get(List::Contexts, "minikube").unwrap();
    assert_eq!(minikube["extensions"].as_array().unwrap().len(), 2, "its own extension and ours");
    assert_eq!(
        kubeconfig.set_hosting("none", now()),
        Err("context 'none' must exist within kubeconfig".to_owned())
    );
}

#[test]
fn why_a_hosting_context_cannot_be_used() {
    let check = |rest: &str, expected: Result<&str, HostingError>| {
        let text = format!(
            "extensions: [{{name: kubeflex, extension: {{data: {{hosting-cluster-ctx-name: h}}}}}}]\n{rest}"
        );
        assert_eq!(parse(&text).hosting(), expected.map(str::to_owned), "{rest}");
    };
    let context = "contexts: [{name: h, context: {cluster: c, user: u}}]";
    check("", Err(HostingError::NoContext));
    check("contexts: [{name: h, context: {}}]", Err(HostingError::NoCluster("h".into())));
    check(context, Err(HostingError::ClusterMissing { cluster: "c".into(), context: "h".into() }));
    check(
        &format!("{context}\nclusters: [{{name: c, cluster: {{}}}}]"),
        Err(HostingError::NoServer { cluster: "c".into(), context: "h".into() }),
    );
    check(&format!("{context}\nclusters: [{{name: c, cluster: {{server: s}}}}]"), Ok("h"));
    assert_eq!(parse("").hosting(), Err(HostingError::NotSet));
    let old = "extensions: [{name: kubeflex, extension: {data: {kflex-initial-ctx-name: old}}}]";
    assert_eq!(parse(old).stored_hosting(), Some("old"));
}

#[test]
fn diagnosis_in_kubeflex_words() {
    let check = |text: &str, expected: Value| {
        assert_eq!(serde_json::to_value(parse(text).diagnose()).unwrap(), expected);
    };
    let critical = "Global kubeflex extension is not present in kubeconfig";
    check("", json!({"status": "critical", "message": critical}));
    check("extensions: [{name: other, extension: {}}]", json!({"status": "critical", "message": critical}));
    check(
        "extensions: [{name: kubeflex, extension: {metadata: {name: kubeflex}}}]",
        json!({"status": "warning", "message": "Global kubeflex extension is present but empty"}),
    );
    check(
        MIXED,
        json!({
            "status": "ok", "message": "Global kubeflex extension is present and properly configured",
            "data": {"hosting-cluster-ctx-name": "kind-kubeflex"},
        }),
    );
    assert_eq!(mixed().diagnose().status, Status::Ok);
    assert!(mixed().findings().is_empty(), "{:?}", mixed().findings());
}

#[test]
fn tidying() {
    let check = |text: &str, gone: &[&str], expected: &[&str]| {
        let mut kubeconfig = parse(text);
        let gone: Vec<String> = gone.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(kubeconfig.tidy(&gone, now()), expected);
        assert!(kubeconfig.tidy(&gone, now()).is_empty(), "tidy is tidy");
        kubeconfig
    };
    check(MIXED, &[], &[]);
    let gone =
        check(MIXED, &["cp1"], &["removed context \"cp1\": its control plane does not exist any more"]);
    others_are_untouched(&gone, &["cp1", "cp1-cluster", "cp1-admin"]);

    let dangling = MIXED.replace("- {name: cp1-admin, user: {token: b}}\n", "");
    check(&dangling, &[], &["removed context \"cp1\": authInfo cp1-admin not found for context cp1"]);

    let wrong = MIXED.replace("hosting-cluster-ctx-name: kind-kubeflex", "hosting-cluster-ctx-name: lost");
    let settled = check(&wrong, &[], &["stored \"kind-kubeflex\" as hosting context"]);
    assert_eq!(settled.hosting(), Ok("kind-kubeflex".to_owned()));

    let two =
        MIXED.replace("controlplane-name: cp1", "controlplane-name: cp1, is-hosting-cluster-ctx: 'true'");
    check(&two, &[], &["context \"cp1\" does not say any more that it is the hosting context"]);

    let nowhere = MIXED.replace("current-context: cp1", "current-context: lost");
    check(&nowhere, &[], &["current context \"lost\" does not exist: it is \"kind-kubeflex\" now"]);

    let old = "preferences: {extensions: [{name: kflex-config-extension-name, extension: {data: {kflex-initial-ctx-name: h}}}]}
contexts: [{name: h, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: s}}]\nusers: [{name: u, user: {}}]";
    check(
        old,
        &[],
        &[
            "removed the extension of a release before 0.9 from preferences",
            "stored \"h\" as hosting context",
        ],
    );
    check(
        "extensions: [{name: kubeflex, extension: {data: {hosting-cluster-ctx-name: h}}}]",
        &[],
        &["hosting context \"h\" cannot be used: none is stored now"],
    );
}

#[test]
fn several_files() {
    let document = |name: &str, text: &str| Document::parse(Path::new(name), text.as_bytes()).unwrap();
    let first = document("/a", "contexts: [{name: x, context: {cluster: one}}]\ncurrent-context: ''");
    let second = document(
        "/b",
        "contexts: [{name: x, context: {cluster: two}}, {name: w, context: {cluster: w-cluster, user: u}}]
clusters: [{name: w-cluster, cluster: {server: s}}]\ncurrent-context: w",
    );
    let mut kubeconfig = Kubeconfig::of(vec![first, second]);
    assert_eq!(kubeconfig.current(), "w");
    assert_eq!(kubeconfig.get(List::Contexts, "x").unwrap()["cluster"], "one");
    assert_eq!(kubeconfig.names(List::Contexts), ["w", "x"]);

    // A change goes where the entry came from; what is new goes to the first file.
    kubeconfig.rename("w", "z", now()).unwrap();
    kubeconfig.admit("cp", &access(), now());
    kubeconfig.set_current("cp");
    let [first, second] = &kubeconfig.wholes().cloned().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(second["clusters"], json!([{"name": "z-cluster", "cluster": {"server": "s"}}]));
    assert_eq!(first["contexts"][1]["name"], "cp");
    assert_eq!((&first["current-context"], &second["current-context"]), (&json!("cp"), &json!("w")));

    kubeconfig.remove(List::Contexts, "x");
    assert_eq!(kubeconfig.names(List::Contexts), ["cp", "z"], "the hidden one does not appear");
}

#[test]
fn what_is_written_reads_the_same() {
    let text = &mixed().encoded()[0];
    assert_eq!(whole(&parse(text)), whole(&mixed()));
    let json = Document::parse(Path::new("/a"), br#"{"current-context": "a"}"#).unwrap();
    assert_eq!(json.encoded(), "{\n  \"current-context\": \"a\"\n}\n");
    let mut new = Document::read(Path::new("/nonexistent/file")).unwrap();
    assert!(!new.is_changed());
    new.set_current("a");
    assert_eq!(new.encoded(), "apiVersion: v1\ncurrent-context: a\nkind: Config\npreferences: {}\n");
}

#[test]
fn no_kubeconfigs() {
    let check = |text: &str, why: &str| {
        let error = Document::parse(Path::new("/f"), text.as_bytes()).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.starts_with("/f is not a kubeconfig") && said.contains(why), "{said}");
    };
    check("[]", "it is no mapping");
    check("contexts: {a: b}", "contexts is no list");
    check("a: [", "yaml");
    assert!(Document::parse(Path::new("/f"), b"").is_ok());
    // Strange entries are somebody's all the same.
    let strange = parse("contexts: [1, {}, {name: a}]\nusers: null\nclusters: [{name: b, cluster: 3}]");
    assert!(strange.access("a").is_err());
    assert_eq!(strange.names(List::Contexts), ["a"]);
}

#[test]
fn access_of_any_kubeconfig() {
    let of = |text: &str| Access::read(text.as_bytes()).map_err(|error| error.to_string());
    let text = "clusters: [{name: my-vcluster, cluster: {server: s}}]\nusers: [{name: my-vcluster, user: {token: t}}]
contexts: [{name: my-vcluster, context: {cluster: my-vcluster, user: my-vcluster}}]";
    let expected = Access { cluster: json!({"server": "s"}), user: json!({"token": "t"}), namespace: None };
    assert_eq!(of(text), Ok(expected.clone()));
    assert_eq!(of(&format!("{text}\ncurrent-context: my-vcluster")), Ok(expected.clone()));
    assert_eq!(
        of(&format!("{text}\ncurrent-context: x")),
        Err("context x not found in the kubeconfig".to_owned())
    );
    let own = expected.kubeconfig("cp");
    assert_eq!(of(&own.to_string()), Ok(expected));
    assert_eq!(
        own["contexts"][0],
        json!({"name": "cp", "context": {"cluster": "cp-cluster", "user": "cp-admin"}})
    );
}

#[test]
fn settling_writes_only_changes_and_keeps_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let there = |name: &str| dir.path().join(name).exists();
    let files = Files::at(&path);
    let enter = |kubeconfig: &mut Kubeconfig| {
        kubeconfig.prefer_json();
        Hosting { server: "https://h:1", authority: "CA" }.enter(kubeconfig, json!({"token": "t"}))
    };
    assert!(files.settle(enter).unwrap());
    let first = std::fs::read_to_string(&path).unwrap();
    assert!(first.starts_with('{') && !there("config.bak"), "{first}");
    assert_eq!(files.load().unwrap().current(), HOSTING);
    assert!(Hosting { server: "https://h:1", authority: "CA" }.is_reached_by(&files.load().unwrap()));
    assert!(!files.settle(enter).unwrap());
    let other = |kubeconfig: &mut Kubeconfig| {
        Hosting { server: "https://h:2", authority: "CA" }.enter(kubeconfig, json!({"token": "t"}))
    };
    assert!(files.settle(other).unwrap());
    assert_eq!(std::fs::read_to_string(dir.path().join("config.bak")).unwrap(), first);
    assert!(!Hosting { server: "https://h:1", authority: "CA" }.is_reached_by(&files.load().unwrap()));
    assert!(!there("config.lock"));
    // Settings of the cluster that somebody made stay.
    files
        .change(|kubeconfig| {
            kubeconfig.get_mut(List::Clusters, HOSTING).unwrap()["proxy-url"] = "http://p".into();
            kubeconfig.put(List::Contexts, "alias", json!({"cluster": HOSTING, "user": HOSTING}));
            kubeconfig.remove(List::Contexts, HOSTING);
            Ok(())
        })
        .unwrap();
    assert!(files.settle(other).unwrap(), "a context that was renamed is no obstacle");
    let now = files.load().unwrap();
    assert_eq!(now.get(List::Clusters, HOSTING).unwrap()["proxy-url"], "http://p");
}
