//! The rights that kinds need in an account: one policy document for every call that their rules can lead to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::kinds::{KindFacts, KindsError};
use crate::model::Operation;

/// Services that IAM calls otherwise than signatures do.
const PREFIXES: &[(&str, &str)] = &[("cloudwatch", "cloudwatch")];

/// Services whose actions are the methods of HTTP.
const BY_METHOD: &[&str] = &["apigateway", "apigatewayv2"];

/// Operations that IAM has another word for. Held against AWS's Service Authorization Reference: no other operation that
/// rules reach is missing there, but for those of services that are younger than it.
#[rustfmt::skip]
const ACTIONS: &[(&str, &str, &str)] = &[
    ("cloudfront", "CreateDistributionWithTags", "CreateDistribution"),
    ("keyspaces", "CreateKeyspace", "Create"),
    ("keyspaces", "CreateTable", "Create"),
    ("keyspaces", "DeleteKeyspace", "Drop"),
    ("keyspaces", "DeleteTable", "Drop"),
    ("keyspaces", "GetKeyspace", "Select"),
    ("keyspaces", "GetTable", "Select"),
    ("keyspaces", "ListKeyspaces", "Select"),
    ("keyspaces", "ListTables", "Select"),
    ("keyspaces", "ListTagsForResource", "Select"),
    ("keyspaces", "UpdateKeyspace", "Alter"),
    ("keyspaces", "UpdateTable", "Alter"),
    ("memorydb", "CreateACL", "CreateAcl"),
    ("memorydb", "DeleteACL", "DeleteAcl"),
    ("memorydb", "DescribeACLs", "DescribeAcls"),
    ("memorydb", "UpdateACL", "UpdateAcl"),
    ("s3", "DeleteBucketAnalyticsConfiguration", "PutAnalyticsConfiguration"),
    ("s3", "DeleteBucketCors", "PutBucketCORS"),
    ("s3", "DeleteBucketEncryption", "PutEncryptionConfiguration"),
    ("s3", "DeleteBucketIntelligentTieringConfiguration", "PutIntelligentTieringConfiguration"),
    ("s3", "DeleteBucketInventoryConfiguration", "PutInventoryConfiguration"),
    ("s3", "DeleteBucketLifecycle", "PutLifecycleConfiguration"),
    ("s3", "DeleteBucketMetricsConfiguration", "PutMetricsConfiguration"),
    ("s3", "DeleteBucketOwnershipControls", "PutBucketOwnershipControls"),
    ("s3", "DeleteBucketReplication", "PutReplicationConfiguration"),
    ("s3", "DeleteBucketTagging", "PutBucketTagging"),
    ("s3", "DeletePublicAccessBlock", "PutBucketPublicAccessBlock"),
    ("s3", "GetBucketAccelerateConfiguration", "GetAccelerateConfiguration"),
    ("s3", "GetBucketCors", "GetBucketCORS"),
    ("s3", "GetBucketEncryption", "GetEncryptionConfiguration"),
    ("s3", "GetBucketLifecycleConfiguration", "GetLifecycleConfiguration"),
    ("s3", "GetBucketNotificationConfiguration", "GetBucketNotification"),
    ("s3", "GetBucketReplication", "GetReplicationConfiguration"),
    ("s3", "GetObjectLockConfiguration", "GetBucketObjectLockConfiguration"),
    ("s3", "GetPublicAccessBlock", "GetBucketPublicAccessBlock"),
    ("s3", "HeadBucket", "ListBucket"),
    ("s3", "ListBucketAnalyticsConfigurations", "GetAnalyticsConfiguration"),
    ("s3", "ListBucketIntelligentTieringConfigurations", "GetIntelligentTieringConfiguration"),
    ("s3", "ListBucketInventoryConfigurations", "GetInventoryConfiguration"),
    ("s3", "ListBucketMetricsConfigurations", "GetMetricsConfiguration"),
    ("s3", "ListBuckets", "ListAllMyBuckets"),
    ("s3", "PutBucketAccelerateConfiguration", "PutAccelerateConfiguration"),
    ("s3", "PutBucketAnalyticsConfiguration", "PutAnalyticsConfiguration"),
    ("s3", "PutBucketCors", "PutBucketCORS"),
    ("s3", "PutBucketEncryption", "PutEncryptionConfiguration"),
    ("s3", "PutBucketIntelligentTieringConfiguration", "PutIntelligentTieringConfiguration"),
    ("s3", "PutBucketInventoryConfiguration", "PutInventoryConfiguration"),
    ("s3", "PutBucketLifecycleConfiguration", "PutLifecycleConfiguration"),
    ("s3", "PutBucketMetricsConfiguration", "PutMetricsConfiguration"),
    ("s3", "PutBucketNotificationConfiguration", "PutBucketNotification"),
    ("s3", "PutBucketReplication", "PutReplicationConfiguration"),
    ("s3", "PutObjectLockConfiguration", "PutBucketObjectLockConfiguration"),
    ("s3", "PutPublicAccessBlock", "PutBucketPublicAccessBlock"),
];

