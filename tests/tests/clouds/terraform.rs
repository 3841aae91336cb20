//! What Kubeform's users do and see beside its ten steps, with kubectl, on a provider built with a published framework.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use end_to_end::{ControlPlane, Server, binary, tools_dir};
use serde_json::{Value, json};

use super::{eventually, exists, good, kubectl, object, refused};

pub const NOTES: &str = "notes.note.memo.kubeform.com";

/// A server with the provider of notes, a control plane that serves its kind and has its Secret, and where the notes are.
pub fn with_notes() -> (Server, ControlPlane, PathBuf) {
    let program = tools_dir().join("providers/debug/terraform-provider-memo");
    assert!(program.exists(), "the provider is not built: cargo xtask test --tools-only does that");
    with_provider(&program, "memo", "note")
}

/// Makes a directory that a provider in a sandbox writes, whoever it is there, and says so to the server; and shows it what
/// scripts around programs of ours need.
pub fn shown(directory: &Path) -> Vec<String> {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    let examples = binary().with_file_name("examples");
    let writable = format!("{}:rw", directory.display());
    let paths = [writable, "/bin/sh".to_owned(), "/bin/sleep".to_owned(), examples.display().to_string()];
    paths.into_iter().map(|path| format!("--terraform-provider-path={path}")).collect()
}

/// The same with any provider that keeps its resources in a directory, and the first word of one of its types.
pub fn with_provider(program: &Path, name: &str, word: &str) -> (Server, ControlPlane, PathBuf) {
    with_provider_and(program, name, word, |_| Vec::new())
}

/// The same with further flags of the server.
pub fn with_provider_and(
    program: &Path,
    name: &str,
    word: &str,
    flags: impl FnOnce(&Path) -> Vec<String>,
) -> (Server, ControlPlane, PathBuf) {
    let server = Server::start_with(|dir| {
        let plugins = dir.join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::copy(program, plugins.join(format!("terraform-provider-{name}"))).unwrap();
        let plugins = ["--terraform-plugin-dir".to_owned(), plugins.display().to_string()];
        plugins.into_iter().chain(shown(&dir.join("notes"))).chain(flags(dir)).collect()
    });
    let plane = ControlPlane::create(&server, "team");
    let notes = server.dir().join("notes");
    let client = server.client_as(plane.credentials());
    let kinds = plane.path(&format!("/apis/{word}.{name}.kubeform.com/v1alpha1"));
    eventually("its kind", || (client.get(&kinds).code == 200).then_some(()));
    let provider = json!({"directory": notes}).to_string();
    let (secret, value) = (format!("{name}-provider-secret"), format!("--from-literal=provider={provider}"));
    good(&plane, &["create", "secret", "generic", &secret, &value], "");
    (server, plane, notes)
}

pub fn note(name: &str, title: &str, text: &str) -> Value {
    json!({
        "apiVersion": "note.memo.kubeform.com/v1alpha1", "kind": "Note", "metadata": {"name": name},
        "spec": {"resource": {"title": title, "text": text}, "providerRef": {"name": "memo-provider-secret"}},
    })
}

/// The note, once it is as desired.
pub fn current(plane: &ControlPlane, name: &str) -> Value {
    eventually("the phase Current", || {
        Some(object(plane, NOTES, name)).filter(|now| now["status"]["phase"] == "Current")
    })
}

#[test]
fn what_kubeform_refuses() {
    let (_server, plane, notes) = with_notes();
    let mut kept = note("kept", "hello", "world");
    kept["spec"]["terminationPolicy"] = json!("DoNotTerminate");
    kept["spec"]["updatePolicy"] = json!("DoNotDestroy");
    good(&plane, &["create", "-f", "-"], &kept.to_string());
    current(&plane, "kept");
    let says = refused(&plane, &["delete", NOTES, "kept"], "");
    assert!(
        says.contains(
            "note \"default/kept\" can't be terminated. To delete, change spec.terminationPolicy to Delete"
        ),
        "{says}"
    );
    let title = r#"{"spec": {"resource": {"title": "other"}}}"#;
    let says = refused(&plane, &["patch", NOTES, "kept", "--type=merge", "-p", title], "");
    assert!(
        says.contains("immutable field can't be updated. To update, change spec.updatePolicy to Destroy"),
        "{says}"
    );
    let text = r#"{"spec": {"resource": {"text": "there"}}}"#;
    good(&plane, &["patch", NOTES, "kept", "--type=merge", "-p", text], "");
    let written = || std::fs::read_to_string(notes.join("note-hello")).unwrap_or_default();
    eventually("the edit", || (written() == "there").then_some(()));
    good(
        &plane,
        &["patch", NOTES, "kept", "--type=merge", "-p", r#"{"spec": {"terminationPolicy": "Delete"}}"#],
        "",
    );
    good(&plane, &["delete", NOTES, "kept"], "");
    assert!(!notes.join("note-hello").exists());
}

/// What looks after such control planes begins with the first of them.
#[test]
fn a_control_plane_with_a_database_of_its_own_has_resources_too() {
    let (server, _, notes) = with_notes();
    let own = ControlPlane::create_as(&server, "own", &json!({"type": "k8s", "backend": "dedicated"}));
    let provider = format!("--from-literal=provider={}", json!({"directory": notes}));
    good(&own, &["create", "secret", "generic", "memo-provider-secret", &provider], "");
    good(&own, &["create", "-f", "-"], &note("one", "hello", "world").to_string());
    current(&own, "one");
    assert_eq!(std::fs::read_to_string(notes.join("note-hello")).unwrap(), "world");
}

#[test]
fn providers_end_with_a_server_that_is_killed() {
    let (mut server, plane, _) = with_notes();
    good(&plane, &["create", "-f", "-"], &note("one", "hello", "world").to_string());
    current(&plane, "one");
    // By the file, since the provider has another name for it in its sandbox.
    let file = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let program = file(&server.dir().join("plugins/terraform-provider-memo"));
    let running = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter(|one| file(&one.path().join("exe")) == program).count()
    };
    assert!(running() > 0);
    server.kill();
    eventually("the end of the provider", || (running() == 0).then_some(()));
    server.restart();
    let text = r#"{"spec": {"resource": {"text": "again"}}}"#;
    good(&plane, &["patch", NOTES, "one", "--type=merge", "-p", text], "");
    let again = |now: &Value| now["spec"]["state"]["text"] == "again";
    eventually("the edit", || Some(object(&plane, NOTES, "one")).filter(again));
}

