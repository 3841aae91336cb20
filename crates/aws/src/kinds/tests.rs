use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::compare::{FieldChange, compare, diff_collection};
use super::*;
use crate::rules::vocabulary::Verb;

mod elsewhere;
mod together;
mod unshown;

fn kind(service: &str, kind: &str) -> &'static KindFacts {
    find(service, kind).unwrap()
}

#[test]
fn names_of_a_kind() {
    let queue = kind("sqs", "Queue");
    assert_eq!(queue.group(), "sqs.services.k8s.aws");
    assert_eq!(queue.finalizer(), "finalizers.sqs.services.k8s.aws/Queue");
    assert_eq!(by_resource("ec2.services.k8s.aws", "vpcs").unwrap().kind, "VPC");
    assert!(by_resource("ec2.example.com", "vpcs").is_none());
}

#[test]
fn fields_of_a_kind() {
    let plan = kind("sqs", "Queue").plan().unwrap();
    let field = plan.field("KmsMasterKeyId").unwrap();
    assert_eq!((field.name.as_str(), field.home, field.attribute), ("kmsMasterKeyID", Home::Spec, true));
    let reference = plan.field("KmsMasterKeyRef").unwrap();
    assert_eq!(reference.refers_for.as_deref(), Some("KmsMasterKeyId"));
    assert!(plan.field("QueueName").unwrap().required);
    assert_eq!(plan.field("QueueUrl").unwrap().home, Home::Status);
}

#[test]
fn references_by_path() {
    let all = kind("lambda", "Function").references();
    let found = |field: &str| all.iter().find(|reference| reference.field == field).unwrap();
    let subnets = found("spec.vpcConfig.subnetIDs");
    assert_eq!(subnets.reference, "spec.vpcConfig.subnetRefs");
    assert_eq!((subnets.service.as_str(), subnets.target.as_str()), ("ec2", "status.subnetID"));
    assert!(found("spec.role").required);
    assert_eq!(kind("rds", "DBInstance").secret_fields(), ["spec.masterUserPassword"]);
    assert_eq!(kind("mq", "Broker").secret_fields(), ["spec.users[].password"]);
}

