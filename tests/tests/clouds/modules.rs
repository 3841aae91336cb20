//! A Terraform module as a person uses it, with kubectl, on a provider built with a published framework.

use std::process::{Command, Stdio};

use end_to_end::{ControlPlane, Server, binary, tools_dir};
use serde_json::{Value, json};

use super::aws::Operator;
use super::terraform::{hold, shown, with_notes};
use super::{condition, eventually, exists, good, kubectl, object};

const RESOURCES: &str = "resources.terraform.hangar.dev";

const BOOK: &str = r#"
variable "chapters" {
  type = list(string)
}

locals {
  titles = [for chapter in var.chapters : lower(chapter)]
}

resource "memo_note" "chapter" {
  for_each = toset(local.titles)
  title    = each.key
  text     = "chapter ${each.key}"
}

resource "memo_note" "contents" {
  title = "contents"
  text  = join("\n", [for title in local.titles : "${title} (${memo_note.chapter[title].length})"])
}

resource "memo_note" "blank" {
  count = 2
  title = "blank-${count.index}"
}

output "chapter_ids" {
  value = { for title, note in memo_note.chapter : title => note.id }
}
"#;

/// What would be made, changed and destroyed, resource by resource, and none of it done.
#[test]
fn a_plan_of_a_module() {
    let (_server, plane, notes) = with_notes();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "book"}, "data": {"main.tf": BOOK},
    });
    good(&plane, &["create", "-f", "-"], &map.to_string());
    let module = |chapters: &[&str]| {
        json!({
            "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "book"},
            "spec": {
                "moduleRef": {"configMap": {"name": "book"}}, "providerRef": {"name": "memo-provider-secret"},
                "resource": {"input": {"chapters": chapters}},
            },
        })
        .to_string()
    };
    let tried = |chapters: &[&str], expected: &[&str]| {
        let output = kubectl(&plane, &["apply", "--dry-run=server", "-f", "-"], &module(chapters));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        for line in expected {
            assert!(
                said.contains(&format!("Warning: plan of Module default/book: {line}")),
                "{line}: {said}"
            );
        }
    };
    tried(
        &["One", "Two"],
        &[
            "memo_note.chapter[\"one\"]: create in memo_note (memo)\n",
            "memo_note.chapter[\"one\"]: spec.resource.title: \"one\"\n",
            "memo_note.chapter[\"two\"]: spec.resource.id: (known after apply)\n",
            "memo_note.blank[1]: create in memo_note (memo)\n",
            "memo_note.contents waits: ",
        ],
    );
    assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 0);
    assert!(!exists(&plane, "modules.tf.kubeform.com", "book"));
    good(&plane, &["apply", "-f", "-"], &module(&["One", "Two"]));
    let current = || object(&plane, "modules.tf.kubeform.com", "book")["status"]["phase"] == "Current";
    eventually("the module", || current().then_some(()));
    // kubectl sends nothing where it changes nothing.
    let same = ["annotate", "modules.tf.kubeform.com", "book", "example.com/a=b", "--dry-run=server"];
    let same = String::from_utf8(kubectl(&plane, &same, "").stderr).unwrap();
    assert!(same.contains("plan of Module default/book: nothing\n"), "{same}");
    let contents = r#"memo_note.contents: spec.resource.text: "one (11)\ntwo (11)" -> "one (11)""#;
    tried(&["One"], &["memo_note.chapter[\"two\"]: delete in memo_note (memo)\n", contents]);
    let gone = kubectl(&plane, &["delete", "modules.tf.kubeform.com", "book", "--dry-run=server"], "");
    let gone = String::from_utf8(gone.stderr).unwrap();
    assert!(gone.contains("memo_note.contents: delete in memo_note (memo)"), "{gone}");
    assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 5);
}

#[test]
fn a_module_from_beginning_to_end() {
    let (_server, plane, notes) = with_notes();
    let kind = "modules.tf.kubeform.com";
    let write = |verb: &str, text: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "book"}, "data": {"main.tf": text},
        });
        good(&plane, &[verb, "-f", "-"], &map.to_string());
    };
    let titles = || {
        let mut titles: Vec<String> = std::fs::read_dir(&notes)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().replace("note-", ""))
            .collect();
        titles.sort();
        titles
    };
    let text = |title: &str| std::fs::read_to_string(notes.join(format!("note-{title}"))).unwrap_or_default();

    // Something that is not supported is refused before anything is made.
    write("create", &format!("{BOOK}\nremoved {{}}\n"));
    let module = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "book"},
        "spec": {
            "moduleRef": {"configMap": {"name": "book"}}, "providerRef": {"name": "memo-provider-secret"},
            "resource": {"input": {"chapters": ["One", "Two"]}},
        },
    });
    good(&plane, &["create", "-f", "-"], &module.to_string());
    let stalled = eventually("a refusal", || {
        let now = object(&plane, kind, "book");
        Some(condition(&now, "Stalled")?["message"].as_str()?.to_owned())
    });
    let last = BOOK.lines().count() + 2;
    let refusal = "removed blocks are not supported";
    assert_eq!(stalled, format!("main.tf:{last}: {refusal}"));
    assert!(titles().is_empty());

    let current = || Some(object(&plane, kind, "book")).filter(|now| now["status"]["phase"] == "Current");
    write("replace", BOOK);
    let made = eventually("the phase Current", current);
    assert_eq!(titles(), ["blank-0", "blank-1", "contents", "one", "two"]);
    assert_eq!(text("contents"), "one (11)\ntwo (11)");
    let one = &made["spec"]["resource"]["output"]["chapterIDS"]["one"];
    assert!(one.as_str().is_some_and(|id| id.contains("one")), "{made}");

    // A variable is edited, a resource taken out.
    let edit = r#"{"spec": {"resource": {"input": {"chapters": ["Two", "Three"]}}}}"#;
    good(&plane, &["patch", kind, "book", "--type=merge", "-p", edit], "");
    eventually("the edit", || {
        (text("contents") == "two (11)\nthree (13)" && !titles().contains(&"one".into())).then_some(())
    });
    write("replace", &BOOK.replace("count = 2", "count = 0"));
    eventually("fewer notes", || (titles() == ["contents", "three", "two"]).then_some(()));
    eventually("the phase Current again", current);

    good(&plane, &["delete", kind, "book"], "");
    assert!(titles().is_empty(), "gone before its resources were");
    assert_eq!(good(&plane, &["get", RESOURCES, "-o", "name"], ""), "");
}

