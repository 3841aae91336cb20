//! Objects that rules refuse, in the words of the API server.

use objects::Path;
use serde_json::{Value, json};

use super::{compiled, resource, texts};
use crate::{Budget, CompiledRules};

fn rules(schema: Value) -> CompiledRules {
    compiled(schema).unwrap_or_else(|errors| panic!("{:#?}", texts(&errors)))
}

fn found(rules: &CompiledRules, new: &Value, old: Option<&Value>) -> Vec<String> {
    texts(&rules.validate(new, old, &Path::root(), &mut Budget::default()))
}

/// One rule over a spec; the errors it gives.
fn outcome(properties: Value, rule: Value, spec: Value, old: Option<Value>) -> Vec<String> {
    let rules = rules(resource(properties, json!([rule])));
    let old = old.map(|old| json!({"spec": old}));
    found(&rules, &json!({"spec": spec}), old.as_ref())
}

#[track_caller]
fn check(properties: &Value, rule: &str, spec: Value, expected: &[&str]) {
    assert_eq!(outcome(properties.clone(), json!({"rule": rule}), spec, None), expected, "{rule}");
}

#[test]
fn documented_rules() {
    let p = json!({
        "minReplicas": {"type": "integer"}, "replicas": {"type": "integer"}, "maxReplicas": {"type": "integer"},
        "health": {"type": "string", "maxLength": 10},
        "widgets": {"type": "array", "maxItems": 10, "items": {"type": "object", "properties": {
            "key": {"type": "string", "maxLength": 10}, "foo": {"type": "integer"}}}},
        "set1": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}},
        "stateCounts": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "integer"}},
        "created": {"type": "string", "format": "date-time"}, "ttl": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": true},
        "x-y": {"type": "string"},
    });
    let failed = |rule: &str| format!("spec: Invalid value: \"object\": failed rule: {rule}");
    for (rule, good, bad) in [
        (
            "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
            json!({"minReplicas": 1, "replicas": 2, "maxReplicas": 3}),
            json!({"minReplicas": 1, "replicas": 4, "maxReplicas": 3}),
        ),
        (
            "'Available' in self.stateCounts",
            json!({"stateCounts": {"Available": 1}}),
            json!({"stateCounts": {}}),
        ),
        (
            "self.widgets.exists(w, w.key == 'x' && w.foo < 10)",
            json!({"widgets": [{"key": "y", "foo": 1}, {"key": "x", "foo": 1}]}),
            json!({"widgets": [{"key": "x", "foo": 10}]}),
        ),
        ("self.health.startsWith('ok')", json!({"health": "ok!"}), json!({"health": "bad"})),
        (
            "self.created + self.ttl < timestamp('2024-01-01T00:00:00Z')",
            json!({"created": "2023-01-01T00:00:00Z", "ttl": "24h"}),
            json!({"created": "2023-12-31T23:00:00Z", "ttl": "24h"}),
        ),
        ("has(self.health) ? self.health == 'ok' : true", json!({}), json!({"health": "x"})),
        (
            "type(self.port) == string ? self.port == '100%' : self.port == 1000",
            json!({"port": 1000}),
            json!({"port": "99%"}),
        ),
        ("self.set1.all(e, e.size() > 1)", json!({"set1": ["ab"]}), json!({"set1": ["ab", "c"]})),
        (
            "self.widgets.map(w, w.key).isSorted()",
            json!({"widgets": [{"key": "a"}, {"key": "b"}]}),
            json!({"widgets": [{"key": "b"}, {"key": "a"}]}),
        ),
        ("self.x__dash__y == 'v'", json!({"x-y": "v"}), json!({"x-y": "w"})),
        ("self.?health.orValue('ok') == 'ok'", json!({}), json!({"health": "w"})),
        (
            "self.stateCounts.all(k, self.stateCounts[k] > 0)",
            json!({"stateCounts": {"a": 1}}),
            json!({"stateCounts": {"a": 0}}),
        ),
    ] {
        check(&p, rule, good, &[]);
        check(&p, rule, bad, &[&failed(rule)]);
    }
}

#[test]
fn evaluation_errors() {
    let p = json!({"a": {"type": "integer"}, "m": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string"}},
        "v": {"x-kubernetes-int-or-string": true}});
    check(
        &p,
        "self.a > 0",
        json!({}),
        &["spec: Invalid value: \"object\": no such key: a evaluating rule: self.a > 0"],
    );
    check(
        &p,
        "self.m['x'] == ''",
        json!({"m": {}}),
        &["spec: Invalid value: \"object\": no such key: x evaluating rule: self.m['x'] == ''"],
    );
    check(
        &p,
        "1 / self.a == 1",
        json!({"a": 0}),
        &["spec: Invalid value: \"object\": division by zero evaluating rule: 1 / self.a == 1"],
    );
    check(
        &p,
        "self.v > 1",
        json!({"v": "x"}),
        &[
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function \
         or macro signature for rule: self.v > 1",
        ],
    );
}

