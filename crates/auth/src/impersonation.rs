//! Acting as somebody else: what must be authorized first, and who one is afterwards.

use std::collections::BTreeMap;

use objects::Status;

use crate::authorize::Attributes;
use crate::user::{self, UserInfo, service_accounts_of, split_service_account};

/// Every header that begins like this is about impersonation.
const PREFIX: &str = "impersonate-";
pub const USER_HEADER: &str = "impersonate-user";
pub const GROUP_HEADER: &str = "impersonate-group";
pub const UID_HEADER: &str = "impersonate-uid";
pub const EXTRA_HEADER_PREFIX: &str = "impersonate-extra-";

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// What the `Impersonate-*` headers of a request ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Reads the headers; `None` if nobody is to be impersonated. Names of headers are compared without
    /// regard to case.
    ///
    /// Values are UTF-8. A value that is not is refused, also in a header of an unknown name: a request that asks
    /// for impersonation must never be carried out as its caller. Readable headers of unknown names are ignored, as
    /// upstream.
    pub fn from_headers<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Option<Self>, Status> {
        let mut asked = Impersonation::default();
        let mut extra_asked = false;
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            if !name.starts_with(PREFIX) {
                continue;
            }
            let value = std::str::from_utf8(value).map_err(|_| {
                Status::bad_request(format!("the value of the header {name:?} is not valid UTF-8"))
            })?;
            match name.as_str() {
                USER_HEADER if asked.user.is_empty() => value.clone_into(&mut asked.user),
                UID_HEADER if asked.uid.is_empty() => value.clone_into(&mut asked.uid),
                GROUP_HEADER => asked.groups.push(value.to_owned()),
                _ => {
                    if let Some(key) = name.strip_prefix(EXTRA_HEADER_PREFIX) {
                        extra_asked = true;
                        asked.extra.entry(unescaped(key)).or_default().push(value.to_owned());
                    }
                }
            }
        }
        if !asked.user.is_empty() {
            return Ok(Some(asked));
        }
        if extra_asked || !asked.groups.is_empty() || !asked.uid.is_empty() {
            let message = format!("requested {} without impersonating a user", asked.shown());
            return Err(Status::bad_request(message));
        }
        Ok(None)
    }

    fn shown(&self) -> String {
        let groups = self.groups.iter().map(|group| format!("group {group:?}"));
        let extra = self
            .extra
            .iter()
            .flat_map(|(key, values)| values.iter().map(move |value| format!("extra {key:?} {value:?}")));
        let uid = (!self.uid.is_empty()).then(|| format!("uid {:?}", self.uid));
        format!("[{}]", groups.chain(extra).chain(uid).collect::<Vec<_>>().join(", "))
    }

    /// Everything the requester must be allowed to `impersonate`.
    pub fn required(&self) -> Vec<Attributes<'_>> {
        const VERB: &str = "impersonate";
        let mut required = Vec::new();
        required.push(match split_service_account(&self.user) {
            Some((namespace, name)) => {
                Attributes::resource(VERB, "", "serviceaccounts").namespace(namespace).name(name)
            }
            None => Attributes::resource(VERB, "", "users").name(&self.user),
        });
        required.extend(self.groups.iter().map(|group| Attributes::resource(VERB, "", "groups").name(group)));
        for (key, values) in &self.extra {
            let extra = Attributes::resource(VERB, AUTHENTICATION_GROUP, "userextras").subresource(key);
            required.extend(values.iter().map(|value| extra.name(value)));
        }
        if !self.uid.is_empty() {
            required.push(Attributes::resource(VERB, AUTHENTICATION_GROUP, "uids").name(&self.uid));
        }
        required
    }

    /// Who the request is by, once all that is authorized. Groups that are not given are those of the
    /// service account; that of the (un)authenticated is added unless a choice was made.
    #[must_use]
    pub fn into_user(self) -> UserInfo {
        let mut groups = self.groups;
        if let (true, Some((namespace, _))) = (groups.is_empty(), split_service_account(&self.user)) {
            groups = vec![user::SERVICE_ACCOUNTS.to_owned(), service_accounts_of(namespace)];
        }
        let mut info = UserInfo { name: self.user, uid: self.uid, groups, extra: self.extra };
        if info.is_anonymous() && !info.is_in(user::UNAUTHENTICATED) {
            info.groups.push(user::UNAUTHENTICATED.to_owned());
        }
        info.authenticated()
    }
}