#[test]
fn a_module_goes_with_its_namespace_from_the_top() {
    let (_server, plane, notes) = with_notes();
    good(&plane, &["create", "namespace", "library"], "");
    let value = format!("--from-literal=provider={}", json!({"directory": notes}));
    good(&plane, &["create", "secret", "generic", "memo-provider-secret", &value, "-n", "library"], "");
    let module = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "book"},
        "spec": {
            "moduleRef": {"configMap": {"name": "book"}}, "providerRef": {"name": "memo-provider-secret"},
            "resource": {"input": {"chapters": ["One", "Two"]}},
        },
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "book"}, "data": {"main.tf": BOOK},
    });
    for object in [map, module] {
        good(&plane, &["create", "-n", "library", "-f", "-"], &object.to_string());
    }
    let phase = ["get", "-n", "library", "modules.tf.kubeform.com", "book", "-o", "jsonpath={.status.phase}"];
    eventually("the phase Current", || (good(&plane, &phase, "") == "Current").then_some(()));

    // The contents stand on the chapters, and cannot go for the moment.
    let resources = ["get", "-n", "library", RESOURCES, "-o", "json"];
    let all: Value = serde_json::from_str(&good(&plane, &resources, "")).unwrap();
    let mut items = all["items"].as_array().unwrap().iter();
    let contents = items.find(|one| one["spec"]["resource"]["title"] == "contents").unwrap();
    let held = hold(&plane, "library", RESOURCES, contents["metadata"]["name"].as_str().unwrap());
    good(&plane, &["delete", "namespace", "library", "--wait=false"], "");
    eventually("what stands on nothing", || (!notes.join("note-blank-0").exists()).then_some(()));
    let waiting = || good(&plane, &resources, "").matches("still refers to it").count() >= 2;
    eventually("what waits for the contents", || waiting().then_some(()));
    assert!(notes.join("note-one").exists() && notes.join("note-two").exists());
    held();
    eventually("the end of the namespace", || (!exists(&plane, "namespaces", "library")).then_some(()));
    assert!(!notes.join("note-one").exists() && !notes.join("note-two").exists());
}

/// The cluster is a control plane of a server that knows nothing of Terraform.
#[test]
fn on_a_cluster_that_is_there_already() {
    let server = Server::start();
    let cluster = ControlPlane::create(&server, "cluster");
    let (plugins, modules, notes) =
        (server.dir().join("plugins"), server.dir().join("modules"), server.dir().join("notes"));
    let nested = modules.join("library@v1/note");
    for directory in [&plugins, &nested, &notes] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let program = tools_dir().join("providers/debug/terraform-provider-memo");
    std::fs::copy(program, plugins.join("terraform-provider-memo")).unwrap();
    let root = "module \"note\" {\n  source = \"./note\"\n  title  = \"nested\"\n}\n";
    let note = "variable \"title\" {}\nresource \"memo_note\" \"this\" {\n  title = var.title\n}\n";
    std::fs::write(modules.join("library@v1/main.tf"), root).unwrap();
    std::fs::write(nested.join("main.tf"), note).unwrap();
    let operator = Command::new(binary())
        .arg("operator")
        .arg("--kubeconfig")
        .arg(&cluster.kubeconfig)
        .arg("--clouds-only")
        .arg("--terraform-plugin-dir")
        .arg(&plugins)
        .arg("--terraform-module-dir")
        .arg(&modules)
        .args(shown(&notes))
        .stderr(Stdio::null())
        .spawn();
    let _operator = Operator(operator.unwrap());
    let defined = "modules.tf.kubeform.com";
    eventually("its kinds", || exists(&cluster, "crd", defined).then_some(()));
    good(&cluster, &["wait", "--for=condition=Established", &format!("crd/{defined}")], "");
    let provider = format!("--from-literal=provider={}", json!({"directory": notes}));
    good(&cluster, &["create", "secret", "generic", "memo", &provider], "");
    let module = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "library"},
        "spec": {"moduleRef": {"git": {"ref": "library", "checkOut": "v1"}}, "providerRef": {"name": "memo"}},
    })
    .to_string();
    eventually("the module", || {
        kubectl(&cluster, &["apply", "-f", "-"], &module).status.success().then_some(())
    });
    eventually("the phase Current", || {
        (object(&cluster, defined, "library")["status"]["phase"] == "Current").then_some(())
    });
    assert!(notes.join("note-nested").exists());
    good(&cluster, &["delete", defined, "library"], "");
    assert!(!notes.join("note-nested").exists());
}
