use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use objects::{Value, meta};
use serde_json::{Value as Json, json};

use super::fixture::{Fixture, Plane};
use crate::resource::Resource;

fn decoded(secret: &Value, field: &str) -> String {
    let text = secret["data"][field].as_str().unwrap_or_default();
    String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

async fn token_secret(a: &Plane, name: &str, account: &str) -> Value {
    a.create(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "namespace": "default", "annotations": {"kubernetes.io/service-account.name": account}},
    }))
    .await
}

async fn account(a: &Plane, name: &str) -> Value {
    a.create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn token_secrets_are_filled_and_go_with_their_account() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let robot = account(&a, "robot").await;
    token_secret(&a, "robot-token", "robot").await;
    a.until("the secret is filled", async |a| {
        let secret = a.get("secrets", "default", "robot-token").await.unwrap();
        !decoded(&secret, "token").is_empty()
    })
    .await;
    let secret = a.get("secrets", "default", "robot-token").await.unwrap();
    assert_eq!(decoded(&secret, "namespace"), "default");
    assert_eq!(decoded(&secret, "ca.crt"), f.engine.config.serving_authority);
    assert_eq!(meta::annotation(&secret, "kubernetes.io/service-account.uid"), Some(meta::uid(&robot)));
    let plane = f.engine.planes.find("a").await.unwrap().unwrap();
    let verified = plane.issuer.verify(&decoded(&secret, "token"), None, jiff::Timestamp::now());
    assert!(verified.is_ok(), "the token is one of this control plane");

    // Another account under the same name does not save it.
    a.delete("serviceaccounts", "default", "robot", None).await;
    a.gone("secrets", "default", "robot-token").await;
    token_secret(&a, "nobodys", "nobody").await;
    a.gone("secrets", "default", "nobodys").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_forgets_a_token_that_is_gone() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    account(&a, "robot").await;
    token_secret(&a, "one", "robot").await;
    let patch = json!({"secrets": [{"name": "one"}, {"name": "other"}]});
    a.resource("default", "serviceaccounts").patch("robot", "", &patch).await.unwrap();
    a.delete("secrets", "default", "one", None).await;
    a.until("it is forgotten", async |a| {
        let robot = a.get("serviceaccounts", "default", "robot").await.unwrap();
        robot["secrets"] == json!([{"name": "other"}])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_tokens_expire() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let token = async |id: &str, expiration: Option<jiff::Timestamp>| {
        let mut data = json!({"token-id": id, "token-secret": "0123456789abcdef"});
        if let Some(at) = expiration {
            data["expiration"] = at.to_string().into();
        }
        a.create(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "stringData": data,
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        }))
        .await
    };
    let now = jiff::Timestamp::now();
    token("endles", None).await;
    token("longer", Some(now + jiff::SignedDuration::from_hours(1))).await;
    token("passed", Some(now - jiff::SignedDuration::from_hours(1))).await;
    token("passes", Some(now + jiff::SignedDuration::from_secs(1))).await;
    a.gone("secrets", "kube-system", "bootstrap-token-passed").await;
    a.gone("secrets", "kube-system", "bootstrap-token-passes").await;
    for id in ["endles", "longer"] {
        assert!(a.get("secrets", "kube-system", &format!("bootstrap-token-{id}")).await.is_some());
    }
}

