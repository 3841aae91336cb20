//! What a provider can reach: nothing of this machine, of other tenants, or of the network that the policy does not allow.
//!
//! Without sandboxes on this machine these tests say so and pass.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::json;
use terraform::plugin::{Isolation, Launch, Lease, PluginError, Pool, PoolSettings, State};
use terraform::shape;
use terraform::value::Value;

use super::world::*;

fn is_isolated() -> bool {
    let isolated = sandbox().parts().is_some_and(|parts| parts.no_network.is_none());
    if !isolated {
        eprintln!("skipped: no sandbox with a network can be had on this machine");
    }
    isolated
}

/// A server that answers every request with an error, and what it was asked.
fn server() -> (u16, Arc<AtomicUsize>, Arc<Mutex<String>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (count, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let (counted, kept) = (count.clone(), asked.clone());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let kept = kept.clone();
            std::thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(2)));
                let mut bytes = vec![0; 64 << 10];
                let length = stream.read(&mut bytes).unwrap_or(0);
                kept.lock().push_str(&String::from_utf8_lossy(&bytes[..length]));
                let body = "{\"__type\":\"AccessDenied\",\"message\":\"no\"}";
                let answer = format!(
                    "HTTP/1.1 403 Forbidden\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    (port, count, asked)
}

/// What came of attempts that the shelf makes.
async fn attempts(world: &World, lease: &Lease, all: &[String]) -> Vec<String> {
    std::fs::write(world.cloud.path().join("attempts"), all.join("\n")).unwrap();
    world.fault("ReadResource: attempts");
    let state = State::none();
    let error = lease.read(THING, &state).await.unwrap_err().to_string();
    let said = error.rsplit_once("in ReadResource: ").unwrap_or_else(|| panic!("{error}")).1;
    said.split("; ").map(str::to_owned).collect()
}

