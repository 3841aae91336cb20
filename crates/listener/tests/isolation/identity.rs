//! Who issued a token, and how others find out: each control plane is an issuer of its own. And what becomes of
//! credentials when the keys behind them are replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use apiserver::control_plane::{IN_CLUSTER_ISSUER, KeyChange, KeyKind};
use auth::tokens::{BoundToken, Issuer, Reference};
use serde_json::{Value, json};

use super::client::{Credential, Door};
use super::world::{HOUR, NOTE, Tenant, World, body};

const WATCH: &str = "/api/v1/namespaces/team/configmaps?watch=1&timeoutSeconds=600";

const ACCOUNT: &str = "/api/v1/namespaces/team/serviceaccounts/robot";

/// Follows a link that a document has, as a client that knows nothing but the address does.
async fn follow(world: &World, url: &str) -> Value {
    let address = world.network.address;
    let root = Door { server_name: None, host: address.to_string(), prefix: String::new() };
    let path =
        url.strip_prefix(&format!("https://{address}")).unwrap_or_else(|| panic!("{url} leads elsewhere"));
    // Everybody may read it once an administrator has said so, as upstream has it.
    let answer = world.network.ask(&root, &Credential::nobody(), "GET", path, "").await;
    assert_eq!(answer.code, 200, "{url}: {}", answer.text);
    body(&answer)
}

async fn token(world: &World, tenant: &Tenant, spec: Value) -> (Value, String) {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let path = format!("{ACCOUNT}/token");
    let door = world.by_path(tenant.name);
    let made = world.network.ask(&door, &tenant.credentials[0], "POST", &path, &request.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text);
    (body(&made), made.text)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_leads_to_the_keys_of_the_control_plane() {
    let (world, tenants) = World::with_tenants().await;
    let mut seen = Vec::new();
    for tenant in &tenants {
        let subjects = json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:unauthenticated"}]);
        let role = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "system:service-account-issuer-discovery",
        });
        let binding =
            json!({"metadata": {"name": "everybody"}, "subjects": subjects, "roleRef": role}).to_string();
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let door = world.by_path(tenant.name);
        let made = world.network.ask(&door, &tenant.credentials[0], "POST", bindings, &binding).await;
        assert_eq!(made.code, 201, "{}", made.text);

        let (request, _) = token(&world, tenant, json!({})).await;
        let token = text(&request["status"]["token"]);
        let unproven = jsonwebtoken::dangerous::insecure_decode::<Value>(&token).unwrap();
        let issuer = text(&unproven.claims["iss"]);
        let discovery = follow(&world, &format!("{issuer}/.well-known/openid-configuration")).await;
        assert_eq!(discovery["issuer"], issuer.as_str());
        let keys = follow(&world, discovery["jwks_uri"].as_str().unwrap()).await;
        let key =
            keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == json!(unproven.header.kid));
        let key = key.unwrap_or_else(|| panic!("{keys} does not have the key of {:?}", unproven.header));
        let key = jsonwebtoken::DecodingKey::from_ec_components(&text(&key["x"]), &text(&key["y"])).unwrap();
        let mut rules = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::ES256);
        rules.set_issuer(&[&issuer]);
        rules.set_audience(&[&issuer]);
        let proven = jsonwebtoken::decode::<Value>(&token, &key, &rules).unwrap();
        assert_eq!(proven.claims["sub"], "system:serviceaccount:team:robot");
        // Clients in a cluster know one name of the server, whatever it is called outside.
        assert_eq!(proven.claims["aud"], json!([issuer, IN_CLUSTER_ISSUER]));
        seen.push(issuer);
    }
    let address = world.network.address;
    let expected =
        ["", "/control-planes/a", "/control-planes/b"].map(|path| format!("https://{address}{path}"));
    assert_eq!(seen, expected);
}

