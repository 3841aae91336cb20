//! The same program under KubeFlex's name: its words and its table of commands.

use std::process::Stdio;

use end_to_end::Server;
use serde_json::{Value, json};

use super::{Desk, extension_data};

#[test]
fn under_the_name_of_kflex() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    let before = desk.config();
    assert_eq!(
        desk.kflex("config diagnose").ok(),
        "{\n  \"status\": \"critical\",\n  \"message\": \"Global kubeflex extension is not present in kubeconfig\"\n}\n"
    );
    assert_eq!(
        desk.kflex("create testcp --type k8s").ok(),
        "✔ Current context accesses the hosting cluster, using it\n\
         ✔ Creating new control plane testcp of type k8s ...\n\
         ✔ Waiting for API server to become ready...\n"
    );
    for (list, name) in [("contexts", "testcp"), ("clusters", "testcp-cluster"), ("users", "testcp-admin")] {
        assert_eq!(desk.named(list, "testcp"), [name]);
    }
    let diagnosis: Value = serde_json::from_str(&desk.kflex("config diagnose -o json").ok()).unwrap();
    assert_eq!(diagnosis["status"], "ok");
    assert_eq!(diagnosis["data"], json!({"hosting-cluster-ctx-name": "hangar"}));
    assert!(diagnosis.get("findings").is_none());

    assert_eq!(
        desk.kflex("ctx rename testcp renamed").ok(),
        "renaming cluster to renamed-cluster\nrenaming user to renamed-admin\n\
         renaming context from testcp to renamed\ncontext testcp is deleted\nswitching to hosting cluster context\n"
    );
    assert_eq!(desk.current(), "hangar");
    assert_eq!(desk.named("contexts", "testcp"), [""; 0]);
    assert_eq!(desk.named("contexts", "renamed"), ["renamed"]);
    assert!(desk.kubectl("--context renamed get namespaces").ok().contains("default"));
    assert_eq!(desk.kflex("ctx delete renamed --force").ok(), "✔ Deleting context\n");
    for list in ["contexts", "clusters", "users"] {
        assert!(desk.named(list, "renamed").is_empty(), "{list}");
    }

    // As it is there: deleting what has no context says so, though the control plane is gone.
    let said = desk.kflex("delete testcp");
    said.refused("no kubeconfig context for testcp was found");
    assert_eq!(desk.kflex("list").ok(), "No control planes found.\n");

    let said = desk.kflex("create old --type ocm").ok();
    assert!(said.contains("WARNING: OCM-type control plane is deprecated and will be removed"), "{said}");
    desk.kflex("delete old").ok();
    assert_eq!(
        desk.kflex("config set-hosting hangar").ok(),
        format!("setting hosting cluster context name to 'hangar' in {}\n", desk.kubeconfig.display())
    );
    let version = desk.kflex("version").ok();
    assert!(version.starts_with("Kubeflex version: v0.9.3."), "{version}");
    assert!(version.contains("\nKubernetes version: v1."), "{version}");
    desk.others_are_untouched(&before);
}

#[test]
fn a_cluster_is_adopted() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create elsewhere").ok();
    let said = desk.kflex("adopt ext --adopted-context elsewhere --expiration-seconds 7200").ok();
    assert!(said.ends_with("✔ Adopting control plane ext of type external ...\n"), "{said}");
    assert_eq!(desk.current(), "elsewhere", "the context stays");
    let listed: Value = serde_json::from_str(&desk.hangar("list -o json").ok()).unwrap();
    let spec = &listed["items"][1]["spec"];
    assert_eq!((&spec["type"], &spec["tokenExpirationSeconds"]), (&json!("external"), &json!(7200)));
    let bootstrap = json!({"name": "ext-bootstrap", "namespace": "kubeflex-system", "inClusterKey": "kubeconfig-incluster"});
    assert_eq!(spec["bootstrapSecretRef"], bootstrap);
    desk.hangar("delete ext").ok();
    assert_eq!(desk.named("contexts", "elsewhere"), ["elsewhere"]);
    // Ours can wait for the cluster to answer.
    let said = desk.hangar("adopt ext --adopted-context elsewhere --wait").ok();
    assert!(said.ends_with("✔ Waiting for the adopted cluster to answer...\n"), "{said}");
    assert!(
        desk.hangar("list")
            .ok()
            .lines()
            .any(|line| { line.split_whitespace().take(4).eq(["ext", "True", "True", "external"]) })
    );
    // A context that somebody made for it goes with it.
    assert_eq!(desk.hangar("ctx ext").code, 0);
    assert_eq!((desk.current(), desk.named("contexts", "ext")), ("ext".to_owned(), vec!["ext".to_owned()]));
    desk.hangar("delete ext").ok();
    for list in ["contexts", "clusters", "users"] {
        assert_eq!(desk.named(list, "ext"), [] as [&str; 0], "{list}");
    }
}

