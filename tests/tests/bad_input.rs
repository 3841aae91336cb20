//! What no client should send: each gets the `Status` that Kubernetes gives, nothing panics, and nothing changes.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

use end_to_end::{Answer, Client, Credentials, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";

/// A server with one ConfigMap `a` to do wrong to.
fn server() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    client.post(MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).ok();
    (server, client)
}

/// Runs the bad requests, and finds everything as it was.
fn unchanged(client: &Client, bad: impl FnOnce()) {
    // The controllers may still be giving the namespace what every one has.
    let ours = "fieldSelector=metadata.name%21%3Dkube-root-ca.crt";
    let list =
        |kind: &str| client.get(&format!("/api/v1/namespaces/default/{kind}?{ours}")).ok()["items"].clone();
    let all = || ["configmaps", "pods", "secrets"].map(list);
    let before = all();
    bad();
    assert_eq!(all(), before, "something changed");
    assert_eq!(client.get("/readyz").code, 200);
}

/// An answer is a complete `Status` with this code and reason, and its message contains these words.
#[track_caller]
fn check(answer: &Answer, code: u16, reason: &str, message: &str) -> Value {
    assert_eq!(answer.code, code, "{}", answer.text());
    let status = answer.json();
    assert_eq!((&status["kind"], &status["apiVersion"]), (&json!("Status"), &json!("v1")), "{status}");
    assert_eq!((&status["status"], &status["code"]), (&json!("Failure"), &json!(code)), "{status}");
    assert_eq!(status["reason"], reason, "{status}");
    assert!(status["message"].as_str().unwrap().contains(message), "{status}\ndoes not say: {message}");
    status
}

#[test]
fn bodies_that_are_no_objects() {
    let (_server, client) = server();
    let post = |body: &str| client.send("POST", MAPS, Some(JSON), body.as_bytes());
    let post_yaml = |body: &str| client.send("POST", MAPS, Some("application/yaml"), body.as_bytes());
    unchanged(&client, || {
        check(&post(""), 400, "BadRequest", "");
        check(&post("{"), 400, "BadRequest", "");
        check(&post("nonsense"), 400, "BadRequest", "");
        check(&post("null"), 400, "BadRequest", "");
        check(&post("[]"), 400, "BadRequest", "");
        check(&post("\"text\""), 400, "BadRequest", "");
        check(&post("{\"metadata\":{\"name\":\"b\"}} trailing"), 400, "BadRequest", "");
        check(&post("{\"metadata\":{\"name\":\"\\ud800\"}}"), 400, "BadRequest", "");
        check(&post("{\"metadata\":{\"name\":\"b\"},\"data\":{\"n\":1e999}}"), 400, "BadRequest", "");
        check(&post_yaml("a: b: c"), 400, "BadRequest", "");
        check(&post_yaml("\t- x"), 400, "BadRequest", "");
        check(&post_yaml("a: &a [*a]"), 400, "BadRequest", "");
        check(&post_yaml("metadata: {name: b}\n---\nmetadata: {name: c}"), 400, "BadRequest", "");
        check(&client.send("POST", MAPS, Some(JSON), b"\xff\xfe{}"), 400, "BadRequest", "");
        check(&client.send("POST", MAPS, Some(JSON), &[0; 64]), 400, "BadRequest", "");
    });
}

#[test]
fn a_yaml_bomb_is_small_again() {
    let (_server, client) = server();
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (from, to) in ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi"].iter().map(|pair| pair.split_at(1)) {
        bomb.push_str(&format!("{to}: &{to} [{}]\n", [format!("*{from}").as_str(); 9].join(",")));
    }
    unchanged(&client, || {
        let answer = client.send("POST", MAPS, Some("application/yaml"), bomb.as_bytes());
        check(&answer, 400, "BadRequest", "");
    });
}

