//! What would be done about a Terraform resource: asked of the server by a dry run, since it has the providers and the states.

use anyhow::{Context, bail};
use http::{HeaderValue, Method, Request, header};
use http_body_util::BodyExt as _;
use objects::{Value, meta};

use super::{DOMAIN, GROUP, Plane};

/// Whether an object is of a kind that Terraform providers bring.
pub fn knows(object: &Value) -> bool {
    let group = meta::api_version(object).split_once('/').map_or("", |(group, _)| group);
    group == GROUP || group.ends_with(&format!(".{DOMAIN}"))
}

/// The plan, line by line, as the server tells it.
pub async fn told(client: &kube::Client, object: &Value) -> anyhow::Result<Vec<String>> {
    let group = meta::api_version(object).split_once('/').map_or("", |(group, _)| group);
    let kind = Plane(client.clone()).kind(&format!("{}.{group}", meta::kind(object))).await?;
    let (namespace, name) = (meta::namespace(object), meta::name(object));
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let query = "dryRun=All&fieldManager=hangar-plan&force=true";
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!("{}/{name}?{query}", kind.collection(namespace)))
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(object.to_string().into_bytes().into())?;
    let answer = client.send(request).await?;
    let (parts, body) = answer.into_parts();
    if !parts.status.is_success() {
        let body = body.collect().await.context("the server's answer broke off")?.to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        bail!("{}", status["message"].as_str().unwrap_or("the server refuses it"));
    }
    Ok(parts.headers.get_all(header::WARNING).iter().filter_map(text_of).collect())
}

/// The text of a warning, `299 - "text"`.
fn text_of(warning: &HeaderValue) -> Option<String> {
    let text = String::from_utf8_lossy(warning.as_bytes()).into_owned();
    serde_json::from_str(text.split_once(" - ")?.1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings() {
        let text = |warning: &str| text_of(&HeaderValue::from_bytes(warning.as_bytes()).unwrap());
        assert_eq!(text(r#"299 - "a: \"b\" -> \"…\"""#).as_deref(), Some("a: \"b\" -> \"…\""));
        assert_eq!(text("299"), None);
    }
}