/// Operations that functions of ours call beside what the rules name.
const BESIDE: &[(&str, &str, &[&str])] = &[("route53", "RecordSet", &["GetHostedZone"])];

/// What a service does with the rights of its caller: actions that the reference calls dependent, as far as operations of
/// full kinds have any that their kind does not need anyway.
#[rustfmt::skip]
const DEPENDENT: &[(&str, &str, &[&str])] = &[
    ("cloudwatchlogs", "PutSubscriptionFilter", &["iam:PassRole"]),
    ("ec2", "CreateVpcEndpoint", &["ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs",
        "route53:AssociateVPCWithHostedZone"]),
    ("kms", "CreateKey", &["iam:CreateServiceLinkedRole"]),
    ("rds", "CreateDBInstance", &["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey",
        "rds:CreateTenantDatabase", "secretsmanager:CreateSecret", "secretsmanager:TagResource"]),
    ("rds", "DeleteDBInstance", &["rds:CreateDBSnapshot", "rds:DeleteTenantDatabase"]),
    ("rds", "ModifyDBInstance", &["secretsmanager:RotateSecret"]),
    ("route53", "AssociateVPCWithHostedZone", &["ec2:DescribeVpcs"]),
    ("sfn", "CreateStateMachine", &["states:PublishStateMachineVersion"]),
    ("wafv2", "CreateIPSet", &["wafv2:TagResource"]),
];

/// What IAM calls the right to an operation, such as `s3:ListBucket`.
pub fn action(operation: Operation<'_>) -> String {
    let (service, name) = (operation.service(), operation.name());
    let prefix = PREFIXES.iter().find(|(of, _)| *of == service.name());
    let prefix = prefix.map_or(service.signing_name(), |(_, prefix)| *prefix);
    if BY_METHOD.contains(&service.name()) {
        return format!("{prefix}:{}", operation.method());
    }
    let told = ACTIONS.iter().find(|(of, operation, _)| *of == service.name() && *operation == name);
    format!("{prefix}:{}", told.map_or(name, |(_, _, action)| *action))
}

/// The rights that objects of a kind can need.
pub fn actions(kind: &KindFacts) -> Result<BTreeSet<String>, KindsError> {
    let model = kind.plan()?.model();
    let beside = BESIDE.iter().filter(|(service, of, _)| (*service, *of) == (kind.service, kind.kind));
    let beside = beside.flat_map(|(_, _, operations)| operations.iter().copied());
    let operations: BTreeSet<&str> = kind.rules.reached().into_iter().chain(beside).collect();
    let called = operations.iter().filter_map(|name| model.operation(name)).map(action);
    let dependent = DEPENDENT.iter().filter(|(of, name, _)| *of == kind.service && operations.contains(name));
    let dependent = dependent.flat_map(|(_, _, actions)| actions.iter().map(|action| (*action).to_owned()));
    let mut all: BTreeSet<String> = called.chain(dependent).collect();
    // Whoever hands a role to a service must be allowed to.
    if kind.references().iter().any(|told| (told.service.as_str(), told.kind.as_str()) == ("iam", "Role")) {
        all.insert("iam:PassRole".to_owned());
    }
    Ok(all)
}