#[test]
fn messages_reasons_and_paths() {
    let p = json!({"n": {"type": "integer"}, "m": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string", "maxLength": 9}}});
    for (extra, expected) in [
        (json!({"message": " too large "}), "spec: Invalid value: \"object\": too large"),
        (json!({"messageExpression": "'n is ' + string(self.n)"}), "spec: Invalid value: \"object\": n is 7"),
        (
            json!({"messageExpression": "'%d > %d'.format([self.n, 5])", "message": "x"}),
            "spec: Invalid value: \"object\": 7 > 5",
        ),
        // A message expression that fails, or says nothing, falls back.
        (json!({"messageExpression": "self.m['x']", "message": "x"}), "spec: Invalid value: \"object\": x"),
        (json!({"messageExpression": "' '"}), "spec: Invalid value: \"object\": failed rule: self.n < 5"),
        (json!({"messageExpression": "'a\\nb'"}), "spec: Invalid value: \"object\": failed rule: self.n < 5"),
        (json!({"reason": "FieldValueRequired"}), "spec: Required value: failed rule: self.n < 5"),
        (json!({"reason": "FieldValueForbidden", "message": "no"}), "spec: Forbidden: no"),
        (json!({"reason": "FieldValueDuplicate", "message": "no"}), "spec: Duplicate value: \"object\""),
        (json!({"reason": "FieldValueInvalid"}), "spec: Invalid value: \"object\": failed rule: self.n < 5"),
        (json!({"fieldPath": ".n"}), "spec.n: Invalid value: \"object\": failed rule: self.n < 5"),
        (json!({"fieldPath": "['n']"}), "spec.n: Invalid value: \"object\": failed rule: self.n < 5"),
        (json!({"fieldPath": ".m.foo"}), "spec.m[foo]: Invalid value: \"object\": failed rule: self.n < 5"),
    ] {
        let mut rule = json!({"rule": "self.n < 5"});
        rule.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        assert_eq!(outcome(p.clone(), rule, json!({"n": 7}), None), [expected], "{extra}");
    }
}

#[test]
fn rules_stand_where_the_schema_puts_them() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "list": {"type": "array", "maxItems": 5, "items": {
            "type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self != 'x'", "message": "no x"}]}},
        "map": {"type": "object", "maxProperties": 5, "additionalProperties": {
            "type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}},
        "nullable": {"type": "string", "nullable": true, "x-kubernetes-validations": [{"rule": "self == 'a'"}]},
        "limited": {"type": "integer", "allOf": [{"x-kubernetes-validations": [{"rule": "self < 5"}]}]},
    }}}});
    let rules = rules(schema);
    let object =
        json!({"spec": {"list": ["a", "x"], "map": {"k": 0, "l": 1}, "nullable": null, "limited": 7}});
    let mut errors = found(&rules, &object, None);
    errors.sort();
    assert_eq!(
        errors,
        [
            "spec.limited: Invalid value: \"integer\": failed rule: self < 5",
            "spec.list[1]: Invalid value: \"string\": no x",
            "spec.map[k]: Invalid value: \"integer\": failed rule: self > 0",
        ]
    );
}

#[test]
fn transitions() {
    let p = json!({"name": {"type": "string"}, "count": {"type": "integer"}});
    let immutable = json!({"rule": "self.name == oldSelf.name", "message": "name is immutable"});
    let error = ["spec: Invalid value: \"object\": name is immutable"];
    assert!(outcome(p.clone(), immutable.clone(), json!({"name": "a"}), None).is_empty());
    assert!(
        outcome(p.clone(), immutable.clone(), json!({"name": "a"}), Some(json!({"name": "a"}))).is_empty()
    );
    assert_eq!(outcome(p.clone(), immutable, json!({"name": "b"}), Some(json!({"name": "a"}))), error);

    let optional = json!({"rule": "!oldSelf.hasValue() || self.count >= oldSelf.value().count", "optionalOldSelf": true,
        "message": "only grows"});
    assert!(outcome(p.clone(), optional.clone(), json!({"count": 1}), None).is_empty());
    assert!(outcome(p.clone(), optional.clone(), json!({"count": 2}), Some(json!({"count": 1}))).is_empty());
    assert_eq!(outcome(p.clone(), optional, json!({"count": 0}), Some(json!({"count": 1}))).len(), 1);

    let on_create = json!({"rule": "oldSelf.hasValue() || self.count == 0", "optionalOldSelf": true});
    assert_eq!(outcome(p.clone(), on_create, json!({"count": 1}), None).len(), 1);
    let select = json!({"rule": "oldSelf.?count.orValue(0) <= self.count", "optionalOldSelf": true});
    assert!(outcome(p, select, json!({"count": 1}), None).is_empty());
}

