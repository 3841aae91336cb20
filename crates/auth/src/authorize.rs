//! What is asked and what is answered: the attributes of a request, a decision, and authorizers in a row.

use crate::user::UserInfo;

/// What a request wants to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A resource of the API; the empty string where a part is absent.
    Resource { group: &'a str, resource: &'a str, subresource: &'a str, namespace: &'a str, name: &'a str },
    /// Any other URL, such as `/healthz`.
    Path(&'a str),
}

/// A verb and its target: all that a decision depends on besides the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub target: Target<'a>,
}

impl<'a> Attributes<'a> {
    /// A resource of the whole cluster, without a name; the rest is added by the methods below.
    pub fn resource(verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        let target = Target::Resource { group, resource, subresource: "", namespace: "", name: "" };
        Attributes { verb, target }
    }

    pub fn path(verb: &'a str, path: &'a str) -> Self {
        Attributes { verb, target: Target::Path(path) }
    }

    #[must_use]
    pub fn subresource(mut self, text: &'a str) -> Self {
        if let Target::Resource { subresource, .. } = &mut self.target {
            *subresource = text;
        }
        self
    }

    #[must_use]
    pub fn namespace(mut self, text: &'a str) -> Self {
        if let Target::Resource { namespace, .. } = &mut self.target {
            *namespace = text;
        }
        self
    }

    #[must_use]
    pub fn name(mut self, text: &'a str) -> Self {
        if let Target::Resource { name, .. } = &mut self.target {
            *name = text;
        }
        self
    }

    /// The namespace asked for; empty at the cluster scope and for paths.
    pub fn in_namespace(&self) -> &'a str {
        match self.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        }
    }
}

/// What one authorizer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, whatever the others would say.
    Allow,
    /// No, whatever the others would say.
    Deny,
    /// Let the next one decide; nobody deciding means no.
    NoOpinion,
}

/// A verdict and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    pub reason: String,
}

impl Decision {
    pub fn allow(reason: impl Into<String>) -> Self {
        Decision { verdict: Verdict::Allow, reason: reason.into() }
    }

    pub fn deny(reason: impl Into<String>) -> Self {
        Decision { verdict: Verdict::Deny, reason: reason.into() }
    }

    pub fn no_opinion(reason: impl Into<String>) -> Self {
        Decision { verdict: Verdict::NoOpinion, reason: reason.into() }
    }

    #[must_use]
    pub fn allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }
}

/// Decides about requests: RBAC is one, the node authorizer another.
pub trait Authorizer {
    fn authorize(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision;
}

/// Authorizers asked in order until one decides.
pub struct Chain<'a>(pub &'a [&'a dyn Authorizer]);

impl Authorizer for Chain<'_> {
    fn authorize(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision {
        let mut reasons = Vec::new();
        for authorizer in self.0 {
            let decision = authorizer.authorize(user, attributes);
            if decision.verdict != Verdict::NoOpinion {
                return decision;
            }
            if !decision.reason.is_empty() {
                reasons.push(decision.reason);
            }
        }
        Decision::no_opinion(reasons.join("\n"))
    }
}

/// The sentence of a 403: who cannot do what to which, and where.
pub fn forbidden_message(user: &UserInfo, attributes: &Attributes<'_>) -> String {
    let (who, verb) = (&user.name, attributes.verb);
    let (group, resource, subresource, namespace) = match attributes.target {
        Target::Path(path) => return format!("User {who:?} cannot {verb} path {path:?}"),
        Target::Resource { group, resource, subresource, namespace, .. } => {
            (group, resource, subresource, namespace)
        }
    };
    let slash = if subresource.is_empty() { "" } else { "/" };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    format!(
        "User {who:?} cannot {verb} resource \"{resource}{slash}{subresource}\" in API group {group:?} {place}"
    )
}

/// [`forbidden_message`] followed by what the authorizers had to say, if anything.
pub fn forbidden_because(user: &UserInfo, attributes: &Attributes<'_>, reason: &str) -> String {
    let message = forbidden_message(user, attributes);
    if reason.is_empty() { message } else { format!("{message}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        fn check(attributes: Attributes<'_>, expected: &str) {
            assert_eq!(forbidden_message(&UserInfo::new("u", ["g"]), &attributes), expected);
        }
        check(
            Attributes::resource("list", "", "pods").namespace("x"),
            r#"User "u" cannot list resource "pods" in API group "" in the namespace "x""#,
        );
        check(
            Attributes::resource("update", "apps", "deployments").subresource("scale").name("d"),
            r#"User "u" cannot update resource "deployments/scale" in API group "apps" at the cluster scope"#,
        );
        check(Attributes::path("get", "/x"), r#"User "u" cannot get path "/x""#);
    }

    #[test]
    fn chain_asks_until_one_decides() {
        struct Fixed(Decision);
        impl Authorizer for Fixed {
            fn authorize(&self, _: &UserInfo, _: &Attributes<'_>) -> Decision {
                self.0.clone()
            }
        }
        fn check(decisions: &[Decision], expected: Decision) {
            let all: Vec<Fixed> = decisions.iter().cloned().map(Fixed).collect();
            let row: Vec<&dyn Authorizer> = all.iter().map(|one| one as &dyn Authorizer).collect();
            let got = Chain(&row).authorize(&UserInfo::anonymous(), &Attributes::path("get", "/"));
            assert_eq!(got, expected);
        }
        let (yes, no) = (Decision::allow("a"), Decision::deny("d"));
        let shrug = Decision::no_opinion("n");
        check(&[], Decision::no_opinion(""));
        check(&[shrug.clone(), yes.clone(), no.clone()], yes.clone());
        check(&[shrug.clone(), no.clone(), yes], no);
        check(&[shrug.clone(), shrug], Decision::no_opinion("n\nn"));
    }
}
