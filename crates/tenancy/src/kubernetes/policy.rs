//! Who may have the operator act, as admission policies of the cluster.
//!
//! On the embedded host the server itself records who writes a hook and asks for the rights in [`crate::rights`]. A cluster
//! tells its operators nothing of who wrote an object, but it can ask its authorizer while the object is written: what is
//! applied by the operator's account, which may read all Secrets, has to be written by somebody with a right to that.

use objects::Value;
use serde_json::json;

use crate::{names, rights};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
/// On `postcreatehooks`: to write what the operator applies with its own rights.
pub const APPLY_AS_OPERATOR: &str = "apply-as-operator";

/// The policies, each followed by its binding.
pub fn policies() -> Vec<Value> {
    let hooks = vec![validation(
        allowed("postcreatehooks", NAME, APPLY_AS_OPERATOR),
        "postcreatehooks",
        APPLY_AS_OPERATOR,
    )];
    let mut planes = vec![rule(
        "object.?spec.?type.orValue('') == 'host' && variables.old.?type.orValue('') != 'host'",
        "controlplanes",
        NAME,
        rights::HOST,
    )];
    for (verb, field, none) in rights::FIELDS {
        let none = none.replace('"', "'");
        let changed =
            format!("object.?spec.?{field}.orValue({none}) != variables.old.?{field}.orValue({none})");
        planes.push(rule(&changed, "controlplanes", NAME, verb));
    }
    let each = format!("variables.hooks.all(h, {})", allowed("postcreatehooks", "h", "use"));
    planes.push(validation(format!("!({HOOKS_CHANGED}) || {each}"), "postcreatehooks", "use"));
    let spec = json!({"name": "old", "expression": "request.operation == 'CREATE' ? {} : oldObject.?spec.orValue({})"});
    let named = json!({"name": "hooks", "expression": NAMED_HOOKS});
    [
        policy("hangar-postcreatehooks", "postcreatehooks", json!([]), hooks),
        policy("hangar-controlplanes", "controlplanes", json!([spec, named]), planes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const NAME: &str = "object.metadata.?name.orValue('')";

const NAMED_HOOKS: &str = "(object.?spec.?postCreateHooks.orValue([]).map(h, h.?hookName.orValue('')) \
    + [object.?spec.?postCreateHook.orValue('')]).filter(h, h != '')";

const HOOKS_CHANGED: &str = "object.?spec.?postCreateHook.orValue('') != variables.old.?postCreateHook.orValue('') \
    || object.?spec.?postCreateHookVars.orValue({}) != variables.old.?postCreateHookVars.orValue({}) \
    || object.?spec.?postCreateHooks.orValue([]) != variables.old.?postCreateHooks.orValue([]) \
    || object.?spec.?globalVars.orValue({}) != variables.old.?globalVars.orValue({})";

fn allowed(resource: &str, name: &str, verb: &str) -> String {
    let group = names::GROUP;
    format!("authorizer.group('{group}').resource('{resource}').name({name}).check('{verb}').allowed()")
}

/// What takes a right under a condition.
fn rule(condition: &str, resource: &str, name: &str, verb: &str) -> Value {
    validation(format!("!({condition}) || {}", allowed(resource, name, verb)), resource, verb)
}

fn validation(expression: String, resource: &str, verb: &str) -> Value {
    let message = format!("this takes the verb {verb:?} on {resource:?} in API group {:?}", names::GROUP);
    json!({"expression": expression, "message": message, "reason": "Forbidden"})
}

fn policy(name: &str, resource: &str, variables: Value, validations: Vec<Value>) -> [Value; 2] {
    let rules = json!([{
        "apiGroups": [names::GROUP], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource],
    }]);
    [
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules}, "variables": variables,
                "validations": validations,
            },
        }),
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use ::rules::{Bindings, Budget, Definition, EvalError, Expression, HostObject, HostValue, VariableType};

    use super::*;

    /// Writes down what it is asked, and always answers the same.
    #[derive(Debug)]
    struct Asked {
        answer: bool,
        words: Vec<String>,
        all: Arc<Mutex<BTreeSet<String>>>,
    }

    impl HostObject for Asked {
        fn call(&self, method: &str, args: &[Value]) -> Result<HostValue, EvalError> {
            if method == "allowed" {
                self.all.lock().unwrap().insert(self.words.join(" "));
                return Ok(HostValue::Json(json!(self.answer)));
            }
            let mut words = self.words.clone();
            if method != "group" {
                words.push(args[0].as_str().unwrap().to_owned());
            }
            Ok(HostValue::Object(Arc::new(Asked { answer: self.answer, words, all: self.all.clone() })))
        }
    }

    /// Whether a policy lets a write of somebody with all rights, or with none, pass; and the rights that it asked for, each as
    /// resource, name and verb.
    fn judged(policy: &Value, object: &Value, old: Option<&Value>, answer: bool) -> (bool, BTreeSet<String>) {
        let known = |definitions: &[Definition]| {
            let objects = ["object", "oldObject", "request"].map(|name| (name, VariableType::Dyn));
            let variables = ("variables", VariableType::Definitions(definitions.to_vec()));
            objects.into_iter().chain([variables, ("authorizer", VariableType::Host)]).collect::<Vec<_>>()
        };
        let request = json!({"operation": if old.is_some() { "UPDATE" } else { "CREATE" }});
        let mut definitions: Vec<Definition> = Vec::new();
        for one in policy["spec"]["variables"].as_array().unwrap() {
            let expression =
                Expression::compile(one["expression"].as_str().unwrap(), &known(&definitions)).unwrap();
            let name = one["name"].as_str().unwrap().to_owned();
            definitions.push(Definition { name, expression: Arc::new(expression) });
        }
        let all = Arc::new(Mutex::default());
        let authorizer = Arc::new(Asked { answer, words: Vec::new(), all: Arc::clone(&all) });
        let passes = policy["spec"]["validations"].as_array().unwrap().iter().all(|one| {
            let source = one["expression"].as_str().unwrap();
            let expression = Expression::compile_bool(source, &known(&definitions));
            let expression = expression.unwrap_or_else(|error| panic!("{source}: {error}"));
            let bindings = Bindings::new()
                .with("object", object)
                .with_optional("oldObject", old)
                .with("request", &request)
                .with_definitions(&definitions)
                .with_host("authorizer", authorizer.clone());
            let passed = expression.evaluate_bool(&bindings, &mut Budget::default());
            passed.unwrap_or_else(|error| panic!("{source}: {error}"))
        });
        let asked = all.lock().unwrap().clone();
        (passes, asked)
    }

    fn asked(policy: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
        let (passes, asked) = judged(policy, object, old, true);
        assert!(passes, "{object}");
        assert_eq!(judged(policy, object, old, false).0, asked.is_empty(), "{object}");
        asked.into_iter().collect()
    }

    /// The policy asks for what the embedded host asks for.
    #[test]
    fn of_control_planes() {
        let policy = &policies()[2];
        let object = |spec: Value| json!({"metadata": {"name": "cp1"}, "spec": spec});
        let plain = json!({"type": "k8s"});
        let full = json!({
            "type": "k8s", "quota": {"objects": 5}, "isolation": "process", "process": {"memoryLimit": "1Gi"},
            "store": "fast", "postCreateHook": "a", "postCreateHooks": [{"hookName": "b", "vars": {"x": "y"}}],
        });
        let global = json!({"type": "k8s", "globalVars": {"x": "z"}, "postCreateHook": "a"});
        let cases = [
            (plain.clone(), None),
            (json!({"type": "host"}), None),
            (json!({"type": "host", "backend": "shared"}), Some(json!({"type": "host"}))),
            (full.clone(), None),
            (full.clone(), Some(plain.clone())),
            (full.clone(), Some(full.clone())),
            (plain.clone(), Some(json!({"type": "k8s", "quota": {"objects": 5}}))),
            (json!({"type": "k8s", "quota": {}, "store": "", "isolation": "shared"}), Some(plain.clone())),
            (global, Some(json!({"type": "k8s", "postCreateHook": "a"}))),
        ];
        for (spec, old) in cases {
            let (new, old) = (object(spec), old.map(object));
            let needed = rights::needed(&new, old.as_ref());
            let expected: BTreeSet<String> =
                needed.iter().map(|one| format!("{} {} {}", one.resource, one.name, one.verb)).collect();
            assert_eq!(
                asked(policy, &new, old.as_ref()),
                expected.into_iter().collect::<Vec<_>>(),
                "{new} {old:?}"
            );
        }
        let nothing = json!({"metadata": {"generateName": "cp"}});
        assert!(asked(policy, &nothing, None).is_empty());
    }

    #[test]
    fn of_hooks() {
        let hook = json!({"metadata": {"name": "h"}, "spec": {}});
        for old in [None, Some(&hook)] {
            assert_eq!(asked(&policies()[0], &hook, old), ["postcreatehooks h apply-as-operator"]);
        }
    }
}