#[test]
fn elements_are_correlated_by_key() {
    let schema = json!({"type": "object", "properties": {"list": {
        "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 9}, "v": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}]},
    }}});
    let rules = rules(schema);
    let old = json!({"list": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]});
    let moved = json!({"list": [{"k": "b", "v": 5}, {"k": "a", "v": 1}, {"k": "new", "v": 0}]});
    assert!(found(&rules, &moved, Some(&old)).is_empty());
    let shrunk = json!({"list": [{"k": "b", "v": 4}, {"k": "a", "v": 1}]});
    assert_eq!(
        found(&rules, &shrunk, Some(&old)),
        ["list[0]: Invalid value: \"object\": failed rule: self.v >= oldSelf.v"]
    );
}

#[test]
fn unchanged_values_are_ratcheted() {
    let p = json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'good'"}]}, "b": {"type": "string"}});
    let rules = rules(resource(p, json!([{"rule": "self.b != 'bad'"}])));
    let old = json!({"spec": {"a": "bad", "b": "x"}});
    let kept = json!({"spec": {"a": "bad", "b": "y"}});
    let review = rules.review(&kept, Some(&old), &Path::root(), &mut Budget::default());
    assert_eq!(review.errors, []);
    assert_eq!(texts(&review.ratcheted), ["spec.a: Invalid value: \"string\": failed rule: self == 'good'"]);
    let changed = json!({"spec": {"a": "worse", "b": "x"}});
    assert_eq!(found(&rules, &changed, Some(&old)).len(), 1);
    let old = json!({"spec": {"a": "good", "b": "bad"}});
    // The spec has changed, so its own rule counts again.
    assert_eq!(found(&rules, &json!({"spec": {"b": "bad"}}), Some(&old)).len(), 1);
    assert_eq!(found(&rules, &old, Some(&old)).len(), 0);
    // Elements of an atomic list ratchet with the list.
    let atomic = json!({"type": "object", "properties": {"l": {"type": "array", "maxItems": 3, "items": {
        "type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == 'good'"}]}}, "o": {"type": "string"}}});
    let rules = super::compiled(atomic).unwrap();
    let old = json!({"l": ["bad"]});
    assert!(found(&rules, &json!({"l": ["bad"], "o": "x"}), Some(&old)).is_empty());
    assert_eq!(found(&rules, &json!({"l": ["bad", "good"]}), Some(&old)).len(), 1);
}

#[test]
fn lists_that_are_sets_or_maps() {
    let p = json!({
        "set": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 5}},
        "map": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 5}, "v": {"type": "integer"}}}},
        "list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
    });
    let spec =
        json!({"set": ["a", "b"], "list": ["a", "b"], "map": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]});
    for rule in [
        "self.set == ['b', 'a']",
        "self.list != ['b', 'a']",
        "(self.set + ['b', 'c']).size() == 3",
        "(self.list + ['b', 'c']).size() == 4",
        "(self.set + ['c']) == ['c', 'b', 'a']",
        "(self.map + self.map.filter(e, e.k == 'b')).map(e, e.v) == [1, 2]",
        "(self.map + self.map).size() == 2",
    ] {
        check(&p, rule, spec.clone(), &[]);
    }
    let rules = rules(resource(p, json!([{"rule": "self.map == oldSelf.map"}])));
    let old = json!({"spec": {"map": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}});
    let reordered = json!({"spec": {"map": [{"k": "b", "v": 2}, {"k": "a", "v": 1}]}});
    assert!(found(&rules, &reordered, Some(&old)).is_empty());
    assert_eq!(
        found(&rules, &json!({"spec": {"map": [{"k": "b", "v": 2}, {"k": "a", "v": 7}]}}), Some(&old)).len(),
        1
    );
}

#[test]
fn running_out_of_budget() {
    let p = json!({"l": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}});
    let rules =
        rules(resource(p, json!([{"rule": "self.l.all(x, x >= 0)"}, {"rule": "self.l.size() == 0"}])));
    let object = json!({"spec": {"l": vec![1; 500]}});
    let path = Path::root();
    let mut budget = Budget::new(100);
    let out = "spec: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation \
               rules will be run";
    assert_eq!(texts(&rules.validate(&object, None, &path, &mut budget)), [out]);
    assert!(budget.is_exhausted());
    let mut budget = Budget::default();
    assert_eq!(rules.validate(&object, None, &path, &mut budget).len(), 1);
    assert!(budget.remaining() < crate::PER_OBJECT_LIMIT && !budget.is_exhausted());
}

#[test]
fn one_expression_has_a_limit_of_its_own() {
    // The bound on the list makes the rule cheap enough to accept; the value breaks the bound.
    let p = json!({"l": {"type": "array", "maxItems": 10, "items": {"type": "integer"}}});
    let rules =
        rules(resource(p, json!([{"rule": "self.l.all(x, self.l.all(y, x == y))"}, {"rule": "false"}])));
    let object = json!({"spec": {"l": vec![1; 2000]}});
    assert_eq!(
        found(&rules, &object, None),
        [
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules \
         will be run due to call cost exceeds limit for rule: self.l.all(x, self.l.all(y, x == y))",
        ]
    );
}
