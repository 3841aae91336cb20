//! What keeps two control planes apart that have the same in them, and what is left of one that is gone.

use std::time::Duration;

use end_to_end::{Client, Server};
use serde_json::{Value, json};

use super::{CONFIG_MAPS, admin, collections, config_map, create, delete, everything, inside};

const ROBOT: &str = "/api/v1/namespaces/default/serviceaccounts/robot";

/// A token of the account `robot`, which may do everything.
fn token(client: &Client, control_plane: &str) -> String {
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let made = client.post(&inside(control_plane, &format!("{ROBOT}/token")), &asked).ok();
    made["status"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn two_with_identical_contents_cannot_reach_each_other() {
    let server = Server::start();
    create(&server, "a", &json!({"type": "k8s"}));
    let of_a = admin(&server, "a");
    of_a.post(
        &inside("a", "/api/v1/namespaces/default/serviceaccounts"),
        &json!({"metadata": {"name": "robot"}}),
    )
    .ok();
    let binding = json!({
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    });
    of_a.post(&inside("a", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"), &binding).ok();
    // A token that lives in a Secret is copied with it.
    let kept = json!({
        "metadata": {"name": "kept", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token",
    });
    of_a.post(&inside("a", "/api/v1/namespaces/default/secrets"), &kept).ok();
    let kept = super::eventually("the token is made", || {
        let secret = of_a.get(&inside("a", "/api/v1/namespaces/default/secrets/kept")).ok();
        secret["data"]["token"].as_str().map(str::to_owned)
    });
    let kept = {
        use base64::Engine as _;
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(kept).unwrap()).unwrap()
    };
    create(&server, "b", &json!({"type": "k8s", "source": {"controlPlane": "a"}}));
    let of_b = admin(&server, "b");
    of_a.post(&inside("a", CONFIG_MAPS), &config_map("mine", "a's own")).ok();
    of_b.post(&inside("b", CONFIG_MAPS), &config_map("mine", "b's own")).ok();
    let mine = format!("{CONFIG_MAPS}/mine");

    let anybody = super::credentials(&server.client(), "a").unwrap().anonymous();
    let bearer = |token: &str| server.client_as(anybody.clone().with_token(token));
    let (robot_of_a, robot_of_b) = (bearer(&token(&of_a, "a")), bearer(&token(&of_b, "b")));
    let kept_of_a = bearer(&kept);
    for (client, own, other) in [
        (&of_a, "a", "b"),
        (&of_b, "b", "a"),
        (&robot_of_a, "a", "b"),
        (&robot_of_b, "b", "a"),
        (&kept_of_a, "a", "b"),
    ] {
        let found = client.get(&inside(own, &mine)).ok();
        assert_eq!(found["data"]["value"], format!("{own}'s own"));
        for path in [
            inside(other, &mine),
            inside(other, "/api/v1/namespaces"),
            inside(other, "/apis"),
            format!("/control-planes/{own}/../{other}{mine}"),
            format!("/control-planes/{own}/%2e%2e/{other}{mine}"),
            format!("/control-planes/{own}%2f..%2f{other}{mine}"),
            format!("//control-planes/{other}{mine}"),
            format!("/control-planes//{other}{mine}"),
            format!("/control-planes/{own}/control-planes/{other}{mine}"),
            format!("/control-planes/{own};{other}{mine}"),
            mine.clone(),
            "/hangar/v1/control-planes".to_owned(),
            format!("/hangar/v1/control-planes/{other}/export"),
            inside(own, &format!("/hangar/v1/control-planes/{other}/export")),
            inside(own, &format!("{CONFIG_MAPS}/..%2f..%2f..%2f{other}")),
        ] {
            let answer = client.get(&path);
            assert!(
                matches!(answer.code, 400 | 401 | 403 | 404),
                "{own} at {path}: {} {}",
                answer.code,
                answer.text()
            );
            assert!(!answer.text().contains(&format!("{other}'s own")), "{own} at {path}");
        }
        for (header, value) in [
            ("X-Remote-User", "kubernetes-admin"),
            ("X-Remote-Group", "system:masters"),
            ("X-Forwarded-Host", &*format!("{other}.hangar.localhost")),
            ("X-Forwarded-Prefix", &*format!("/control-planes/{other}")),
            ("X-Original-URL", &*inside(other, &mine)),
            ("X-Client-Cert", "anything"),
        ] {
            let with = client.with(header, value);
            assert_eq!(with.get(&inside(other, &mine)).code, 401, "{own} with {header}");
            // Nor does it lead from one's own to the other's.
            assert_eq!(with.get(&inside(own, &mine)).ok()["data"]["value"], format!("{own}'s own"));
        }
        let host = client.with("Host", &format!("{other}.hangar.localhost"));
        assert!(!host.get(&mine).text().contains("own"), "{own} by the name of {other}");
        for (method, path) in [
            ("PUT", &*mine),
            ("PATCH", &*mine),
            ("DELETE", &*mine),
            ("POST", CONFIG_MAPS),
            ("DELETE", CONFIG_MAPS),
        ] {
            let body = config_map("mine", "overwritten").to_string();
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            // Who is answered before all was read is not asked again on that connection.
            let once = client.with("Connection", "close");
            let answer = once.send(method, &inside(other, path), Some(kind), body.as_bytes());
            assert_eq!(answer.code, 401, "{own}: {method} {path} at {other}");
        }
    }

    // Impersonation and reviews end at the wall too.
    let pretender =
        of_a.with("Impersonate-User", "kubernetes-admin").with("Impersonate-Group", "system:masters");
    assert_eq!(pretender.get(&inside("b", &mine)).code, 401);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token(&of_a, "a")}});
    let reviewed = of_b.post(&inside("b", "/apis/authentication.k8s.io/v1/tokenreviews"), &review).ok();
    assert_ne!(reviewed["status"]["authenticated"], true, "a's token is nobody's in b");

    // A watch of one hears nothing of the other, though both are at the same revision.
    let watch = of_b.watch(&inside(
        "b",
        &format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", {
            let list = of_b.get(&inside("b", CONFIG_MAPS)).ok();
            list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
        }),
    ));
    of_a.post(&inside("a", CONFIG_MAPS), &config_map("only-a", "x")).ok();
    watch.silent();
    of_b.post(&inside("b", CONFIG_MAPS), &config_map("only-b", "x")).ok();
    assert_eq!(watch.brief(1), ["ADDED only-b"]);
    // Nor does a page of the one continue in the other.
    let page = of_a.get(&inside("a", &format!("{CONFIG_MAPS}?limit=1"))).ok();
    let next = page["metadata"]["continue"].as_str().unwrap();
    let continued = of_b.get(&inside("b", &format!("{CONFIG_MAPS}?limit=100&continue={next}")));
    assert!(!continued.text().contains("only-a"), "{}", continued.text());
    assert_eq!(of_a.get(&inside("a", &mine)).ok()["data"]["value"], "a's own");
    assert_eq!(of_b.get(&inside("b", &mine)).ok()["data"]["value"], "b's own");
}

