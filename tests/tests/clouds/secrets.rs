//! What is secret of Terraform resources is in the Secrets that are meant for it, and nowhere else: everything that a user or
//! an operator can see is searched for values that were planted.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{ControlPlane, Server, binary};
use serde_json::{Value, json};

use super::terraform::with_provider_and;
use super::{eventually, good, kubectl, object};

const THINGS: &str = "things.thing.shelf.kubeform.com";
const MODULES: &str = "modules.tf.kubeform.com";

/// In the provider's configuration.
const PASSWORD: &str = "planted-provider-password-7f3a51";
/// Given for a sensitive attribute, and what it is changed to.
const GIVEN: &str = "planted-sensitive-value-91bc02";
const CHANGED: &str = "planted-changed-value-55d0e4";
/// Given for an attribute that is only written.
const WRITTEN: &str = "planted-written-value-08ce77";
/// A sensitive variable of a module, and an output that is made of it.
const VARIABLE: &str = "planted-module-variable-c2d4aa";
const DERIVED: &str = "PLANTED-MODULE-VARIABLE-C2D4AA";
/// What the provider makes up begins so.
const GENERATED: &str = "token of thing-";

/// And so does what it lends for a while, which is in no Secret either.
const LENT: &str = "key of lent-";

const PLANTED: [&str; 8] = [PASSWORD, GIVEN, CHANGED, WRITTEN, VARIABLE, DERIVED, GENERATED, LENT];

const MODULE: &str = r#"
variable "word" {
  sensitive = true
}
locals {
  derived = upper(var.word)
}
ephemeral "shelf_key" "lent" {
  label = "lent"
}
resource "shelf_thing" "it" {
  name      = "of the module"
  secret    = var.word
  secret_wo = ephemeral.shelf_key.lent.key
}
output "derived" {
  value     = "${local.derived} ${shelf_thing.it.token}"
  sensitive = true
}
"#;

/// A planted value that is in some bytes, as it is or in base 64 at whatever place.
fn leak(bytes: &[u8]) -> Option<&'static str> {
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let encoded = |planted: &str| {
        (0..3).any(|shift| {
            let text = STANDARD.encode(format!("{}{planted}", "-".repeat(shift)));
            // Letters at either end are made of what stands beside it, too.
            let inner = &text[if shift == 0 { 0 } else { 4 }..text.len() - 4];
            has(inner.as_bytes())
        })
    };
    PLANTED.into_iter().find(|planted| has(planted.as_bytes()) || encoded(planted))
}

#[track_caller]
fn check(what: &str, bytes: &[u8]) {
    if let Some(planted) = leak(bytes) {
        panic!("{planted:?} is in {what}");
    }
}

fn run(kubeconfig: &Path, program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).arg("--kubeconfig").arg(kubeconfig).args(arguments).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&told));
    String::from_utf8(told).unwrap()
}

/// Everything but Secrets, as whoever may see all of it does.
fn objects(kubeconfig: &Path) -> String {
    let kubectl = Path::new("kubectl");
    let kinds = run(kubeconfig, kubectl, &["api-resources", "--verbs=list", "-o", "name"]);
    let kinds: Vec<&str> = kinds.lines().filter(|kind| *kind != "secrets" && !kind.contains(' ')).collect();
    assert!(kinds.contains(&"events"), "{kinds:?}");
    run(kubeconfig, kubectl, &["get", &kinds.join(","), "-A", "-o", "json", "--show-managed-fields"])
}

fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path => found.push(path),
        }
    }
}

/// What is searched after each step.
fn search(server: &Server, plane: &ControlPlane) {
    check("an object of the control plane", objects(&plane.kubeconfig).as_bytes());
    check("an object of the hosting control plane", objects(&server.kubeconfig()).as_bytes());
    check("the log", server.log().as_bytes());
    let metrics = server.client().get("/metrics");
    assert_eq!(metrics.code, 200);
    check("the metrics", &metrics.body);
    let audit = std::fs::read(server.dir().join("audit.log")).unwrap();
    assert!(!audit.is_empty());
    check("the audit log", &audit);
    let mut all = Vec::new();
    files(&server.dir().join("data"), &mut all);
    assert!(!all.is_empty());
    for file in all {
        check(&file.display().to_string(), &std::fs::read(&file).unwrap_or_default());
    }
    // The Secrets that the whole state is kept in are not for anybody to read.
    let secrets: Value = serde_json::from_str(&good(plane, &["get", "secrets", "-o", "json"], "")).unwrap();
    for secret in secrets["items"].as_array().unwrap() {
        let name = secret["metadata"]["name"].as_str().unwrap();
        for value in secret["data"].as_object().unwrap().values() {
            let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
            if name.ends_with("-tfstate") {
                check(&format!("Secret {name}"), &bytes);
            }
            assert!(!String::from_utf8_lossy(&bytes).contains(LENT), "{LENT} is in Secret {name}");
        }
    }
}

