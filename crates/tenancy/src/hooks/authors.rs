//! Who wrote a hook: what it makes in the hosting control plane is made as them.
//!
//! The server writes it into an annotation, and nobody else can: whatever a request says there is replaced. Who sends a
//! whole hook is its only author. Who patches one that others wrote is one of its authors, so that neither lends rights
//! to what the other wrote.

use apiserver::{Needed, Writing};
use auth::user::UserInfo;
use objects::{Reason, Status, Value, meta};

use super::apply::HookError;
use crate::host::Host;
use crate::{names, rights};

/// Of more, a whole hook is wanted from somebody.
const MOST: usize = 8;

/// Keeps or changes the authors in the annotation of a hook that is written.
pub fn record(write: &Writing<'_>, hook: &mut Value) -> Result<(), Status> {
    let writer = UserInfo { extra: Default::default(), ..write.user.clone() };
    let authors = match write.old {
        Some(old) if content(old) == content(hook) && (!write.whole || !of(old).is_empty()) => of(old),
        Some(old) if !write.whole => {
            let mut authors = of(old);
            // What nobody is known to have written does not become the writer's by a patch.
            if !authors.is_empty() && !authors.contains(&writer) {
                authors.push(writer);
            }
            authors
        }
        _ => vec![writer],
    };
    if authors.len() > MOST {
        let why = format!("the hook has {MOST} authors already; replace it as a whole (kubectl replace)");
        return Err(Status::new(Reason::Invalid, why));
    }
    let text = (!authors.is_empty()).then(|| {
        let all: Vec<Value> = authors.iter().map(UserInfo::to_value).collect();
        Value::from(Value::from(all).to_string())
    });
    match text {
        Some(text) => hook["metadata"]["annotations"][names::AUTHORS] = text,
        None => {
            if let Some(annotations) =
                hook.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
            {
                annotations.remove(names::AUTHORS);
            }
        }
    }
    Ok(())
}

/// What of a hook has an effect: labels become the control planes'.
fn content(hook: &Value) -> (Option<&Value>, Option<&Value>) {
    let empty =
        |value: &&Value| !value.as_object().is_some_and(serde_json::Map::is_empty) && !value.is_null();
    (hook.get("spec").filter(empty), hook.pointer("/metadata/labels").filter(empty))
}

/// The recorded authors; none of a hook that was written before they were recorded.
pub fn of(hook: &Value) -> Vec<UserInfo> {
    let text = meta::annotation(hook, names::AUTHORS).unwrap_or_default();
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    all.iter().map(UserInfo::from_value).filter(|user| !user.name.is_empty()).collect()
}

/// Clients with the rights that a hook has in the hosting control plane: what it does has to be allowed to all of them.
pub struct Actors {
    hook: String,
    /// With their names; none where the operator acts itself.
    authors: Vec<(String, kube::Client)>,
    operator: kube::Client,
}

impl Actors {
    pub fn of(hook: &Value, host: &dyn Host, operator: &kube::Client) -> Result<Actors, HookError> {
        let users = of(hook);
        let authors: Vec<_> =
            users.iter().filter_map(|user| Some((user.name.clone(), host.acting_as(user)?))).collect();
        if users.is_empty() && host.acting_as(&UserInfo::anonymous()).is_some() {
            return Err(HookError::NoAuthor);
        }
        Ok(Actors { hook: meta::name(hook).to_owned(), authors, operator: operator.clone() })
    }

    /// The one that writes.
    pub fn last(&self) -> &kube::Client {
        self.authors.last().map_or(&self.operator, |(_, client)| client)
    }

    /// The others, who have to be allowed the same.
    pub fn others(&self) -> impl Iterator<Item = &kube::Client> {
        let others = self.authors.split_last().map_or(&[][..], |(_, others)| others);
        others.iter().map(|(_, client)| client)
    }

    /// Refuses what somebody of them may not do; the operator's own rights are limited by its roles.
    pub async fn check(&self, needed: &Needed) -> Result<(), HookError> {
        for (author, client) in &self.authors {
            if !rights::may(client, needed).await? {
                let (author, verb) = (author.clone(), needed.verb);
                let what = format!("{}.{} {:?}", needed.resource, needed.group, needed.name);
                return Err(HookError::Forbidden { author, verb, what });
            }
        }
        Ok(())
    }

    /// What it takes to make something outside of the control plane's namespace.
    pub async fn may_leave_namespace(&self) -> Result<(), HookError> {
        self.check(&Needed {
            verb: "apply-cluster-wide",
            group: names::GROUP,
            resource: "postcreatehooks",
            namespace: String::new(),
            name: self.hook.clone(),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names_after(old: Option<&Value>, user: &str, whole: bool, hook: &mut Value) -> Vec<String> {
        let user = UserInfo::new(user, ["system:authenticated"]);
        record(&Writing { user: &user, old, whole }, hook).unwrap();
        of(hook).into_iter().map(|author| author.name).collect()
    }

    #[test]
    fn the_author_is_who_wrote_it() {
        let forged = json!([{"username": "root", "groups": ["system:masters"]}]).to_string();
        let hook = |value: &str| json!({"metadata": {"name": "h", "annotations": {names::AUTHORS: forged}}, "spec": {"templates": [value]}});
        let mut made = hook("1");
        assert_eq!(names_after(None, "ada", true, &mut made), ["ada"]);
        // Another annotation or status changes no author, and none can be put there or taken away.
        let mut noted = hook("1");
        noted["metadata"]["annotations"] = json!({"a": "b"});
        assert_eq!(names_after(Some(&made), "bob", false, &mut noted), ["ada"]);
        assert_eq!(names_after(Some(&made), "bob", true, &mut hook("1")), ["ada"]);
        assert_eq!(names_after(Some(&made), "ada", false, &mut hook("2")), ["ada"]);
        // What was there is in what a patch leaves, but not in what is sent whole.
        let mut patched = hook("2");
        assert_eq!(names_after(Some(&made), "bob", false, &mut patched), ["ada", "bob"]);
        assert_eq!(names_after(Some(&patched), "ada", false, &mut hook("3")), ["ada", "bob"]);
        assert_eq!(names_after(Some(&patched), "eve", true, &mut hook("3")), ["eve"]);
        let mut labelled = hook("1");
        labelled["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(names_after(Some(&made), "bob", false, &mut labelled), ["ada", "bob"]);
    }

    #[test]
    fn what_nobody_is_known_to_have_written_is_not_a_patchers() {
        let old = json!({"metadata": {"name": "h"}, "spec": {"templates": ["1"]}});
        let mut patched = json!({"metadata": {"name": "h"}, "spec": {"templates": ["2"]}});
        assert!(names_after(Some(&old), "root", false, &mut patched.clone()).is_empty());
        assert_eq!(names_after(Some(&old), "root", true, &mut old.clone()), ["root"]);
        assert_eq!(names_after(Some(&old), "root", true, &mut patched), ["root"]);
    }

    #[test]
    fn authors_are_bounded() {
        let mut hook = json!({"metadata": {"name": "h"}, "spec": {"templates": []}});
        names_after(None, "0", true, &mut hook);
        for number in 1..=MOST {
            let mut next = hook.clone();
            next["spec"]["templates"] = json!([number]);
            let user = UserInfo::new(number.to_string(), [] as [&str; 0]);
            let done = record(&Writing { user: &user, old: Some(&hook), whole: false }, &mut next);
            assert_eq!(done.is_ok(), number < MOST, "{number}");
            hook = next;
        }
    }
}