#[test]
fn types_that_do_not_fit() {
    let (_server, client) = server();
    let undecodable =
        |path: &str, body: Value, why: &str| check(&client.post(path, &body), 400, "BadRequest", why);
    unchanged(&client, || {
        undecodable(
            MAPS,
            json!({"metadata": {"name": 5}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        );
        undecodable(MAPS, json!({"metadata": "b"}), "cannot unmarshal string into Go struct field");
        undecodable(MAPS, json!({"metadata": {"name": "b", "labels": {"a": 1}}}), "labels of type string");
        undecodable(
            MAPS,
            json!({"metadata": {"name": "b"}, "data": {"a": {"b": "c"}}}),
            "cannot unmarshal object into Go struct field ConfigMap.data of type string",
        );
        undecodable(
            MAPS,
            json!({"metadata": {"name": "b"}, "immutable": "yes"}),
            "cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        );
        undecodable(
            PODS,
            json!({"metadata": {"name": "b"}, "spec": {"containers": {"name": "a"}}}),
            "cannot unmarshal object into Go struct field PodSpec.spec.containers",
        );
        undecodable(
            MAPS,
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "b"}}),
            "Secret in version \"v1\" cannot be handled as a ConfigMap",
        );
        undecodable(
            MAPS,
            json!({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "b"}}),
            "does not match the expected API version (v1)",
        );
    });
}

#[test]
fn bodies_that_are_too_large_or_too_deep() {
    let (_server, client) = server();
    unchanged(&client, || {
        let large = json!({"metadata": {"name": "b"}, "data": {"k": "x".repeat(4 << 20)}});
        check(&client.post(MAPS, &large), 413, "RequestEntityTooLarge", "limit is 3145728");
        let deep = format!(
            "{{\"metadata\":{{\"name\":\"b\"}},\"data\":{}1{}}}",
            "{\"a\":".repeat(100_000),
            "}".repeat(100_000)
        );
        check(&client.send("POST", MAPS, Some(JSON), deep.as_bytes()), 400, "BadRequest", "");
        let deep = format!("metadata: {{name: b}}\ndata: {}", "[".repeat(100_000));
        check(&client.send("POST", MAPS, Some("application/yaml"), deep.as_bytes()), 400, "BadRequest", "");
        let deep = "[".repeat(100_000);
        let patch =
            client.send("PATCH", &format!("{MAPS}/a"), Some("application/merge-patch+json"), deep.as_bytes());
        check(&patch, 400, "BadRequest", "");
        let big = json!({"metadata": {"name": "b"}, "data": {"k": "x".repeat(1_100_000)}});
        let status = check(&client.post(MAPS, &big), 422, "Invalid", "Too long");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueTooLong", "{status}");
    });
}

#[test]
fn names_that_are_none() {
    let (_server, client) = server();
    let invalid = |metadata: Value, field: &str, reason: &str| {
        let status = check(&client.post(MAPS, &json!({"metadata": metadata})), 422, "Invalid", field);
        let cause = &status["details"]["causes"][0];
        assert_eq!((&cause["field"], &cause["reason"]), (&json!(field), &json!(reason)), "{status}");
        assert_eq!(status["details"]["kind"], "ConfigMap", "{status}");
    };
    unchanged(&client, || {
        invalid(json!({"name": "Upper"}), "metadata.name", "FieldValueInvalid");
        invalid(json!({"name": "a/b"}), "metadata.name", "FieldValueInvalid");
        invalid(json!({"name": ".."}), "metadata.name", "FieldValueInvalid");
        invalid(json!({"name": "x".repeat(254)}), "metadata.name", "FieldValueInvalid");
        invalid(json!({"name": "\u{0}"}), "metadata.name", "FieldValueInvalid");
        invalid(json!({"name": "ünï"}), "metadata.name", "FieldValueInvalid");
        invalid(json!({}), "metadata.name", "FieldValueRequired");
        invalid(json!({"generateName": "Bad_"}), "metadata.generateName", "FieldValueInvalid");
        invalid(json!({"name": "b", "labels": {"a b": "c"}}), "metadata.labels", "FieldValueInvalid");
        invalid(json!({"name": "b", "labels": {"a": "c d"}}), "metadata.labels", "FieldValueInvalid");
        invalid(json!({"name": "b", "annotations": {"": "c"}}), "metadata.annotations", "FieldValueInvalid");
        invalid(json!({"name": "b", "finalizers": ["no slash"]}), "metadata.finalizers", "FieldValueInvalid");
        check(
            &client.post(MAPS, &json!({"metadata": {"name": "b", "namespace": "other"}})),
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        );
        check(
            &client.post("/api/v1/namespaces/nosuch/configmaps", &json!({"metadata": {"name": "b"}})),
            404,
            "NotFound",
            "namespaces \"nosuch\" not found",
        );
        check(
            &client.post(MAPS, &json!({"metadata": {"name": "a"}})),
            409,
            "AlreadyExists",
            "configmaps \"a\" already exists",
        );
        check(
            &client.post(MAPS, &json!({"metadata": {"name": "b", "resourceVersion": "5"}})),
            400,
            "BadRequest",
            "resourceVersion should not be set on objects to be created",
        );
    });
}

