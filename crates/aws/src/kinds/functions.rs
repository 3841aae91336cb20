//! What rules cannot say: small named functions, all of them pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::calls::Planned;
use super::compare::FieldChange;
use super::grants;
use super::send::Scope;

type Planner = fn(&Scope<'_>, &[&FieldChange]) -> Vec<Planned>;
type Form = fn(&Value) -> Value;
type Shown = fn(&Value, &Value) -> Value;

/// The functions that plan calls for changed fields.
pub const PLANNERS: &[(&str, Planner)] = &[
    ("dynamodb_indexes", dynamodb_indexes),
    ("dynamodb_replicas", dynamodb_replicas),
    ("rds_log_exports", rds_log_exports),
    ("ec2_endpoint_members", ec2_endpoint_members),
    ("lambda_code", lambda_code),
];

/// The functions that bring items of a collection into one form.
pub const FORMS: &[(&str, Form)] = &[
    ("network_acl_entries", network_acl_entries),
    ("own_routes", own_routes),
    ("security_group_rules", security_group_rules),
];

/// The functions that tell what a field is, from what it should be and the answer of the reading call, or of its part's, or
/// what a look found.
pub const SHOWN: &[(&str, Shown)] = &[
    ("dynamodb_encryption", shown_encryption),
    ("dynamodb_insights", shown_insights),
    ("lambda_code", shown_code),
    ("rds_managed_password", shown_management),
    ("s3_canned_acl", grants::shown_acl),
    ("s3_grant_full_control", grants::shown_full_control),
    ("s3_grant_read", grants::shown_read),
    ("s3_grant_read_acp", grants::shown_read_acp),
    ("s3_grant_write", grants::shown_write),
    ("s3_grant_write_acp", grants::shown_write_acp),
    ("s3_object_lock", shown_lock),
    ("secretsmanager_version", shown_version),
    ("ssm_policies", shown_policies),
    ("ssm_tier", shown_tier),
];

/// Whether a name is that of a function.
pub fn is_known(name: &str) -> bool {
    let planners = PLANNERS.iter().map(|(known, _)| *known);
    let forms = FORMS.iter().map(|(known, _)| *known);
    planners.chain(forms).chain(SHOWN.iter().map(|(known, _)| *known)).any(|known| known == name)
}

/// What a field is, as a named function tells it; nothing if there is no such function.
pub fn shown(name: &str, wanted: &Value, reply: &Value) -> Value {
    let found = SHOWN.iter().find(|(known, _)| *known == name);
    found.map(|(_, shown)| shown(wanted, reply)).unwrap_or_default()
}

/// The calls that a named function makes of changes; none if there is no such function.
pub fn plan(name: &str, scope: &Scope<'_>, changes: &[&FieldChange]) -> Vec<Planned> {
    let found = PLANNERS.iter().find(|(known, _)| *known == name);
    found.map(|(_, planner)| planner(scope, changes)).unwrap_or_default()
}

/// Items in the form that a named function gives them; as they are if there is no such function.
pub fn canonical(name: &str, items: &Value) -> Value {
    let found = FORMS.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| items.clone(), |(_, form)| form(items))
}

/// Whether everything that one value says is so in the other.
pub fn covers(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(one), Value::Object(other)) => one.iter().all(|(name, value)| {
            value.is_null() || other.get(name).is_some_and(|found| covers(value, found))
        }),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| covers(one, other))
        }
        _ => wanted == found,
    }
}

/// How a table is encrypted, in the words in which that is asked for.
fn shown_encryption(_: &Value, reply: &Value) -> Value {
    let told = &reply["Table"]["SSEDescription"];
    let enabled = matches!(told["Status"].as_str(), Some("ENABLED" | "ENABLING" | "UPDATING"));
    if !enabled {
        return json!({"enabled": false});
    }
    json!({"enabled": true, "sseType": told["SSEType"], "kmsMasterKeyID": told["KMSMasterKeyArn"]})
}

/// What was asked for that led to the state of a table's insights.
fn shown_insights(_: &Value, reply: &Value) -> Value {
    match reply["ContributorInsightsStatus"].as_str() {
        Some("ENABLED" | "ENABLING") => "ENABLE".into(),
        _ => "DISABLE".into(),
    }
}

