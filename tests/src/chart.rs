//! Charts of this repository, rendered as Helm renders them. They keep to Go's own templates and Helm's `toJson`.

use std::path::PathBuf;

use gotmpl::Template;
use serde_json::{Map, Value, json};

/// The objects of a chart with these values, by the names of its files.
pub fn render(chart: &str, namespace: &str, said: &Value) -> Vec<Value> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../charts").join(chart);
    let read =
        |path: PathBuf| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut values: Value = serde_saphyr::from_str(&read(directory.join("values.yaml"))).unwrap();
    merge(&mut values, said);
    let data = json!({"Values": values, "Release": {"Name": chart, "Namespace": namespace}});
    let data = gotmpl::to_value(&data).unwrap();
    let files = std::fs::read_dir(directory.join("templates")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let template = Template::new("t")
            .func("toJson", |values| Ok(json_of(&values[0]).to_string().as_str().into()))
            .parse(&read(file))
            .unwrap();
        let text = template.execute_to_string(&data).unwrap();
        let documents = text.split("\n---").filter(|one| !one.trim().is_empty());
        objects.extend(documents.map(|one| {
            serde_saphyr::from_str::<Value>(one).unwrap_or_else(|error| panic!("{error}: {one}"))
        }));
    }
    objects
}

/// As Helm takes values over those of the chart.
fn merge(values: &mut Value, said: &Value) {
    match (values, said) {
        (Value::Object(values), Value::Object(said)) => {
            for (name, value) in said {
                merge(values.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (values, said) => *values = said.clone(),
    }
}

fn json_of(value: &gotmpl::Value) -> Value {
    match value {
        gotmpl::Value::Bool(value) => json!(value),
        gotmpl::Value::Int(number) => json!(number),
        gotmpl::Value::Uint(number) => json!(number),
        gotmpl::Value::Float(number) => json!(number),
        gotmpl::Value::String(text) => json!(text.as_ref()),
        gotmpl::Value::List(items) => items.iter().map(json_of).collect(),
        gotmpl::Value::Map(members) => Value::Object(
            members.iter().map(|(name, one)| (name.to_string(), json_of(one))).collect::<Map<_, _>>(),
        ),
        _ => Value::Null,
    }
}