fn cluster_role(name: &str, labels: Json, aggregation: Json, rules: Json) -> Json {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels}, "aggregationRule": aggregation, "rules": rules,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_made_of_others() {
    const KIND: &str = "clusterroles.rbac.authorization.k8s.io";
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let select = |key: &str| json!({"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]});
    let rule = |verb: &str| json!([{"apiGroups": ["example.com"], "resources": ["things"], "verbs": [verb]}]);
    a.create(cluster_role("inner", json!({"outer": "true"}), select("inner"), json!([]))).await;
    a.create(cluster_role("outer", json!({}), select("outer"), json!([]))).await;
    a.create(cluster_role("part", json!({"inner": "true"}), Json::Null, rule("get"))).await;
    let becomes = async |verb: &str| {
        let wanted = rule(verb);
        a.until(verb, async |a| {
            let (inner, outer) =
                (a.get(KIND, "", "inner").await.unwrap(), a.get(KIND, "", "outer").await.unwrap());
            inner["rules"] == wanted && outer["rules"] == wanted
        })
        .await;
    };
    becomes("get").await;
    let roles = Resource::new(&a.client, "rbac.authorization.k8s.io/v1", "", "clusterroles");
    roles.patch("part", "", &json!({"rules": rule("list")})).await.unwrap();
    becomes("list").await;
}

// Made with openssl; the keys were thrown away.
const JANE: &str = include_str!("requests/jane.pem");
const KUBELET: &str = include_str!("requests/kubelet.pem");
const NOT_A_NODE: &str = include_str!("requests/not-a-node.pem");

async fn csr(a: &Plane, name: &str, signer: &str, request: &str, usages: &[&str]) -> Value {
    a.create(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": BASE64_STANDARD.encode(request), "signerName": signer, "usages": usages},
    }))
    .await
}

const CSRS: &str = "certificatesigningrequests.certificates.k8s.io";

fn has(csr: &Value, kind: &str) -> bool {
    super::fixture::condition(csr, kind).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_signed_when_approved() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let client = "kubernetes.io/kube-apiserver-client";
    csr(&a, "jane", client, JANE, &["client auth"]).await;
    a.settle().await;
    let approve = async |name: &str| {
        let mut object = a.get(CSRS, "", name).await.unwrap();
        object["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
        let resource = Resource::new(&a.client, "certificates.k8s.io/v1", "", "certificatesigningrequests");
        resource.replace(name, "approval", &object).await.unwrap();
    };
    let jane = a.get(CSRS, "", "jane").await.unwrap();
    assert!(!has(&jane, "Approved") && jane["status"].get("certificate").is_none(), "{jane}");
    approve("jane").await;
    a.until("it is signed", async |a| {
        a.get(CSRS, "", "jane").await.unwrap()["status"].get("certificate").is_some()
    })
    .await;
    let jane = a.get(CSRS, "", "jane").await.unwrap();
    let pem = BASE64_STANDARD.decode(jane["status"]["certificate"].as_str().unwrap()).unwrap();
    assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----"));

    // What the signer does not sign fails, approved or not.
    csr(&a, "wrong", client, JANE, &["server auth"]).await;
    approve("wrong").await;
    a.until("it fails", async |a| has(&a.get(CSRS, "", "wrong").await.unwrap(), "Failed")).await;
    // A signer that is somebody else's is left to them.
    csr(&a, "other", "example.com/signer", JANE, &["client auth"]).await;
    approve("other").await;
    a.settle().await;
    assert!(a.get(CSRS, "", "other").await.unwrap()["status"].get("certificate").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_are_approved_without_a_person() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    // Asked for by a master, who may create anything, `nodeclient` too.
    csr(&a, "kubelet", signer, KUBELET, &["client auth", "digital signature"]).await;
    a.until("it is signed", async |a| {
        a.get(CSRS, "", "kubelet").await.unwrap()["status"].get("certificate").is_some()
    })
    .await;
    let kubelet = a.get(CSRS, "", "kubelet").await.unwrap();
    let approved = super::fixture::condition(&kubelet, "Approved").unwrap();
    assert_eq!(approved["reason"], "AutoApproved");
    assert_eq!(approved["message"], "Auto approving kubelet client certificate after SubjectAccessReview.");
    // What is no kubelet's request waits for a person.
    csr(&a, "jane", signer, NOT_A_NODE, &["client auth", "digital signature"]).await;
    a.settle().await;
    assert!(!has(&a.get(CSRS, "", "jane").await.unwrap(), "Approved"));
}