/// Whether RDS keeps the password of a database itself: then there is a secret of its own making.
fn shown_management(_: &Value, reply: &Value) -> Value {
    let found = ["DBInstances", "DBClusters"].into_iter().find_map(|list| reply[list].get(0));
    found.is_some_and(|found| found["MasterUserSecret"].is_object()).into()
}

/// Whether objects of a bucket can be locked.
fn shown_lock(_: &Value, reply: &Value) -> Value {
    (reply["ObjectLockConfiguration"]["ObjectLockEnabled"] == "Enabled").into()
}

/// The tier of a parameter; where AWS was to choose one, whatever it chose is as it should be.
fn shown_tier(wanted: &Value, tier: &Value) -> Value {
    if wanted == "Intelligent-Tiering" { wanted.clone() } else { tier.clone() }
}

/// The policies of a parameter as the text that they were given in; AWS shows a text for each.
fn shown_policies(_: &Value, policies: &Value) -> Value {
    let texts = list(policies).iter().filter_map(|policy| policy["PolicyText"].as_str());
    format!("[{}]", texts.collect::<Vec<_>>().join(",")).into()
}

/// The version of a secret that is in use.
fn shown_version(_: &Value, reply: &Value) -> Value {
    let versions = reply["VersionIdsToStages"].as_object().into_iter().flatten();
    let current = |(_, stages): &(&String, &Value)| list(stages).iter().any(|stage| stage == "AWSCURRENT");
    versions.into_iter().find(current).map(|(id, _)| id.as_str().into()).unwrap_or_default()
}

fn request(members: Value) -> Map<String, Value> {
    match members {
        Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Map::new(),
    }
}

fn called(operation: &str, members: Value) -> Planned {
    Planned { operation: operation.to_owned(), request: request(members), ..Planned::default() }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A table takes one new or one deleted index in a call, or new throughputs of several.
fn dynamodb_indexes(scope: &Scope<'_>, changes: &[&FieldChange]) -> Vec<Planned> {
    let Some(change) = changes.iter().find(|change| change.word == "GlobalSecondaryIndexes") else {
        return Vec::new();
    };
    let table = scope.find("spec.tableName", None);
    let named =
        |items: &Value, name: &Value| list(items).iter().find(|item| item["indexName"] == *name).cloned();
    let site = super::sites::Site::input(scope.translator.plan.model(), "UpdateTable");
    let spelled = |item: Value, member: &str| {
        let field = scope.translator.plan.field("GlobalSecondaryIndexes");
        let action = site.and_then(|site| site.member("GlobalSecondaryIndexUpdates")?.member(member));
        scope.now(field, [("item", item)]).find("item", action)
    };
    let updates = if let Some(gone) =
        list(&change.from).iter().find(|item| named(&change.to, &item["indexName"]).is_none())
    {
        json!([{"Delete": {"IndexName": gone["indexName"]}}])
    } else if let Some(new) =
        list(&change.to).iter().find(|item| named(&change.from, &item["indexName"]).is_none())
    {
        json!([{"Create": spelled(new.clone(), "Create")}])
    } else {
        let throughput = |item: &&Value| {
            named(&change.from, &item["indexName"]).is_some_and(|found| {
                !covers(&item["provisionedThroughput"], &found["provisionedThroughput"])
                    || !covers(&item["onDemandThroughput"], &found["onDemandThroughput"])
            })
        };
        let update = |item: &Value| {
            let part = json!({
                "indexName": item["indexName"],
                "provisionedThroughput": item["provisionedThroughput"],
                "onDemandThroughput": item["onDemandThroughput"],
            });
            json!({"Update": spelled(part, "Update")})
        };
        list(&change.to).iter().filter(throughput).map(update).collect()
    };
    if list(&updates).is_empty() {
        return Vec::new();
    }
    let definitions = site.and_then(|site| site.member("AttributeDefinitions"));
    let attributes = scope.find("spec.attributeDefinitions", definitions);
    vec![called(
        "UpdateTable",
        json!({"TableName": table, "AttributeDefinitions": attributes, "GlobalSecondaryIndexUpdates": updates}),
    )]
}

/// A table takes one new, one changed or one deleted replica in a call.
fn dynamodb_replicas(scope: &Scope<'_>, changes: &[&FieldChange]) -> Vec<Planned> {
    let Some(change) = changes.first() else { return Vec::new() };
    let of_region = |items: &Value, item: &Value| {
        list(items).iter().find(|one| one["regionName"] == item["regionName"]).cloned()
    };
    let site = super::sites::Site::input(scope.translator.plan.model(), "UpdateTable");
    let spelled = |item: &Value, member: &str| {
        let action = site.and_then(|site| site.member("ReplicaUpdates")?.member(member));
        let field = scope.translator.plan.field(&change.word);
        scope.now(field, [("item", item.clone())]).find("item", action)
    };
    let (wanted, found) = (list(&change.to), list(&change.from));
    let gone = found.iter().find(|item| of_region(&change.to, item).is_none());
    let new = wanted.iter().find(|item| of_region(&change.from, item).is_none());
    let differs = |item: &&Value| of_region(&change.from, item).is_some_and(|found| !covers(item, &found));
    let update = match (gone, new, wanted.iter().find(differs)) {
        (Some(gone), _, _) => json!({"Delete": {"RegionName": gone["regionName"]}}),
        (None, Some(new), _) => json!({"Create": spelled(new, "Create")}),
        (None, None, Some(other)) => json!({"Update": spelled(other, "Update")}),
        (None, None, None) => return Vec::new(),
    };
    let table = scope.find("spec.tableName", None);
    vec![called("UpdateTable", json!({"TableName": table, "ReplicaUpdates": [update]}))]
}

/// What is wanted and not found, and what is found and not wanted.
fn both_ways(change: &FieldChange) -> (Vec<Value>, Vec<Value>) {
    let (wanted, found) = (list(&change.to), list(&change.from));
    let added = wanted.iter().filter(|item| !found.contains(item)).cloned().collect();
    let removed = found.iter().filter(|item| !wanted.contains(item)).cloned().collect();
    (added, removed)
}

/// Log exports are switched on and off by two lists.
fn rds_log_exports(scope: &Scope<'_>, changes: &[&FieldChange]) -> Vec<Planned> {
    let Some(change) = changes.first() else { return Vec::new() };
    let (on, off) = both_ways(change);
    let lists = [("EnableLogTypes", on), ("DisableLogTypes", off)];
    let lists: Map<String, Value> = lists
        .into_iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(member, items)| (member.to_owned(), Value::Array(items)))
        .collect();
    vec![called(
        "ModifyDBInstance",
        json!({
            "DBInstanceIdentifier": scope.find("spec.dbInstanceIdentifier", None),
            "CloudwatchLogsExportConfiguration": lists,
            "ApplyImmediately": true,
        }),
    )]
}