#[test]
fn kinds_are_there_before_their_provider_has_spoken() {
    let (mut server, plane, notes) = with_notes();
    good(&plane, &["create", "-f", "-"], &note("one", "hello", "world").to_string());
    current(&plane, "one");
    let program = server.dir().join("plugins/terraform-provider-memo");
    let aside = server.dir().join("memo");
    server.kill();
    std::fs::rename(&program, &aside).unwrap();
    std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    server.restart();
    // It never speaks: what is stored can be read and edited all the same.
    let text = r#"{"spec": {"resource": {"text": "there"}}}"#;
    good(&plane, &["patch", NOTES, "one", "--type=merge", "-p", text], "");
    let kept = r#"{"spec": {"terminationPolicy": "DoNotTerminate"}}"#;
    good(&plane, &["patch", NOTES, "one", "--type=merge", "-p", kept], "");
    refused(&plane, &["delete", NOTES, "one"], "");
    server.kill();
    std::fs::rename(&aside, &program).unwrap();
    server.restart();
    let written = || std::fs::read_to_string(notes.join("note-hello")).unwrap_or_default();
    eventually("the edit", || (written() == "there").then_some(()));
    // A provider that is no more leaves no kinds behind.
    server.kill();
    std::fs::remove_file(&program).unwrap();
    server.restart();
    eventually("the end of the kind", || (!exists(&plane, NOTES, "one")).then_some(()));
}