/// A policy document for these kinds, and nothing else: a statement for each service, all in order.
pub fn policy<'a>(kinds: impl IntoIterator<Item = &'a KindFacts>) -> Result<Value, KindsError> {
    let mut services: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for kind in kinds {
        for action in actions(kind)? {
            let service = action.split(':').next().unwrap_or_default().to_owned();
            services.entry(service).or_default().insert(action);
        }
    }
    let statement = |(service, actions): (String, BTreeSet<String>)| {
        let words = service.split('-').map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| first.to_ascii_uppercase())
                .into_iter()
                .chain(letters)
                .collect::<String>()
        });
        json!({"Sid": words.collect::<String>(), "Effect": "Allow", "Action": actions, "Resource": "*"})
    };
    let statements: Vec<Value> = services.into_iter().map(statement).collect();
    Ok(json!({"Version": "2012-10-17", "Statement": statements}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{all, find};
    use crate::model;

    #[test]
    fn what_iam_calls_operations() {
        let check = |service: &str, name: &str, expected: &str| {
            let operation = model::service(service).unwrap().operation(name).unwrap();
            assert_eq!(action(operation), expected);
        };
        check("s3", "HeadBucket", "s3:ListBucket");
        check("s3", "CreateBucket", "s3:CreateBucket");
        check("cloudwatch", "PutMetricAlarm", "cloudwatch:PutMetricAlarm");
        check("cloudwatchlogs", "CreateLogGroup", "logs:CreateLogGroup");
        check("elbv2", "CreateListener", "elasticloadbalancing:CreateListener");
        check("apigateway", "CreateRestApi", "apigateway:POST");
        check("keyspaces", "GetTable", "cassandra:Select");
        check("eventbridge", "PutRule", "events:PutRule");
        check("sfn", "CreateActivity", "states:CreateActivity");
        check("ses", "CreateConfigurationSet", "ses:CreateConfigurationSet");
        check("lambda", "GetFunction", "lambda:GetFunction");
        check("memorydb", "CreateACL", "memorydb:CreateAcl");
        check("secretsmanager", "CreateSecret", "secretsmanager:CreateSecret");
    }

    #[test]
    fn the_tables_know_what_they_speak_of() {
        let named = DEPENDENT.iter().map(|(service, name, _)| (service, name));
        for (service, name) in ACTIONS.iter().map(|(service, name, _)| (service, name)).chain(named) {
            assert!(model::service(service).unwrap().operation(name).is_some(), "{service} {name}");
        }
        for (service, kind, operations) in BESIDE {
            let model = find(service, kind).unwrap().plan().unwrap().model();
            assert!(operations.iter().all(|name| model.operation(name).is_some()), "{service} {kind}");
        }
    }

    #[test]
    fn what_services_do_in_the_name_of_their_caller() {
        let check = |service: &str, kind: &str, expected: &str| {
            let all = actions(find(service, kind).unwrap()).unwrap();
            assert!(all.contains(expected), "{service} {kind}: {all:?}");
        };
        check("ec2", "VPCEndpoint", "route53:AssociateVPCWithHostedZone");
        check("ec2", "VPC", "ec2:CreateTags");
        check("rds", "DBInstance", "kms:CreateGrant");
        check("rds", "DBInstance", "iam:PassRole");
        check("route53", "HostedZone", "ec2:DescribeVpcs");
        check("cloudwatchlogs", "LogGroup", "iam:PassRole");
        check("s3", "Bucket", "iam:PassRole");
        check("ecs", "TaskDefinition", "iam:PassRole");
        check("iam", "InstanceProfile", "iam:PassRole");
    }

    #[test]
    fn a_policy_for_exactly_the_kinds_in_use() {
        let queue = find("sqs", "Queue").unwrap();
        let expected = json!({"Version": "2012-10-17", "Statement": [{
            "Sid": "Sqs", "Effect": "Allow", "Resource": "*", "Action": [
                "sqs:CreateQueue", "sqs:DeleteQueue", "sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueueTags",
                "sqs:ListQueues", "sqs:SetQueueAttributes", "sqs:TagQueue", "sqs:UntagQueue",
            ],
        }]});
        assert_eq!(policy([queue]).unwrap(), expected);
        let function = policy([find("lambda", "Function").unwrap(), queue]).unwrap();
        let statements = function["Statement"].as_array().unwrap();
        let sids: Vec<_> = statements.iter().map(|one| one["Sid"].as_str().unwrap()).collect();
        assert_eq!(sids, ["Iam", "Lambda", "Sqs"]);
        assert_eq!(statements[0]["Action"], json!(["iam:PassRole"]));
        // Every kind has one.
        assert!(policy(all()).is_ok());
    }
}