#[test]
fn paths_that_lead_nowhere() {
    let (_server, client) = server();
    let nowhere = "the server could not find the requested resource";
    unchanged(&client, || {
        for path in [
            "/api/v1/nosuch",
            "/api/v2/pods",
            "/apis/nosuch.example/v1/things",
            "/apis/apps/v9/deployments",
            "/nosuch",
            "/api/v1/namespaces/default/nosuch",
            "/api/v1/namespaces/default/configmaps/a/nosuch",
            "/api/v1/namespaces/default/nodes",
            "/api/v1/../v1/pods",
            "/api/v1/namespaces/default/configmaps/a/status",
        ] {
            check(&client.get(path), 404, "NotFound", nowhere);
        }
        // A control plane that does not exist answers like one that does not know the caller.
        for path in ["/control-planes/nosuch/api/v1/pods", "/control-planes//api"] {
            check(&client.get(path), 401, "Unauthorized", "Unauthorized");
        }
        check(&client.get(&format!("{MAPS}/nosuch")), 404, "NotFound", "configmaps \"nosuch\" not found");
        check(&client.get(&format!("{MAPS}/%2e%2e")), 404, "NotFound", "");
        check(&client.get("/api/v1/%00"), 400, "BadRequest", "the path is not valid percent-encoded UTF-8");
        let wrong_verb = "the server does not allow this method on the requested resource";
        check(&client.put(MAPS, &json!({})), 405, "MethodNotAllowed", wrong_verb);
        check(&client.post(&format!("{MAPS}/a"), &json!({})), 405, "MethodNotAllowed", wrong_verb);
        check(
            &client.post("/api/v1/configmaps", &json!({"metadata": {"name": "b"}})),
            405,
            "MethodNotAllowed",
            wrong_verb,
        );
        check(&client.send("PROPFIND", MAPS, None, b""), 405, "MethodNotAllowed", "");
    });
}

#[test]
fn writes_that_are_too_late() {
    let (_server, client) = server();
    let a = format!("{MAPS}/a");
    let stale = client.get(&a).ok();
    client.patch(&a, "merge", &json!({"data": {"k": "w"}})).ok();
    unchanged(&client, || {
        let modified = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
        let status = check(&client.put(&a, &stale), 409, "Conflict", modified);
        assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
        let merge = json!({"metadata": {"resourceVersion": stale["metadata"]["resourceVersion"]}, "data": {"k": "x"}});
        check(&client.patch(&a, "merge", &merge), 409, "Conflict", modified);
        let other = |field: &str, value: &str| {
            let mut object = client.get(&a).ok();
            object["metadata"][field] = json!(value);
            client.put(&a, &object)
        };
        check(
            &other("uid", "00000000-0000-0000-0000-000000000001"),
            409,
            "Conflict",
            "Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000001, UID in object meta: ",
        );
        check(
            &other("resourceVersion", "nonsense"),
            422,
            "Invalid",
            "metadata.resourceVersion: Invalid value: \"nonsense\"",
        );
        check(
            &other("name", "b"),
            400,
            "BadRequest",
            "the name of the object (b) does not match the name on the URL (a)",
        );
        check(
            &other("namespace", "kube-system"),
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        );
        let delete = |body: Value| client.send("DELETE", &a, Some(JSON), body.to_string().as_bytes());
        check(
            &delete(json!({"preconditions": {"uid": "other"}})),
            409,
            "Conflict",
            "UID in precondition: other, UID in object meta: ",
        );
        check(
            &delete(json!({"preconditions": {"resourceVersion": "1"}})),
            409,
            "Conflict",
            "ResourceVersion in precondition: 1, ResourceVersion in object meta: ",
        );
        check(&delete(json!({"propagationPolicy": "Sideways"})), 422, "Invalid", "propagationPolicy");
        check(
            &delete(json!({"propagationPolicy": "Orphan", "orphanDependents": true})),
            422,
            "Invalid",
            "orphanDependents and deletionPropagation cannot be both set",
        );
        check(
            &client.put(&format!("{MAPS}/nosuch"), &json!({"metadata": {"name": "nosuch"}})),
            404,
            "NotFound",
            "configmaps \"nosuch\" not found",
        );
    });
}