#[test]
fn nothing_of_a_deleted_one_can_be_read() {
    nothing_is_left_of(&json!({"type": "k8s"}));
}

#[test]
fn nothing_of_a_deleted_one_with_a_database_of_its_own_can_be_read() {
    nothing_is_left_of(&json!({"type": "k8s", "backend": "dedicated"}));
}

#[test]
fn nothing_of_a_deleted_one_with_a_process_of_its_own_can_be_read() {
    nothing_is_left_of(&json!({"type": "k8s", "isolation": "process"}));
}

fn nothing_is_left_of(spec: &Value) {
    const WORD: &str = "quintessence";
    let audit = |dir: &std::path::Path| vec!["--audit-log".into(), dir.join("audit").display().to_string()];
    let mut server = Server::start_with(audit);
    create(&server, "cp", spec);
    let old = admin(&server, "cp");
    old.post(&inside("cp", CONFIG_MAPS), &config_map(WORD, WORD)).ok();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"word": WORD}});
    old.post(&inside("cp", "/api/v1/namespaces/default/secrets"), &secret).ok();
    old.post(&inside("cp", "/api/v1/namespaces"), &json!({"metadata": {"name": WORD}})).ok();
    let kind = json!({
        "metadata": {"name": format!("{WORD}s.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Quintessence", "plural": format!("{WORD}s")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "description": WORD,
            }}}],
        },
    });
    old.post(&inside("cp", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), &kind).ok();
    let documents =
        ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v1", "/apis", "/apis/example.com/v1"];
    for document in documents {
        assert_eq!(old.get(&inside("cp", document)).code, 200, "{document}");
    }
    let list = old.get(&inside("cp", &format!("{CONFIG_MAPS}?limit=1"))).ok();
    let (version, next) = (
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned(),
        list["metadata"]["continue"].as_str().unwrap().to_owned(),
    );
    let watch = old.watch(&inside("cp", &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}")));
    delete(&server, "cp");
    let last = watch.to_end(Duration::from_secs(30));
    assert!(
        last.iter().all(|event| event["type"] == "ERROR"),
        "a watch ends, and tells nothing more: {last:?}"
    );
    let tried = ["", CONFIG_MAPS, "/api/v1/namespaces", "/version", "/readyz", "/metrics", "/api"];
    for path in tried.into_iter().chain(documents) {
        let answer = old.get(&inside("cp", path));
        assert!(matches!(answer.code, 401 | 403 | 404), "{path}: {}", answer.code);
    }
    let host = server.client();
    for path in ["usage", "export", &format!("export?revision={version}"), "diff/host", "audit"] {
        assert_eq!(host.get(&format!("/hangar/v1/control-planes/cp/{path}")).code, 404, "{path}");
    }
    // Events too.
    let hosts = |server: &Server| {
        let client = server.client();
        let others = ["/metrics", "/openapi/v2", "/openapi/v3", "/apis", "/hangar/v1/control-planes"];
        for path in collections(&client, "").into_iter().chain(others.map(str::to_owned)) {
            assert!(!client.get(&path).text().contains(WORD), "{path} of the hosting control plane");
        }
    };
    hosts(&server);

    // The next of the same name, also after a restart, begins with nothing.
    for restart in [false, true] {
        if restart {
            server.restart();
        }
        create(&server, "cp", spec);
        let new = admin(&server, "cp");
        for (key, object) in everything(&new, "cp") {
            assert!(!object.to_string().contains(WORD), "{key}");
        }
        for document in documents.into_iter().chain(["/metrics"]) {
            assert!(!new.get(&inside("cp", document)).text().contains(WORD), "{document}");
        }
        let told = server.client().get("/hangar/v1/control-planes/cp/audit");
        assert!(told.code == 200 && !told.text().contains(WORD), "{}", told.text());
        assert_eq!(old.get(&inside("cp", CONFIG_MAPS)).code, 401, "the old kubeconfig is nobody's");
        let continued = new.get(&inside("cp", &format!("{CONFIG_MAPS}?limit=1&continue={next}")));
        assert!(continued.code >= 400 && !continued.text().contains(WORD), "{}", continued.text());
        let earlier = new.get(&inside(
            "cp",
            &format!("{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"),
        ));
        assert!(!earlier.text().contains(WORD), "{}", earlier.text());
        let past = server.client().get(&format!("/hangar/v1/control-planes/cp/export?revision={version}"));
        assert!(!String::from_utf8_lossy(&past.body).contains(WORD));
        let whole = server.client().get("/hangar/v1/control-planes/cp/export");
        assert!(whole.code == 200 && !String::from_utf8_lossy(&whole.body).contains(WORD));
        delete(&server, "cp");
    }
    hosts(&server);
}
