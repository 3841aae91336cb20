//! Every kind with an object made out of its fields: whatever its rules lead to must be a request that its model takes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::calls::{self, Planned};
use super::compare::compare;
use super::fields::{Field, Home, Type};
use super::send::Scope;
use super::sites::{Literal, Overlay, Site};
use super::{KindFacts, Level};
use crate::model::Kind as ShapeKind;
use crate::protocol;
use crate::rules::vocabulary::Verb;

/// Structures in structures that a sample has; deeper ones are empty.
const DEEPEST: usize = 6;
const ARN: &str = "arn:aws:service:eu-west-1:123456789012:sample/sample";

/// A value that has no others in it.
fn of_scalar(kind: ShapeKind) -> Value {
    match kind {
        ShapeKind::Boolean => true.into(),
        ShapeKind::Integer | ShapeKind::Long => 1.into(),
        ShapeKind::Float | ShapeKind::Double => json!(1.5),
        ShapeKind::Timestamp => "2026-01-01T00:00:00Z".into(),
        ShapeKind::Blob => "c2FtcGxl".into(),
        _ => "sample".into(),
    }
}

fn of_site(overlay: &Overlay, site: Site, depth: usize) -> Value {
    match site.shape.kind() {
        ShapeKind::Structure | ShapeKind::Union if depth >= DEEPEST => json!({}),
        ShapeKind::Structure | ShapeKind::Union => {
            let member = |(word, member)| {
                (overlay.name_in(site.place, word).to_string(), of_site(overlay, member, depth + 1))
            };
            let members = overlay.members(site).map(member);
            // Of a union there is one.
            let most = if site.shape.kind() == ShapeKind::Union { 1 } else { usize::MAX };
            Value::Object(members.take(most).collect())
        }
        ShapeKind::List => {
            let element = site.shape.element().map(|element| Site::of(element.shape()));
            Value::Array(element.map(|element| of_site(overlay, element, depth)).into_iter().collect())
        }
        ShapeKind::Map => {
            let entry = site.shape.entry().map(|(_, value)| Site::of(value.shape()));
            Value::Object(
                entry.map(|entry| ("key".to_owned(), of_site(overlay, entry, depth))).into_iter().collect(),
            )
        }
        scalar => of_scalar(scalar),
    }
}

/// What the reading call could answer: a value in every member, in the model's words.
fn of_answer(site: Site, depth: usize) -> Value {
    match site.shape.kind() {
        ShapeKind::Structure | ShapeKind::Union if depth >= DEEPEST => json!({}),
        ShapeKind::Structure | ShapeKind::Union => {
            let member = |member: crate::model::Member<'static>| {
                (member.name().to_owned(), of_answer(Site::of(member.shape()), depth + 1))
            };
            let most = if site.shape.kind() == ShapeKind::Union { 1 } else { usize::MAX };
            Value::Object(site.shape.members().map(member).take(most).collect())
        }
        ShapeKind::List => {
            let element = site.shape.element().map(|element| of_answer(Site::of(element.shape()), depth));
            Value::Array(element.into_iter().collect())
        }
        ShapeKind::Map => {
            let entry = site.shape.entry().map(|(_, value)| of_answer(Site::of(value.shape()), depth));
            Value::Object(entry.map(|entry| ("key".to_owned(), entry)).into_iter().collect())
        }
        scalar => of_scalar(scalar),
    }
}

/// What names an object in its spec does not change.
fn names(facts: &KindFacts, object: &Value) -> Value {
    let keys = facts.rules.fields.iter().filter(|(_, rule)| rule.value.key);
    let keys = keys.filter_map(|(word, _)| facts.plan().unwrap().field(word));
    let known = keys.filter_map(|field| Some((field.name.clone(), object["spec"].get(&field.name)?.clone())));
    Value::Object(known.collect())
}

fn of_literal(literal: &Literal) -> Value {
    match literal {
        Literal::Boolean => true.into(),
        Literal::Integer => 1.into(),
        Literal::Number => json!(1.5),
        Literal::Time => "2026-01-01T00:00:00Z".into(),
        Literal::Bytes => "c2FtcGxl".into(),
        Literal::String => "sample".into(),
        Literal::List(item) => json!([of_literal(item)]),
        Literal::Map(value) => json!({"key": of_literal(value)}),
    }
}

