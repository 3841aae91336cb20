//! One story for each kind: a spec, changes of it, and what it needs.

use serde_json::{Value, json};

use crate::story::Story;
use ::emulators::Program;

/// The ARN of the object itself.
const ARN: &str = "$self.status.ackResourceMetadata.arn";
const EVERYBODY: &str = r#"uri="http://acs.amazonaws.com/groups/global/AllUsers""#;
const READ_ONLY: &str = "arn:aws:iam::aws:policy/ReadOnlyAccess";

fn policy(action: &str) -> String {
    json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]})
        .to_string()
}

fn trust(service: &str) -> String {
    json!({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}},
    ]})
    .to_string()
}

fn tags(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| json!({"key": key, "value": value})).collect()
}

/// What takes the tag `b` from something of EC2's with an id.
fn untagged(id: &str) -> Value {
    json!({"Resources": [format!("$self.status.{id}")], "Tags": [{"Key": "b"}]})
}

pub fn role() -> Story {
    Story::new(
        "iam",
        "Role",
        json!({"name": "$name", "assumeRolePolicyDocument": trust("lambda.amazonaws.com")}),
    )
}

pub fn vpc() -> Story {
    Story::new("ec2", "VPC", json!({"cidrBlocks": ["10.0.0.0/16"], "tags": tags(&[("a", "1")])}))
}

fn subnet(block: &str, zone: &str) -> Story {
    Story::new(
        "ec2",
        "Subnet",
        json!({"cidrBlock": block, "vpcID": "$needs.0.status.vpcID", "availabilityZone": zone}),
    )
}

fn table() -> Story {
    Story::new(
        "dynamodb",
        "Table",
        json!({
            "tableName": "$name", "billingMode": "PAY_PER_REQUEST", "tags": tags(&[("a", "1")]),
            "attributeDefinitions": [{"attributeName": "id", "attributeType": "S"}],
            "keySchema": [{"attributeName": "id", "keyType": "HASH"}],
        }),
    )
}

