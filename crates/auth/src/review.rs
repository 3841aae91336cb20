//! The API kinds that ask who somebody is and what they may do: requests become responses.

use objects::field::{Error, ErrorList, Path};
use objects::{GroupKind, Status};
use serde_json::{Map, Value, json};

use crate::authorize::{Attributes, Decision, Verdict};
use crate::rbac::{PolicySnapshot, Rule};
use crate::user::UserInfo;

const AUTHORIZATION_GROUP: &str = "authorization.k8s.io";

/// SubjectAccessReview: may that user do this?
pub fn subject_access_review(
    review: &Value,
    authorize: impl FnOnce(&UserInfo, &Attributes<'_>) -> Decision,
) -> Result<Value, Status> {
    let mut errors = check_subject(review);
    errors.extend(check_attributes(review));
    errors.extend(check_metadata(review, &[], "must be empty"));
    refuse("SubjectAccessReview", &errors)?;
    Ok(answered(review, &UserInfo::from_fields(&review["spec"], "user"), authorize))
}

/// LocalSubjectAccessReview: the same within one namespace.
pub fn local_subject_access_review(
    review: &Value,
    namespace: &str,
    authorize: impl FnOnce(&UserInfo, &Attributes<'_>) -> Decision,
) -> Result<Value, Status> {
    let mut errors = check_subject(review);
    errors.extend(check_attributes(review));
    errors.extend(check_metadata(review, &["namespace"], "must be empty except for namespace"));
    let asked = review.pointer("/spec/resourceAttributes/namespace").and_then(Value::as_str).unwrap_or("");
    if present(review, "resourceAttributes") && asked != objects::meta::namespace(review) {
        let path = Path::new("spec.resourceAttributes.namespace");
        errors.push(Error::invalid(&path, asked, "must match metadata.namespace"));
    }
    if present(review, "nonResourceAttributes") {
        let bad = review["spec"]["nonResourceAttributes"].clone();
        let path = Path::new("spec.nonResourceAttributes");
        errors.push(Error::invalid(&path, bad, "disallowed on this kind of request"));
    }
    refuse("LocalSubjectAccessReview", &errors)?;
    if namespace != objects::meta::namespace(review) {
        let message = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(Status::bad_request(message));
    }
    Ok(answered(review, &UserInfo::from_fields(&review["spec"], "user"), authorize))
}

/// SelfSubjectAccessReview: may I do this?
pub fn self_subject_access_review(
    review: &Value,
    user: &UserInfo,
    authorize: impl FnOnce(&UserInfo, &Attributes<'_>) -> Decision,
) -> Result<Value, Status> {
    let mut errors = check_attributes(review);
    errors.extend(check_metadata(review, &[], "must be empty"));
    refuse("SelfSubjectAccessReview", &errors)?;
    Ok(answered(review, user, authorize))
}

/// SelfSubjectReview: who am I?
pub fn self_subject_review(review: &Value, user: &UserInfo) -> Value {
    with_status(review, json!({ "userInfo": user.to_value() }))
}

/// SelfSubjectRulesReview: what may I do in this namespace?
pub fn self_subject_rules_review(
    review: &Value,
    user: &UserInfo,
    policy: &PolicySnapshot,
) -> Result<Value, Status> {
    let namespace = review.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or("");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let resolved = policy.rules_for(user, namespace);
    let resource = |rule: &&Rule| !rule.resources.is_empty();
    let resource_rules: Vec<Value> = resolved
        .rules
        .iter()
        .filter(resource)
        .map(|rule| json!(Rule { non_resource_urls: Vec::new(), ..rule.clone() }))
        .collect();
    let other_rules: Vec<Value> = resolved
        .rules
        .iter()
        .filter(|rule| !rule.non_resource_urls.is_empty())
        .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}))
        .collect();
    let mut status =
        json!({"resourceRules": resource_rules, "nonResourceRules": other_rules, "incomplete": false});
    if !resolved.errors.is_empty() {
        status["evaluationError"] = json!(resolved.errors.join(", "));
    }
    Ok(with_status(review, status))
}

/// What a TokenReview asks: whose token is this, for these audiences (none: this API server's)?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenQuestion<'a> {
    pub token: &'a str,
    pub audiences: Vec<String>,
}

