//! What stands in the head of a request.

use apiserver::route::{Action, Target};
use auth::impersonation::Impersonation;
use objects::Quantity;
use objects::selector::{fields, labels};
use serde_json::json;
use wire::jsonpath::JsonPath;
use wire::negotiate::{self, Endpoint, Format, PatchType};
use wire::options::{DeleteOptions, ListOptions, PatchOptions, WriteOptions};
use wire::query::Query;

use crate::{parts, text};

pub fn label_selector(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(selector) = labels::Selector::parse(text) else { return };
    let object = json!({"a": "b", "app": "x", "tier": "1"});
    let matches = selector.matches(object.as_object());
    let written = selector.to_string();
    let again = labels::Selector::parse(&written).expect("what was written can be read");
    assert_eq!(again.matches(object.as_object()), matches, "{written}");
}

pub fn field_selector(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(selector) = fields::Selector::parse(text) else { return };
    let written = selector.to_string();
    let again = fields::Selector::parse(&written).expect("what was written can be read");
    assert_eq!(again.requirements().len(), selector.requirements().len(), "{written}");
    let field = |name: &str| (name == "metadata.name").then(|| "a".into());
    assert_eq!(again.matches(field), selector.matches(field));
}

pub fn quantity(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(quantity) = Quantity::parse(text) else { return };
    let _ = (quantity.value(), quantity.milli_value(), quantity.sign());
    let written = quantity.to_string();
    let again = Quantity::parse(&written).expect("what was written can be read");
    assert_eq!(again.to_string(), written, "{text}");
}

pub fn query(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let query = Query::parse(text);
    let _ = ListOptions::from_query(&query);
    let _ = DeleteOptions::from_query(&query);
    let _ = (WriteOptions::for_create(&query), WriteOptions::for_update(&query));
    for kind in PatchType::ALL {
        let _ = PatchOptions::from_query(&query, kind);
    }
}

pub fn accept(data: &[u8]) {
    let [accept, content_type] = parts(data).map(text);
    for endpoint in [Endpoint::OBJECT, Endpoint::LIST, Endpoint::WATCH, Endpoint::DISCOVERY, Endpoint::PLAIN]
    {
        let _ = negotiate::accept(accept, &endpoint.with_protobuf(true));
    }
    let _ = negotiate::body(content_type, &[Format::Json, Format::Yaml, Format::Protobuf]);
    let _ = negotiate::patch(content_type, &PatchType::ALL);
}

pub fn json_path(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(path) = JsonPath::parse(text) else { return };
    let object = json!({"spec": {"a": [1, 2, {"b": "c"}], "d.e": {"f": true}}, "status": {"conditions": [
        {"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
    assert!(path.find(&object).len() <= 10_000);
    let _ = path.simple();
}

pub fn route(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Target::Resource(target) = Target::parse(text) {
        assert!(
            !target.version.contains('/') && !target.resource.contains('/') && !target.name.contains('/')
        );
        for method in [http::Method::GET, http::Method::POST, http::Method::DELETE] {
            let _ = Action::of(&method, &target, true);
        }
    }
}

pub fn impersonation(data: &[u8]) {
    let all: [&[u8]; 8] = parts(data);
    let split = |part: &&'_ [u8]| part.iter().position(|byte| *byte == b':');
    let headers: Vec<(&str, &[u8])> = all
        .iter()
        .filter_map(|part| split(part).and_then(|at| Some((text(&part[..at])?, &part[at + 1..]))))
        .collect();
    if let Ok(Some(wanted)) = Impersonation::from_headers(headers) {
        assert!(!wanted.required().is_empty(), "nobody is impersonated without a right to it");
        assert!(!wanted.into_user().name.is_empty());
    }
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const label_selector: &[&[u8]] = &[
        b"a=b,app!=x",
        b"tier in (1, 2),a notin (b),!gone,here",
        b"example.com/a==b,x>1,y<2",
        b"a in ()",
        b"",
    ];
    pub const field_selector: &[&[u8]] =
        &[b"metadata.name=a,status.phase!=Running", br"a=b\,c\=d\\,e==f", b"x="];
    pub const quantity: &[&[u8]] =
        &[b"100m", b"1.5Gi", b"12e6", b"-0.000000001", b"9223372036854775807", b"1E", b"+.5k", b"1e-30"];
    pub const query: &[&[u8]] = &[
        b"labelSelector=a%3Db&fieldSelector=metadata.name%3Da&limit=5&continue=x&watch=1&timeoutSeconds=9",
        b"resourceVersion=10&resourceVersionMatch=Exact&sendInitialEvents=true&allowWatchBookmarks=true",
        b"dryRun=All&fieldManager=m&fieldValidation=Strict&force=true&gracePeriodSeconds=-1&propagationPolicy=Orphan",
    ];
    pub const accept: &[&[u8]] = &[
        b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json\xffapplication/merge-patch+json",
        b"application/vnd.kubernetes.protobuf;stream=watch, */*;q=0.5\xffapplication/json; charset=\"utf-8\"",
        b"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1\xffapplication/apply-patch+yaml",
    ];
    pub const json_path: &[&[u8]] = &[
        b"{.spec.a[0:2]}",
        b".status.conditions[?(@.type==\"Ready\")].status",
        b"$..b",
        b".spec['d\\.e'].f",
        b"{.spec.a[*]}{.spec.a[-1].b}",
    ];
    pub const route: &[&[u8]] = &[
        b"/api/v1/namespaces/a/pods/b/proxy/x/y",
        b"/apis/apps/v1/watch/namespaces/a/deployments",
        b"/api/v1/namespaces/a/finalize",
        b"/healthz/ping",
    ];
    pub const impersonation: &[&[u8]] =
        &[b"Impersonate-User:system:serviceaccount:a:b\xffImpersonate-Group:g\xffImpersonate-Extra-scopes%2fx:y\xffImpersonate-Uid:1"];
}
