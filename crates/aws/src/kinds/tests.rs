use super::*;

#[test]
fn names_of_a_kind() {
    let queue = find("sqs", "Queue").unwrap();
    assert_eq!(queue.group(), "sqs.services.k8s.aws");
    assert_eq!(queue.finalizer(), "finalizers.sqs.services.k8s.aws/Queue");
    assert_eq!(by_resource("ec2.services.k8s.aws", "vpcs").unwrap().kind, "VPC");
    assert!(by_resource("ec2.example.com", "vpcs").is_none());
}

#[test]
fn fields_of_a_kind() {
    let plan = find("sqs", "Queue").unwrap().plan().unwrap();
    let field = plan.field("KmsMasterKeyId").unwrap();
    assert_eq!((field.name.as_str(), field.home, field.attribute), ("kmsMasterKeyID", Home::Spec, true));
    let reference = plan.field("KmsMasterKeyRef").unwrap();
    assert_eq!(reference.refers_for.as_deref(), Some("KmsMasterKeyId"));
    assert!(plan.field("QueueName").unwrap().required);
    assert_eq!(plan.field("QueueUrl").unwrap().home, Home::Status);
}
