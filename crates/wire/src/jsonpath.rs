//! JSONPath as Kubernetes has it for printer columns: parsed once, evaluated on many objects.
//!
//! Fields (`.a`, `.a\.b`, `['a.b']`), elements (`[0]`, `[-1]`, `[1:3]`, `[0,2]`), wildcards (`[*]`, `.*`), descent
//! (`..name`) and filters (`[?(@.type=="Ready")]`). What is missing is simply not found.
//!
//! Mirrors `k8s.io/client-go/util/jsonpath` without its templates (text between braces, `range`).

mod parse;

use serde_json::{Number, Value};

pub use parse::{MAX_STEPS, PathError};

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Several fields of the same object
    Fields(Vec<String>),
    Index(i64),
    Indices(Vec<i64>),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        by: usize,
    },
    Wildcard,
    /// The value itself and everything below it
    Descend,
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    /// Without one, it is enough that the left side finds something.
    comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// From the element at hand (`@`)
    Here(JsonPath),
    /// From the whole object (`$`)
    Root(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How many values a path may lead to, wildcards and descents together.
const MAX_RESULTS: usize = 10_000;

impl JsonPath {
    /// Reads a path; braces around it and `$` before it may be there.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        parse::path(text)
    }

    /// Everything the path leads to, in the order of the document.
    pub fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        self.find_from(root, root)
    }

    fn find_from<'v>(&self, here: &'v Value, root: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![here];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.take(value, root, &mut next);
                if next.len() > MAX_RESULTS {
                    next.truncate(MAX_RESULTS);
                    break;
                }
            }
            found = next;
        }
        found
    }

    /// The fields of a path that is nothing but fields (`.spec.host`), as selectable fields must be.
    pub fn simple(&self) -> Option<Vec<&str>> {
        let name = |step: &'_ Step| matches!(step, Step::Field(_));
        if self.steps.is_empty() || !self.steps.iter().all(name) {
            return None;
        }
        let fields = self.steps.iter().filter_map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        });
        Some(fields.collect())
    }
}

/// The place an index means in a list of this length; negative ones count from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index.checked_add(length)? } else { index }).ok()
}

impl Step {
    fn take<'v>(&self, value: &'v Value, root: &'v Value, found: &mut Vec<&'v Value>) {
        match (self, value) {
            (Step::Field(name), Value::Object(fields)) => found.extend(fields.get(name)),
            (Step::Fields(names), Value::Object(fields)) => {
                found.extend(names.iter().filter_map(|name| fields.get(name)));
            }
            (Step::Index(index), Value::Array(items)) => {
                found.extend(place(*index, items.len()).and_then(|at| items.get(at)));
            }
            (Step::Indices(indices), Value::Array(items)) => {
                found.extend(indices.iter().filter_map(|index| items.get(place(*index, items.len())?)));
            }
            (Step::Slice { from, to, by }, Value::Array(items)) => {
                let bound = |index: Option<i64>, otherwise: usize| {
                    index.map_or(otherwise, |index| place(index, items.len()).unwrap_or(0)).min(items.len())
                };
                let (from, to) = (bound(*from, 0), bound(*to, items.len()));
                found.extend(items.get(from..to).unwrap_or_default().iter().step_by((*by).max(1)));
            }
            (Step::Wildcard, Value::Array(items)) => found.extend(items),
            (Step::Wildcard, Value::Object(fields)) => found.extend(fields.values()),
            (Step::Descend, value) => descend(value, found),
            (Step::Filter(filter), Value::Array(items)) => {
                found.extend(items.iter().filter(|item| filter.admits(item, root)));
            }
            _ => {}
        }
    }
}

fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    if found.len() > MAX_RESULTS {
        return;
    }
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| descend(field, found)),
        _ => {}
    }
}

impl Operand {
    fn value<'v>(&'v self, here: &'v Value, root: &'v Value) -> Option<&'v Value> {
        match self {
            Operand::Here(path) => path.find_from(here, root).first().copied(),
            Operand::Root(path) => path.find_from(root, root).first().copied(),
            Operand::Literal(value) => Some(value),
        }
    }
}