impl<'a> TokenQuestion<'a> {
    pub fn read(review: &'a Value) -> Result<Self, Status> {
        let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or("");
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = review.pointer("/spec/audiences").and_then(Value::as_array).into_iter().flatten();
        let audiences = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(TokenQuestion { token, audiences })
    }
}

/// The answer to a TokenReview: a user with the audiences the token is good for, nobody, or an error.
pub fn token_review(review: &Value, answer: Result<Option<(UserInfo, Vec<String>)>, String>) -> Value {
    let mut status = Map::new();
    match answer {
        Ok(Some((user, audiences))) => {
            status.insert("authenticated".to_owned(), json!(true));
            status.insert("user".to_owned(), user.to_value());
            if !audiences.is_empty() {
                status.insert("audiences".to_owned(), json!(audiences));
            }
        }
        Ok(None) => {
            status.insert("user".to_owned(), json!({}));
        }
        Err(error) => {
            status.insert("user".to_owned(), json!({}));
            status.insert("error".to_owned(), json!(error));
        }
    }
    with_status(review, Value::Object(status))
}

fn answered(
    review: &Value,
    user: &UserInfo,
    authorize: impl FnOnce(&UserInfo, &Attributes<'_>) -> Decision,
) -> Value {
    let decision = authorize(user, &attributes(review));
    let mut status = Map::new();
    status.insert("allowed".to_owned(), json!(decision.allowed()));
    if decision.verdict == Verdict::Deny {
        status.insert("denied".to_owned(), json!(true));
    }
    if !decision.reason.is_empty() {
        status.insert("reason".to_owned(), json!(decision.reason));
    }
    with_status(review, Value::Object(status))
}

/// The request with an answer in it.
fn with_status(review: &Value, status: Value) -> Value {
    let mut response = review.clone();
    if let Some(fields) = response.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    response
}

fn attributes(review: &Value) -> Attributes<'_> {
    let text = |kind: &str, field: &str| {
        review.get("spec").and_then(|spec| spec.get(kind)?.get(field)?.as_str()).unwrap_or("")
    };
    if present(review, "nonResourceAttributes") {
        return Attributes::path(
            text("nonResourceAttributes", "verb"),
            text("nonResourceAttributes", "path"),
        );
    }
    let field = |name: &str| text("resourceAttributes", name);
    Attributes::resource(field("verb"), field("group"), field("resource"))
        .subresource(field("subresource"))
        .namespace(field("namespace"))
        .name(field("name"))
}

fn present(review: &Value, field: &str) -> bool {
    review.get("spec").and_then(|spec| spec.get(field)).is_some_and(|value| !value.is_null())
}

fn check_subject(review: &Value) -> ErrorList {
    let user = UserInfo::from_fields(review.get("spec").unwrap_or(&Value::Null), "user");
    if user.name.is_empty() && user.groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        return vec![Error::invalid(&Path::new("spec").child("user"), "", detail)];
    }
    Vec::new()
}

fn check_attributes(review: &Value) -> ErrorList {
    let spec = Path::new("spec");
    match (present(review, "resourceAttributes"), present(review, "nonResourceAttributes")) {
        (true, true) => {
            let bad = review["spec"]["nonResourceAttributes"].clone();
            let detail = "cannot be specified in combination with resourceAttributes";
            vec![Error::invalid(&spec.child("nonResourceAttributes"), bad, detail)]
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![Error::invalid(&spec.child("resourceAttributes"), Value::Null, detail)]
        }
        _ => Vec::new(),
    }
}

/// Reviews are not stored and have no name.
fn check_metadata(review: &Value, allowed: &[&str], detail: &str) -> ErrorList {
    let Some(metadata) = review.get("metadata").and_then(Value::as_object) else { return Vec::new() };
    // What clients write without meaning to.
    let harmless = ["creationTimestamp", "managedFields"];
    let set = metadata.iter().any(|(key, value)| {
        let empty = value.is_null() || value.as_str() == Some("");
        !empty && !allowed.contains(&key.as_str()) && !harmless.contains(&key.as_str())
    });
    if set {
        return vec![Error::invalid(&Path::new("metadata"), Value::Object(metadata.clone()), detail)];
    }
    Vec::new()
}

