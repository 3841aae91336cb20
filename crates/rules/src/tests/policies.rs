//! Expressions with variables, as admission policies use them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::schema;
use crate::{
    Bindings, Budget, CompileError, Definition, EvalError, Expression, HostObject, HostValue, VariableType,
};

const VARIABLES: [(&str, VariableType); 5] = [
    ("object", VariableType::Dyn),
    ("oldObject", VariableType::Dyn),
    ("request", VariableType::Dyn),
    ("params", VariableType::Dyn),
    ("namespaceObject", VariableType::Dyn),
];

#[test]
fn documented_policies() {
    let object = json!({"metadata": {"name": "web", "labels": {"env": "prod"}}, "spec": {"replicas": 6}});
    let request = json!({"operation": "CREATE", "userInfo": {"username": "ada", "groups": ["dev"]}});
    let params = json!({"maxReplicas": 5});
    let bindings = Bindings::new()
        .with("object", &object)
        .with_optional("oldObject", None)
        .with("request", &request)
        .with("params", &params);
    for (source, expected) in [
        ("object.spec.replicas <= 5", Ok(false)),
        ("object.spec.replicas <= params.maxReplicas", Ok(false)),
        ("oldObject == null || object.spec.replicas >= oldObject.spec.replicas", Ok(true)),
        ("request.operation in ['CREATE', 'UPDATE'] && 'dev' in request.userInfo.groups", Ok(true)),
        ("has(object.metadata.labels) && object.metadata.labels.env == 'prod'", Ok(true)),
        ("object.metadata.labels.all(k, k != 'x')", Ok(true)),
        ("object.spec.paused", Err(EvalError::NoSuchKey("paused".to_owned()))),
        ("namespaceObject == null", Err(EvalError::Unbound("namespaceObject".to_owned()))),
    ] {
        let expression = Expression::compile_bool(source, &VARIABLES).unwrap();
        assert_eq!(expression.evaluate_bool(&bindings, &mut Budget::default()), expected, "{source}");
    }
}

#[test]
fn results_are_checked() {
    assert!(Expression::compile_bool("object.x", &VARIABLES).is_ok());
    let wrong = Expression::compile_bool("'text'", &VARIABLES).unwrap_err();
    assert_eq!(wrong, CompileError::WrongResult { expected: "bool".to_owned() });
    assert!(Expression::compile_string("'text' + object.x", &VARIABLES).is_ok());
}

#[test]
fn typed_objects() {
    let schema =
        Arc::new(schema(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "at": {"type": "string", "format": "date-time"}}}}})));
    let variables = [("object", VariableType::Schema(schema))];
    let expression = Expression::compile("object.spec.at.getFullYear()", &variables).unwrap();
    let object = json!({"spec": {"at": "2023-05-06T00:00:00Z"}});
    let value = expression.evaluate(&Bindings::new().with("object", &object), &mut Budget::default());
    assert_eq!(value, Ok(json!(2023)));
    assert!(Expression::compile("object.spec.nope", &variables).is_err());
}

#[test]
fn definitions_see_earlier_ones_and_are_lazy() {
    let define = |name: &str, source: &str, before: &[Definition]| {
        let variables =
            [("object", VariableType::Dyn), ("variables", VariableType::Definitions(before.to_vec()))];
        let expression = Expression::compile(source, &variables).unwrap();
        Definition { name: name.to_owned(), expression: Arc::new(expression) }
    };
    let mut definitions = vec![define("replicas", "object.spec.replicas", &[])];
    definitions.push(define("doubled", "variables.replicas * 2", &definitions));
    definitions.push(define("memory", "quantity('1Gi')", &definitions));
    definitions.push(define("broken", "1 / 0", &definitions));
    let variables =
        [("object", VariableType::Dyn), ("variables", VariableType::Definitions(definitions.clone()))];
    let object = json!({"spec": {"replicas": 3}});
    let bindings = Bindings::new().with("object", &object).with_definitions(&definitions);
    for (source, expected) in [
        ("variables.doubled == 6 && variables.replicas == 3", Ok(true)),
        ("variables.memory.isLessThan(quantity('2Gi'))", Ok(true)),
        ("variables.broken == 1", Err(EvalError::DivisionByZero)),
    ] {
        let expression = Expression::compile(source, &variables).unwrap();
        assert_eq!(expression.evaluate_bool(&bindings, &mut Budget::default()), expected, "{source}");
    }
    let unknown = Expression::compile("variables.nope", &variables).unwrap_err().to_string();
    assert!(unknown.contains("undefined field 'nope'"), "{unknown}");
}

/// Allows whatever was asked for in the group `apps`.
#[derive(Debug)]
struct Asked(Vec<String>);

