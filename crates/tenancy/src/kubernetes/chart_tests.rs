//! The Helm chart and the manifests are two ways to say the same: what the one renders has to be what the other prints.
//!
//! Helm's engine is Go's templates; the chart keeps to what those have without Helm's additions, so that it can be
//! rendered here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gotmpl::Template;
use objects::{Value, meta};
use serde_json::json;

use super::manifests::{Installation, POSTGRESQL_IMAGE, manifests};
use crate::install;

fn file(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/hangar").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(text: &str) -> Value {
    wire::yaml::decode(text.as_bytes())
        .map(|decoded| decoded.value)
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

const TEMPLATES: [&str; 6] = ["namespace", "config", "rbac", "policy", "operator", "postgresql"];

fn of_json(value: &Value) -> gotmpl::Value {
    match value {
        Value::Null => gotmpl::Value::Nil,
        Value::Bool(value) => gotmpl::Value::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => gotmpl::Value::Int(whole),
            None => gotmpl::Value::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => gotmpl::Value::String(text.as_str().into()),
        Value::Array(items) => gotmpl::Value::List(items.iter().map(of_json).collect::<Vec<_>>().into()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.as_str().into(), of_json(value)));
            gotmpl::Value::Map(Arc::new(fields.collect()))
        }
    }
}

/// By kind and name.
fn named(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|one| (format!("{} {}", meta::kind(&one), meta::name(&one)), one)).collect()
}

fn rendered(said: &Value) -> BTreeMap<String, Value> {
    let mut values = yaml(&file("values.yaml"));
    objects::patch::merge(&mut values, said);
    let data = of_json(&json!({
        "Values": values, "Release": {"Name": "hangar", "Namespace": "elsewhere"},
    }));
    let mut objects = Vec::new();
    for name in TEMPLATES {
        let template = Template::new(name).parse(&file(&format!("templates/{name}.yaml"))).unwrap();
        let text = template.execute_to_string(&data).unwrap();
        objects.extend(text.split("\n---\n").filter(|one| !one.trim().is_empty()).map(yaml));
    }
    named(objects)
}

fn installation() -> Installation {
    Installation {
        namespace: "kubeflex-system".to_owned(),
        image: "hangar:0.1.0".to_owned(),
        image_pull_policy: "IfNotPresent".to_owned(),
        image_pull_secret: None,
        settings: super::default_settings(),
        arguments: vec!["--verbosity=2".to_owned()],
        host_type: false,
        postgresql: Some(POSTGRESQL_IMAGE.to_owned()),
    }
}

#[track_caller]
fn check(said: Value, installation: Installation) {
    let mut expected = named(manifests(&installation));
    expected.retain(|name, _| !name.starts_with("CustomResourceDefinition"));
    let found = rendered(&said);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{said}");
    for (name, expected) in &expected {
        assert_eq!(&found[name], expected, "{name} with {said}");
    }
}

#[test]
fn the_chart_says_what_the_manifests_say() {
    check(json!({}), installation());
    check(json!({"installPostgreSQL": false}), Installation { postgresql: None, ..installation() });
    check(json!({"allowHostType": true}), Installation { host_type: true, ..installation() });
    let mut settings = super::default_settings();
    settings.domain = "planes.example.com".to_owned();
    settings.external_port = 443;
    settings.host_container = "other".to_owned();
    settings.is_openshift = true;
    // As KubeFlex's users write them: words or numbers and truths.
    for (port, openshift) in [(json!("443"), json!("true")), (json!(443), json!(true))] {
        let said = json!({
            "domain": "planes.example.com", "externalPort": port, "hostContainer": "other", "isOpenShift": openshift,
        });
        check(said, Installation { settings: settings.clone(), ..installation() });
    }
    let said = json!({
        "image": {
            "repository": "registry.example.com/hangar", "tag": "2.0", "pullPolicy": "Always", "pullSecret": "pull",
        },
        "verbosity": 5, "expose": "gateway", "gateway": "infra/main", "ingressClass": "haproxy",
        "serviceType": "ClusterIP", "storageClass": "fast", "volumeSize": "5Gi", "storeSecret": "pg",
        "postgresql": {"image": "postgres:16"},
    });
    let arguments = [
        "--verbosity=5",
        "--expose=gateway",
        "--ingress-class=haproxy",
        "--gateway=infra/main",
        "--service-type=ClusterIP",
        "--storage-class=fast",
        "--volume-size=5Gi",
        "--store-secret=pg",
    ];
    check(
        said,
        Installation {
            image: "registry.example.com/hangar:2.0".to_owned(),
            image_pull_policy: "Always".to_owned(),
            image_pull_secret: Some("pull".to_owned()),
            arguments: arguments.map(str::to_owned).to_vec(),
            postgresql: Some("postgres:16".to_owned()),
            ..installation()
        },
    );
}

#[test]
fn the_chart_has_the_definitions_and_the_version() {
    let crds = ["crds/controlplanes.yaml", "crds/postcreatehooks.yaml"].map(|path| yaml(&file(path)));
    assert_eq!(
        crds.to_vec(),
        install::definitions(),
        "copy crates/tenancy/src/definitions to charts/hangar/crds"
    );
    let (chart, version) = (yaml(&file("Chart.yaml")), env!("CARGO_PKG_VERSION"));
    assert_eq!([&chart["version"], &chart["appVersion"]], [version, version]);
    assert_eq!(yaml(&file("values.yaml"))["image"]["tag"], version);
}