fn storage() -> Vec<Story> {
    let bucket = Story::new("s3", "Bucket", json!({"name": "$name", "tagging": {"tagSet": tags(&[("a", "1")])}}))
        .then(json!({"versioning": {"status": "Enabled"}}))
        .then(json!({"tagging": {"tagSet": tags(&[("b", "2")])}}))
        .then(json!({"acl": "authenticated-read"}))
        .shows("GetBucketAcl", json!({"Bucket": "$name"}), "/Grants/1/Permission", json!("READ"))
        .then(json!({"acl": null, "grantRead": EVERYBODY, "grantWrite": EVERYBODY}))
        .shows("GetBucketAcl", json!({"Bucket": "$name"}), "/Grants/1/Grantee/URI",
            json!("http://acs.amazonaws.com/groups/global/AllUsers"))
        .then(json!({"grantWrite": null, "grantRead": "id=\"canonical\""}))
        .shows("GetBucketAcl", json!({"Bucket": "$name"}), "/Grants/0/Grantee/ID", json!("canonical"))
        .then(json!({"grantRead": null, "acl": "private"}))
        .then(json!({"publicAccessBlock": {"blockPublicACLs": true, "blockPublicPolicy": true,
            "ignorePublicACLs": true, "restrictPublicBuckets": true}}))
        .then(json!({"cors": {"corsRules": [{"allowedMethods": ["GET"], "allowedOrigins": ["*"]}]}}))
        .then(json!({"cors": null}))
        .then(json!({"lifecycle": {"rules": [{"id": "r", "status": "Enabled", "filter": {"prefix": "x/"},
            "expiration": {"days": 3}}]}}))
        .then(json!({"website": {"indexDocument": {"suffix": "index.html"}}}))
        .then(json!({"encryption": {"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}]}}))
        .then(json!({"ownershipControls": {"rules": [{"objectOwnership": "BucketOwnerPreferred"}]}}))
        .then(json!({"policy": json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
            "Action": "s3:GetObject", "Resource": "arn:aws:s3:::x/*"}]}).to_string()}))
        .then(json!({"policy": null}))
        .shows("GetBucketPolicy", json!({"Bucket": "$name"}), "/Policy", Value::Null)
        .drifts("PutBucketVersioning", json!({"Bucket": "$name", "VersioningConfiguration": {"Status": "Suspended"}}));
    let table = self::table()
    .then(json!({"tags": tags(&[("b", "2")])}))
    .then(json!({"timeToLive": {"attributeName": "expires", "enabled": true}}))
    .then(json!({"timeToLive": {"enabled": false}}))
    .then(json!({"continuousBackups": {"pointInTimeRecoveryEnabled": true}}))
    .then(json!({"continuousBackups": {"pointInTimeRecoveryEnabled": false}}))
    .then(json!({"deletionProtectionEnabled": true}))
    .then(json!({"deletionProtectionEnabled": false}))
    .then(json!({"streamSpecification": {"streamEnabled": true, "streamViewType": "NEW_IMAGE"}}))
    .then(json!({
        "attributeDefinitions": [
            {"attributeName": "id", "attributeType": "S"}, {"attributeName": "kind", "attributeType": "S"}],
        "globalSecondaryIndexes": [{"indexName": "by-kind", "projection": {"projectionType": "ALL"},
            "keySchema": [{"attributeName": "kind", "keyType": "HASH"}]}],
    }))
    .shows(
        "DescribeTable",
        json!({"TableName": "$name"}),
        "/Table/GlobalSecondaryIndexes/0/IndexName",
        json!("by-kind"),
    )
    .then(json!({"globalSecondaryIndexes": null,
        "attributeDefinitions": [{"attributeName": "id", "attributeType": "S"}]}))
    .shows(
        "DescribeTable",
        json!({"TableName": "$name"}),
        "/Table/GlobalSecondaryIndexes/0/IndexName",
        Value::Null,
    )
    .drifts("UpdateTable", json!({"TableName": "$name", "DeletionProtectionEnabled": true}));
    let repositories = json!({"repositoryNames": ["$name"]});
    let repository = Story::new("ecr", "Repository", json!({"name": "$name", "tags": tags(&[("a", "1")]),
            "encryptionConfiguration": {"encryptionType": "KMS", "kmsKey": "arn:aws:kms:eu-west-1:123456789012:key/k"}}))
        .shows("DescribeRepositories", repositories.clone(), "/repositories/0/encryptionConfiguration/encryptionType",
            json!("KMS"))
        .then(json!({"imageTagMutability": "IMMUTABLE"}))
        .shows("DescribeRepositories", repositories, "/repositories/0/imageTagMutability", json!("IMMUTABLE"))
        .then(json!({"imageScanningConfiguration": {"scanOnPush": true}}))
        .then(json!({"lifecyclePolicy": json!({"rules": [{"rulePriority": 1, "selection": {"tagStatus": "untagged",
            "countType": "imageCountMoreThan", "countNumber": 3}, "action": {"type": "expire"}}]}).to_string()}))
        .then(json!({"lifecyclePolicy": null, "tags": tags(&[("b", "2")])}))
        .drifts("PutImageTagMutability", json!({"repositoryName": "$name", "imageTagMutability": "MUTABLE"}));
    vec![bucket, table, repository]
}