/// Tokens of earlier versions name the issuer that all control planes had, and are good where their key is.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_the_shared_issuer_stay_good_at_home() {
    let (world, [_, a, b]) = World::with_tenants().await;
    let admin = &a.credentials[0];
    let account = body(&world.network.ask(&world.by_path("a"), admin, "GET", ACCOUNT, "").await);
    let before = Issuer::from_pem(IN_CLUSTER_ISSUER, a.plane.issuer.to_pem().expose()).unwrap();
    let bound = BoundToken {
        namespace: "team".to_owned(),
        service_account: Reference::new("robot", text(&account["metadata"]["uid"])),
        lifetime: HOUR,
        ..BoundToken::default()
    };
    let old = before.issue(&bound, jiff::Timestamp::now()).unwrap();
    let old = Credential::token("a token of an earlier version", old.expose());
    let ask = async |name: &str| world.network.ask(&world.by_path(name), &old, "GET", NOTE, "").await.code;
    assert_eq!(ask(a.name).await, 200);
    assert_eq!(ask(b.name).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_live_no_longer_than_the_server_lets_them() {
    let (world, [_, a, _]) = World::with_tenants().await;
    let (made, text) = token(&world, &a, json!({"expirationSeconds": 4_294_967_295_i64})).await;
    assert_eq!(made["spec"]["expirationSeconds"], 2 * 3_600);
    assert!(text.contains("requested expiration of 4294967295 seconds shortened to 7200 seconds"), "{text}");
    let claims = jsonwebtoken::dangerous::insecure_decode::<Value>(made["status"]["token"].as_str().unwrap());
    let claims = claims.unwrap().claims;
    let life = claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap();
    assert_eq!(Duration::from_secs(life), 2 * HOUR);
    let (made, text) = token(&world, &a, json!({"expirationSeconds": 7_000})).await;
    assert_eq!(made["spec"]["expirationSeconds"], 7_000);
    assert!(!text.to_lowercase().contains("warning:"), "{text}");
}

/// Writes in a loop with one credential, on a connection that stays and on new ones, until it is told to stop. Each writer
/// has an object of its own, so that no write conflicts with another.
struct Load {
    stop: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
    running: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    async fn begin(world: &World, name: &str, credential: &Credential, objects: [&str; 2]) -> Load {
        let (stop, writes) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut running = Vec::new();
        for (stays, object) in [true, false].into_iter().zip(objects) {
            let path = format!("/api/v1/namespaces/team/configmaps/{object}");
            let (network, door) = (world.network.clone(), world.by_path(name));
            let (credential, stop, writes) = (credential.clone(), stop.clone(), writes.clone());
            let mut connection = network.open(&door, &credential).await;
            running.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let patch =
                        json!({"data": {"count": writes.load(Ordering::Relaxed).to_string()}}).to_string();
                    let answer = if stays {
                        connection.ask("PATCH", &path, &patch).await
                    } else {
                        network.ask(&door, &credential, "PATCH", &path, &patch).await
                    };
                    assert_eq!(answer.code, 200, "{}: {}", credential.what, answer.text);
                    writes.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        Load { stop, writes, running }
    }

    /// Waits until so many more writes have succeeded.
    async fn goes_on(&self) {
        let from = self.writes.load(Ordering::Relaxed);
        while self.writes.load(Ordering::Relaxed) < from + 20 {
            assert!(self.running.iter().all(|one| !one.is_finished()), "a write failed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for one in self.running {
            one.await.unwrap();
        }
    }
}

/// Each kind of key is replaced while clients write with what the old one signed. None of them fails, until the old key is
/// given up: then it is of no use at once, and its watches end.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_under_load() {
    let (world, [_, a, b]) = World::with_tenants().await;
    for kind in [KeyKind::Tokens, KeyKind::Clients] {
        let credential = async |what: &str| match kind {
            KeyKind::Tokens => {
                // The administrator's certificate is not concerned by keys of tokens.
                let (made, _) = token(&world, &a, json!({})).await;
                Credential::token(what, text(&made["status"]["token"]))
            }
            KeyKind::Clients => {
                let plane = world.engine.planes.find("a").await.unwrap().unwrap();
                let issued = world.engine.issue_client(&plane, "admin", &["system:masters"], HOUR).unwrap();
                Credential::certificate(what, &issued)
            }
        };
        let door = world.by_path("a");
        let code =
            async |credential: &Credential| world.network.ask(&door, credential, "GET", NOTE, "").await.code;
        let change = async |change| world.engine.change_key("a", kind, change).await.unwrap();

        let old = credential("of the old key").await;
        let load = Load::begin(&world, "a", &old, ["note", "one"]).await;
        let mut watch = world.network.watch(&door, &old, WATCH).await;
        watch.until(Some("ADDED")).await;
        load.goes_on().await;
        change(KeyChange::Rotate { overlap: HOUR }).await;
        load.goes_on().await;
        let new = credential("of the new key").await;
        let second = Load::begin(&world, "a", &new, ["two", "zero"]).await;
        change(KeyChange::Rotate { overlap: HOUR }).await;
        load.goes_on().await;
        second.goes_on().await;
        load.end().await;
        watch.until(Some("MODIFIED")).await;

        let newest = credential("of the newest key").await;
        let third = Load::begin(&world, "a", &newest, ["note", "one"]).await;
        second.end().await;
        change(KeyChange::Finish).await;
        assert_eq!((code(&old).await, code(&new).await, code(&newest).await), (401, 401, 200));
        third.goes_on().await;
        let said = watch.until(None).await;
        assert!(said.contains("\"ERROR\"") && said.contains("Unauthorized"), "{said}");
        third.end().await;

        // An overlap that is over needs no command.
        change(KeyChange::Rotate { overlap: Duration::ZERO }).await;
        assert_eq!(code(&newest).await, 401);
    }
    for credential in &b.credentials {
        let answer = world.network.ask(&world.by_path("b"), credential, "GET", NOTE, "").await;
        assert_eq!(answer.code, 200, "{} is of another control plane", credential.what);
    }
}

/// A watch that nothing happens in ends as well, and no other one does.
#[tokio::test(flavor = "multi_thread")]
async fn watches_of_revoked_identities_end_at_once() {
    let (world, [_, a, b]) = World::with_tenants().await;
    let watch = async |tenant: &Tenant, credential: &Credential| {
        let mut watch = world.network.watch(&world.by_path(tenant.name), credential, WATCH).await;
        watch.until(Some("ADDED")).await;
        watch
    };
    let robot = a.credentials.iter().find(|one| one.token.is_some()).unwrap();
    let mut by_certificate = watch(&a, &a.credentials[0]).await;
    let mut by_token = watch(&a, robot).await;
    let mut elsewhere = watch(&b, &b.credentials[0]).await;
    world.engine.replace_authority("a", 1).await.unwrap();
    assert!(by_certificate.until(None).await.contains("Unauthorized"));
    let patch = json!({"data": {"seen": "after-the-first"}}).to_string();
    let answer = world.network.ask(&world.by_path("a"), robot, "PATCH", NOTE, &patch).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    by_token.until(Some("after-the-first")).await;
    world.engine.change_key("a", KeyKind::Tokens, KeyChange::Revoke).await.unwrap();
    assert!(by_token.until(None).await.contains("Unauthorized"));
    let patch = json!({"data": {"seen": "after-the-second"}}).to_string();
    world.network.ask(&world.by_path("b"), &b.credentials[0], "PATCH", NOTE, &patch).await;
    elsewhere.until(Some("after-the-second")).await;
}