/// Subnets, route tables and groups of an endpoint are added and removed.
fn ec2_endpoint_members(scope: &Scope<'_>, changes: &[&FieldChange]) -> Vec<Planned> {
    let mut members = Map::new();
    members.insert("VpcEndpointId".to_owned(), scope.find("status.vpcEndpointID", None).unwrap_or_default());
    for change in changes {
        let (added, removed) = both_ways(change);
        for (verb, items) in [("Add", added), ("Remove", removed)] {
            if !items.is_empty() {
                members.insert(format!("{verb}{}", change.word), Value::Array(items));
            }
        }
    }
    vec![called("ModifyVpcEndpoint", Value::Object(members))]
}

/// What code is of goes with the code itself.
fn lambda_code(scope: &Scope<'_>, _: &[&FieldChange]) -> Vec<Planned> {
    let input = super::sites::Site::input(scope.translator.plan.model(), "UpdateFunctionCode");
    let members = [
        ("FunctionName", "spec.name"),
        ("Architectures", "spec.architectures"),
        ("ZipFile", "spec.code.zipFile"),
        ("S3Bucket", "spec.code.s3Bucket"),
        ("S3Key", "spec.code.s3Key"),
        ("S3ObjectVersion", "spec.code.s3ObjectVersion"),
        ("ImageUri", "spec.code.imageURI"),
    ];
    let found = members.into_iter().filter_map(|(member, path)| {
        let target = input.and_then(|input| input.member(member));
        Some((member.to_owned(), scope.find(path, target)?))
    });
    let members: Map<String, Value> = found.collect();
    // Code that was adopted is known by its digest alone, and cannot be sent.
    let has_code = ["ZipFile", "S3Key", "ImageUri"].iter().any(|source| members.contains_key(*source));
    if has_code { vec![called("UpdateFunctionCode", Value::Object(members))] } else { Vec::new() }
}