fn refuse(kind: &str, errors: &[Error]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind { group: AUTHORIZATION_GROUP.into(), kind: kind.into() };
    Err(Status::invalid(&kind, "", errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(spec: Value) -> Value {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    }

    #[test]
    fn access_reviews() {
        fn check(spec: Value, expected: Result<&str, &str>) {
            let mut asked = String::new();
            let got = subject_access_review(&review(spec), |user, attributes| {
                asked = format!("{} {} {:?}", user.name, user.groups.join(","), attributes.target);
                Decision::allow("because")
            });
            match (got, expected) {
                (Ok(response), Ok(expected)) => {
                    assert_eq!(response["status"], json!({"allowed": true, "reason": "because"}));
                    assert_eq!(asked, expected);
                }
                (Err(status), Err(expected)) => {
                    assert!(status.message.contains(expected), "{}", status.message)
                }
                (got, expected) => panic!("{got:?} {expected:?}"),
            }
        }
        let pods = json!({"verb": "get", "resource": "pods", "namespace": "n", "name": "p"});
        check(
            json!({"user": "u", "groups": ["g"], "resourceAttributes": pods}),
            Ok(r#"u g Resource { group: "", resource: "pods", subresource: "", namespace: "n", name: "p" }"#),
        );
        let path = json!({"verb": "get", "path": "/x"});
        check(json!({"user": "u", "nonResourceAttributes": path}), Ok(r#"u  Path("/x")"#));
        check(json!({"resourceAttributes": pods}), Err("at least one of user or group must be specified"));
        check(json!({"user": "u"}), Err("exactly one of nonResourceAttributes or resourceAttributes"));
        check(
            json!({"user": "u", "resourceAttributes": pods, "nonResourceAttributes": path}),
            Err("cannot be specified in combination with resourceAttributes"),
        );
    }

    #[test]
    fn denials() {
        let request = review(json!({"resourceAttributes": {"verb": "get", "resource": "pods"}}));
        let user = UserInfo::new("me", ["g"]);
        let no = self_subject_access_review(&request, &user, |_, _| Decision::no_opinion("")).unwrap();
        assert_eq!(no["status"], json!({"allowed": false}));
        let never = self_subject_access_review(&request, &user, |_, _| Decision::deny("r")).unwrap();
        assert_eq!(never["status"], json!({"allowed": false, "denied": true, "reason": "r"}));
    }

    #[test]
    fn local_reviews_stay_in_their_namespace() {
        fn check(metadata: Value, spec: Value, expected: Option<&str>) {
            let request = json!({"metadata": metadata, "spec": spec});
            let got = local_subject_access_review(&request, "a", |_, _| Decision::allow(""));
            let message = got.err().map(|status| status.message);
            match expected {
                None => assert_eq!(message, None),
                Some(part) => {
                    assert!(message.as_ref().is_some_and(|text| text.contains(part)), "{message:?}")
                }
            }
        }
        let spec = |namespace: &str| json!({"user": "u", "resourceAttributes": {"namespace": namespace}});
        check(json!({"namespace": "a"}), spec("a"), None);
        check(json!({"namespace": "a"}), spec("b"), Some("must match metadata.namespace"));
        check(json!({"namespace": "b"}), spec("b"), Some("must match namespace: a"));
        check(json!({"namespace": "a", "name": "x"}), spec("a"), Some("must be empty except for namespace"));
    }

    #[test]
    fn token_reviews() {
        let request = json!({"spec": {"token": "t", "audiences": ["a"]}});
        let question = TokenQuestion::read(&request).unwrap();
        assert_eq!((question.token, question.audiences), ("t", vec!["a".to_owned()]));
        assert_eq!(TokenQuestion::read(&json!({})).unwrap_err().code, 400);
        let known = token_review(&request, Ok(Some((UserInfo::new("u", ["g"]), vec!["a".to_owned()]))));
        assert_eq!(
            known["status"],
            json!({"authenticated": true, "user": {"username": "u", "groups": ["g"]}, "audiences": ["a"]})
        );
        assert_eq!(token_review(&request, Ok(None))["status"], json!({"user": {}}));
        assert_eq!(token_review(&request, Err("e".to_owned()))["status"], json!({"user": {}, "error": "e"}));
    }
}
