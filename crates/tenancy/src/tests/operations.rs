use std::sync::Arc;

use apiserver::{ApiServer, Door};
use auth::user::{MASTERS, UserInfo};
use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use objects::{Value, meta};
use serde_json::json;
use tower::{Service, ServiceExt as _};

use super::fixture::{Fixture, as_admin, plane};
use crate::api::{self, Place};

async fn map(client: &kube::Client, name: &str, value: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"v": value},
    });
    api::create(client, &Place::new("v1", "configmaps", "default", ""), &object).await.unwrap();
}

async fn secret(client: &kube::Client, value: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "stringData": {"v": value},
    });
    api::create(client, &Place::new("v1", "secrets", "default", ""), &object).await.unwrap();
}

async fn bytes(client: &kube::Client, request: Request<Vec<u8>>) -> (u16, Vec<u8>) {
    use http_body_util::BodyExt;
    let response = client.send(request.map(kube::client::Body::from)).await.unwrap();
    let code = response.status().as_u16();
    (code, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_can_begin_as_a_copy_and_be_compared() {
    let f = Fixture::new().await;
    f.create_plane("one", json!({"type": "k8s"})).await;
    f.until_ready("one").await;
    let one = f.tenant("one");
    for index in 0..200 {
        map(&one, &format!("m{index}"), "x").await;
    }
    secret(&one, "hidden").await;
    let list = api::get_path(&one, "/api/v1/namespaces/default/configmaps").await.unwrap();
    let before: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    map(&one, "later", "x").await;

    f.create_plane("two", json!({"type": "k8s", "source": {"controlPlane": "one"}})).await;
    f.until_ready("two").await;
    let two = f.tenant("two");
    let copy = api::get(&two, &Place::new("v1", "configmaps", "default", "later")).await.unwrap().unwrap();
    assert_eq!(copy["data"]["v"], "x");
    let copy = api::get(&two, &Place::new("v1", "secrets", "default", "s")).await.unwrap().unwrap();
    assert_eq!(crate::kubeconfig::secret_value(&copy, "v").unwrap(), b"hidden");
    let diff = api::get_path(&f.client, "/hangar/v1/control-planes/one/diff/two").await.unwrap();
    assert_eq!(diff["items"], json!([]));

    f.create_plane("past", json!({"type": "k8s", "source": {"controlPlane": "one", "revision": before}}))
        .await;
    f.until_ready("past").await;
    let diff = api::get_path(&f.client, "/hangar/v1/control-planes/past/diff/one").await.unwrap();
    let expected =
        json!([{"resource": "configmaps", "namespace": "default", "name": "later", "change": "added"}]);
    assert_eq!(diff["items"], expected);

    // They go their own ways.
    let place = Place::new("v1", "configmaps", "default", "m0");
    api::merge(&two, &place, "", &json!({"data": {"v": "y", "w": "z"}})).await.unwrap();
    api::delete(&two, &Place::new("v1", "configmaps", "default", "m1"), None).await.unwrap();
    let diff = api::get_path(&f.client, "/hangar/v1/control-planes/one/diff/two").await.unwrap();
    let expected = json!([
        {"resource": "configmaps", "namespace": "default", "name": "m0", "change": "changed", "paths": ["/data/v", "/data/w"]},
        {"resource": "configmaps", "namespace": "default", "name": "m1", "change": "removed"},
    ]);
    assert_eq!(diff["items"], expected);

    f.create_plane(
        "early",
        json!({"type": "k8s", "source": {"controlPlane": "one", "revision": 1_u64 << 40}}),
    )
    .await;
    let found = f.until_condition("early", "Synced", "False", "ReconcileError").await;
    assert!(found["message"].as_str().unwrap().contains("has not happened yet"), "{found}");
    f.create_plane("orphan", json!({"type": "k8s", "source": {"controlPlane": "nobody"}})).await;
    let found = f.until_condition("orphan", "Synced", "False", "ReconcileError").await;
    assert!(found["message"].as_str().unwrap().contains("there is no control plane \"nobody\""), "{found}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_gives_identical_objects_elsewhere() {
    let f = Fixture::new().await;
    f.create_plane("one", json!({"type": "k8s"})).await;
    f.until_ready("one").await;
    let one = f.tenant("one");
    map(&one, "m", "x").await;
    secret(&one, "hidden").await;
    let (code, backup) = bytes(&f.client, get("/hangar/v1/control-planes/one/export")).await;
    assert_eq!(code, 200);

    // Another installation, with another data key.
    let g = Fixture::new().await;
    let import = |name: &str, body: Vec<u8>| {
        Request::post(format!("/hangar/v1/control-planes/{name}/import")).body(body).unwrap()
    };
    let (code, answer) = bytes(&g.client, import("one", backup.clone())).await;
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&answer));
    g.until_ready("one").await;
    let restored = g.tenant("one");
    for (plural, name) in [("configmaps", "m"), ("secrets", "s")] {
        let place = Place::new("v1", plural, "default", name);
        let mut objects = [
            api::get(&one, &place).await.unwrap().unwrap(),
            api::get(&restored, &place).await.unwrap().unwrap(),
        ];
        for object in &mut objects {
            meta::set(object, "resourceVersion", Value::Null);
        }
        assert_eq!(objects[0], objects[1]);
    }
    // Not twice, and nothing is left of what is no backup.
    let (code, _) = bytes(&g.client, import("one", backup.clone())).await;
    assert_eq!(code, 409);
    let mut damaged = backup;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let (code, _) = bytes(&g.client, import("two", damaged)).await;
    assert_eq!(code, 400);
    g.until_gone("two").await;
    assert!(g.engine.planes.find("two").await.unwrap().is_none());
    assert_eq!(bytes(&g.client, get("/hangar/v1/control-planes/none/export")).await.0, 404);
    assert_eq!(bytes(&g.client, get("/hangar/v1/nothing")).await.0, 404);
    // In a control plane that hosts nobody there are no such paths.
    assert_eq!(bytes(&g.tenant("one"), get("/hangar/v1/control-planes")).await.0, 404);
    let all = api::get_path(&g.client, "/hangar/v1/control-planes").await.unwrap();
    let names: Vec<&Value> = all["items"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["host", "one"]);
    assert!(
        all["items"][1]["objects"].as_u64().unwrap() > 10
            && all["items"][1]["bytes"].as_u64().unwrap() > 1_000
    );
    f.close().await;
    g.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_knows_the_type() {
    let f = Fixture::new().await;
    f.create_plane("one", json!({"type": "vcluster"})).await;
    f.until_ready("one").await;
    let (_, backup) = bytes(&f.client, get("/hangar/v1/control-planes/one/export")).await;
    for (name, query, expected) in [("same", "", "vcluster"), ("other", "?type=k3s", "k3s")] {
        let path = format!("/hangar/v1/control-planes/{name}/import{query}");
        let (code, answer) = bytes(&f.client, Request::post(path).body(backup.clone()).unwrap()).await;
        assert_eq!(code, 200, "{}", String::from_utf8_lossy(&answer));
        assert_eq!(f.until_ready(name).await["spec"]["type"], expected);
    }
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_an_import_that_does_not_come_to_its_end() {
    let f = Fixture::new().await;
    f.create_plane("one", json!({"type": "k8s"})).await;
    f.until_ready("one").await;
    let (_, backup) = bytes(&f.client, get("/hangar/v1/control-planes/one/export")).await;

    // Whoever sends it goes away in the middle.
    let (mut sender, receiver) = futures::channel::mpsc::channel(1);
    let half = Bytes::copy_from_slice(&backup[..backup.len() / 2]);
    sender.try_send(Ok::<_, std::io::Error>(Frame::data(half))).unwrap();
    let request = Request::post("/hangar/v1/control-planes/half/import").body(StreamBody::new(receiver));
    let importing = tokio::spawn(as_admin(&f.engine, "host").call(request.unwrap()));
    let said = f.until_condition("half", "Ready", "False", "Restoring").await;
    assert_eq!(said["message"], "it is being restored from a backup");
    let meanwhile = Request::post("/hangar/v1/control-planes/half/import").body(backup.clone()).unwrap();
    assert_eq!(bytes(&f.client, meanwhile).await.0, 409, "somebody else is at it");
    importing.abort();
    f.until_gone("half").await;
    drop(sender);

    // The server goes away in the middle: nobody says that it goes on.
    let mut left = plane("left", json!({"type": "k8s"}));
    left["metadata"]["annotations"] = json!({"hangar.dev/awaiting-import": "2026-01-01T00:00:00Z"});
    f.create(left).await;
    f.until_gone("left").await;
    for name in ["half", "left"] {
        let again = Request::post(format!("/hangar/v1/control-planes/{name}/import")).body(backup.clone());
        assert_eq!(bytes(&f.client, again.unwrap()).await.0, 200, "{name}");
        f.until_ready(name).await;
    }
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted() {
    let f = Fixture::new().await;
    f.create_plane("one", json!({"type": "k8s"})).await;
    f.until_ready("one").await;
    let asked = async || {
        let usage = api::get_path(&f.client, "/hangar/v1/control-planes/one/usage").await.unwrap();
        usage["requests"].as_u64().unwrap()
    };
    let before = asked().await;
    for _ in 0..20 {
        bytes(&f.tenant("one"), get("/api/v1/namespaces/default")).await;
    }
    assert!(asked().await >= before + 20);
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_hold() {
    let f = Fixture::new().await;
    let spec = json!({"type": "k8s", "quota": {"objects": 10_000, "requestsPerSecond": 5, "watches": 0}});
    f.create_plane("one", spec).await;
    f.until_ready("one").await;
    let one = f.tenant("one");
    // Callers within the process are not limited, so that this one has an address.
    let from_outside = async |path: &str| {
        let admin = Arc::new(UserInfo::new("admin", [MASTERS]));
        let door = Door { remote: Some(([127, 0, 0, 1], 1).into()), ..Door::in_process("one", admin) };
        let request = get(path).map(|body| Full::new(Bytes::from(body)));
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(door);
        let answer = ApiServer::new(f.engine.clone()).oneshot(Request::from_parts(parts, body)).await;
        answer.unwrap().status().as_u16()
    };
    let mut refused = 0;
    for _ in 0..40 {
        refused += usize::from(from_outside("/api/v1/namespaces/default").await == 429);
    }
    assert!(refused > 10, "{refused} of 40 refused");
    f.patch("one", json!({"spec": {"quota": {"requestsPerSecond": null, "objects": 1}}})).await.unwrap();
    f.until("the new quota holds", async |_| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-", "namespace": "default"}});
        let place = Place::new("v1", "configmaps", "default", "");
        let error = api::create(&one, &place, &object).await.err()?;
        error.to_string().contains("exceeded quota of control plane \"one\": objects used").then_some(())
    })
    .await;
    assert_eq!(from_outside("/api/v1/namespaces?watch=true").await, 429);
    f.close().await;
}

/// What a ControlPlane allows beyond the defaults is known where connections are made, and goes again.
#[tokio::test(flavor = "multi_thread")]
async fn allowances_reach_the_charter() {
    let f = Fixture::new().await;
    let role = "arn:aws:iam::111122223333:role/one-*";
    let aws = json!({"operatorCredentials": true, "roles": [role]});
    f.create_plane("one", json!({"type": "k8s", "egress": {"allow": ["10.20.0.0/16"]}, "aws": aws})).await;
    f.create_plane("two", json!({"type": "k8s"})).await;
    f.until_ready("one").await;
    f.until_ready("two").await;
    let engines = apiserver::Engines::from(f.engine.clone());
    let allowed = async |name: &str, address: &str| {
        let policy = egress::Policies::of(&engines, name).await;
        policy.check(std::net::SocketAddr::new(address.parse().unwrap(), 443)).is_ok()
    };
    assert!(allowed("one", "10.20.0.1").await && !allowed("one", "10.21.0.1").await);
    assert!(!allowed("two", "10.20.0.1").await, "it is for one control plane");
    let charter = async |name: &str| f.engine.planes.find(name).await.unwrap().unwrap().charter.clone();
    let one = charter("one").await;
    assert!(one.aws.operator_credentials);
    assert_eq!(one.aws.roles, [role]);
    assert!(one.owner.is_some());
    assert_eq!(charter("two").await.aws, Default::default());
    let patch = json!({"spec": {"egress": {"allow": ["10.21.0.0/16"]}, "aws": null}});
    f.patch("one", patch).await.unwrap();
    f.until("the new ranges hold", async |_| allowed("one", "10.21.0.1").await.then_some(())).await;
    assert!(!allowed("one", "10.20.0.1").await);
    assert_eq!(charter("one").await.aws, Default::default());
    // A range with bits behind its prefix is refused with a clear word, and changes nothing.
    f.patch("one", json!({"spec": {"egress": {"allow": ["10.22.1.0/16"]}}})).await.unwrap();
    f.until("the condition", async |f| {
        let object = f.plane("one").await?;
        object["status"]["conditions"].to_string().contains("use 10.22.0.0/16").then_some(())
    })
    .await;
    assert!(allowed("one", "10.21.0.1").await && !allowed("one", "10.22.1.1").await);
    f.close().await;
}