/// Keeps an object there, however it is deleted, until the answer is called.
pub fn hold<'a>(
    plane: &'a ControlPlane,
    namespace: &'a str,
    kind: &'a str,
    name: &'a str,
) -> impl FnOnce() + 'a {
    let patch = move |how: &str, what: &str| {
        good(plane, &["patch", "-n", namespace, kind, name, &format!("--type={how}"), "-p", what], "");
    };
    patch("json", r#"[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/wait"}]"#);
    move || {
        let left = ["get", "-n", namespace, kind, name, "-o", "jsonpath={.metadata.finalizers[*]}"];
        eventually("the last finalizer", || (good(plane, &left, "") == "example.com/wait").then_some(()));
        patch("merge", r#"{"metadata": {"finalizers": null}}"#);
    }
}

#[test]
fn a_namespace_goes_with_its_resources() {
    let (_server, plane, notes) = with_notes();
    good(&plane, &["create", "namespace", "book"], "");
    let value = format!("--from-literal=provider={}", json!({"directory": notes}));
    good(&plane, &["create", "secret", "generic", "memo-provider-secret", &value, "-n", "book"], "");
    let mut second = note("second", "two", "");
    second["spec"]["references"] = json!([{
        "field": "text",
        "from": {"apiVersion": "note.memo.kubeform.com/v1alpha1", "kind": "Note", "name": "first"},
    }]);
    for note in [note("first", "one", "1"), second] {
        good(&plane, &["create", "-n", "book", "-f", "-"], &note.to_string());
    }
    let wait = ["wait", "-n", "book", NOTES, "--all", "--for=condition=Ready", "--timeout=60s"];
    eventually("both notes", || kubectl(&plane, &wait, "").status.success().then_some(()));
    // What takes a value from the first cannot go for the moment.
    let held = hold(&plane, "book", NOTES, "second");
    good(&plane, &["delete", "namespace", "book", "--wait=false"], "");
    let first = || -> Value {
        serde_json::from_str(&good(&plane, &["get", "-n", "book", NOTES, "first", "-o", "json"], "")).unwrap()
    };
    eventually("who it waits for", || {
        first().to_string().contains("book/second still refers to it").then_some(())
    });
    assert!(notes.join("note-one").exists());
    held();
    eventually("the end of the namespace", || (!exists(&plane, "namespaces", "book")).then_some(()));
    assert!(!notes.join("note-one").exists());
}

#[test]
fn a_dry_run_shows_the_plan() {
    let (_server, plane, notes) = with_notes();
    let first = note("first", "hello", "world").to_string();
    let tried = |arguments: &[&str], input: &str| {
        let output = kubectl(&plane, arguments, input);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = tried(&["apply", "--dry-run=server", "-f", "-"], &first);
    assert!(said.contains("plan of Note default/first: create in memo_note (memo)"), "{said}");
    for field in [r#"title: "hello""#, r#"text: "world""#, "length: 5", "id: (known after apply)"] {
        assert!(said.contains(&format!("plan of Note default/first: spec.resource.{field}\n")), "{said}");
    }
    assert!(!notes.join("note-hello").exists() && !exists(&plane, NOTES, "first"));
    good(&plane, &["create", "-f", "-"], &first);
    current(&plane, "first");
    let said = tried(&["apply", "--dry-run=server", "-f", "-"], &first.replace("world", "there"));
    assert!(said.contains("spec.resource.text: \"world\" -> \"there\""), "{said}");
    let said = tried(&["apply", "--dry-run=server", "-f", "-"], &first.replace("hello", "other"));
    assert!(said.contains("replace in memo_note (memo)"), "{said}");
    let said = tried(&["delete", "--dry-run=server", NOTES, "first"], "");
    assert!(said.contains("delete in memo_note (memo)"), "{said}");
    assert_eq!(std::fs::read_to_string(notes.join("note-hello")).unwrap(), "world");
}

/// What a provider warns of is told before and after, and what is secret neither time.
#[test]
fn warnings_of_a_provider() {
    let (_server, plane, _) = with_notes();
    let pin = format!("--from-literal=resource={}", json!({"pin": "4711"}));
    good(&plane, &["create", "secret", "generic", "pins", &pin], "");
    let safe = json!({
        "apiVersion": "safe.memo.kubeform.com/v1alpha1", "kind": "Safe", "metadata": {"name": "weak"},
        "spec": {
            "resource": {"label": "weak"}, "providerRef": {"name": "memo-provider-secret"}, "secretRef": {"name": "pins"},
        },
    })
    .to_string();
    let warning = "spec.resource.pin: a short pin: (sensitive) is soon guessed";
    let tried = kubectl(&plane, &["apply", "--dry-run=server", "-f", "-"], &safe);
    let said = String::from_utf8(tried.stderr).unwrap();
    let warned = format!("warning: {warning}");
    let hidden = ["spec.resource.pin: (sensitive value)", "spec.resource.key: (sensitive value)"];
    for line in hidden.into_iter().chain([warned.as_str()]) {
        assert!(said.contains(&format!("plan of Safe default/weak: {line}\n")), "{said}");
    }
    good(&plane, &["create", "-f", "-"], &safe);
    let events = ["get", "events", "-o", "json", "--field-selector=involvedObject.kind=Safe,type=Warning"];
    let told = eventually("the event", || {
        let events: Value = serde_json::from_str(&good(&plane, &events, "")).unwrap();
        events["items"].as_array().unwrap().first().cloned()
    });
    assert_eq!((&told["reason"], &told["message"]), (&json!("ProviderWarning"), &json!(warning)));
}

/// What the provider says of its fields is what kubectl explains.
#[test]
fn kinds_are_explained() {
    let shelf = binary().with_file_name("examples").join("shelf");
    let (_server, plane, _) = with_provider(&shelf, "shelf", "thing");
    let explained =
        |path: &str| good(&plane, &["explain", path, "--api-version=thing.shelf.kubeform.com/v1alpha1"], "");
    let size = explained("things.spec.resource.size");
    assert!(size.contains("The size of it."), "{size}");
    let spec = explained("things.spec");
    assert!(spec.contains("provider's configuration") && spec.contains("terminationPolicy"), "{spec}");
}

/// What plugins of go-plugin write goes over a call of its own, and nobody who does not make it hears of it.
#[test]
fn what_a_provider_writes_is_logged() {
    let shelf = binary().with_file_name("examples").join("shelf");
    assert!(shelf.exists(), "{} is not built: cargo build -p terraform --example shelf", shelf.display());
    let level = |_: &Path| vec!["--log-level".to_owned(), "debug".to_owned()];
    let (server, _plane, _) = with_provider_and(&shelf, "shelf", "thing", level);
    for said in ["the shelf is open", "the shelf creaks"] {
        let line = |log: &str| log.lines().find(|line| line.contains(said)).map(str::to_owned);
        let line = eventually(said, || line(&server.log()));
        assert!(line.contains("DEBUG") && line.contains("terraform-provider-shelf"), "{line}");
    }
}