#[test]
fn selectors_and_queries() {
    let (_server, client) = server();
    let list = |query: &str| client.get(&format!("{MAPS}?{query}"));
    unchanged(&client, || {
        check(&list("labelSelector=a%20in"), 400, "BadRequest", "unable to parse requirement");
        check(&list("labelSelector=a%3D%3D%3Db"), 400, "BadRequest", "");
        check(&list("labelSelector=%21%21a"), 400, "BadRequest", "");
        check(&list("labelSelector=a%3Dx%20y"), 400, "BadRequest", "");
        check(&list("labelSelector=UPPER%2FPREFIX%2Fa"), 400, "BadRequest", "");
        check(
            &list("fieldSelector=data.k%3Dv"),
            400,
            "BadRequest",
            "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        );
        check(&list("fieldSelector=metadata.name"), 400, "BadRequest", "invalid selector");
        check(&list("limit=many"), 400, "BadRequest", "");
        check(&list("timeoutSeconds=soon&watch=1"), 400, "BadRequest", "");
        check(
            &list("resourceVersion=nonsense"),
            422,
            "Invalid",
            "resourceVersion: Invalid value: \"nonsense\"",
        );
        check(&list("resourceVersion=-1"), 422, "Invalid", "resourceVersion: Invalid value: \"-1\"");
        check(
            &list("resourceVersionMatch=Exact"),
            422,
            "Invalid",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        );
        check(
            &list("resourceVersion=1&resourceVersionMatch=Roughly"),
            422,
            "Invalid",
            "resourceVersionMatch: Unsupported value: \"Roughly\"",
        );
        check(
            &list("resourceVersion=0&resourceVersionMatch=Exact"),
            422,
            "Invalid",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        );
        check(&list("continue=nonsense"), 400, "BadRequest", "continue key is not valid");
        check(
            &list("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJ4In0"),
            400,
            "BadRequest",
            "continue key is not valid",
        );
        check(&list("watch=1&resourceVersion=nonsense"), 422, "Invalid", "resourceVersion: Invalid value");
        check(&list("sendInitialEvents=true"), 422, "Invalid", "sendInitialEvents is forbidden for list");
        check(
            &list("watch=1&sendInitialEvents=true"),
            422,
            "Invalid",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
        let b = json!({"metadata": {"name": "b"}});
        check(&client.post(&format!("{MAPS}?dryRun=Some"), &b), 422, "Invalid", "dryRun: Unsupported value");
        check(
            &client.post(&format!("{MAPS}?fieldValidation=Sometimes"), &b),
            422,
            "Invalid",
            "fieldValidation: Unsupported value: \"Sometimes\"",
        );
        let manager = format!("{MAPS}?fieldManager={}", "m".repeat(129));
        check(&client.post(&manager, &b), 422, "Invalid", "fieldManager");
        check(&client.post(&format!("{MAPS}?fieldManager=a%0Ab"), &b), 422, "Invalid", "fieldManager");
    });
}

#[test]
fn a_continue_token_of_another_list_opens_nothing() {
    let (_server, client) = server();
    for name in ["b", "c"] {
        client.post(MAPS, &json!({"metadata": {"name": name}})).ok();
    }
    let page = client.get(&format!("{MAPS}?limit=1")).ok();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let secrets = client.get(&format!("/api/v1/namespaces/kube-system/secrets?limit=1&continue={token}"));
    assert!(secrets.code == 400 || secrets.ok()["items"] == json!([]), "a token leads out of its list");
    let flipped: String = token.chars().rev().collect();
    check(
        &client.get(&format!("{MAPS}?limit=1&continue={flipped}")),
        400,
        "BadRequest",
        "continue key is not valid",
    );
    let moved = client.get(&format!("{MAPS}?limit=1&continue={token}&resourceVersion=1"));
    check(&moved, 400, "BadRequest", "specifying resource version is not allowed when using continue");
}

#[test]
fn patches() {
    let (_server, client) = server();
    let a = format!("{MAPS}/a");
    let json_patch = |patch: Value| client.patch(&a, "json", &patch);
    let rejected = "the server rejected our request due to an error in our request";
    unchanged(&client, || {
        check(&json_patch(json!({})), 400, "BadRequest", "");
        check(&json_patch(json!([{"op": "shuffle", "path": "/data"}])), 422, "Invalid", "");
        check(&json_patch(json!([{"op": "remove", "path": "/data/nosuch"}])), 422, "Invalid", rejected);
        check(
            &json_patch(json!([{"op": "replace", "path": "/no/such", "value": 1}])),
            422,
            "Invalid",
            rejected,
        );
        check(
            &json_patch(json!([{"op": "test", "path": "/data/k", "value": "w"}])),
            422,
            "Invalid",
            rejected,
        );
        check(
            &json_patch(json!([{"op": "add", "path": "/data", "value": 5}])),
            422,
            "Invalid",
            "patch: Invalid value",
        );
        check(
            &json_patch(json!([{"op": "replace", "path": "/metadata/name", "value": "b"}])),
            400,
            "BadRequest",
            "does not match the name on the URL",
        );
        let many: Vec<_> =
            (0..10_001).map(|_| json!({"op": "test", "path": "/data/k", "value": "v"})).collect();
        check(
            &json_patch(json!(many)),
            413,
            "RequestEntityTooLarge",
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        );
        for kind in ["merge", "strategic-merge"] {
            check(&client.patch(&a, kind, &json!([])), 400, "BadRequest", "");
            check(&client.patch(&a, kind, &json!({"data": 5})), 422, "Invalid", "patch: Invalid value");
            check(
                &client.patch(&a, kind, &json!({"metadata": {"labels": {"a b": "c"}}})),
                422,
                "Invalid",
                "metadata.labels: Invalid value: \"a b\"",
            );
        }
        check(&client.patch(&a, "strategic-merge", &json!({"$patch": "sideways"})), 422, "Invalid", rejected);
        let unknown = client.send("PATCH", &a, Some("application/x-patch"), b"{}");
        let status = check(
            &unknown,
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml",
        );
        assert_eq!(status["code"], 415);
        let apply = |query: &str, body: &str| {
            client.send(
                "PATCH",
                &format!("{a}{query}"),
                Some("application/apply-patch+yaml"),
                body.as_bytes(),
            )
        };
        check(
            &apply("", "apiVersion: v1\nkind: ConfigMap\n"),
            422,
            "Invalid",
            "fieldManager: Required value: is required for apply patch",
        );
        check(&apply("?fieldManager=m", "{"), 400, "BadRequest", "error decoding YAML");
        check(&apply("?fieldManager=m", "kind: ConfigMap\n"), 400, "BadRequest", "");
        check(
            &apply("?fieldManager=m", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"),
            400,
            "BadRequest",
            "does not match the name on the URL",
        );
        let owned = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, managedFields: [{manager: x}]}\n";
        check(&apply("?fieldManager=m", owned), 400, "BadRequest", "metadata.managedFields must be nil");
        check(
            &client.patch(&format!("{a}?force=true"), "merge", &json!({})),
            422,
            "Invalid",
            "force: Forbidden: may not be specified for non-apply patch",
        );
        check(
            &client.patch(&format!("{MAPS}/nosuch"), "merge", &json!({})),
            404,
            "NotFound",
            "configmaps \"nosuch\" not found",
        );
    });
}

#[test]
fn media_types() {
    let (_server, client) = server();
    unchanged(&client, || {
        let not_acceptable =
            "only the following media types are accepted: application/json, application/yaml";
        check(&client.with("Accept", "text/html").get(MAPS), 406, "NotAcceptable", not_acceptable);
        check(
            &client.with("Accept", "application/json;as=Nonsense;g=meta.k8s.io;v=v1").get(MAPS),
            406,
            "NotAcceptable",
            not_acceptable,
        );
        let unsupported = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml";
        let b = json!({"metadata": {"name": "b"}}).to_string();
        for media in ["text/plain", "application/xml", "nonsense", "application/x-www-form-urlencoded"] {
            check(
                &client.send("POST", MAPS, Some(media), b.as_bytes()),
                415,
                "UnsupportedMediaType",
                unsupported,
            );
        }
        let protobuf =
            |body: &[u8]| client.send("POST", MAPS, Some("application/vnd.kubernetes.protobuf"), body);
        check(&protobuf(b""), 400, "BadRequest", "");
        // The empty message is an object without a name.
        check(&protobuf(b"k8s\0"), 422, "Invalid", "metadata.name: Required value");
        check(&protobuf(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff"), 400, "BadRequest", "");
        check(&protobuf(b.as_bytes()), 400, "BadRequest", "");
    });
    // A star, several, and what stands after them are understood.
    for accept in
        ["*/*", "application/*", "text/html, application/json;q=0.5", "application/json;charset=utf-8"]
    {
        assert_eq!(client.with("Accept", accept).get(MAPS).code, 200, "{accept}");
    }
}

#[test]
fn credentials() {
    let (server, client) = server();
    let good = || Credentials::from_kubeconfig(&server.kubeconfig());
    unchanged(&client, || {
        let nobody = server.client_as(good().anonymous());
        check(
            &nobody.get(MAPS),
            403,
            "Forbidden",
            "User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        );
        assert_eq!(nobody.get("/version").code, 200);
        assert_eq!(nobody.get("/livez").code, 200);
        check(
            &nobody.get("/metrics"),
            403,
            "Forbidden",
            "User \"system:anonymous\" cannot get path \"/metrics\"",
        );
        for token in [
            "nonsense",
            "a.b.c",
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6ZGVmYXVsdDpkZWZhdWx0In0.",
        ] {
            check(&server.client_as(good().with_token(token)).get(MAPS), 401, "Unauthorized", "Unauthorized");
        }
        let forged = forged_token(&client);
        check(&server.client_as(good().with_token(&forged)).get(MAPS), 401, "Unauthorized", "Unauthorized");
        let (certificate, key) = self_signed(server.dir());
        let stranger = server.client_as(good().with_certificate(&certificate, &key));
        match stranger.try_send("GET", MAPS, None, b"") {
            // Refused in the handshake, or answered as nobody it knows: never as who it says it is.
            Err(_) => {}
            Ok(answer) => {
                check(&answer, 401, "Unauthorized", "Unauthorized");
            }
        }
        for (header, value) in
            [("Impersonate-Group", "system:masters"), ("Impersonate-Extra-a", "b"), ("Impersonate-Uid", "u")]
        {
            check(&client.with(header, value).get(MAPS), 400, "BadRequest", "without impersonating a user");
        }
        let jane = client.with("Impersonate-User", "jane");
        check(&jane.get(MAPS), 403, "Forbidden", "User \"jane\" cannot list resource \"configmaps\"");
    });
}

/// A token of the server's own, whose claims say more than it signed.
fn forged_token(client: &Client) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let request = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}});
    let token = client.post(path, &request).ok()["status"]["token"].as_str().unwrap().to_owned();
    let mut parts: Vec<&str> = token.split('.').collect();
    let claims =
        String::from_utf8(base64_url(parts[1])).unwrap().replace(":default:default", ":kube-system:default");
    let claims = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, claims);
    parts[1] = &claims;
    parts.join(".")
}

fn base64_url(text: &str) -> Vec<u8> {
    base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, text).unwrap()
}

/// Says that it is an administrator; nobody who matters has signed that.
fn self_signed(dir: &std::path::Path) -> (Vec<u8>, Vec<u8>) {
    let (certificate, key) = (dir.join("stranger.crt"), dir.join("stranger.key"));
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "1",
        ])
        .args(["-subj", "/O=system:masters/CN=root", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (std::fs::read(certificate).unwrap(), std::fs::read(key).unwrap())
}