/// Undoes percent-encoding; a key with a broken escape stays as it is.
fn unescaped(key: &str) -> String {
    fn decode(key: &str) -> Option<String> {
        let mut bytes = Vec::with_capacity(key.len());
        let mut rest = key.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        }
        String::from_utf8(bytes).ok()
    }
    decode(key).unwrap_or_else(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Option<Impersonation> {
        Impersonation::from_headers(headers.iter().map(|(name, value)| (*name, value.as_bytes()))).unwrap()
    }

    #[test]
    fn who_one_becomes() {
        fn check(headers: &[(&str, &str)], name: &str, groups: &[&str]) {
            let user = read(headers).unwrap().into_user();
            assert_eq!(
                (user.name.as_str(), user.groups.as_slice()),
                (name, &groups.iter().map(ToString::to_string).collect::<Vec<_>>()[..])
            );
        }
        let user = ("Impersonate-User", "jane");
        check(&[user], "jane", &["system:authenticated"]);
        check(&[user, ("Impersonate-Group", "dev")], "jane", &["dev", "system:authenticated"]);
        check(&[user, ("Impersonate-Group", "system:unauthenticated")], "jane", &["system:unauthenticated"]);
        check(&[("impersonate-user", "system:anonymous")], "system:anonymous", &["system:unauthenticated"]);
        let account = ("Impersonate-User", "system:serviceaccount:ns:sa");
        check(
            &[account],
            "system:serviceaccount:ns:sa",
            &["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
        );
        check(
            &[account, ("Impersonate-Group", "g")],
            "system:serviceaccount:ns:sa",
            &["g", "system:authenticated"],
        );
    }

    #[test]
    fn what_must_be_allowed() {
        let asked = read(&[
            ("Impersonate-User", "system:serviceaccount:ns:sa"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Extra-Acme.com%2Fproject", "x"),
            ("Impersonate-Extra-Acme.com%2Fproject", "y"),
            ("Impersonate-Uid", "u1"),
        ])
        .unwrap();
        let extra = Attributes::resource("impersonate", "authentication.k8s.io", "userextras")
            .subresource("acme.com/project");
        assert_eq!(
            asked.required(),
            [
                Attributes::resource("impersonate", "", "serviceaccounts").namespace("ns").name("sa"),
                Attributes::resource("impersonate", "", "groups").name("dev"),
                extra.name("x"),
                extra.name("y"),
                Attributes::resource("impersonate", "authentication.k8s.io", "uids").name("u1"),
            ]
        );
        assert_eq!(asked.into_user().extra["acme.com/project"], ["x", "y"]);
    }

    #[test]
    fn without_a_user() {
        assert_eq!(read(&[("accept", "*/*")]), None);
        for header in ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-x"] {
            let refusal = Impersonation::from_headers([(header, &b"v"[..])]).unwrap_err();
            assert_eq!(refusal.code, 400, "{header}");
            assert!(refusal.message.ends_with("without impersonating a user"), "{}", refusal.message);
        }
    }

    #[test]
    fn values_are_utf_8_or_the_request_is_refused() {
        let jan = Impersonation::from_headers([("Impersonate-User", "jan\u{e9}".as_bytes())]).unwrap();
        assert_eq!(jan.unwrap().into_user().name, "jan\u{e9}");
        for header in [
            "Impersonate-User",
            "Impersonate-Uid",
            "Impersonate-Group",
            "Impersonate-Extra-x",
            "IMPERSONATE-NEW",
        ] {
            let user = ("Impersonate-User", &b"jane"[..]);
            for headers in [vec![(header, &b"jan\xe9"[..])], vec![user, (header, &b"\xff"[..])]] {
                let refusal = Impersonation::from_headers(headers).unwrap_err();
                assert_eq!(refusal.code, 400, "{header}: {}", refusal.message);
            }
        }
        assert_eq!(Impersonation::from_headers([("x-note", &b"\xff"[..])]).unwrap(), None);
        assert_eq!(
            read(&[("Impersonate-New", "x")]),
            None,
            "as upstream, an unknown header asks for nothing"
        );
    }

    #[test]
    fn escapes() {
        for (text, expected) in [("a%2fb", "a/b"), ("a%2", "a%2"), ("a%zz", "a%zz"), ("%ff", "%ff"), ("", "")]
        {
            assert_eq!(unescaped(text), expected);
        }
    }
}
