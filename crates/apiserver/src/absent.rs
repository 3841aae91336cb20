//! Answers for control planes that do not exist.
//!
//! A caller without valid credentials gets the answer that a new control plane would give, so that nobody can try out
//! which names are taken. Callers in this process are told that there is none.

use std::sync::LazyLock;

use auth::authorize::Authorizer;
use auth::rbac::PolicySnapshot;
use auth::user::UserInfo;

use crate::call::Head;
use crate::engine::{Engine, no_control_plane};
use crate::paths;
use crate::route::Target;
use crate::service::Answer;
use crate::stations::authenticate::unauthorized;
use crate::stations::authorize::{Question, allowed};
use crate::stations::impersonate;

/// What a control plane begins with.
static POLICY: LazyLock<PolicySnapshot> = LazyLock::new(|| PolicySnapshot::new(&auth::bootstrap::objects()));

pub fn answer(engine: &Engine, head: &Head, target: &Target) -> Answer {
    if head.door.identity.is_some() {
        return Err(no_control_plane().into());
    }
    // No authority and no key vouches for any credential.
    if head.bearer_token()?.is_some() || !head.door.certificates.is_empty() {
        return Err(unauthorized().into());
    }
    let user = UserInfo::anonymous();
    if let Some(wanted) = impersonate::asked(head)? {
        for attributes in wanted.required() {
            allowed(&user, &attributes, &POLICY.authorize(&user, &attributes))?;
        }
    }
    if !target.is_health() {
        let question = Question::of(head, target)?;
        let attributes = question.attributes();
        allowed(&user, &attributes, &POLICY.authorize(&user, &attributes))?;
    }
    match target {
        Target::Path(path) => {
            paths::public(engine, head, path).unwrap_or_else(|| Err(no_control_plane().into()))
        }
        Target::Resource(_) => Err(no_control_plane().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use crate::Door;
    use crate::fixture::{Fixture, text};

    /// Every answer to a caller without valid credentials is the same, byte for byte, whether the control plane
    /// exists or not.
    #[tokio::test]
    async fn names_cannot_be_tried_out() {
        let fixture = Fixture::new().await;
        let none = |door: Door| door;
        let certificate = |door: Door| Door { certificates: Arc::new(vec![vec![1, 2, 3]]), ..door };
        type Proof = (&'static str, fn(Door) -> Door, Option<&'static str>);
        let proofs: [Proof; 4] = [
            ("nothing", none, None),
            ("a certificate", certificate, None),
            ("a token", none, Some("Bearer abc")),
            ("another scheme", none, Some("Basic YTpi")),
        ];
        for (what, proof, authorization) in proofs {
            for (method, path) in [
                ("GET", "/livez"),
                ("GET", "/readyz?verbose"),
                ("GET", "/healthz/ping"),
                ("GET", "/healthz/none"),
                ("POST", "/livez"),
                ("HEAD", "/livez"),
                ("GET", "/version"),
                ("GET", "/version/"),
                ("POST", "/version"),
                ("GET", "/"),
                ("GET", "/api"),
                ("GET", "/apis/apps/v1"),
                ("GET", "/openapi/v2"),
                ("GET", "/metrics"),
                ("GET", "/openid/v1/jwks"),
                ("GET", "/.well-known/openid-configuration"),
                ("GET", "/hangar/v1/control-planes"),
                ("GET", "/nothing"),
                ("GET", "/%ff"),
                ("GET", "/api/v1/namespaces"),
                ("GET", "/api/v1/namespaces?watch=1"),
                ("GET", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name=x"),
                ("OPTIONS", "/api/v1/namespaces/default/configmaps"),
                ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
                ("GET", "/apis/none.example.com/v1/things/x"),
            ] {
                for impersonated in [None, Some(&b"jane"[..]), Some(&b"\xff"[..])] {
                    let ask = async |name: &str| {
                        let mut request = Request::builder().method(method).uri(path);
                        if let Some(value) = authorization {
                            request = request.header("authorization", value);
                        }
                        if let Some(user) = impersonated {
                            request = request.header("impersonate-user", user);
                        }
                        let mut response = fixture.send(proof(Door::of(name)), request, "").await;
                        // Random for each request.
                        response.headers_mut().remove("audit-id");
                        let shown = format!("{} {:?}", response.status(), response.headers());
                        format!("{shown}\n{}", text(response).await)
                    };
                    let (there, not_there) = (ask("a").await, ask("nobody").await);
                    assert_eq!(there, not_there, "{what}: {method} {path} as {impersonated:?}");
                }
            }
        }
    }
}