/// AWS shows a digest of the code, or the image it is in. Code that it shows nothing comparable of is as it was sent.
fn shown_code(wanted: &Value, reply: &Value) -> Value {
    let digest = reply.pointer("/Configuration/CodeSha256").cloned().unwrap_or_default();
    let image = reply.pointer("/Code/ImageUri").cloned().unwrap_or_default();
    let told = |name: &str| wanted.get(name).filter(|value| !value.is_null());
    let same = match (told("imageURI"), told("zipFile"), told("sha256")) {
        (Some(wanted), _, _) => *wanted == image,
        (_, Some(zip), _) => zip.as_str().and_then(digest_of).is_none_or(|zip| digest == zip),
        (_, _, Some(wanted)) => *wanted == digest,
        (None, None, None) if wanted.is_object() => true,
        (None, None, None) => false,
    };
    match (same, image.is_null()) {
        (true, _) => wanted.clone(),
        (false, true) => json!({"sha256": digest}),
        (false, false) => json!({"imageURI": image}),
    }
}

/// The digest of an archive as AWS writes it; none if it is no base64.
fn digest_of(archive: &str) -> Option<String> {
    let bytes = STANDARD.decode(archive).ok()?;
    Some(STANDARD.encode(Sha256::digest(bytes)))
}

/// Entries of a network ACL without the last ones, which AWS puts there and nobody can change.
fn network_acl_entries(entries: &Value) -> Value {
    const LAST: std::ops::RangeInclusive<i64> = 32_767..=32_768;
    let own = |entry: &&Value| !entry["ruleNumber"].as_i64().is_some_and(|number| LAST.contains(&number));
    list(entries).iter().filter(own).cloned().collect()
}

/// One rule for each range, prefix list and group; all traffic has no ports; protocols have their names.
fn security_group_rules(rules: &Value) -> Value {
    const SOURCES: &[&str] = &["ipRanges", "ipv6Ranges", "prefixListIDs", "userIDGroupPairs"];
    let protocol = |rule: &Value| match rule["ipProtocol"].as_str().unwrap_or("-1").to_lowercase().as_str() {
        "6" => "tcp".to_owned(),
        "17" => "udp".to_owned(),
        "1" => "icmp".to_owned(),
        "58" => "icmpv6".to_owned(),
        "all" => "-1".to_owned(),
        other => other.to_owned(),
    };
    let mut single = Vec::new();
    for rule in list(rules) {
        let protocol = protocol(rule);
        let ports = |name: &str| if protocol == "-1" { Value::Null } else { rule[name].clone() };
        for source in SOURCES {
            for item in list(&rule[*source]) {
                let mut item = item.clone();
                if *source == "userIDGroupPairs"
                    && let Some(members) = item.as_object_mut()
                {
                    // AWS adds the group's owner and, for other reasons, its VPC and state.
                    members
                        .retain(|name, _| matches!(name.as_str(), "groupID" | "groupName" | "description"));
                    if members.contains_key("groupID") {
                        members.remove("groupName");
                    }
                }
                if let Some(cidr) = item.get("cidrIPv6").and_then(Value::as_str).map(str::to_lowercase) {
                    item["cidrIPv6"] = cidr.into();
                }
                let mut one = Map::new();
                one.insert("ipProtocol".to_owned(), protocol.as_str().into());
                for name in ["fromPort", "toPort"] {
                    let port = ports(name);
                    if !port.is_null() {
                        one.insert(name.to_owned(), port);
                    }
                }
                one.insert((*source).to_owned(), json!([item]));
                let one = Value::Object(one);
                if !single.contains(&one) {
                    single.push(one);
                }
            }
        }
    }
    Value::Array(single)
}