#[test]
fn every_other_row_of_the_table_of_commands() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    // ctx -c: the current context becomes the hosting one.
    assert!(desk.kflex("ctx --set-current-for-hosting").ok().contains("using it"));
    assert_eq!(extension_data(&desk.config(), "hangar"), json!({"is-hosting-cluster-ctx": "true"}));
    desk.kflex("create cp1 -t k3s -b dedicated -s=false").ok();
    desk.kflex("create cp2 --type host --chatty-status=false").out.contains("cp2").then_some(()).unwrap();
    assert_eq!(desk.current(), "hangar", "one of type host is the hosting one");
    // The table, to the blank.
    let listed = desk.kflex("list").ok();
    let rows: Vec<&str> = listed.lines().collect();
    assert_eq!(rows[0], "Control Planes:");
    assert_eq!(rows[1], "NAME                 SYNCED     READY      TYPE       AGE       ");
    assert!(rows[2].starts_with("cp1                  True       True       k3s        "), "{}", rows[2]);
    assert!(rows[3].starts_with("cp2                  True       True       host       "), "{}", rows[3]);
    assert!(rows[2].trim_end().ends_with('s'), "an age is a duration of Go");
    let contexts = desk.kflex("ctx list").ok();
    assert!(
        contexts.starts_with("CONTEXT                        MANAGED BY KFLEX   CONTROLPLANE   \n"),
        "{contexts}"
    );
    // Renamed and gone to; and the question before what is not ours is deleted.
    let said = desk.kflex("ctx rename cp1 mine -S").ok();
    assert!(said.ends_with("switching context to mine\n"), "{said}");
    assert_eq!(desk.current(), "mine");
    for (answer, there) in [("n\n", true), ("\n", true), ("yes\n", false)] {
        let mut command = desk.command("kflex", &["ctx", "delete", "minikube"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("Are you sure you want to delete this context? (y/N): "), "{said}");
        assert_eq!(said.contains("Deletion cancelled."), there, "{said}");
        assert_eq!(desk.named("contexts", "minikube").is_empty(), !there);
    }
    // To a control plane that no context is of, and to what is not there at all.
    assert_eq!(desk.kflex("ctx cp2").code, 0);
    assert_eq!(desk.kflex("ctx nothing").code, 1);
    assert_eq!(desk.kflex("ctx").code, 0);
    let diagnosis: Value = serde_json::from_str(&desk.kflex("config diagnose").ok()).unwrap();
    assert_eq!(diagnosis["message"], "Global kubeflex extension is present and properly configured");
    // A wrong word shows how it would have been right, and fails.
    for line in
        ["create", "create a b", "list extra", "delete", "ctx rename a", "config nonsense", "nonsense"]
    {
        let said = desk.kflex(line);
        assert!(
            said.code == 1 && said.err.starts_with("Error: ") && said.err.contains("Usage:"),
            "{line}: {said:?}"
        );
    }
    desk.kflex("delete cp2").ok();
    desk.kflex("delete cp1").refused_or_done();
}

#[test]
fn help_is_no_failure() {
    let desk = Desk::empty();
    for (program, line) in [
        ("kflex", ""),
        ("kflex", "config"),
        ("kflex", "init name --help"),
        ("kflex", "help"),
        ("kflex", "create -h"),
        ("hangar", ""),
        ("hangar", "config"),
        ("hangar", "--help"),
        ("hangar", "help create"),
    ] {
        let said = desk.say(program, line).ok();
        assert!(said.contains("Usage:"), "{program} {line}: {said}");
    }
    assert!(desk.kflex("completion bash").ok().contains("_kflex"));
    assert!(desk.hangar("completion zsh").ok().contains("#compdef hangar"));
    assert!(desk.hangar("version").ok().starts_with("hangar "));
}
