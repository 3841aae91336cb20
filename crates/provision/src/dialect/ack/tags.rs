//! Tags that everything made from a control plane gets, unless its object says otherwise.

use objects::{Value, meta};

use crate::facts::Facts;

/// Upstream's defaults, and what its chart adds.
pub const DEFAULT: [(&str, &str); 4] = [
    ("services.k8s.aws/controller-version", "%CONTROLLER_SERVICE%-%CONTROLLER_VERSION%"),
    ("services.k8s.aws/namespace", "%K8S_NAMESPACE%"),
    ("app.kubernetes.io/managed-by", "%MANAGED_BY%"),
    ("kro.run/kro-version", "%KRO_VERSION%"),
];

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
#[error("{0:?} is not of the form key=value")]
pub struct TagError(String);

/// Reads `key=value`.
pub fn parse(text: &str) -> Result<(String, String), TagError> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(TagError(text.to_owned())),
    }
}

/// The default tags of an object, with variables replaced; those that are empty then are left out.
pub fn of<'a>(
    defaults: impl IntoIterator<Item = (&'a str, &'a str)>,
    facts: &Facts,
    object: &Value,
    version: &str,
) -> Vec<(String, String)> {
    let label =
        |name: &str| meta::labels(object).and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or("");
    let owned_by_kro = label("kro.run/owned") == "true" || !label("kro.run/kro-version").is_empty();
    let managed_by = match label("app.kubernetes.io/managed-by") {
        "" if owned_by_kro => "kro",
        other => other,
    };
    let variables = [
        ("%CONTROLLER_SERVICE%", facts.service.as_str()),
        ("%CONTROLLER_VERSION%", version),
        ("%K8S_NAMESPACE%", meta::namespace(object)),
        ("%K8S_RESOURCE_NAME%", meta::name(object)),
        ("%K8S_RESOURCE_KIND%", facts.kind.as_str()),
        ("%MANAGED_BY%", managed_by),
        ("%KRO_VERSION%", label("kro.run/kro-version")),
    ];
    let expand =
        |text: &str| variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    let expanded = defaults.into_iter().map(|(key, value)| (expand(key), expand(value)));
    expanded.filter(|(key, value)| !key.is_empty() && !value.is_empty()).collect()
}

/// Tags that belong to the cloud or to us, and are not shown in the spec.
pub fn is_system<'a>(key: &str, mut defaults: impl Iterator<Item = &'a str>) -> bool {
    key.starts_with("aws:") || defaults.any(|default| default == key)
}