#[test]
fn requests_have_what_the_operation_takes() {
    let check =
        |(service, name): (&str, &str), operation: &str, verb: Verb, object: Value, expected: Value| {
            let facts = kind(service, name);
            let request = facts.translator().unwrap().request(operation, verb, &object);
            assert_eq!(Value::Object(request), expected, "{service}/{name} {operation}");
        };
    let role =
        json!({"spec": {"name": "r", "path": "/", "policies": ["p"], "tags": [{"key": "a", "value": "b"}]}});
    check(
        ("iam", "Role"),
        "CreateRole",
        Verb::Create,
        role.clone(),
        json!({"RoleName": "r", "Path": "/", "Tags": [{"Key": "a", "Value": "b"}]}),
    );
    check(("iam", "Role"), "GetRole", Verb::Read, role, json!({"RoleName": "r"}));
    check(
        ("ec2", "VPC"),
        "DescribeVpcs",
        Verb::Read,
        json!({"spec": {}, "status": {"vpcID": "vpc-1"}}),
        json!({"VpcIds": ["vpc-1"]}),
    );
    // One id where the call takes many.
    let template = json!({"spec": {}, "status": {"id": "lt-1"}});
    let ids = json!({"LaunchTemplateIds": ["lt-1"]});
    check(("ec2", "LaunchTemplate"), "DescribeLaunchTemplates", Verb::Read, template, ids);
    let instance = json!({"spec": {}, "status": {"instanceID": "i-1"}});
    let ids = json!({"InstanceIds": ["i-1"]});
    check(("ec2", "Instance"), "TerminateInstances", Verb::Delete, instance, ids);
    check(
        ("sns", "Topic"),
        "GetTopicAttributes",
        Verb::Read,
        json!({"spec": {}, "status": {"ackResourceMetadata": {"arn": "arn:t"}}}),
        json!({"TopicArn": "arn:t"}),
    );
    check(
        ("lambda", "Function"),
        "CreateFunction",
        Verb::Create,
        json!({"spec": {"name": "f", "code": {"s3Bucket": "b", "sha256": "x"}, "vpcConfig": {"subnetIDs": ["s"]}}}),
        json!({"FunctionName": "f", "Code": {"S3Bucket": "b"}, "VpcConfig": {"SubnetIds": ["s"]}}),
    );
    check(
        ("ecr", "Repository"),
        "CreateRepository",
        Verb::Create,
        json!({"spec": {"name": "r", "encryptionConfiguration": {"encryptionType": "KMS", "kmsKey": "k"}}}),
        json!({"repositoryName": "r", "encryptionConfiguration": {"encryptionType": "KMS", "kmsKey": "k"}}),
    );
    check(
        ("iam", "Policy"),
        "CreatePolicy",
        Verb::Create,
        json!({"spec": {"name": "p", "description": "d", "policyDocument": "{}"}}),
        json!({"PolicyName": "p", "Description": "d", "PolicyDocument": "{}"}),
    );
    check(
        ("elbv2", "Rule"),
        "CreateRule",
        Verb::Create,
        json!({"spec": {"listenerARN": "l", "priority": 7, "conditions": [{"field": "path-pattern", "values": ["/a"]}]}}),
        json!({"ListenerArn": "l", "Priority": 7, "Conditions": [{"Field": "path-pattern", "Values": ["/a"]}]}),
    );
    check(
        ("eks", "Addon"),
        "CreateAddon",
        Verb::Create,
        json!({"spec": {"name": "a", "podIdentityAssociations": [{"roleARN": "r", "serviceAccount": "s"}]}}),
        json!({"addonName": "a", "podIdentityAssociations": [{"roleArn": "r", "serviceAccount": "s"}]}),
    );
    check(
        ("sagemaker", "ModelPackage"),
        "UpdateModelPackage",
        Verb::Update,
        json!({"spec": {"approvalDescription": "d", "inferenceSpecification": {"supportedContentTypes": ["t"]}}}),
        json!({"ApprovalDescription": "d"}),
    );
    // Statements that hold statements are texts of JSON.
    let text = json!({"Statement": {"GeoMatchStatement": {"CountryCodes": ["DE"]}}}).to_string();
    check(
        ("wafv2", "RuleGroup"),
        "CreateRuleGroup",
        Verb::Create,
        json!({"spec": {"name": "g", "rules": [{"name": "r", "statement": {"notStatement": text}}]}}),
        json!({"Name": "g", "Rules": [{"Name": "r",
            "Statement": {"NotStatement": {"Statement": {"GeoMatchStatement": {"CountryCodes": ["DE"]}}}}}]}),
    );
}