fn current(plane: &ControlPlane, kind: &str, name: &str) -> Value {
    eventually("the phase Current", || {
        let settled = |now: &Value| {
            now["status"]["phase"] == "Current"
                && now["status"]["observedGeneration"] == now["metadata"]["generation"]
        };
        Some(object(plane, kind, name)).filter(settled)
    })
}

#[test]
fn nothing_secret_is_seen() {
    // The search finds what is there, in whatever form.
    let at = |shift: usize| STANDARD.encode(format!("{}{GIVEN}\"}}", "x".repeat(shift)));
    assert!((0..6).all(|shift| leak(at(shift).as_bytes()) == Some(GIVEN)) && leak(b"nothing").is_none());

    let shelf = binary().with_file_name("examples").join("shelf");
    assert!(shelf.exists(), "{} is not built: cargo build -p terraform --example shelf", shelf.display());
    let (server, plane, things) = with_provider_and(&shelf, "shelf", "thing", |dir| {
        let audit = dir.join("audit.log").display().to_string();
        vec!["--audit-log".to_owned(), audit, "--log-level".to_owned(), "debug".to_owned()]
    });
    let provider = json!({"directory": things, "password": PASSWORD}).to_string();
    let secret = |verb: &str, name: &str, key: &str, value: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: value},
        });
        good(&plane, &[verb, "-f", "-"], &secret.to_string());
    };
    secret("replace", "shelf-provider-secret", "provider", &provider);
    secret("create", "given", "resource", &json!({"secret": GIVEN, "secret_wo": WRITTEN}).to_string());
    let thing = |size: usize| {
        json!({
            "apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing", "metadata": {"name": "one"},
            "spec": {
                "resource": {"name": "one", "size": size}, "providerRef": {"name": "shelf-provider-secret"},
                "secretRef": {"name": "given"},
            },
        })
        .to_string()
    };
    // Plans, before and after it is there.
    let plans = |size: usize| {
        let tried = kubectl(&plane, &["apply", "--dry-run=server", "-f", "-"], &thing(size));
        assert!(tried.status.success() && String::from_utf8_lossy(&tried.stderr).contains("plan of Thing"));
        check("a dry run", &[tried.stdout, tried.stderr].concat());
        let file = server.dir().join("thing.json");
        std::fs::write(&file, thing(size)).unwrap();
        let plan = run(&plane.kubeconfig, &binary(), &["plan", "-f", file.to_str().unwrap()]);
        check("a plan", plan.as_bytes());
    };
    plans(1);
    good(&plane, &["apply", "-f", "-"], &thing(1));
    current(&plane, THINGS, "one");
    plans(2);
    good(&plane, &["apply", "-f", "-"], &thing(2));
    current(&plane, THINGS, "one");
    search(&server, &plane);

    // A change of nothing but what is secret, and one that fails.
    secret("replace", "given", "resource", &json!({"secret": CHANGED, "secret_wo": WRITTEN}).to_string());
    let there = || {
        let all = std::fs::read_dir(&things).unwrap().flatten();
        all.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect::<String>()
    };
    eventually("the change", || there().contains(CHANGED).then_some(()));
    std::fs::write(things.join("fault"), "ReadResource: die").unwrap();
    good(&plane, &["annotate", THINGS, "one", "hangar.dev/reconcile=now"], "");
    eventually("a failure", || (object(&plane, THINGS, "one")["status"]["phase"] == "Failed").then_some(()));
    std::fs::remove_file(things.join("fault")).unwrap();
    current(&plane, THINGS, "one");
    search(&server, &plane);

    // A module.
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "module"}, "data": {"main.tf": MODULE},
    });
    good(&plane, &["create", "-f", "-"], &map.to_string());
    secret("create", "words", "input", &json!({"word": VARIABLE}).to_string());
    let module = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "module"},
        "spec": {
            "moduleRef": {"configMap": {"name": "module"}}, "providerRef": {"name": "shelf-provider-secret"},
            "secretRef": {"name": "words"},
        },
    });
    let tried = kubectl(&plane, &["apply", "--dry-run=server", "-f", "-"], &module.to_string());
    let planned = "shelf_thing.it: create in shelf_thing (shelf)";
    assert!(tried.status.success() && String::from_utf8_lossy(&tried.stderr).contains(planned), "{tried:?}");
    check("a dry run", &[tried.stdout, tried.stderr].concat());
    good(&plane, &["create", "-f", "-"], &module.to_string());
    current(&plane, MODULES, "module");
    eventually("what was lent", || there().contains(LENT).then_some(()));
    let words = object(&plane, "secret", "words");
    let output = STANDARD.decode(words["data"]["output"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8(output).unwrap().contains(DERIVED), "it is where it should be");
    search(&server, &plane);
    good(&plane, &["delete", MODULES, "module"], "");
    good(&plane, &["delete", THINGS, "one"], "");
    search(&server, &plane);
}
