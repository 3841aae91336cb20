//! Calls that are made of more than the field that changed: with its like, of what was asked before, over what is there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::compare::compare;
use super::super::*;
use super::{kind, scope};

#[test]
fn fields_that_go_together_or_one_at_a_time() {
    let check = |(service, name): (&str, &str), wanted: Value, found: Value, expected: Value| {
        let facts = kind(service, name);
        let (wanted, found) = (json!({"spec": wanted}), json!({"spec": found}));
        let meta = BTreeMap::new();
        let scope = scope(facts, &wanted, &found, &meta);
        let changes = compare(facts, facts.plan().unwrap(), &wanted["spec"], &found["spec"]);
        let made: Value = calls::update(facts, &scope, &changes)
            .iter()
            .map(|call| json!([call.operation, call.request]))
            .collect();
        assert_eq!(made, expected, "{service}/{name}");
    };
    let bucket = ("s3", "Bucket");
    check(
        bucket,
        json!({"name": "b", "grantRead": "id=r", "grantWrite": "id=w", "grantFullControl": "id=o"}),
        json!({"name": "b", "grantFullControl": "id=o"}),
        json!([["PutBucketAcl", {"Bucket": "b", "GrantFullControl": "id=o", "GrantRead": "id=r", "GrantWrite": "id=w"}]]),
    );
    check(
        bucket,
        json!({"name": "b", "acl": "private"}),
        json!({"name": "b", "acl": "public-read", "grantRead": "id=r"}),
        json!([["PutBucketAcl", {"Bucket": "b", "ACL": "private"}]]),
    );
    let rule = json!({"defaultRetention": {"mode": "COMPLIANCE", "days": 3}});
    let spelled = json!({"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 3}});
    check(
        bucket,
        json!({"name": "b", "objectLockEnabledForBucket": true, "objectLockConfiguration": {"rule": rule}}),
        json!({"name": "b"}),
        json!([["PutObjectLockConfiguration",
            {"Bucket": "b", "ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled", "Rule": spelled}}]]),
    );
    // Nobody can unlock it.
    check(
        bucket,
        json!({"name": "b", "objectLockEnabledForBucket": false}),
        json!({"name": "b", "objectLockEnabledForBucket": true}),
        json!([]),
    );
    let table = ("dynamodb", "Table");
    let of = |regions: &[&str]| -> Value { regions.iter().map(|name| json!({"regionName": name})).collect() };
    let updates = |update: Value| json!([["UpdateTable", {"TableName": "t", "ReplicaUpdates": [update]}]]);
    for (wanted, found, expected) in [
        (of(&["a", "b"]), of(&["b", "a"]), json!([])),
        (of(&["a", "b", "c"]), of(&["a"]), updates(json!({"Create": {"RegionName": "b"}}))),
        (of(&["a", "c"]), of(&["a", "b"]), updates(json!({"Delete": {"RegionName": "b"}}))),
        (Value::Null, of(&["a"]), updates(json!({"Delete": {"RegionName": "a"}}))),
        (
            json!([{"regionName": "a", "kmsMasterKeyID": "k"}]),
            json!([{"regionName": "a", "kmsMasterKeyID": "arn:aws:kms:eu-west-1:1:key/k"}]),
            json!([]),
        ),
        (
            json!([{"regionName": "a", "kmsMasterKeyID": "l"}]),
            json!([{"regionName": "a", "kmsMasterKeyID": "arn:aws:kms:eu-west-1:1:key/k"}]),
            updates(json!({"Update": {"RegionName": "a", "KMSMasterKeyId": "l"}})),
        ),
    ] {
        let spec = |replicas: Value| json!({"tableName": "t", "tableReplicas": replicas});
        check(table, spec(wanted), spec(found), expected);
    }
    let parameter = |tier: &str, policies: &str| json!({"name": "p", "type": "String", "value": "v", "tier": tier, "policies": policies});
    check(
        ("ssm", "Parameter"),
        parameter("Advanced", r#"[{"Type": "Expiration", "Version": "1.0"}]"#),
        parameter("Advanced", r#"[{"Version":"1.0","Type":"Expiration"}]"#),
        json!([]),
    );
    check(
        ("ssm", "Parameter"),
        parameter("Advanced", "[]"),
        parameter("Standard", "[]"),
        json!([["PutParameter", {"Name": "p", "Type": "String", "Value": "v", "Tier": "Advanced", "Policies": "[]",
            "Overwrite": true}]]),
    );
}

/// A static parameter waits for the next start of the database.
#[test]
fn what_was_asked_before_decides_how_items_are_put() {
    let facts = kind("rds", "DBParameterGroup");
    let wanted = json!({"spec": {"name": "g", "parameterOverrides": {"a": "1", "b": "2"}}});
    let found = json!({"spec": {"name": "g", "parameterOverrides": {"c": "3"}}});
    let all = json!({"Parameters": [
        {"ParameterName": "a", "ApplyType": "static"}, {"ParameterName": "b", "ApplyType": "dynamic"},
        {"ParameterName": "c", "ApplyType": "dynamic"},
    ]});
    let (meta, lists) = (BTreeMap::new(), BTreeMap::from([("ParameterOverrides".to_owned(), all)]));
    let scope = send::Scope { lists: Some(&lists), ..scope(facts, &wanted, &found, &meta) };
    let changes = compare(facts, facts.plan().unwrap(), &wanted["spec"], &found["spec"]);
    let made = calls::update(facts, &scope, &changes);
    let method = |call: &calls::Planned| {
        let parameter = &call.request["Parameters"][0];
        (call.operation.clone(), parameter["ParameterName"].clone(), parameter["ApplyMethod"].clone())
    };
    assert_eq!(
        made.iter().map(method).collect::<Vec<_>>(),
        [
            ("ResetDBParameterGroup".to_owned(), json!("c"), json!("immediate")),
            ("ModifyDBParameterGroup".to_owned(), json!("a"), json!("pending-reboot")),
            ("ModifyDBParameterGroup".to_owned(), json!("b"), json!("immediate")),
        ]
    );
}

/// All of what is there is sent, with one member changed: CloudFront takes nothing else.
#[test]
fn what_must_be_switched_off_before_it_goes() {
    let facts = kind("cloudfront", "Distribution");
    let object = json!({"spec": {}, "status": {"id": "d"}});
    let deleted = |enabled: bool| {
        let observed = json!({"spec": {"distributionConfig": {"enabled": enabled}}});
        let answer =
            json!({"DistributionConfig": {"CallerReference": "r", "Comment": "c", "Enabled": enabled}});
        let (reply, meta) = (json!({"ETag": "e"}), BTreeMap::new());
        let scope = scope(facts, &object, &observed, &meta);
        let scope = send::Scope { answer: Some(&answer), reply: Some(&reply), ..scope };
        let made = calls::delete(facts, &scope);
        made.iter().map(|call| json!([call.operation, call.request, call.alone])).collect::<Vec<_>>()
    };
    let delete = json!(["DeleteDistribution", {"Id": "d", "IfMatch": "e"}, false]);
    assert_eq!(deleted(false), std::slice::from_ref(&delete));
    let config = json!({"CallerReference": "r", "Comment": "c", "Enabled": false});
    let disable =
        json!(["UpdateDistribution", {"Id": "d", "IfMatch": "e", "DistributionConfig": config}, true]);
    assert_eq!(deleted(true), [disable, delete]);
}