fn is_document(facts: &KindFacts, field: &Field) -> bool {
    let translator = facts.translator().unwrap();
    let input = Site::input(translator.plan.model(), &facts.rules.operations.create.value).unwrap();
    input.shape.members().any(|member| {
        let sent = translator.sent_field(&facts.rules.operations.create.value, Verb::Create, member.name());
        sent.is_some_and(|sent| sent.word == field.word) && member.shape().is_structure()
    })
}

/// An object with a value in every field.
fn sample(facts: &KindFacts) -> Value {
    let plan = facts.plan().unwrap();
    let overlay = plan.overlay();
    let (mut spec, mut status) = (Map::new(), Map::new());
    for field in plan.fields().iter().filter(|field| field.refers_for.is_none()) {
        let value = match &field.kind {
            Type::Model(site) => of_site(overlay, *site, 0),
            Type::ListOf(site) => json!([of_site(overlay, *site, 0)]),
            Type::MapOf(site) => json!({"key": of_site(overlay, *site, 0)}),
            // Of a text that spells a structure there is one in which nothing is said.
            Type::Literal(Literal::String) if is_document(facts, field) => "{}".into(),
            Type::Literal(literal) => of_literal(literal),
            Type::Reference { .. } => continue,
        };
        let home = if field.home == Home::Spec { &mut spec } else { &mut status };
        home.insert(field.name.clone(), value);
    }
    status.insert("ackResourceMetadata".to_owned(), json!({"arn": ARN}));
    json!({"metadata": {"name": "sample"}, "spec": spec, "status": status})
}

/// What is wrong with a request.
fn fault(facts: &KindFacts, planned: &Planned) -> Option<(String, String)> {
    let operation = facts.plan().ok()?.model().operation(&planned.operation)?;
    let input = Value::Object(planned.request.clone());
    let lacks = operation.input().into_iter().flat_map(|input| input.members()).find(|member| {
        member.is_required() && !member.is_idempotency_token() && input.get(member.name()).is_none()
    });
    let fault = match (lacks, protocol::encode(operation, &input, "token")) {
        (Some(member), _) => format!("{} is missing", member.name()),
        (None, Err(error)) => error.to_string(),
        (None, Ok(_)) => return None,
    };
    Some((format!("{facts:?} {}", planned.operation), fault))
}

#[test]
fn every_kind_is_made_read_changed_and_deleted_by_calls_that_its_model_takes() {
    let meta = ["account", "region", "partition", "name", "namespace", "uid"];
    let mut meta: BTreeMap<&'static str, String> =
        meta.into_iter().map(|word| (word, "sample".to_owned())).collect();
    meta.insert("arn", ARN.to_owned());
    let mut faults: Vec<(String, String)> = Vec::new();
    for facts in super::all().iter().filter(|facts| facts.rules.function.is_none()) {
        let translator = facts.translator().unwrap();
        let object = sample(facts);
        let observed = json!({"spec": names(facts, &object), "status": object["status"]});
        let reading = facts.reading_operation();
        let output = reading.and_then(|operation| Site::output(translator.plan.model(), operation));
        let reply = output.map(|output| of_answer(output, 0)).unwrap_or_default();
        let scope = Scope {
            translator,
            object: &object,
            observed: Some(&observed),
            meta: &meta,
            answer: None,
            reply: None,
            lists: None,
            field: None,
            now: BTreeMap::new(),
        };
        let answer = reading.and_then(|operation| calls::pick(facts, &scope, operation, &reply));
        let scope = Scope { answer: answer.as_ref(), reply: Some(&reply), ..scope };
        let mut planned = vec![calls::create(facts, &scope, "token")];
        match calls::read(facts, &scope) {
            Some(read) => planned.push(read),
            None if facts.level() == Level::SchemaOnly => {}
            None => faults.push((format!("{facts:?}"), "cannot be read".to_owned())),
        }
        let changes = compare(facts, translator.plan, &object["spec"], &observed["spec"]);
        planned.extend(calls::update(facts, &scope, &changes));
        planned.extend(calls::delete(facts, &scope));
        faults.extend(planned.iter().filter_map(|planned| fault(facts, planned)));
    }
    faults.dedup();
    assert!(faults.is_empty(), "{faults:#?}");
}