#[tokio::test]
async fn a_hostile_provider_reaches_nothing() {
    if !is_isolated() {
        return;
    }
    let world = World::with(|settings| {
        let isolation = Isolation::new(Ok(sandbox()), "/nowhere", egress::Policy::default());
        settings.isolation = isolation;
    });
    // Nothing is shared with it but this, so that it can be told what to do.
    let share = sandbox::Share { path: world.cloud.path().to_owned(), writable: true };
    let isolation = world.pool.isolation().clone();
    let isolation = isolation.with_paths([terraform::plugin::ProviderPath { provider: None, share }]);
    let pool = Pool::new(PoolSettings::new(isolation));
    let server_directory = tempfile::TempDir::new().unwrap();
    let key = server_directory.path().join("data.key");
    std::fs::write(&key, [7; 32]).unwrap();
    let other = World::new();
    let others = other.cloud.path().join("theirs.json");
    std::fs::write(&others, "{}").unwrap();
    let (port, count, _) = server();
    let all = [
        format!("read {}", key.display()),
        format!("read {}", others.display()),
        "read /proc/1/environ".to_owned(),
        "read /proc/self/environ".to_owned(),
        "read /etc/shadow".to_owned(),
        "read /root/.ssh/known_hosts".to_owned(),
        format!("connect 127.0.0.1:{port}"),
        "run /bin/sh".to_owned(),
        "run /usr/bin/id".to_owned(),
        "fork bomb".to_owned(),
        "fill /tmp/all".to_owned(),
    ];
    let launch = Launch::new(shelf_program()).on_behalf_of("a");
    let lease = pool.lease(&launch, DIGEST, &world.config()).await.unwrap();
    let outcomes = attempts(&world, &lease, &all).await;
    assert_eq!(outcomes.len(), all.len(), "{outcomes:?}");
    for (attempt, outcome) in all.iter().zip(&outcomes) {
        assert!(outcome.ends_with("refused"), "{attempt}: {outcome}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_provider_reaches_what_the_policy_allows() {
    if !is_isolated() {
        return;
    }
    let world = World::new();
    let lease = world.lease().await;
    let (port, count, _) = server();
    let outcomes = attempts(&world, &lease, &[format!("connect 127.0.0.1:{port}")]).await;
    assert_eq!((outcomes, count.load(Ordering::SeqCst)), (vec!["connect done ".to_owned()], 1));
}

#[tokio::test]
async fn one_process_for_one_control_plane() {
    let world = World::with(|settings| {
        settings.isolation = settings.isolation.clone().trusting(["trusted".to_owned()]);
    });
    let launch = Launch::new(shelf_program());
    let trusted = Launch { provider: Some("trusted".into()), ..launch.clone() };
    for (launch, shared) in [(launch, false), (trusted, true)] {
        let lease = async |tenant: &str| {
            world.pool.lease(&launch.on_behalf_of(tenant), DIGEST, &world.config()).await.unwrap()
        };
        let (a, again, b) = (lease("a").await, lease("a").await, lease("b").await);
        assert_eq!(a.process_id(), again.process_id());
        assert_eq!(a.process_id() == b.process_id(), shared);
    }
}

#[tokio::test]
async fn one_control_plane_leaves_processes_to_the_others() {
    let world = World::with(|settings| settings.most = 2);
    let launch = Launch::new(shelf_program());
    let other = world.part("other");
    let other = Value::Fields([("directory".to_owned(), Value::string(other.to_str().unwrap()))].into());
    let held = world.pool.lease(&launch.on_behalf_of("a"), DIGEST, &world.config()).await.unwrap();
    let refused = world.pool.lease(&launch.on_behalf_of("a"), DIGEST, &other).await.err().unwrap();
    assert!(matches!(refused, PluginError::TooMany { most: 1 }), "{refused}");
    world.pool.lease(&launch.on_behalf_of("b"), DIGEST, &other).await.unwrap();
    drop(held);
    world.pool.lease(&launch.on_behalf_of("a"), DIGEST, &other).await.unwrap();
}

#[tokio::test]
async fn without_a_sandbox_nothing_is_started() {
    let world = World::with(|settings| {
        let none = Err("no sandbox can be had on this machine: no namespaces".to_owned());
        settings.isolation = Isolation::new(none, "/nowhere", egress::Policy::default());
    });
    let refused = world.pool.catalogue(&Launch::new(shelf_program()), DIGEST).await.err().unwrap();
    let expected = "no provider is started: no sandbox can be had on this machine: no namespaces; the operator can let \
                    providers run without isolation (--trust-terraform-providers)";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test]
async fn trusted_by_the_operator_they_run_without_one() {
    let world = World::with(|settings| {
        let launcher = sandbox::Launcher::program(shelf_program().with_file_name("launcher"));
        let sockets = tempfile::TempDir::with_prefix("tf").unwrap().keep();
        let none = sandbox::Sandbox::none(launcher);
        settings.isolation = Isolation::new(Ok(none), sockets, egress::Policy::default());
    });
    let lease = world.lease().await;
    create(&lease, simple()).await;
    assert_eq!(world.things().len(), 1);
}

/// The provider that the attack was made with. It is not part of this repository.
fn aws() -> Option<PathBuf> {
    let directory = "/opt/tf-plugins/registry.terraform.io/hashicorp/aws/5.100.0/linux_amd64";
    let program = PathBuf::from(directory).join("terraform-provider-aws_v5.100.0_x5");
    if !program.exists() {
        eprintln!("skipped: {} is not there", program.display());
        return None;
    }
    is_isolated().then_some(program)
}

/// With a policy that allows the tenant's own servers on this machine, which is more than by default.
async fn configured(
    world: &World,
    program: &std::path::Path,
    config: serde_json::Value,
) -> Result<Lease, PluginError> {
    let launch = Launch::new(program).on_behalf_of("a");
    let catalogue = world.pool.catalogue(&launch, "aws").await?;
    // In the provider's own names, as in a Secret.
    let block = &catalogue.provider.block;
    let config = shape::Draft::read(block, &json!({})).unwrap().with_secrets(block, &config).unwrap();
    let config = config.value(block);
    world.pool.lease(&launch, "aws", &config).await
}

#[tokio::test]
async fn the_aws_provider_does_not_send_files_of_this_machine() {
    let Some(program) = aws() else { return };
    let world = World::with(|settings| {
        settings.limits.start = std::time::Duration::from_secs(120);
    });
    let (port, count, asked) = server();
    let endpoint = format!("http://127.0.0.1:{port}");
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "secret-of-the-server").unwrap();
    let common = json!({
        "region": "us-east-1", "skip_requesting_account_id": true, "skip_credentials_validation": true,
        "skip_metadata_api_check": "true", "max_retries": 1,
        "endpoints": [{"sts": endpoint, "sqs": endpoint}],
    });
    let with = |more: serde_json::Value| {
        let mut all = common.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    for file in [secret.path().to_str().unwrap(), "/proc/1/environ", "/etc/shadow"] {
        let role = json!({
            "role_arn": "arn:aws:iam::111111111111:role/x", "session_name": "sess", "web_identity_token_file": file,
        });
        let refused =
            configured(&world, &program, with(json!({"assume_role_with_web_identity": [role]}))).await;
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("no such file"), "{file}: {refused}");
        assert_eq!(*asked.lock(), "", "{file}");
    }
    // A file that the tenant could name, with a command in it.
    let marker = world.cloud.path().join("ran");
    let profile = world.cloud.path().join("profile");
    let text = format!("[default]\ncredential_process = /bin/sh -c 'touch {}'\n", marker.display());
    std::fs::write(&profile, text).unwrap();
    let files = json!({"shared_config_files": [profile]});
    let refused = configured(&world, &program, with(files)).await.err().unwrap().to_string();
    assert!(refused.contains("credential"), "{refused}");
    assert!(!marker.exists());
    // And it works as it should: a role is asked for, by a token that the tenant gives.
    let before = count.load(Ordering::SeqCst);
    let role = json!({
        "role_arn": "arn:aws:iam::111111111111:role/x", "session_name": "sess", "web_identity_token": "token-of-the-tenant",
    });
    let refused = configured(&world, &program, with(json!({"assume_role_with_web_identity": [role]}))).await;
    let refused = refused.err().unwrap().to_string();
    assert!(count.load(Ordering::SeqCst) > before, "{refused}");
    assert!(asked.lock().contains("token-of-the-tenant") && !asked.lock().contains("secret-of-the-server"));
    let keys = json!({"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": "wJalrXUtnFEMI"});
    let lease = configured(&world, &program, with(keys)).await.unwrap();
    assert!(lease.catalogue().resource("aws_sqs_queue").is_ok());
}
