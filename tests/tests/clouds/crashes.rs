//! The server is killed at every call to AWS that it makes for objects, and started again on its data: whatever it was
//! doing, there is one resource for each object afterwards, or none, and the object tells the truth.
//!
//! A proxy holds the call at which the server is to die, before it is passed on or after. Objects of several services
//! are made, changed and deleted at the same time, so that one death is one for each of them, at a call of its own.

use emulators::{Account, Emulator, Fault, Program, Proxy, REGION};
use end_to_end::{Answer, Client, ControlPlane, Server};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::moto::control_plane;
use super::{eventually, is_true};

/// A kind whose objects are tried. Each is of another service, by which its calls are known.
struct Subject {
    service: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// `$name` is the object's own.
    spec: Value,
    change: Value,
    /// What lists its resources, and where in the answer they are.
    list: (&'static str, &'static str),
    /// A call that shows the change, and where. `$id` is at `id` of the object.
    shows: (&'static str, Value, &'static str, Value),
    id: &'static str,
}

/// With names and without, of all protocols but one.
fn subjects() -> Vec<Subject> {
    vec![
        Subject {
            service: "s3",
            kind: "Bucket",
            plural: "buckets",
            spec: json!({"name": "$name"}),
            change: json!({"versioning": {"status": "Enabled"}}),
            list: ("ListBuckets", "/Buckets"),
            shows: ("GetBucketVersioning", json!({"Bucket": "$id"}), "/Status", json!("Enabled")),
            id: "/spec/name",
        },
        Subject {
            service: "sqs",
            kind: "Queue",
            plural: "queues",
            spec: json!({"queueName": "$name"}),
            change: json!({"delaySeconds": "5"}),
            list: ("ListQueues", "/QueueUrls"),
            shows: (
                "GetQueueAttributes",
                json!({"QueueUrl": "$id", "AttributeNames": ["All"]}),
                "/Attributes/DelaySeconds",
                json!("5"),
            ),
            id: "/status/queueURL",
        },
        Subject {
            service: "sns",
            kind: "Topic",
            plural: "topics",
            spec: json!({"name": "$name"}),
            change: json!({"displayName": "d"}),
            list: ("ListTopics", "/Topics"),
            shows: ("GetTopicAttributes", json!({"TopicArn": "$id"}), "/Attributes/DisplayName", json!("d")),
            id: "/status/ackResourceMetadata/arn",
        },
        Subject {
            service: "kms",
            kind: "Key",
            plural: "keys",
            spec: json!({"description": "$name"}),
            change: json!({"enableKeyRotation": true}),
            list: ("ListKeys", "/Keys"),
            shows: ("GetKeyRotationStatus", json!({"KeyId": "$id"}), "/KeyRotationEnabled", json!(true)),
            id: "/status/keyID",
        },
        Subject {
            service: "ec2",
            kind: "VPC",
            plural: "vpcs",
            spec: json!({"cidrBlocks": ["10.0.0.0/16"]}),
            change: json!({"enableDNSHostnames": true}),
            list: ("DescribeVpcs", "/Vpcs"),
            shows: (
                "DescribeVpcAttribute",
                json!({"VpcId": "$id", "Attribute": "enableDnsHostnames"}),
                "/EnableDnsHostnames/Value",
                json!(true),
            ),
            id: "/status/vpcID",
        },
    ]
}

/// A value with its `$word` filled in.
fn filled(value: &Value, word: &str, with: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(&format!("${word}"), with)).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Create,
    Update,
    Delete,
}

/// More calls than any object takes.
const MANY: usize = 100;

struct World {
    runtime: Runtime,
    proxy: Proxy,
    account: Account,
    server: Server,
    plane: ControlPlane,
    /// Of the server that runs now.
    client: Client,
    subjects: Vec<Subject>,
    /// How many resources of each there are at the beginning.
    before: Vec<usize>,
    _emulator: Emulator,
}

impl World {
    fn new() -> World {
        let runtime = Runtime::new().unwrap();
        let emulator = Emulator::start(Program::Moto).unwrap();
        let subjects = subjects();
        let services: Vec<&str> = subjects.iter().map(|one| one.service).collect();
        let proxy = runtime.block_on(Proxy::start(emulator.url(), &services));
        let kinds: Vec<String> =
            subjects.iter().map(|one| format!("{}.{}.services.k8s.aws", one.plural, one.service)).collect();
        let server = Server::start_with(|_| {
            let (url, kinds) = (proxy.url(), kinds.join(","));
            let told = ["--aws-endpoint-url", &url, "--aws-region", REGION, "--reconcile-resources", &kinds];
            // Emulators list at once what was made.
            told.into_iter().chain(["--aws-listing-lag", "0"]).map(str::to_owned).collect()
        });
        let plane = control_plane(&server, "team");
        let client = server.client_as(plane.credentials());
        let account = Account::at(emulator.url());
        let before = Vec::new();
        let _emulator = emulator;
        let mut world = World { runtime, proxy, account, server, plane, client, subjects, before, _emulator };
        world.before = world.counted();
        world
    }