impl HostObject for Asked {
    fn call(&self, method: &str, args: &[Value]) -> Result<HostValue, EvalError> {
        match method {
            "allowed" => Ok(HostValue::Json(json!(self.0.contains(&"group=apps".to_owned())))),
            _ => {
                let text = args.first().and_then(Value::as_str).unwrap_or_default();
                let mut asked = self.0.clone();
                asked.push(format!("{method}={text}"));
                Ok(HostValue::Object(Arc::new(Asked(asked))))
            }
        }
    }
}

#[test]
fn objects_of_the_caller() {
    let variables = [("authorizer", VariableType::Host)];
    for (group, expected) in [("apps", true), ("batch", false)] {
        let source = format!("authorizer.group('{group}').resource('deployments').check('create').allowed()");
        let expression = Expression::compile_bool(&source, &variables).unwrap();
        let bindings = Bindings::new().with_host("authorizer", Arc::new(Asked(Vec::new())));
        assert_eq!(expression.evaluate_bool(&bindings, &mut Budget::default()), Ok(expected));
    }
}

#[test]
fn compiled_things_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Expression>();
    shared::<crate::CompiledRules>();
}

#[test]
fn constructed_objects() {
    let variables = [("object", VariableType::Dyn)];
    let object = json!({"spec": {"replicas": 2, "name": "a/b~c"}});
    for (source, expected) in [
        (
            "Object{metadata: Object.metadata{labels: Object.metadata.labels{a__dash__b: 'c'}}}",
            Ok(json!({"metadata": {"labels": {"a-b": "c"}}})),
        ),
        (
            "Object{spec: Object.spec{?replicas: object.spec.?none, __namespace__: 'n'}}",
            Ok(json!({"spec": {"namespace": "n"}})),
        ),
        (
            "[JSONPatch{op: 'add', path: '/x/' + jsonpatch.escapeKey(object.spec.name), value: object.spec.replicas}]",
            Ok(json!([{"op": "add", "path": "/x/a~1b~0c", "value": 2}])),
        ),
        ("Other{a: 1}", Err("undeclared reference to 'Other'")),
        ("Object{'a': 1}", Err("a field of an object must be a name")),
    ] {
        let compiled = Expression::compile_constructing(source, &variables, &["Object", "JSONPatch"]);
        match (compiled, expected) {
            (Ok(expression), Ok(expected)) => {
                let bindings = Bindings::new().with("object", &object);
                assert_eq!(expression.evaluate(&bindings, &mut Budget::default()), Ok(expected), "{source}");
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{source}: {error}"),
            (compiled, _) => panic!("{source}: {compiled:?}"),
        }
        assert!(Expression::compile(source, &variables).is_err(), "{source}");
    }
}

/// All expressions of an evaluation share what `variables` has, and pay for it once.
#[test]
fn definitions_are_paid_for_once() {
    let variables = [("authorizer", VariableType::Host)];
    let source = "authorizer.group('apps').resource('deployments').check('create').allowed()";
    let expression = Expression::compile_bool(source, &variables).unwrap();
    let definitions = [Definition { name: "may".to_owned(), expression: Arc::new(expression) }];
    let variables = [("variables", VariableType::Definitions(definitions.to_vec()))];
    let asking = Expression::compile_bool("variables.may", &variables).unwrap();
    let bindings =
        Bindings::new().with_host("authorizer", Arc::new(Asked(Vec::new()))).with_definitions(&definitions);
    let mut budget = Budget::default();
    assert_eq!(asking.evaluate_bool(&bindings, &mut budget), Ok(true));
    let spent_once = crate::PER_OBJECT_LIMIT - budget.remaining();
    assert!(spent_once > 350_000);
    assert_eq!(asking.evaluate_bool(&bindings, &mut budget), Ok(true));
    assert!(crate::PER_OBJECT_LIMIT - budget.remaining() < spent_once + 10);
}

#[test]
fn structures_and_hosts_are_checked() {
    let request = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "options": {"x-kubernetes-int-or-string": true},
        "metadata": {"type": "object", "properties": {"uid": {"type": "string"}}},
    }});
    let variables =
        [("request", VariableType::Structure(Arc::new(schema(request)))), ("authorizer", VariableType::Host)];
    for (source, fits) in [
        ("request.name == 'x'", true),
        ("request.nam == 'x'", false),
        ("request.options.anything == 1", true),
        ("request.metadata.uid == 'x'", true),
        ("authorizer.requestResource.check('get').allowed()", true),
        ("authorizer.group('').chek('get').allowed()", false),
        ("authorizer.group('').resource('pods').check('get').reason() == ''", true),
    ] {
        let compiled = Expression::compile_bool(source, &variables);
        assert_eq!(compiled.is_ok(), fits, "{source}: {compiled:?}");
    }
}
