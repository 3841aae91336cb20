use super::{Kind, Protocol, by_id, service, services};

/// Service, protocol, signing name, endpoint prefix.
#[test]
fn heads() {
    let check = |name: &str, protocol, signing: &str, prefix: &str| {
        let service = service(name).unwrap();
        assert_eq!(
            (service.protocol(), service.signing_name(), service.endpoint_prefix()),
            (protocol, signing, prefix),
            "{name}"
        );
    };
    check("sqs", Protocol::Json, "sqs", "sqs");
    check("s3", Protocol::RestXml, "s3", "s3");
    check("ec2", Protocol::Ec2, "ec2", "ec2");
    check("iam", Protocol::Query, "iam", "iam");
    check("lambda", Protocol::RestJson, "lambda", "lambda");
    check("ecr", Protocol::Json, "ecr", "api.ecr");
    check("cloudwatch", Protocol::RpcV2Cbor, "monitoring", "monitoring");
    check("keyspaces", Protocol::RpcV2Cbor, "cassandra", "cassandra");
    check("elbv2", Protocol::Query, "elasticloadbalancing", "elasticloadbalancing");
}

#[test]
fn every_model_is_read_and_all_together_are_small() {
    let mut weight = 0;
    for name in services() {
        let service = service(name).unwrap();
        assert_eq!(by_id(&service.service_id().replace(' ', "_")), Some(name));
        assert!(service.operations().count() > 5, "{name}");
        for operation in service.operations() {
            let input = operation.input();
            assert!(input.is_none_or(|input| input.is_structure()), "{operation:?}");
        }
        weight += service.weight();
    }
    assert!(weight < 12 << 20, "{weight} bytes");
}

#[test]
fn an_operation_with_its_shapes() {
    let sqs = service("sqs").unwrap();
    let create = sqs.operation("CreateQueue").unwrap();
    assert_eq!((create.method(), create.uri()), ("POST", "/"));
    let input = create.input().unwrap();
    assert!(input.member("QueueName").unwrap().is_required());
    let (key, value) = input.member("Attributes").unwrap().shape().entry().unwrap();
    assert_eq!((key.shape().kind(), value.shape().kind()), (Kind::String, Kind::String));
    assert!(input.member("Nothing").is_none());
    assert!(sqs.operation("createqueue").is_none());
    let create = service("iam").unwrap().operation("CreateRole").unwrap();
    let errors: Vec<_> = create.errors().filter_map(|error| error.error()?.code.as_deref()).collect();
    assert!(errors.contains(&"EntityAlreadyExists"), "{errors:?}");
}

#[test]
fn facts_of_http() {
    let s3 = service("s3").unwrap();
    let put = s3.operation("PutBucketVersioning").unwrap();
    assert_eq!((put.method(), put.uri()), ("PUT", "/{Bucket}?versioning"));
    assert!(put.is_checksum_required());
    assert_eq!(put.input().unwrap().payload().unwrap().name(), "VersioningConfiguration");
    let ec2 = service("ec2").unwrap();
    let pages = ec2.paginator("DescribeVpcs").unwrap();
    assert_eq!(pages.result_key[0].as_ref(), "Vpcs");
    assert!(service("nothing").is_err());
}
