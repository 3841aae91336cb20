//! What answers do not say, or say in their own ways.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::compare::compare;
use super::super::*;
use super::{kind, scope};

/// Models of some protocols tell no status of errors: the names have to do.
#[test]
fn errors_that_say_that_nothing_is_there() {
    let check = |(service, name): (&str, &str), code: &str, expected: bool| {
        assert_eq!(kind(service, name).is_not_found(code, ""), expected, "{service}/{name} {code}");
    };
    check(("cognitoidentityprovider", "UserPool"), "ResourceNotFoundException", true);
    check(("cognitoidentityprovider", "UserPool"), "NotAuthorizedException", false);
    check(("memorydb", "Cluster"), "ClusterNotFoundFault", true);
    check(("memorydb", "Cluster"), "ServiceLinkedRoleNotFoundFault", false);
    // What no reading call of the kind can answer says something else.
    check(("sqs", "Queue"), "ResourceNotFoundException", false);
}

/// Members that only count others are not published, and have to be sent.
#[test]
fn counts_and_texts_are_sent_as_their_members_want_them() {
    let meta = BTreeMap::new();
    let created = |(service, name): (&str, &str), spec: Value| {
        let (facts, object) = (kind(service, name), json!({"spec": spec}));
        Value::Object(calls::create(facts, &scope(facts, &object, &Value::Null, &meta), "token").request)
    };
    let config = json!({"comment": "c", "enabled": true, "aliases": {"items": ["a", "b"]}, "origins": {}});
    let request = created(("cloudfront", "Distribution"), json!({"distributionConfig": config}));
    let config = &request["DistributionConfig"];
    assert_eq!(config["Aliases"], json!({"Items": ["a", "b"], "Quantity": 2}));
    assert_eq!(config["Origins"], json!({"Quantity": 0}));
    assert_eq!((&config["CallerReference"], &config["Comment"]), (&json!("token"), &json!("c")));
    let spec = json!({"workspaceID": "w", "name": "n", "configuration": "groups: []"});
    let request = created(("prometheusservice", "RuleGroupsNamespace"), spec);
    assert_eq!(request["data"], "Z3JvdXBzOiBbXQ==");
    let spec = json!({"name": "n", "configurationOverrides": "{\"monitoringConfiguration\": {}}"});
    let request = created(("emrcontainers", "JobRun"), spec);
    assert_eq!(request["configurationOverrides"], json!({"monitoringConfiguration": {}}));
    let facts = kind("prometheusservice", "RuleGroupsNamespace");
    let learned =
        facts.translator().unwrap().learned("DescribeRuleGroupsNamespace", &json!({"data": "YQ=="}));
    assert_eq!(learned.spec["configuration"], "a");
}

/// What AWS never shows is no difference: whether it is to be sent again is not for a comparison to say.
#[test]
fn what_is_hidden_is_not_compared() {
    let check = |(service, name): (&str, &str), wanted: Value, found: Value, expected: &[&str]| {
        let facts = kind(service, name);
        let changes = compare(facts, facts.plan().unwrap(), &wanted, &found);
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, expected, "{service}/{name}");
    };
    let application = ("sns", "PlatformApplication");
    check(application, json!({"platformCredential": "k"}), json!({}), &[]);
    check(
        application,
        json!({"platformCredential": "k", "eventDeliveryFailure": "t"}),
        json!({}),
        &["spec.eventDeliveryFailure"],
    );
    let action = |members: Value| json!({"defaultActions": [{"authenticateOIDCConfig": members}]});
    let listener = ("elbv2", "Listener");
    check(
        listener,
        action(json!({"clientID": "i", "clientSecret": "s"})),
        action(json!({"clientID": "i"})),
        &[],
    );
    check(
        listener,
        action(json!({"clientID": "i", "clientSecret": "s"})),
        action(json!({"clientID": "j"})),
        &["spec.defaultActions"],
    );
    for (service, name, path) in [
        ("sns", "PlatformApplication", "spec.platformCredential"),
        ("elbv2", "Listener", "spec.defaultActions[].authenticateOIDCConfig.clientSecret"),
        ("mq", "Broker", "spec.ldapServerMetadata.serviceAccountPassword"),
    ] {
        let hidden = kind(service, name).hidden_fields();
        assert!(hidden.iter().any(|field| field == path), "{service}/{name}: {hidden:?}");
    }
}

/// AWS has versions of what it locks.
#[test]
fn a_field_is_kept_with_those_that_want_it_so() {
    let facts = kind("s3", "Bucket");
    let changes = |wanted: Option<bool>, found: Option<bool>| {
        let wanted = json!({"name": "b", "objectLockEnabledForBucket": wanted});
        let found =
            json!({"name": "b", "versioning": {"status": "Enabled"}, "objectLockEnabledForBucket": found});
        let changes = compare(facts, facts.plan().unwrap(), &wanted, &found);
        changes.into_iter().map(|change| change.word).collect::<Vec<_>>()
    };
    assert_eq!(changes(None, None), ["Versioning"]);
    assert_eq!(changes(Some(false), None), ["Versioning"]);
    assert_eq!(changes(Some(true), Some(true)), Vec::<String>::new());
    assert_eq!(changes(Some(true), None), ["ObjectLockEnabledForBucket"]);
}