fn messages() -> Vec<Story> {
    let attributes = || json!({"QueueUrl": "$self.status.queueURL", "AttributeNames": ["All"]});
    let queue = Story::new("sqs", "Queue", json!({"queueName": "$name", "tags": {"a": "1"}}))
        .then(json!({"delaySeconds": "5"}))
        .then(json!({"visibilityTimeout": "60", "tags": {"b": "2", "a": null}}))
        .shows("GetQueueAttributes", attributes(), "/Attributes/VisibilityTimeout", json!("60"))
        .then(json!({"policy": policy("sqs:SendMessage")}))
        .then(json!({"policy": null}))
        .shows("GetQueueAttributes", attributes(), "/Attributes/Policy", Value::Null)
        .drifts(
            "SetQueueAttributes",
            json!({"QueueUrl": "$self.status.queueURL", "Attributes": {"DelaySeconds": "9"}}),
        );
    let topic = Story::new("sns", "Topic", json!({"name": "$name", "tags": tags(&[("a", "1")])}))
        .then(json!({"displayName": "shown"}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts(
            "SetTopicAttributes",
            json!({"TopicArn": ARN, "AttributeName": "DisplayName", "AttributeValue": "other"}),
        );
    let subscription = Story::new(
        "sns",
        "Subscription",
        json!({"topicARN": "$needs.0.status.ackResourceMetadata.arn", "protocol": "sqs",
            "endpoint": "arn:aws:sqs:eu-west-1:123456789012:q"}),
    )
    .then(json!({"rawMessageDelivery": "true"}))
    .drifts(
        "SetSubscriptionAttributes",
        json!({"SubscriptionArn": ARN, "AttributeName": "RawMessageDelivery",
        "AttributeValue": "false"}),
    )
    .after(Story::new("sns", "Topic", json!({"name": "$name"})));
    let application = Story::new(
        "sns",
        "PlatformApplication",
        json!({"name": "$name", "platform": "GCM", "platformCredential": "first-key"}),
    )
    .then(json!({"successFeedbackSampleRate": "50"}))
    .then(json!({"platformCredential": "second-key"}))
    .shows(
        "GetPlatformApplicationAttributes",
        json!({"PlatformApplicationArn": ARN}),
        "/Attributes/PlatformCredential",
        json!("second-key"),
    )
    .then(json!({"platformPrincipal": "given-later"}))
    .shows(
        "GetPlatformApplicationAttributes",
        json!({"PlatformApplicationArn": ARN}),
        "/Attributes/PlatformPrincipal",
        json!("given-later"),
    )
    .drifts("DeletePlatformApplication", json!({"PlatformApplicationArn": ARN}));
    let stream =
        Story::new("kinesis", "Stream", json!({"name": "$name", "shardCount": 1, "tags": {"a": "1"}}))
            .then(json!({"tags": {"b": "2", "a": null}}))
            .then(json!({"shardCount": 2}))
            .drifts("AddTagsToStream", json!({"StreamName": "$name", "Tags": {"b": "9"}}));
    let bus = Story::new("eventbridge", "EventBus", json!({"name": "$name", "tags": tags(&[("a", "1")])}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("UntagResource", json!({"ResourceARN": ARN, "TagKeys": ["b"]}));
    let rule =
        Story::new("eventbridge", "Rule", json!({"name": "$name", "scheduleExpression": "rate(5 minutes)"}))
            .then(json!({"description": "every five minutes"}))
            .then(json!({"targets": [{"id": "t", "arn": "arn:aws:sqs:eu-west-1:123456789012:q"}]}))
            .then(json!({"targets": [{"id": "u", "arn": "arn:aws:sqs:eu-west-1:123456789012:q"}]}))
            .drifts("RemoveTargets", json!({"Rule": "$name", "Ids": ["u"]}));
    vec![queue, topic, subscription, application, stream, bus, rule]
}

fn identities() -> Vec<Story> {
    let role = Story::new(
        "iam",
        "Role",
        json!({"name": "$name", "assumeRolePolicyDocument": trust("ec2.amazonaws.com"), "tags": tags(&[("a", "1")])}),
    )
    .then(json!({"description": "new"}))
    .shows("GetRole", json!({"RoleName": "$name"}), "/Role/Description", json!("new"))
    .then(json!({"permissionsBoundary": READ_ONLY}))
    .shows(
        "GetRole",
        json!({"RoleName": "$name"}),
        "/Role/PermissionsBoundary/PermissionsBoundaryArn",
        json!(READ_ONLY),
    )
    .then(json!({"permissionsBoundary": null}))
    .shows("GetRole", json!({"RoleName": "$name"}), "/Role/PermissionsBoundary", Value::Null)
    .then(json!({"policies": [READ_ONLY]}))
    .then(json!({"policies": []}))
    .then(json!({"inlinePolicies": {"p": policy("s3:*")}}))
    .then(json!({"inlinePolicies": {"p": policy("sqs:*")}}))
    .then(json!({"assumeRolePolicyDocument": trust("lambda.amazonaws.com")}))
    .then(json!({"tags": tags(&[("b", "2")]), "maxSessionDuration": 7200}))
    .drifts("UpdateRole", json!({"RoleName": "$name", "Description": "other"}));
    let managed = Story::new(
        "iam",
        "Policy",
        json!({"name": "$name", "description": "told once", "policyDocument": policy("s3:*")}),
    )
    .shows("GetPolicy", json!({"PolicyArn": ARN}), "/Policy/Description", json!("told once"))
    .then(json!({"policyDocument": policy("s3:Get*")}))
    .then(json!({"policyDocument": policy("s3:List*")}))
    .then(json!({"policyDocument": policy("s3:Put*")}))
    .then(json!({"policyDocument": policy("sqs:*")}))
    .then(json!({"policyDocument": policy("sns:*")}))
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts("TagPolicy", json!({"PolicyArn": ARN, "Tags": [{"Key": "b", "Value": "9"}]}));
    let user = Story::new("iam", "User", json!({"name": "$name", "tags": tags(&[("a", "1")])}))
        .then(json!({"policies": [READ_ONLY]}))
        .then(json!({"inlinePolicies": {"p": policy("s3:*")}}))
        .then(json!({"path": "/people/"}))
        .drifts("DetachUserPolicy", json!({"UserName": "$name", "PolicyArn": READ_ONLY}));
    let group = Story::new("iam", "Group", json!({"name": "$name"}))
        .then(json!({"policies": [READ_ONLY]}))
        .then(json!({"inlinePolicies": {"p": policy("s3:*")}}))
        .drifts("DeleteGroupPolicy", json!({"GroupName": "$name", "PolicyName": "p"}));
    let profile = Story::new("iam", "InstanceProfile", json!({"name": "$name"}))
        .then(json!({"role": "$needs.0.spec.name"}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts(
            "RemoveRoleFromInstanceProfile",
            json!({"InstanceProfileName": "$name", "RoleName": "$needs.0.spec.name"}),
        )
        .after(self::role());
    let key =
        Story::new("kms", "Key", json!({"description": "d", "tags": [{"tagKey": "a", "tagValue": "1"}]}))
            .then(json!({"enableKeyRotation": true}))
            .then(json!({"enableKeyRotation": false}))
            .then(json!({"tags": [{"tagKey": "b", "tagValue": "2"}]}))
            .drifts("EnableKeyRotation", json!({"KeyId": "$self.status.keyID"}));
    let alias =
        Story::new("kms", "Alias", json!({"name": "alias/$name", "targetKeyID": "$needs.0.status.keyID"}))
            .then(json!({"targetKeyID": "$needs.1.status.keyID"}))
            .drifts(
                "UpdateAlias",
                json!({"AliasName": "alias/$name", "TargetKeyId": "$needs.0.status.keyID"}),
            )
            .after(Story::new("kms", "Key", json!({})))
            .after(Story::new("kms", "Key", json!({})));
    let grant = Story::new(
        "kms",
        "Grant",
        json!({"keyID": "$needs.0.status.keyID", "operations": ["Encrypt"],
            "granteePrincipal": "arn:aws:iam::123456789012:root"}),
    )
    .drifts("RevokeGrant", json!({"KeyId": "$needs.0.status.keyID", "GrantId": "$self.status.grantID"}))
    .after(Story::new("kms", "Key", json!({})));
    let secret = Story::new("secretsmanager", "Secret", json!({"name": "$name", "description": "d"}))
        .then(json!({"description": "e"}))
        .shows("DescribeSecret", json!({"SecretId": "$name"}), "/Description", json!("e"))
        .then(json!({"replicaRegions": [{"region": "eu-west-3"}]}))
        .shows(
            "DescribeSecret",
            json!({"SecretId": "$name"}),
            "/ReplicationStatus/0/Region",
            json!("eu-west-3"),
        )
        .then(json!({"replicaRegions": null}))
        .shows("DescribeSecret", json!({"SecretId": "$name"}), "/ReplicationStatus/0", Value::Null)
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("UpdateSecret", json!({"SecretId": "$name", "Description": "other"}));
    let parameter = Story::new("ssm", "Parameter", json!({"name": "$name", "type": "String", "value": "v"}))
        .then(json!({"value": "w"}))
        .then(json!({"description": "d", "allowedPattern": "[a-z]"}))
        .shows(
            "DescribeParameters",
            json!({"ParameterFilters": [{"Key": "Name", "Values": ["$name"]}]}),
            "/Parameters/0/Description",
            json!("d"),
        )
        .then(json!({"tier": "Advanced"}))
        .shows(
            "DescribeParameters",
            json!({"ParameterFilters": [{"Key": "Name", "Values": ["$name"]}]}),
            "/Parameters/0/Tier",
            json!("Advanced"),
        )
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("PutParameter", json!({"Name": "$name", "Value": "x", "Type": "String", "Overwrite": true}));
    let certificate =
        Story::new("acm", "Certificate", json!({"domainName": "example.com", "tags": tags(&[("a", "1")])}))
            .then(json!({"tags": tags(&[("b", "2")])}))
            .drifts(
                "AddTagsToCertificate",
                json!({"CertificateArn": ARN, "Tags": [{"Key": "b", "Value": "9"}]}),
            );
    let set = Story::new(
        "wafv2",
        "IPSet",
        json!({"name": "$name", "scope": "REGIONAL", "ipAddressVersion": "IPV4", "addresses": ["10.0.0.0/8"]}),
    )
    .then(json!({"addresses": ["10.0.0.0/8", "192.168.0.0/16"]}))
    .drifts("GetIPSet", json!({"Name": "$name", "Scope": "REGIONAL", "Id": "$self.status.id"}))
    .drifts("UpdateIPSet", json!({"Name": "$name", "Scope": "REGIONAL", "Id": "$self.status.id",
        "Addresses": ["10.0.0.0/8"], "LockToken": "$answer.LockToken"}));
    vec![role, managed, user, group, profile, key, alias, grant, secret, parameter, certificate, set]
}

fn networks() -> Vec<Story> {
    let vpc = self::vpc()
        .then(json!({"enableDNSHostnames": true}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .then(json!({"cidrBlocks": ["10.0.0.0/16", "10.1.0.0/16"]}))
        .drifts(
            "ModifyVpcAttribute",
            json!({"VpcId": "$self.status.vpcID", "EnableDnsHostnames": {"Value": false}}),
        );
    let subnet = self::subnet("10.0.1.0/24", "eu-west-1a")
        .then(json!({"mapPublicIPOnLaunch": true}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts(
            "ModifySubnetAttribute",
            json!({"SubnetId": "$self.status.subnetID", "MapPublicIpOnLaunch": {"Value": false}}),
        )
        .after(self::vpc());
    let group = Story::new(
        "ec2",
        "SecurityGroup",
        json!({"name": "$name", "description": "d", "vpcID": "$needs.0.status.vpcID"}),
    )
    .then(json!({"ingressRules": [{"ipProtocol": "tcp", "fromPort": 80, "toPort": 80,
        "ipRanges": [{"cidrIP": "10.0.0.0/8"}, {"cidrIP": "192.168.0.0/16"}]}]}))
    .then(json!({"ingressRules": [{"ipProtocol": "6", "fromPort": 443, "toPort": 443,
        "ipRanges": [{"cidrIP": "10.0.0.0/8"}]}]}))
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts(
        "RevokeSecurityGroupIngress",
        json!({"GroupId": "$self.status.id", "IpPermissions": [
        {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]}),
    )
    .after(self::vpc());
    let gateway = Story::new("ec2", "InternetGateway", json!({"tags": tags(&[("a", "1")])}))
        .then(json!({"vpc": "$needs.0.status.vpcID"}))
        .then(json!({"vpc": null}))
        .drifts(
            "AttachInternetGateway",
            json!({"InternetGatewayId": "$self.status.internetGatewayID",
            "VpcId": "$needs.0.status.vpcID"}),
        )
        .after(self::vpc());
    let table = Story::new("ec2", "RouteTable", json!({"vpcID": "$needs.0.status.vpcID"}))
        .then(json!({"routes": [{"destinationCIDRBlock": "0.0.0.0/0",
            "gatewayID": "$needs.1.status.internetGatewayID"}]}))
        .then(json!({"routes": [{"destinationCIDRBlock": "8.8.8.8/32",
            "gatewayID": "$needs.1.status.internetGatewayID"}]}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts(
            "DeleteRoute",
            json!({"RouteTableId": "$self.status.routeTableID", "DestinationCidrBlock": "8.8.8.8/32"}),
        )
        .after(self::vpc())
        .after(Story::new("ec2", "InternetGateway", json!({"vpc": "$needs.0.status.vpcID"})));
    let nat = Story::new(
        "ec2",
        "NATGateway",
        json!({"subnetID": "$needs.1.status.subnetID", "allocationID": "$needs.2.status.allocationID"}),
    )
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts("DeleteTags", untagged("natGatewayID"))
    .after(self::vpc())
    .after(self::subnet("10.0.1.0/24", "eu-west-1a"))
    .after(Story::new("ec2", "ElasticIPAddress", json!({"domain": "vpc"})));
    let address = Story::new("ec2", "ElasticIPAddress", json!({"domain": "vpc"}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("DeleteTags", untagged("allocationID"));
    let endpoint = Story::new(
        "ec2",
        "VPCEndpoint",
        json!({"vpcID": "$needs.0.status.vpcID", "serviceName": "com.amazonaws.eu-west-1.s3", "vpcEndpointType": "Gateway"}),
    )
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts("DeleteTags", untagged("vpcEndpointID"))
    .after(self::vpc());
    let options = Story::new(
        "ec2",
        "DHCPOptions",
        json!({"dhcpConfigurations": [{"key": "domain-name", "values": ["example.com"]}]}),
    )
    .then(json!({"vpc": ["$needs.0.status.vpcID"]}))
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts("DeleteTags", untagged("dhcpOptionsID"))
    .given(&["dhcpConfigurations"])
    .after(self::vpc());
    let zone = Story::new("route53", "HostedZone", json!({"name": "$name.example.com."}))
        .then(json!({"hostedZoneConfig": {"comment": "c"}}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("UpdateHostedZoneComment", json!({"Id": "$self.status.id|last", "Comment": "other"}));
    let address_of = |ttl: u32| {
        json!({"Name": "$name.example.com.", "Type": "A", "TTL": ttl,
        "ResourceRecords": [{"Value": "10.0.0.2"}]})
    };
    let record = Story::new(
        "route53",
        "RecordSet",
        json!({"name": "$name", "hostedZoneID": "$needs.0.status.id", "recordType": "A", "ttl": 60,
            "resourceRecords": [{"value": "10.0.0.1"}]}),
    )
    .then(json!({"resourceRecords": [{"value": "10.0.0.2"}]}))
    .then(json!({"ttl": 90}))
    .drifts(
        "ChangeResourceRecordSets",
        json!({"HostedZoneId": "$needs.0.status.id|last",
        "ChangeBatch": {"Changes": [{"Action": "UPSERT", "ResourceRecordSet": address_of(30)}]}}),
    )
    .after(Story::new("route53", "HostedZone", json!({"name": "example.com."})));
    let balancer = Story::new(
        "elbv2",
        "LoadBalancer",
        json!({"name": "$name", "subnets": ["$needs.1.status.subnetID", "$needs.2.status.subnetID"]}),
    )
    .then(json!({"attributes": [{"key": "idle_timeout.timeout_seconds", "value": "30"}]}))
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts(
        "ModifyLoadBalancerAttributes",
        json!({"LoadBalancerArn": ARN,
        "Attributes": [{"Key": "idle_timeout.timeout_seconds", "Value": "90"}]}),
    )
    .after(self::vpc())
    .after(self::subnet("10.0.1.0/24", "eu-west-1a"))
    .after(self::subnet("10.0.2.0/24", "eu-west-1b"));
    let targets = || {
        Story::new(
            "elbv2",
            "TargetGroup",
            json!({"name": "$name", "protocol": "HTTP", "port": 80, "vpcID": "$needs.0.status.vpcID"}),
        )
    };
    let target_group = targets()
        .then(json!({"healthCheckPath": "/health"}))
        .then(json!({"attributes": [{"key": "stickiness.enabled", "value": "true"}]}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("ModifyTargetGroup", json!({"TargetGroupArn": ARN, "HealthCheckPath": "/other"}))
        .after(self::vpc());
    let listener = Story::new(
        "elbv2",
        "Listener",
        json!({"loadBalancerARN": "$needs.3.status.ackResourceMetadata.arn", "port": 80, "protocol": "HTTP",
            "defaultActions": [{"type": "forward", "targetGroupARN": "$needs.4.status.ackResourceMetadata.arn"}]}),
    )
    .then(json!({"port": 8080}))
    .drifts("ModifyListener", json!({"ListenerArn": ARN, "Port": 9090}))
    .after(self::vpc())
    .after(self::subnet("10.0.1.0/24", "eu-west-1a"))
    .after(self::subnet("10.0.2.0/24", "eu-west-1b"))
    .after(Story::new(
        "elbv2",
        "LoadBalancer",
        json!({"name": "$name", "subnets": ["$needs.1.status.subnetID", "$needs.2.status.subnetID"]}),
    ))
    .after(targets());
    vec![
        vpc,
        subnet,
        group,
        gateway,
        table,
        nat,
        address,
        endpoint,
        options,
        zone,
        record,
        balancer,
        target_group,
        listener,
    ]
}

/// Archives without entries, one of them with a remark.
const ARCHIVE: &str = "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==";
const ARCHIVE_WITH_REMARK: &str = "UEsFBgAAAAAAAAAAAAAAAAAAAAABAHg=";

pub fn function() -> Story {
    Story::new(
        "lambda",
        "Function",
        json!({"name": "$name", "role": "$needs.0.status.ackResourceMetadata.arn", "runtime": "python3.12",
            "handler": "a.b", "code": {"zipFile": ARCHIVE}}),
    )
}

fn alias() -> Story {
    Story::new(
        "lambda",
        "Alias",
        json!({"name": "live", "functionName": "$needs.1.spec.name", "functionVersion": "$LATEST"}),
    )
    .then(json!({"description": "d"}))
    .drifts(
        "UpdateAlias",
        json!({"FunctionName": "$needs.1.spec.name", "Name": "live", "Description": "other"}),
    )
    .after(role())
    .after(function())
}

fn subnet_group() -> Story {
    let spec = json!({"name": "$name", "description": "d",
        "subnetIDs": ["$needs.1.status.subnetID", "$needs.2.status.subnetID"]});
    Story::new("rds", "DBSubnetGroup", spec)
        .then(json!({"description": "e"}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("AddTagsToResource", json!({"ResourceName": ARN, "Tags": [{"Key": "b", "Value": "9"}]}))
        .after(vpc())
        .after(subnet("10.0.1.0/24", "eu-west-1a"))
        .after(subnet("10.0.2.0/24", "eu-west-1b"))
}

/// What moto falls short of.
fn work_elsewhere() -> Vec<Story> {
    let tables = || json!({"TableName": "$name"});
    let table = table()
        .then(json!({"contributorInsights": "ENABLE"}))
        .shows("DescribeContributorInsights", tables(), "/ContributorInsightsStatus", json!("ENABLED"))
        .then(json!({"contributorInsights": "DISABLE"}))
        .shows("DescribeContributorInsights", tables(), "/ContributorInsightsStatus", json!("DISABLED"))
        .then(json!({"sseSpecification": {"enabled": true, "sseType": "KMS"}}))
        .shows("DescribeTable", tables(), "/Table/SSEDescription/Status", json!("ENABLED"))
        .then(json!({"sseSpecification": {"enabled": false}}))
        .then(json!({"tableReplicas": [{"regionName": "eu-west-3"}]}))
        .shows("DescribeTable", tables(), "/Table/Replicas/0/RegionName", json!("eu-west-3"))
        .then(json!({"tableReplicas": [{"regionName": "eu-central-1"}]}))
        .shows("DescribeTable", tables(), "/Table/Replicas/0/RegionName", json!("eu-central-1"))
        .shows("DescribeTable", tables(), "/Table/Replicas/1", Value::Null);
    vec![alias(), subnet_group(), table]
}

fn work() -> Vec<Story> {
    let log = Story::new("cloudwatchlogs", "LogGroup", json!({"name": "/story/$name", "tags": {"a": "1"}}))
        .then(json!({"retentionDays": 7}))
        .then(json!({"retentionDays": null}))
        .then(json!({"tags": {"b": "2", "a": null}}))
        .drifts("PutRetentionPolicy", json!({"logGroupName": "/story/$name", "retentionInDays": 14}));
    let definition = |result: &str| json!({"StartAt": "A", "States": {"A": {"Type": "Pass", "Result": result, "End": true}}});
    let machine = Story::new(
        "sfn",
        "StateMachine",
        json!({"name": "$name", "roleARN": "$needs.0.status.ackResourceMetadata.arn",
            "definition": definition("one").to_string(), "tags": tags(&[("a", "1")])}),
    )
    .then(json!({"definition": definition("two").to_string()}))
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts(
        "UpdateStateMachine",
        json!({"stateMachineArn": ARN, "definition": definition("three").to_string()}),
    )
    .after(role());
    let activity = Story::new("sfn", "Activity", json!({"name": "$name"}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("UntagResource", json!({"resourceArn": ARN, "tagKeys": ["b"]}));
    let lambda = function()
        .then(json!({"description": "d"}))
        .then(json!({"timeout": 30, "environment": {"variables": {"A": "1"}}}))
        .then(json!({"description": null, "environment": null}))
        .shows(
            "GetFunction",
            json!({"FunctionName": "$name"}),
            "/Configuration/Environment/Variables/A",
            Value::Null,
        )
        .then(json!({"description": "d"}))
        .shows("GetFunction", json!({"FunctionName": "$name"}), "/Configuration/Description", json!("d"))
        .then(json!({"code": {"zipFile": ARCHIVE_WITH_REMARK}}))
        .then(json!({"reservedConcurrentExecutions": 2}))
        .then(json!({"tags": {"b": "2"}}))
        .drifts("UpdateFunctionConfiguration", json!({"FunctionName": "$name", "Description": "other"}))
        .after(role());
    let cluster = Story::new("ecs", "Cluster", json!({"name": "$name", "tags": tags(&[("a", "1")])}))
        .then(json!({"settings": [{"name": "containerInsights", "value": "enabled"}]}))
        .then(json!({"tags": tags(&[("b", "2")])}))
        .drifts("UntagResource", json!({"resourceArn": ARN, "tagKeys": ["b"]}));
    let task = Story::new(
        "ecs",
        "TaskDefinition",
        json!({"family": "$name", "containerDefinitions": [{"name": "c", "image": "i", "memory": 128, "cpu": 1}]}),
    )
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts("UntagResource", json!({"resourceArn": ARN, "tagKeys": ["b"]}));
    let instance = Story::new(
        "rds",
        "DBInstance",
        json!({"dbInstanceIdentifier": "$name", "dbInstanceClass": "db.t3.micro", "engine": "postgres",
            "allocatedStorage": 20, "masterUsername": "root"}),
    )
    .then(json!({"dbInstanceClass": "db.t3.small"}))
    .then(json!({"tags": tags(&[("b", "2")])}))
    .then(json!({"manageMasterUserPassword": true}))
    .shows(
        "DescribeDBInstances",
        json!({"DBInstanceIdentifier": "$name"}),
        "/DBInstances/0/MasterUserSecret/SecretStatus",
        json!("active"),
    )
    .drifts(
        "ModifyDBInstance",
        json!({"DBInstanceIdentifier": "$name", "DBInstanceClass": "db.t3.large",
        "ApplyImmediately": true}),
    );
    let parameters = Story::new(
        "rds",
        "DBParameterGroup",
        json!({"name": "$name", "family": "postgres16", "description": "d"}),
    )
    .then(json!({"parameterOverrides": {"log_statement": "all"}}))
    .then(json!({"tags": tags(&[("b", "2")])}))
    .drifts(
        "ModifyDBParameterGroup",
        json!({"DBParameterGroupName": "$name", "Parameters": [
        {"ParameterName": "log_statement", "ParameterValue": "none", "ApplyMethod": "immediate"}]}),
    );
    vec![log, machine, activity, lambda, cluster, task, instance, subnet_group(), parameters, alias()]
}

/// Stories that belong together, and who can tell them.
pub struct Chapter {
    pub name: &'static str,
    pub by: Program,
    pub stories: fn() -> Vec<Story>,
}

pub const CHAPTERS: &[Chapter] = &[
    Chapter { name: "storage", by: Program::Moto, stories: storage },
    Chapter { name: "messages", by: Program::Moto, stories: messages },
    Chapter { name: "identities", by: Program::Moto, stories: identities },
    Chapter { name: "networks", by: Program::Moto, stories: networks },
    Chapter { name: "work", by: Program::Moto, stories: work },
    Chapter { name: "work elsewhere", by: Program::Ministack, stories: work_elsewhere },
    // A second opinion: what one emulator lets pass, another may not.
    Chapter { name: "messages again", by: Program::Ministack, stories: messages },
];
