//! What rules say beyond names: fields that lie elsewhere in answers, and those that a spec no longer has.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::compare::compare;
use super::super::*;
use super::{kind, scope};

#[test]
fn fields_that_lie_elsewhere_in_the_answer() {
    let check = |(service, name): (&str, &str), found: Value, path: &str, expected: Value| {
        let translator = kind(service, name).translator().unwrap();
        let operation = translator.facts.reading_operation().unwrap();
        let learned = translator.learned(operation, &found);
        let learned = json!({"spec": learned.spec, "status": learned.status});
        assert_eq!(learned.pointer(path), Some(&expected), "{service}/{name}: {learned}");
    };
    check(
        ("acm", "Certificate"),
        json!({"DomainValidationOptions": [{"DomainName": "a", "ResourceRecord": {"Name": "n", "Type": "CNAME", "Value": "v"}}]}),
        "/status/domainValidations/0/resourceRecord/value",
        json!("v"),
    );
    check(
        ("ec2", "RouteTable"),
        json!({"Routes": [{"DestinationCidrBlock": "0.0.0.0/0", "State": "blackhole"}]}),
        "/status/routeStatuses/0/state",
        json!("blackhole"),
    );
    check(
        ("dynamodb", "Table"),
        json!({"GlobalSecondaryIndexes": [{"IndexName": "i", "IndexStatus": "ACTIVE"}]}),
        "/status/globalSecondaryIndexesDescriptions/0/indexStatus",
        json!("ACTIVE"),
    );
    check(
        ("lambda", "Function"),
        json!({"Layers": [{"Arn": "arn:l", "CodeSize": 3}]}),
        "/status/layerStatuses/0/codeSize",
        json!(3),
    );
    check(("elbv2", "Rule"), json!({"Priority": "7"}), "/spec/priority", json!(7));
    check(
        ("ec2", "VPCEndpoint"),
        json!({"Groups": [{"GroupId": "g"}]}),
        "/spec/securityGroupIDs",
        json!(["g"]),
    );
    check(
        ("rds", "DBInstance"),
        json!({"IAMDatabaseAuthenticationEnabled": true}),
        "/spec/enableIAMDatabaseAuthentication",
        json!(true),
    );
}

/// What a spec no longer says is taken away where AWS can be told so.
#[test]
fn what_is_left_out_is_cleared() {
    let check = |(service, name): (&str, &str), identity: Value, observed: Value, expected: Value| {
        let facts = kind(service, name);
        let meta = BTreeMap::from([("arn", "arn:x".to_owned())]);
        let object =
            json!({"spec": identity, "status": {"queueURL": "u", "ackResourceMetadata": {"arn": "arn:x"}}});
        let observed = json!({"spec": observed});
        let scope = scope(facts, &object, &observed, &meta);
        let changes = compare(facts, facts.plan().unwrap(), &object["spec"], &observed["spec"]);
        let made = calls::update(facts, &scope, &changes);
        let made: Value = made.iter().map(|call| json!([call.operation, call.request])).collect();
        assert_eq!(made, expected, "{service}/{name}");
    };
    let queue =
        |attribute: &str| json!([["SetQueueAttributes", {"QueueUrl": "u", "Attributes": {attribute: ""}}]]);
    check(
        ("sqs", "Queue"),
        json!({}),
        json!({"redrivePolicy": "{\"maxReceiveCount\":1}"}),
        queue("RedrivePolicy"),
    );
    check(("sqs", "Queue"), json!({}), json!({"redrivePolicy": ""}), json!([]));
    check(("sqs", "Queue"), json!({}), json!({"visibilityTimeout": "30"}), json!([]));
    check(
        ("sns", "Topic"),
        json!({}),
        json!({"kmsMasterKeyID": "k"}),
        json!([["SetTopicAttributes", {"TopicArn": "arn:x", "AttributeName": "KmsMasterKeyId", "AttributeValue": ""}]]),
    );
    check(
        ("lambda", "Function"),
        json!({"name": "f", "timeout": 3}),
        json!({"name": "f", "timeout": 3, "description": "d", "environment": {"variables": {"A": "1"}}}),
        json!([["UpdateFunctionConfiguration", {"FunctionName": "f", "Description": "", "Environment": {"Variables": {}}}]]),
    );
    check(
        ("rds", "DBInstance"),
        json!({"dbInstanceIdentifier": "d"}),
        json!({"dbInstanceIdentifier": "d", "enableCloudwatchLogsExports": ["audit"]}),
        json!([["ModifyDBInstance", {"DBInstanceIdentifier": "d", "ApplyImmediately": true,
            "CloudwatchLogsExportConfiguration": {"DisableLogTypes": ["audit"]}}]]),
    );
    check(
        ("dynamodb", "Table"),
        json!({"tableName": "t"}),
        json!({"tableName": "t", "globalSecondaryIndexes": [{"indexName": "i"}]}),
        json!([["UpdateTable", {"TableName": "t", "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "i"}}]}]]),
    );
    check(
        ("iam", "Role"),
        json!({"name": "r"}),
        json!({"name": "r", "description": "d", "permissionsBoundary": "arn:p"}),
        json!([
            ["DeleteRolePermissionsBoundary", {"RoleName": "r"}],
            ["UpdateRole", {"RoleName": "r", "Description": ""}],
        ]),
    );
    check(
        ("secretsmanager", "Secret"),
        json!({"name": "s"}),
        json!({"name": "s", "replicaRegions": [{"region": "eu-west-3"}]}),
        json!([["RemoveRegionsFromReplication", {"SecretId": "arn:x", "RemoveReplicaRegions": ["eu-west-3"]}]]),
    );
}