impl Filter {
    fn admits(&self, element: &Value, root: &Value) -> bool {
        let left = self.left.value(element, root);
        let Some((comparison, right)) = &self.comparison else { return left.is_some() };
        let Some((left, right)) = left.zip(right.value(element, root)) else { return false };
        match comparison {
            Comparison::Equal => objects::equal::semantic(left, right),
            Comparison::NotEqual => !objects::equal::semantic(left, right),
            ordered => match (left, right) {
                (Value::String(left), Value::String(right)) => ordered.holds(left.cmp(right)),
                (Value::Number(left), Value::Number(right)) => {
                    compare(left, right).is_some_and(|ordering| ordered.holds(ordering))
                }
                _ => false,
            },
        }
    }
}

fn compare(left: &Number, right: &Number) -> Option<std::cmp::Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

impl Comparison {
    fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"name": "a", "annotations": {"x.io/y": "z"}},
            "spec": {"replicas": 3, "ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}], "min": 100},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
        })
    }

    #[track_caller]
    fn check(path: &str, expected: Value) {
        let object = object();
        let found: Vec<Value> =
            JsonPath::parse(path).expect(path).find(&object).into_iter().cloned().collect();
        assert_eq!(Value::Array(found), expected, "{path}");
    }

    #[test]
    fn paths() {
        check(".metadata.name", json!(["a"]));
        check("metadata.name", json!(["a"]));
        check("{.metadata.name}", json!(["a"]));
        check("$.metadata.name", json!(["a"]));
        check(".metadata.gone.deeper", json!([]));
        check(".metadata.name.deeper", json!([]));
        check(r".metadata.annotations.x\.io/y", json!(["z"]));
        check(".metadata.annotations['x.io/y']", json!(["z"]));
        check(r#".metadata.annotations["x.io/y"]"#, json!(["z"]));
        check(".spec.ports[0].port", json!([80]));
        check(".spec.ports[-1].port", json!([443]));
        check(".spec.ports[7]", json!([]));
        check(".spec.ports[*].name", json!(["http", "https"]));
        check(".spec.ports.*.name", json!(["http", "https"]));
        check(".spec.ports[0:1].name", json!(["http"]));
        check(".spec.ports[1:].name", json!(["https"]));
        check(".spec.ports[0,1].port", json!([80, 443]));
        check(".metadata['name','gone']", json!(["a"]));
        check("..port", json!([80, 443]));
        check(".", json!([object()]));
    }

    #[test]
    fn filters() {
        check(r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"]));
        check(".status.conditions[?(@.type=='Synced')].status", json!(["False"]));
        check(r#".status.conditions[?(@.type != "Ready")].type"#, json!(["Synced"]));
        check(".spec.ports[?(@.port>100)].name", json!(["https"]));
        check(".spec.ports[?(@.port <= 80)].name", json!(["http"]));
        check(".spec.ports[?(@.port<$.spec.min)].name", json!(["http"]));
        check(".spec.ports[?(@.gone)].name", json!([]));
        check(".spec.ports[?(@.name)].port", json!([80, 443]));
        check(r#".spec.ports[?(@.gone=="x")].name"#, json!([]));
        check(".spec[?(@.port)]", json!([]));
    }

    #[test]
    fn refusals() {
        for path in [
            "[",
            "a[",
            "a[]",
            "a[x]",
            "a['b]",
            "a[?(@.b]",
            "a[?(@.b==)]",
            "a..",
            "{.a",
            ".a b",
            "a[1:2:0]",
            "a[?(@.b===1)]",
            "a[99999999999999999999]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
        assert!(JsonPath::parse(&".a".repeat(MAX_STEPS + 1)).is_err());
        let nested = format!("{}@.a{}", "a[?(".repeat(500), ")]".repeat(500));
        assert!(JsonPath::parse(&nested).is_err());
    }

    #[test]
    fn simple_paths_are_fields_only() {
        assert_eq!(JsonPath::parse(".spec.host").unwrap().simple(), Some(vec!["spec", "host"]));
        for path in [".", ".a[0]", ".a[*]", "..a", ".a['b','c']"] {
            assert_eq!(JsonPath::parse(path).unwrap().simple(), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(path in "[.a-c\\[\\]()'\"?@$*:0-9,=<>!\\\\{} \\-]{0,40}") {
            if let Ok(path) = JsonPath::parse(&path) {
                let _ = path.find(&object());
            }
        }
    }
}
