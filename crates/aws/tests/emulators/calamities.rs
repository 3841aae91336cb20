//! Everything that can go wrong with a call, at every call of a create, an update and a delete. Afterwards there is exactly
//! one resource, or none.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stories;
use crate::story::{Made, Story, filled};
use crate::world::{Tuning, World};
use ::emulators::{Call, Fault};

/// More calls than any of these ever makes.
const MANY: usize = 200;

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The process dies before and after the call, and another one takes over.
    Deaths,
    /// The call goes wrong.
    Faults,
}

/// One kind, and what happens to it.
#[derive(Clone)]
pub struct Calamity {
    pub story: Story,
    sort: Sort,
    /// What lists all resources of the kind, and where in the answer they are.
    list: (&'static str, &'static str),
}

fn table() -> Vec<(Story, (&'static str, &'static str))> {
    let named = |service, kind, spec: Value, change: Value| Story::new(service, kind, spec).then(change);
    let tag = json!([{"key": "b", "value": "2"}]);
    let trust = |service: &str| {
        let statement =
            json!({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}});
        json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
    };
    vec![
        (
            named(
                "s3",
                "Bucket",
                json!({"name": "$name", "versioning": {"status": "Enabled"}}),
                json!({"versioning": {"status": "Suspended"}, "tagging": {"tagSet": tag}}),
            ),
            ("ListBuckets", "/Buckets"),
        ),
        (
            named("sqs", "Queue", json!({"queueName": "$name"}), json!({"delaySeconds": "5", "tags": {"b": "2"}})),
            ("ListQueues", "/QueueUrls"),
        ),
        (
            named(
                "iam",
                "Role",
                json!({"name": "$name", "assumeRolePolicyDocument": trust("ec2.amazonaws.com"),
                    "policies": ["arn:aws:iam::aws:policy/ReadOnlyAccess"]}),
                json!({"description": "new", "policies": [], "tags": tag}),
            ),
            ("ListRoles", "/Roles"),
        ),
        (
            named(
                "dynamodb",
                "Table",
                json!({
                    "tableName": "$name", "billingMode": "PAY_PER_REQUEST",
                    "attributeDefinitions": [{"attributeName": "id", "attributeType": "S"}],
                    "keySchema": [{"attributeName": "id", "keyType": "HASH"}],
                }),
                json!({"timeToLive": {"attributeName": "until", "enabled": true}, "tags": tag}),
            ),
            ("ListTables", "/TableNames"),
        ),
        (
            stories::vpc().then(json!({"enableDNSHostnames": true, "tags": tag})),
            ("DescribeVpcs", "/Vpcs"),
        ),
        (
            named(
                "ec2",
                "SecurityGroup",
                json!({"name": "$name", "description": "d", "vpcID": "$needs.0.status.vpcID", "ingressRules": [
                    {"ipProtocol": "tcp", "fromPort": 80, "toPort": 80, "ipRanges": [{"cidrIP": "10.0.0.0/8"}]}]}),
                json!({"ingressRules": [], "tags": tag}),
            )
            .after(stories::vpc()),
            ("DescribeSecurityGroups", "/SecurityGroups"),
        ),
        (
            named("kms", "Key", json!({"description": "d"}), json!({"enableKeyRotation": true})),
            ("ListKeys", "/Keys"),
        ),
        (
            stories::function().then(json!({"description": "d", "tags": {"b": "2"}})).after(stories::role()),
            ("ListFunctions", "/Functions"),
        ),
        (
            named("secretsmanager", "Secret", json!({"name": "$name"}), json!({"description": "e", "tags": tag})),
            ("ListSecrets", "/SecretList"),
        ),
        (
            named(
                "rds",
                "DBInstance",
                json!({"dbInstanceIdentifier": "$name", "dbInstanceClass": "db.t3.micro", "engine": "postgres",
                    "allocatedStorage": 20, "masterUsername": "root"}),
                json!({"dbInstanceClass": "db.t3.small", "tags": tag}),
            ),
            ("DescribeDBInstances", "/DBInstances"),
        ),
    ]
}