#[test]
fn trees_are_filled() {
    let check = |(service, name): (&str, &str), word: &str, operation: &str, tree: Value, expected: Value| {
        let facts = kind(service, name);
        let translator = facts.translator().unwrap();
        let object = json!({
            "spec": {
                "name": "n", "cidrBlocks": ["10.0.0.0/16"], "tags": [{"key": "a", "value": "b"}],
                "tracingConfig": {"mode": "Active"},
            },
            "status": {"id": "/hostedzone/Z1", "vpcID": "vpc-1"},
        });
        let answer = json!({"Sets": [{"Block": "x", "Id": 1}, {"Block": "y", "Id": 2}]});
        let item = json!({"destinationCIDRBlock": "0.0.0.0/0", "gatewayID": "igw-1"});
        let scope = send::Scope {
            translator,
            object: &object,
            observed: None,
            meta: &BTreeMap::from([("region", "eu-west-1".to_owned())]),
            answer: Some(&answer),
            reply: None,
            lists: None,
            field: translator.plan.field(word),
            now: BTreeMap::from([("value", json!(true)), ("item", item.clone()), ("items", json!([item]))]),
        };
        let mut request = scope.spread(operation);
        if word.is_empty() || operation != "CreateRoute" {
            request = scope.request(operation, &tree);
        }
        assert_eq!(Value::Object(request), expected, "{tree}");
        assert!(scope.holds(&["spec.name".into(), "!spec.colour".into(), "meta.region != us-east-1".into()]));
        assert!(!scope.holds(&["spec.name == m".into()]));
    };
    check(
        ("ec2", "VPC"),
        "",
        "CreateVpc",
        json!({
            "CidrBlock": "$spec.cidrBlocks[0]", "InstanceTenancy": "$spec.instanceTenancy",
            "TagSpecifications": [{"ResourceType": "vpc", "Tags": "$spec.tags"}],
        }),
        json!({
            "CidrBlock": "10.0.0.0/16",
            "TagSpecifications": [{"ResourceType": "vpc", "Tags": [{"Key": "a", "Value": "b"}]}],
        }),
    );
    check(
        ("ec2", "VPC"),
        "",
        "CreateVpc",
        json!({"TagSpecifications": [{"ResourceType": "vpc", "Tags": "$spec.others"}]}),
        json!({}),
    );
    let arn = |field: &str| json!({"TopicArn": format!("arn:${{meta.region}}:${{spec.{field}}}")});
    check(("sns", "Topic"), "", "GetTopicAttributes", arn("name"), json!({"TopicArn": "arn:eu-west-1:n"}));
    check(("sns", "Topic"), "", "GetTopicAttributes", arn("colour"), json!({}));
    check(
        ("ec2", "VPC"),
        "EnableDNSSupport",
        "ModifyVpcAttribute",
        json!({"VpcId": "$status.vpcID", "EnableDnsSupport": {"Value": "$value"}}),
        json!({"VpcId": "vpc-1", "EnableDnsSupport": {"Value": true}}),
    );
    check(
        ("ec2", "RouteTable"),
        "Routes",
        "CreateRoute",
        json!({}),
        json!({"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1"}),
    );
    check(
        ("ec2", "VPC"),
        "",
        "DisassociateVpcCidrBlock",
        json!({"AssociationId": "$answer.Sets[Block=y].Id"}),
        json!({"AssociationId": 2}),
    );
    check(
        ("route53", "HostedZone"),
        "",
        "AssociateVPCWithHostedZone",
        json!({"HostedZoneId": "$status.id|last"}),
        json!({"HostedZoneId": "Z1"}),
    );
    check(
        ("lambda", "Function"),
        "",
        "UpdateFunctionConfiguration",
        json!({"FunctionName": "$spec.name", "TracingConfig": "$spec.tracingConfig"}),
        json!({"FunctionName": "n", "TracingConfig": {"Mode": "Active"}}),
    );
}

/// What is tried with a kind: what is wanted and what is found, both whole objects.
fn scope<'a>(
    facts: &'static KindFacts,
    object: &'a Value,
    observed: &'a Value,
    meta: &'a BTreeMap<&'static str, String>,
) -> send::Scope<'a> {
    send::Scope {
        translator: facts.translator().unwrap(),
        object,
        observed: Some(observed),
        meta,
        answer: None,
        reply: None,
        lists: None,
        field: None,
        now: BTreeMap::new(),
    }
}

