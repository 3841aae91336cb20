use super::*;

/// Rules that are tried live as long as the tests.
fn leak(text: &str) -> &'static ServiceRules {
    Box::leak(Box::new(ServiceRules::parse("sqs", text).unwrap()))
}

#[test]
fn every_file_is_read_and_says_nothing_that_its_model_does_not_know() {
    let unread: Vec<String> = faults().iter().map(ToString::to_string).collect();
    assert!(unread.is_empty(), "{}", unread.join("\n"));
    assert_eq!(all().len(), FILES.len());
    let faults: Vec<String> = all().iter().flat_map(check::check).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_the_model_does_not_know_is_an_error_with_its_line() {
    let check = |text: &str, expected: &str| {
        let faults: Vec<String> = check::check(leak(text)).iter().map(ToString::to_string).collect();
        assert!(faults.iter().any(|fault| fault == expected), "{expected} is not in {faults:?}");
    };
    check(
        "kinds:\n  Queue:\n    operations: {create: MakeQueue}\n",
        "rules/sqs.yaml:3: there is no operation MakeQueue",
    );
    check(
        "kinds:\n  Queue:\n    operations:\n      create: CreateQueue\n    fields:\n      Colour: {immutable: true}\n",
        "rules/sqs.yaml:6: there is no field Colour",
    );
    check(
        "drop:\n  members:\n    CreateQueueInput: [Colour]\nkinds:\n  Queue:\n    operations: {create: CreateQueue}\n",
        "rules/sqs.yaml:3: CreateQueueInput has no member Colour",
    );
    check(
        "kinds:\n  Queue:\n    operations: {create: CreateQueue}\n    parts:\n      tags:\n        put: {call: TagQueue, send: {Size: $value}}\n",
        "rules/sqs.yaml:6: TagQueue takes no Size",
    );
    check(
        "kinds:\n  Queue:\n    operations: {create: CreateQueue}\n    read: {call: ReceiveMessage, take: Messages.Body}\n",
        "rules/sqs.yaml:4: ReceiveMessage does not answer with Messages.Body",
    );
    check(
        "kinds:\n  Queue:\n    operations: {create: CreateQueue}\n    fields:\n      QueueName: {ref: kms/Door status.id}\n",
        "rules/sqs.yaml:5: kms/Door status.id is not `service/Kind path` of a known kind's field",
    );
    check(
        "kinds:\n  Queue:\n    operations: {create: CreateQueue}\n    full: true\n",
        "rules/sqs.yaml:3: a change of Attributes is not noticed, and no reason is given",
    );
    check(
        "kinds:\n  Queue:\n    operations: {create: CreateQueue}\n    fields:\n      QueueName: {key: true, unseen: why}\n",
        "rules/sqs.yaml:5: a change of QueueName is noticed, whatever the reason against it",
    );
}

#[test]
fn a_word_that_is_no_word_of_the_vocabulary_is_refused() {
    let error = ServiceRules::parse(
        "sqs",
        "kinds:\n  Queue:\n    operations: {create: CreateQueue}\n    colour: red\n",
    );
    assert!(error.unwrap_err().to_string().contains("colour"));
}