/// Routes that nobody made: that of the VPC itself, and those that AWS keeps.
fn own_routes(routes: &Value) -> Value {
    let own = list(routes).iter().filter(|route| {
        let local = route["gatewayID"] == "local";
        let kept = route.get("origin").is_some_and(|origin| origin != "CreateRoute");
        let endpoint = route["gatewayID"].as_str().is_some_and(|id| id.starts_with("vpce-"));
        !local && !kept && !endpoint
    });
    own.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_security_groups_in_one_form() {
        let check = |one: Value, other: Value| {
            assert_eq!(security_group_rules(&one), security_group_rules(&other));
        };
        check(
            json!([{"ipProtocol": "6", "fromPort": 80, "toPort": 80, "ipRanges": [{"cidrIP": "a"}, {"cidrIP": "b"}]}]),
            json!([
                {"ipProtocol": "tcp", "fromPort": 80, "toPort": 80, "ipRanges": [{"cidrIP": "a"}]},
                {"ipProtocol": "tcp", "fromPort": 80, "toPort": 80, "ipRanges": [{"cidrIP": "b"}]},
            ]),
        );
        check(
            json!([{"ipProtocol": "-1", "fromPort": 0, "toPort": 0, "ipRanges": [{"cidrIP": "a"}]}]),
            json!([{"ipProtocol": "-1", "ipRanges": [{"cidrIP": "a"}]}]),
        );
        check(
            json!([{"ipProtocol": "tcp", "userIDGroupPairs": [{"groupID": "sg-1"}]}]),
            json!([{"ipProtocol": "tcp", "userIDGroupPairs": [{"groupID": "sg-1", "userID": "1", "vpcID": "v"}]}]),
        );
    }

    #[test]
    fn code_is_compared_by_what_aws_shows_of_it() {
        let digest = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="; // of `abc`
        let zipped = json!({"Configuration": {"CodeSha256": digest}});
        let image = json!({"Configuration": {"CodeSha256": "x"}, "Code": {"ImageUri": "repo:1"}});
        for (wanted, reply, same) in [
            (json!({"zipFile": "YWJj"}), &zipped, true),
            (json!({"zipFile": "YWJk"}), &zipped, false),
            (json!({"s3Key": "k", "sha256": digest}), &zipped, true),
            (json!({"s3Key": "k", "sha256": "other"}), &zipped, false),
            (json!({"s3Key": "k"}), &zipped, true),
            (json!({"imageURI": "repo:1"}), &image, true),
            (json!({"imageURI": "repo:2"}), &image, false),
        ] {
            assert_eq!(shown_code(&wanted, reply) == wanted, same, "{wanted}");
        }
        assert_eq!(shown_code(&Value::Null, &zipped), json!({"sha256": digest}));
    }

    #[test]
    fn routes_that_are_ours() {
        let routes = json!([
            {"destinationCIDRBlock": "10.0.0.0/16", "gatewayID": "local"},
            {"destinationCIDRBlock": "0.0.0.0/0", "gatewayID": "igw-1"},
        ]);
        assert_eq!(own_routes(&routes), json!([{"destinationCIDRBlock": "0.0.0.0/0", "gatewayID": "igw-1"}]));
    }

    #[test]
    fn fields_that_answers_have_in_other_words() {
        let table = |description: Value, expected: Value| {
            let reply = json!({"Table": {"SSEDescription": description}});
            assert_eq!(shown("dynamodb_encryption", &Value::Null, &reply), expected);
        };
        table(Value::Null, json!({"enabled": false}));
        table(
            json!({"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": "a"}),
            json!({"enabled": true, "sseType": "KMS", "kmsMasterKeyID": "a"}),
        );
        let insights = |status: &str, expected: &str| {
            let reply = json!({"ContributorInsightsStatus": status});
            assert_eq!(shown("dynamodb_insights", &Value::Null, &reply), json!(expected));
        };
        insights("ENABLING", "ENABLE");
        insights("DISABLED", "DISABLE");
        let tier = |wanted: &str, found: &str, expected: &str| {
            assert_eq!(shown("ssm_tier", &wanted.into(), &found.into()), json!(expected));
        };
        tier("Standard", "Advanced", "Advanced");
        tier("Intelligent-Tiering", "Advanced", "Intelligent-Tiering");
        let policies = json!([{"PolicyText": "{\"Type\":\"A\"}"}, {"PolicyText": "{\"Type\":\"B\"}"}]);
        assert_eq!(shown("ssm_policies", &Value::Null, &policies), json!(r#"[{"Type":"A"},{"Type":"B"}]"#));
        let versions = json!({"VersionIdsToStages": {"a": ["AWSPREVIOUS"], "b": ["MINE", "AWSCURRENT"]}});
        assert_eq!(shown("secretsmanager_version", &Value::Null, &versions), json!("b"));
    }
}