    fn counted(&self) -> Vec<usize> {
        let counts = self.subjects.iter().map(|one| self.account.count(one.service, one.list.0, one.list.1));
        self.runtime.block_on(futures::future::join_all(counts))
    }

    fn path(&self, one: &Subject, name: &str) -> String {
        let group = format!("/apis/{}.services.k8s.aws/v1alpha1", one.service);
        self.plane.path(&format!("{group}/namespaces/default/{}{name}", one.plural))
    }

    fn get(&self, one: &Subject, name: &str) -> Answer {
        self.client.get(&self.path(one, &format!("/{name}")))
    }

    fn begin(&self, phase: Phase, name: &str) {
        let client = &self.client;
        for one in &self.subjects {
            let path = self.path(one, &format!("/{name}"));
            match phase {
                Phase::Create => client.post(&self.path(one, ""), &one.object(name)),
                Phase::Update => client.patch(&path, "merge", &json!({"spec": one.change})),
                Phase::Delete => client.delete(&path),
            }
            .ok();
        }
    }

    fn is_done(&self, phase: Phase, one: &Subject, name: &str) -> bool {
        let answer = self.get(one, name);
        match phase {
            Phase::Delete => answer.code == 404,
            _ => answer.code == 200 && is_settled(&answer.json()),
        }
    }

    /// Waits until every object is where the server is to die, or done; kills it; and waits until all are done.
    /// Whether it died.
    fn through(&mut self, phase: Phase, name: &str) -> bool {
        eventually("the calls to die at", || {
            let waits = |one: &Subject| self.proxy.holds(one.service) || self.is_done(phase, one, name);
            self.subjects.iter().all(waits).then_some(())
        });
        let dies = self.subjects.iter().any(|one| self.proxy.holds(one.service));
        if dies {
            self.server.kill();
            self.proxy.disarm();
            self.server.restart();
            self.client = self.server.client_as(self.plane.credentials());
        }
        self.proxy.disarm();
        for one in &self.subjects {
            eventually(&format!("{} after the death: {}", one.kind, self.get(one, name).text()), || {
                self.is_done(phase, one, name).then_some(())
            });
        }
        dies
    }

    /// There is one resource for each object or none, and it is the one that the object tells of.
    fn is_true(&self, phase: Phase, name: &str, when: &str) {
        let more = usize::from(phase != Phase::Delete);
        let expected: Vec<usize> = self.before.iter().map(|before| before + more).collect();
        let kinds: Vec<&str> = self.subjects.iter().map(|one| one.kind).collect();
        assert_eq!(self.counted(), expected, "{kinds:?}, {when}");
        for one in self.subjects.iter().filter(|_| phase == Phase::Update) {
            let object = self.get(one, name).ok();
            let id = object.pointer(one.id).and_then(Value::as_str);
            let id = id.unwrap_or_else(|| panic!("{when}: {object:#}"));
            let (operation, input, at, expected) = &one.shows;
            let shown = self.account.call(one.service, operation, filled(input, "id", id));
            let shown = self.runtime.block_on(shown).unwrap();
            assert_eq!(shown.pointer(at), Some(expected), "{when}: {} {shown:#}", one.kind);
        }
    }

    /// Has the server die at the first call of everything, at the second, and so on until there are no more.
    fn sweep(&mut self, fault: Fault, writes_only: bool) {
        for call in 0..MANY {
            let name = format!("{fault:?}-{call}").to_lowercase();
            let mut died = false;
            for phase in [Phase::Create, Phase::Update, Phase::Delete] {
                for one in &self.subjects {
                    // A bucket is read by a dozen calls for its parts, which are all alike.
                    let writes_only = writes_only || one.service == "s3";
                    self.proxy.arm_service(one.service, fault, call, writes_only);
                }
                self.begin(phase, &name);
                died |= self.through(phase, &name);
                self.is_true(phase, &name, &format!("{fault:?} at call {call} of {phase:?}"));
            }
            if !died {
                assert!(call > 0, "it never died");
                return;
            }
        }
        panic!("it never ends");
    }
}

impl Subject {
    fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}.services.k8s.aws/v1alpha1", self.service), "kind": self.kind,
            "metadata": {"name": name}, "spec": filled(&self.spec, "name", name),
        })
    }
}

/// Whether an object as it stands has been applied, and nothing of it is under way.
fn is_settled(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    let applied: Value =
        serde_json::from_str(annotations["hangar.dev/applied"].as_str().unwrap_or("{}")).unwrap();
    applied["generation"] == object["metadata"]["generation"]
        && annotations.get("hangar.dev/intent").is_none()
        && is_true(object, "ACK.ResourceSynced")
}

#[test]
fn before_every_call() {
    World::new().sweep(Fault::DieBefore, false);
}

/// After a call that reads is before whatever follows it.
#[test]
fn after_every_call_that_changes_something() {
    World::new().sweep(Fault::DieAfter, true);
}
