//! Definitions of custom resources, objects of them, and the expressions that check these.

use objects::{Path, Value};
use rules::{Bindings, Budget, CompiledRules, Expression, VariableType};
use schemas::{PruneOptions, Schema};
use serde_json::json;

use crate::{parts, text, value};

/// A definition as it is written, then as it is validated.
pub fn definition(data: &[u8]) {
    let [new, old] = parts(data).map(value);
    let Some(mut new) = new else { return };
    let _ = schemas::crd::validate(&new);
    schemas::crd::default(&mut new);
    let errors = schemas::crd::validate(&new);
    if let Some(old) = old {
        let _ = schemas::crd::validate_update(&new, &old);
        let _ = schemas::crd::warnings(&new, Some(&old));
    }
    if errors.is_empty() {
        for version in new.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten() {
            if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
                assert!(Schema::from_crd(schema).is_ok(), "a valid definition has schemas that compile");
            }
        }
    }
}

/// A schema and an object of it, before and after.
pub fn structural(data: &[u8]) {
    let [schema, object, old] = parts(data).map(value);
    let Some(schema) = schema else { return };
    let Ok(schema) = Schema::from_crd(&schema) else { return };
    let rules = CompiledRules::compile(&schema, &Path::root());
    let Some(mut object) = object else { return };
    schemas::prune(schema.root(), &mut object, PruneOptions::default());
    let pruned = object.clone();
    assert!(
        schemas::prune(schema.root(), &mut object, PruneOptions::default()).is_empty(),
        "pruned once and for all"
    );
    assert_eq!(pruned, object);
    schemas::default(schema.root(), &mut object);
    let _ = schemas::validate(schema.root(), &object, old.as_ref(), &Path::root());
    if let Ok(rules) = rules {
        let _ = rules.validate(&object, old.as_ref(), &Path::root(), &mut Budget::new(100_000));
    }
}

pub fn expression(data: &[u8]) {
    let Some(source) = text(data) else { return };
    let variables = [("object", VariableType::Dyn), ("n", VariableType::Int), ("s", VariableType::String)];
    let Ok(expression) = Expression::compile(source, &variables) else { return };
    let (object, number, word) = (
        json!({"a": [1, 2, 3], "b": {"c": "x"}, "d": 1.5, "t": "2024-01-01T00:00:00Z"}),
        json!(7),
        json!("text"),
    );
    let bindings = Bindings::new().with("object", &object).with("n", &number).with("s", &word);
    let mut budget = Budget::new(100_000);
    let _ = expression.evaluate(&bindings, &mut budget);
    assert!(budget.remaining() <= 100_000);
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const definition: &[&[u8]] = &[
        br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},"spec":{"group":"example.com","names":{"plural":"foos","kind":"Foo"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","minimum":1,"default":2}}}}}},"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},"additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.n"}]}]}}"#,
        br#"{"metadata":{"name":"a.b"},"spec":{"group":"b","names":{"plural":"a","kind":"A","shortNames":["x"]},"scope":"Cluster","preserveUnknownFields":false,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://a/b"}}},"versions":[{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},{"name":"v2","served":false,"storage":true,"selectableFields":[{"jsonPath":".spec.a"}],"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#,
    ];
    pub const structural: &[&[u8]] = &[
        b"{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\",\"default\":1,\"maximum\":5},\"l\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"k\"],\"items\":{\"type\":\"object\",\"required\":[\"k\"],\"properties\":{\"k\":{\"type\":\"string\",\"pattern\":\"^a.*\"}}}}},\"x-kubernetes-validations\":[{\"rule\":\"self.n > 0 && self.l.all(x, x.k != '')\"},{\"rule\":\"self.n >= oldSelf.n\"}]}}}\xff{\"spec\":{\"n\":3,\"l\":[{\"k\":\"ab\",\"z\":1},{\"k\":\"ab\"}],\"u\":null}}\xff{\"spec\":{\"n\":4}}",
        b"{\"type\":\"object\",\"properties\":{\"a\":{\"x-kubernetes-int-or-string\":true},\"b\":{\"type\":\"string\",\"format\":\"date-time\",\"nullable\":true},\"c\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\",\"multipleOf\":0.5}},\"d\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,\"x-kubernetes-preserve-unknown-fields\":true},\"e\":{\"type\":\"string\",\"enum\":[\"x\",\"y\"],\"anyOf\":[{\"minLength\":1},{\"not\":{\"maxLength\":2}}]}}}\xff{\"a\":\"5%\",\"b\":\"2024-01-01T00:00:00Z\",\"c\":{\"x\":1.25},\"d\":{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{}},\"e\":\"z\"}",
    ];
    pub const expression: &[&[u8]] = &[
        b"object.a.exists(x, x > 2) && object.b.c.startsWith('x') || n % 2 == 0",
        b"[1, 2].map(x, x * n).filter(y, y > 3).size() + {'a': 1}['a']",
        b"s.matches('^t.*') ? quantity('1Gi').isGreaterThan(quantity('1M')) : duration('1h') < duration('30m')",
        b"timestamp(object.t).getFullYear() == 2024 && has(object.z) == false && type(n) == int",
        b"ip('10.0.0.1') in [ip('::1')] || url('https://a/b').getHost() == 'a' || s.split('').join('-').replace('a','b') == format.dns1123Label().validate('x').value()",
        b"cel.bind(v, object.?b.?c.orValue('z'), v + v) == r'\\x' + b'\\000'.size().string()",
    ];
}