/// Both sorts, for kinds of all protocols, with and without names and tokens.
pub fn all() -> Vec<Calamity> {
    let of = |sort| table().into_iter().map(move |(story, list)| Calamity { story, sort, list });
    of(Sort::Deaths).chain(of(Sort::Faults)).collect()
}

impl Calamity {
    pub fn name(&self) -> String {
        format!("{:?} of {}", self.sort, self.story.name()).to_lowercase()
    }

    pub fn tuning(&self) -> Tuning {
        match self.sort {
            Sort::Deaths => Tuning::default(),
            // Silence lasts as long. An emulator that is slower is one more calamity, which has to end well too.
            Sort::Faults => Tuning { timeout: Duration::from_secs(1), ..Tuning::default() },
        }
    }

    pub async fn strike(&self, world: &World) {
        let needs = self.story.make_needs(world).await;
        let before = self.count(world).await;
        match self.sort {
            Sort::Deaths => {
                self.sweep(world, &needs, before, &[Fault::DieBefore], false).await;
                self.sweep(world, &needs, before, &[Fault::DieAfter], true).await;
            }
            Sort::Faults => {
                let all = [Fault::Failed, Fault::Throttled, Fault::Lost, Fault::Stale, Fault::Page];
                self.sweep(world, &needs, before, &all, false).await;
                for fault in [Fault::Lost, Fault::Silence, Fault::Failed, Fault::Throttled] {
                    self.sweep(world, &needs, before, &[fault], true).await;
                }
            }
        }
    }

    /// Makes, changes and deletes one after the other, with a fault at the first call of each, at the second, and so on
    /// until there are no more calls. Several faults take turns.
    async fn sweep(&self, world: &World, needs: &[Made], before: usize, faults: &[Fault], writes: bool) {
        for after in 0..MANY {
            let fault = faults[after % faults.len()];
            let arm = || match writes {
                true => world.proxy.arm_writes(fault, after, 1),
                false => world.proxy.arm(fault, after, 1),
            };
            arm();
            let made = self.story.begin(world, needs).await;
            let mut struck = self.through(world, &made, false).await;
            self.is_exact(world, before + 1, &format!("{fault:?} at call {after} of a create")).await;

            arm();
            let change = filled(&self.story.changes[0].spec, &made, needs);
            world.patch(made.kind, &made.name, json!({"spec": change})).await;
            struck |= self.through(world, &made, false).await;
            self.is_exact(world, before + 1, &format!("{fault:?} at call {after} of an update")).await;

            arm();
            world.delete(made.kind, &made.name).await;
            struck |= self.through(world, &made, true).await;
            self.is_exact(world, before, &format!("{fault:?} at call {after} of a delete")).await;
            if !struck {
                assert!(after > 0, "{fault:?} never struck");
                return;
            }
        }
        panic!("it never ends");
    }

    /// Waits for the end of what was begun; whether something struck on the way.
    async fn through(&self, world: &World, made: &Made, going: bool) -> bool {
        let done = async {
            match going {
                true => world.vanished(made.kind, &made.name).await,
                false => drop(world.settled(made.kind, &made.name).await),
            }
        };
        tokio::select! {
            () = world.proxy.died() => {
                world.kill().await;
                world.start();
            }
            () = done => return world.proxy.disarm(),
        }
        match going {
            true => world.vanished(made.kind, &made.name).await,
            false => drop(world.settled(made.kind, &made.name).await),
        }
        world.proxy.disarm()
    }

    /// There are as many resources as there should be.
    async fn is_exact(&self, world: &World, expected: usize, what: &str) {
        let found = self.count(world).await;
        let calls: Vec<String> = world.proxy.take().iter().map(Call::to_string).collect();
        assert!(found == expected, "{what}: {found}, not {expected}, after {}", calls.join(", "));
    }

    /// How many resources of the kind there are.
    async fn count(&self, world: &World) -> usize {
        let (list, at) = self.list;
        world.count(self.story.service, list, at).await
    }
}