#[test]
fn changes_become_calls() {
    let check = |(service, name): (&str, &str), object: Value, observed: Value, expected: Value| {
        let facts = kind(service, name);
        let meta = BTreeMap::from([("arn", "arn:x".to_owned())]);
        let scope = scope(facts, &object, &observed, &meta);
        let changes = compare(facts, facts.plan().unwrap(), &object["spec"], &observed["spec"]);
        let made = calls::update(facts, &scope, &changes);
        let made: Value = made.iter().map(|call| json!([call.operation, call.request])).collect();
        assert_eq!(made, expected, "{service}/{name}");
    };
    check(
        ("sqs", "Queue"),
        json!({"spec": {"delaySeconds": "5", "tags": {"a": "1"}}, "status": {"queueURL": "u"}}),
        json!({"spec": {"delaySeconds": "0", "tags": {"b": "2"}}}),
        json!([
            ["UntagQueue", {"QueueUrl": "u", "TagKeys": ["b"]}],
            ["TagQueue", {"QueueUrl": "u", "Tags": {"a": "1"}}],
            ["SetQueueAttributes", {"QueueUrl": "u", "Attributes": {"DelaySeconds": "5"}}],
        ]),
    );
    check(
        ("sns", "Topic"),
        json!({"spec": {"displayName": "d", "tags": [{"key": "a", "value": "1"}]},
            "status": {"ackResourceMetadata": {"arn": "arn:x"}}}),
        json!({"spec": {"displayName": "e"}}),
        json!([
            ["TagResource", {"ResourceArn": "arn:x", "Tags": [{"Key": "a", "Value": "1"}]}],
            ["SetTopicAttributes", {"TopicArn": "arn:x", "AttributeName": "DisplayName", "AttributeValue": "d"}],
        ]),
    );
    check(
        ("s3", "Bucket"),
        json!({"spec": {"name": "b", "versioning": {"status": "Enabled"}, "policy": "{\"Version\":\"1\"}",
            "publicAccessBlock": {"blockPublicACLs": true}}}),
        json!({"spec": {"tagging": {"tagSet": [{"key": "k", "value": "v"}]}}}),
        json!([
            ["PutPublicAccessBlock", {"Bucket": "b", "PublicAccessBlockConfiguration": {"BlockPublicAcls": true}}],
            ["DeleteBucketTagging", {"Bucket": "b"}],
            ["PutBucketVersioning", {"Bucket": "b", "VersioningConfiguration": {"Status": "Enabled"}}],
            ["PutBucketPolicy", {"Bucket": "b", "Policy": "{\"Version\":\"1\"}"}],
        ]),
    );
    check(
        ("iam", "Role"),
        json!({"spec": {"name": "r", "description": "new", "policies": ["p1", "p2"],
            "inlinePolicies": {"i": "{\"a\":1}"}}}),
        json!({"spec": {"name": "r", "description": "old", "policies": ["p2", "p3"],
            "inlinePolicies": {"i": "{\"a\": 1}"}}}),
        json!([
            ["DetachRolePolicy", {"RoleName": "r", "PolicyArn": "p3"}],
            ["AttachRolePolicy", {"RoleName": "r", "PolicyArn": "p1"}],
            ["UpdateRole", {"RoleName": "r", "Description": "new"}],
        ]),
    );
    check(
        ("ec2", "SecurityGroup"),
        json!({"spec": {"ingressRules": [{"ipProtocol": "tcp", "fromPort": 1, "toPort": 2,
            "ipRanges": [{"cidrIP": "10.0.0.0/8"}]}]}, "status": {"id": "sg-1"}}),
        json!({"spec": {"ingressRules": []}}),
        json!([["AuthorizeSecurityGroupIngress", {"GroupId": "sg-1", "IpPermissions": [
            {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]},
        ]}]]),
    );
    check(
        ("dynamodb", "Table"),
        json!({"spec": {"tableName": "t", "attributeDefinitions": [{"attributeName": "a", "attributeType": "S"}],
            "globalSecondaryIndexes": [{"indexName": "i", "keySchema": [{"attributeName": "a", "keyType": "HASH"}]}]}}),
        json!({"spec": {"tableName": "t", "attributeDefinitions": [{"attributeName": "a", "attributeType": "S"}]}}),
        json!([["UpdateTable", {"TableName": "t",
            "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
            "GlobalSecondaryIndexUpdates": [
                {"Create": {"IndexName": "i", "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}]}}],
        }]]),
    );
    check(
        ("kms", "Key"),
        json!({"spec": {"enableKeyRotation": false}, "status": {"keyID": "k"}}),
        json!({"spec": {"enableKeyRotation": true}}),
        json!([["DisableKeyRotation", {"KeyId": "k"}]]),
    );
    check(
        ("kms", "Key"),
        json!({"spec": {}, "status": {"keyID": "k"}}),
        json!({"spec": {"enableKeyRotation": true}}),
        json!([["DisableKeyRotation", {"KeyId": "k"}]]),
    );
    check(
        ("kms", "Key"),
        json!({"spec": {}, "status": {"keyID": "k"}}),
        json!({"spec": {"enableKeyRotation": false}}),
        json!([]),
    );
    check(
        ("dynamodb", "Table"),
        json!({"spec": {"tableName": "t", "continuousBackups": {"pointInTimeRecoveryEnabled": false}}}),
        json!({"spec": {"tableName": "t", "continuousBackups": {"pointInTimeRecoveryEnabled": true}}}),
        json!([["UpdateContinuousBackups", {"TableName": "t",
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": false}}]]),
    );
    check(
        ("s3", "Bucket"),
        json!({"spec": {"name": "b", "objectLockConfiguration":
            {"rule": {"defaultRetention": {"mode": "GOVERNANCE", "days": 1}}}}}),
        json!({"spec": {"name": "b"}}),
        json!([["PutObjectLockConfiguration", {"Bucket": "b", "ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}}]]),
    );
    check(
        ("rds", "DBInstance"),
        json!({"spec": {"dbInstanceIdentifier": "d", "port": 5433, "enableIAMDatabaseAuthentication": true,
            "performanceInsightsEnabled": true, "optionGroupName": "o", "domain": "d-1"}}),
        json!({"spec": {"dbInstanceIdentifier": "d", "port": 5432, "enableIAMDatabaseAuthentication": false,
            "performanceInsightsEnabled": false, "optionGroupName": "p"}}),
        json!([["ModifyDBInstance", {"DBInstanceIdentifier": "d", "DBPortNumber": 5433,
            "EnableIAMDatabaseAuthentication": true, "EnablePerformanceInsights": true, "OptionGroupName": "o",
            "Domain": "d-1", "ApplyImmediately": true, "AllowMajorVersionUpgrade": true}]]),
    );
    check(
        ("ec2", "VPCEndpoint"),
        json!({"spec": {"securityGroupIDs": ["a", "b"]}, "status": {"vpcEndpointID": "e"}}),
        json!({"spec": {"securityGroupIDs": ["b", "c"]}}),
        json!([["ModifyVpcEndpoint", {"VpcEndpointId": "e", "AddSecurityGroupIds": ["a"], "RemoveSecurityGroupIds": ["c"]}]]),
    );
    check(
        ("elbv2", "Rule"),
        json!({"spec": {"priority": 2, "conditions": [{"field": "host-header", "values": ["a"]}]}}),
        json!({"spec": {"priority": 1, "conditions": [{"field": "host-header", "values": ["a"],
            "hostHeaderConfig": {"values": ["a"]}}]}}),
        json!([["SetRulePriorities", {"RulePriorities": [{"RuleArn": "arn:x", "Priority": 2}]}]]),
    );
}

#[test]
fn creating_reading_and_deleting() {
    let check = |(service, name): (&str, &str), object: Value, expected: [Value; 3]| {
        let facts = kind(service, name);
        let meta = BTreeMap::from([("arn", "arn:x".to_owned()), ("region", "eu-west-1".to_owned())]);
        let observed = object.clone();
        let scope = scope(facts, &object, &observed, &meta);
        let show = |call: &calls::Planned| json!([call.operation, call.request]);
        let made = calls::create(facts, &scope, "token");
        assert_eq!(show(&made), expected[0], "{service}/{name}");
        assert_eq!(
            calls::read(facts, &scope).as_ref().map(show).unwrap_or_default(),
            expected[1],
            "{service}/{name}"
        );
        let deleted: Value = calls::delete(facts, &scope).iter().map(show).collect();
        assert_eq!(deleted, expected[2], "{service}/{name}");
    };
    check(
        ("s3", "Bucket"),
        json!({"spec": {"name": "b", "versioning": {"status": "Enabled"}}}),
        [
            json!(["CreateBucket", {"Bucket": "b", "CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}]),
            json!(["HeadBucket", {"Bucket": "b"}]),
            json!([["DeleteBucket", {"Bucket": "b"}]]),
        ],
    );
    check(
        ("sqs", "Queue"),
        json!({"spec": {"queueName": "q", "delaySeconds": "1"}}),
        [
            json!(["CreateQueue", {"QueueName": "q", "Attributes": {"DelaySeconds": "1"}}]),
            json!(null),
            json!([["DeleteQueue", {}]]),
        ],
    );
    check(
        ("iam", "Role"),
        json!({"spec": {"name": "r", "policies": ["p"], "inlinePolicies": {"i": "{}"}}}),
        [
            json!(["CreateRole", {"RoleName": "r"}]),
            json!(["GetRole", {"RoleName": "r"}]),
            json!([
                ["DeleteRolePolicy", {"RoleName": "r", "PolicyName": "i"}],
                ["DetachRolePolicy", {"RoleName": "r", "PolicyArn": "p"}],
                ["DeleteRole", {"RoleName": "r"}],
            ]),
        ],
    );
    check(
        ("ec2", "Subnet"),
        json!({"spec": {"cidrBlock": "10.0.1.0/24", "vpcID": "v"}}),
        [
            json!(["CreateSubnet", {"CidrBlock": "10.0.1.0/24", "VpcId": "v"}]),
            json!(null),
            json!([["DeleteSubnet", {}]]),
        ],
    );
    check(
        ("ecr", "Repository"),
        json!({"spec": {"name": "r"}, "metadata": {"annotations": {"ecr.services.k8s.aws/force-delete": "true"}}}),
        [
            json!(["CreateRepository", {"repositoryName": "r"}]),
            json!(["DescribeRepositories", {"repositoryNames": ["r"]}]),
            json!([["DeleteRepository", {"repositoryName": "r", "force": true}]]),
        ],
    );
}

#[test]
fn the_oldest_version_goes_when_there_are_too_many() {
    let version = |id: usize, default: bool| json!({"VersionId": format!("v{id}"), "IsDefaultVersion": default, "CreateDate": format!("2024-01-0{id}T00:00:00Z")});
    let facts = kind("iam", "Policy");
    let listed =
        |count: usize| json!({"Versions": (1..=count).map(|id| version(id, id == 1)).collect::<Vec<_>>()});
    assert_eq!(calls::version_to_prune(facts, &listed(4)), None);
    assert_eq!(calls::version_to_prune(facts, &listed(5)).as_deref(), Some("v2"));
}

#[test]
fn answers_become_fields() {
    let translator = kind("dynamodb", "Table").translator().unwrap();
    assert_eq!(translator.answer_path("DescribeTable"), (vec!["Table"], false));
    let found = json!({
        "TableName": "t", "TableStatus": "ACTIVE", "TableArn": "arn:aws:dynamodb:::table/t",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    });
    let learned = translator.learned("DescribeTable", &found);
    assert_eq!(Value::Object(learned.status), json!({"tableStatus": "ACTIVE"}));
    assert_eq!(learned.spec["keySchema"], json!([{"attributeName": "id", "keyType": "HASH"}]));
    assert_eq!(learned.arn.as_deref(), Some("arn:aws:dynamodb:::table/t"));
    let translator = kind("ec2", "Subnet").translator().unwrap();
    assert_eq!(translator.answer_path("DescribeSubnets"), (vec!["Subnets"], true));
    let translator = kind("ec2", "Instance").translator().unwrap();
    let reservations = json!({"Reservations": [{"Instances": [1, 2]}, {}, {"Instances": [3]}]});
    assert_eq!(translator.answered("DescribeInstances", &reservations), Some(json!([1, 2, 3])));
    assert_eq!(translator.answered("DescribeInstances", &json!({})), None);
}

#[test]
fn changes_by_field() {
    let check = |(service, name): (&str, &str), desired: Value, observed: Value, expected: &[&str]| {
        let facts = kind(service, name);
        let changes = compare(facts, facts.plan().unwrap(), &desired, &observed);
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, expected, "{desired} against {observed}");
    };
    let queue = ("sqs", "Queue");
    check(queue, json!({"delaySeconds": "5"}), json!({"delaySeconds": "5", "visibilityTimeout": "30"}), &[]);
    check(queue, json!({"delaySeconds": "5"}), json!({"delaySeconds": "0"}), &["spec.delaySeconds"]);
    check(
        queue,
        json!({"redrivePolicy": "{\"maxReceiveCount\": 1}"}),
        json!({"redrivePolicy": "{\"maxReceiveCount\":1}"}),
        &[],
    );
    check(queue, json!({"tags": {"a": "b"}}), json!({"tags": {"a": "b"}}), &[]);
    check(queue, json!({}), json!({"tags": {"a": "b"}}), &["spec.tags"]);
    let function = ("lambda", "Function");
    let config = |ids: &[&str]| json!({"vpcConfig": {"subnetIDs": ids}});
    check(function, config(&["a", "b"]), config(&["b", "a"]), &[]);
    check(function, config(&["a", "b"]), config(&["b"]), &["spec.vpcConfig.subnetIDs"]);
    check(
        function,
        json!({"environment": {"variables": {"A": "1"}}}),
        json!({"environment": {"variables": {"A": "1", "B": "2"}}}),
        &["spec.environment.variables"],
    );
    let table = ("dynamodb", "Table");
    let tags =
        |keys: &[&str]| -> Value { keys.iter().map(|key| json!({"key": key, "value": "v"})).collect() };
    check(table, json!({"tags": tags(&["a", "b"])}), json!({"tags": tags(&["b", "a"])}), &[]);
}

#[test]
fn a_change_tells_both_sides() {
    let facts = kind("sqs", "Queue");
    let changes =
        compare(facts, facts.plan().unwrap(), &json!({"delaySeconds": "5"}), &json!({"delaySeconds": "0"}));
    let expected = FieldChange {
        word: "DelaySeconds".to_owned(),
        path: "spec.delaySeconds".to_owned(),
        from: json!("0"),
        to: json!("5"),
    };
    assert_eq!(changes, [expected]);
}

#[test]
fn policies_that_say_the_same() {
    let check = |one: &str, other: &str, expected: bool| {
        assert_eq!(policy::same(&json!(one), &json!(other)), expected, "{one} and {other}");
        assert_eq!(policy::same(&json!(other), &json!(one)), expected, "{other} and {one}");
    };
    let of = |statement: &str| format!(r#"{{"Version":"2012-10-17","Statement":{statement}}}"#);
    check(
        &of(r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":["a","b"]}"#),
        &of(r#"[{"Resource":["b","a"],"Action":["S3:getobject"],"Effect":"Allow"}]"#),
        true,
    );
    check(
        &of(r#"{"Effect":"Allow","Action":"*","Resource":"*","Principal":"*"}"#),
        &of(r#"{"Effect":"Allow","Action":"*","Resource":"*","Principal":{"AWS":"*"}}"#),
        true,
    );
    check(
        &of(r#"{"Effect":"Allow","Principal":{"AWS":"123456789012"},"Action":"a"}"#),
        &of(r#"{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:root"},"Action":"a"}"#),
        true,
    );
    check(
        &of(r#"[{"Effect":"Allow","Action":"a"},{"Effect":"Deny","Action":"b"}]"#),
        &of(r#"[{"Effect":"Deny","Action":"b"},{"Effect":"Allow","Action":"a"}]"#),
        true,
    );
    check(&of(r#"{"Effect":"Allow","Action":"a"}"#), &of(r#"{"Effect":"Deny","Action":"a"}"#), false);
    check(&of(r#"{"Resource":"a"}"#), &of(r#"{"Resource":"A"}"#), false);
    check("%7B%22a%22%3A1%7D", "{\"a\": 1}", true);
    check("not json", "not json", true);
    check("not json", "{}", false);
}

#[test]
fn tags_in_both_forms() {
    let list = json!([{"key": "a", "value": "1"}, {"key": "b"}]);
    let map = tags::as_map(&list, "key", "value");
    assert_eq!(map, BTreeMap::from([("a".into(), "1".into()), ("b".into(), String::new())]));
    assert_eq!(tags::as_object(&map), json!({"a": "1", "b": ""}));
    let found =
        BTreeMap::from([("a".into(), "1".into()), ("c".into(), "3".into()), ("aws:x".into(), "y".into())]);
    let (set, removed) = tags::changes(&map, &found);
    assert_eq!(set, BTreeMap::from([("b".to_owned(), String::new())]));
    assert_eq!(removed, ["c"]);
}

fn some_tags() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[a-e]", "[x-z]?", 0..5)
}

proptest! {
    #[test]
    fn changes_of_tags_lead_to_the_wanted_tags(wanted in some_tags(), mut found in some_tags()) {
        let (set, removed) = tags::changes(&wanted, &found);
        removed.iter().for_each(|key| { found.remove(key); });
        found.extend(set);
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn tags_survive_both_forms(tags in some_tags()) {
        prop_assert_eq!(&tags::as_map(&tags::as_list(&tags, "key", "value"), "key", "value"), &tags);
        prop_assert_eq!(&tags::as_map(&tags::as_object(&tags), "key", "value"), &tags);
    }

    #[test]
    fn changes_of_a_collection_lead_to_the_wanted_one(
        wanted in proptest::collection::btree_map("[a-e]", 0..3, 0..5),
        found in proptest::collection::btree_map("[a-e]", 0..3, 0..5),
    ) {
        let list = |items: &BTreeMap<String, i32>| -> Value {
            items.iter().map(|(name, size)| json!({"name": name, "size": size})).collect()
        };
        let diff = diff_collection(&list(&wanted), &list(&found), &["name".to_owned()], |one, other| one == other);
        let mut result = found;
        for (key, _) in &diff.removed { result.remove(key); }
        let set = diff.added.iter().map(|(key, item)| (key, item));
        for (key, item) in set.chain(diff.changed.iter().map(|(key, item, _)| (key, item))) {
            result.insert(key.clone(), item["size"].as_i64().unwrap() as i32);
        }
        prop_assert_eq!(result, wanted);
    }

    #[test]
    fn nothing_differs_from_itself(delay in "[0-9]{1,3}", tags in some_tags(), policy in "\\PC{0,20}") {
        let spec = json!({"delaySeconds": delay, "tags": tags, "policy": policy, "redrivePolicy": policy});
        let facts = kind("sqs", "Queue");
        prop_assert_eq!(compare(facts, facts.plan().unwrap(), &spec, &spec), []);
    }

    #[test]
    fn a_policy_says_the_same_in_any_order(mut actions in proptest::collection::vec("[a-c]:[a-z]{1,3}", 1..5)) {
        let of = |actions: &[String]| json!(json!({"Statement": {"Effect": "Allow", "Action": actions}}).to_string());
        let one = of(&actions);
        actions.reverse();
        prop_assert!(policy::same(&one, &of(&actions)));
    }
}
