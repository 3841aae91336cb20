//! Tables of documented behaviour.

mod compiling;
mod language;
mod library;
mod policies;
mod robustness;
mod validating;

use objects::Path;
use objects::field::ErrorList;
use schemas::Schema;
use serde_json::{Value, json};

use crate::{Bindings, Budget, CompiledRules, Expression};

/// The value of an expression without variables, or the error, as text.
fn evaluated(source: &str) -> String {
    match Expression::compile(source, &[]) {
        Err(error) => format!("compile: {}", error.to_string().lines().next().unwrap_or_default()),
        Ok(expression) => match expression.evaluate(&Bindings::new(), &mut Budget::default()) {
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        },
    }
}

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(evaluated(source), expected, "{source}");
}

#[track_caller]
fn all_true(sources: &[&str]) {
    for source in sources {
        check(source, "true");
    }
}

#[track_caller]
fn schema(json: Value) -> Schema {
    Schema::from_crd(&json).unwrap_or_else(|errors| panic!("schema: {errors:?}"))
}

fn compiled(json: Value) -> Result<CompiledRules, ErrorList> {
    CompiledRules::compile(&schema(json), &Path::new("spec.versions[0].schema.openAPIV3Schema"))
}

/// A resource whose spec has these properties and rules.
fn resource(properties: Value, rules: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": properties, "x-kubernetes-validations": rules,
    }}})
}

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
