//! Who may approve and sign certificate signing requests, and which ones need no person to approve them.

use super::request::{Request, Signer};
use crate::authorize::{Attributes, Authorizer};
use crate::user::{MASTERS, UserInfo};

const GROUP: &str = "certificates.k8s.io";

/// Whether a user may `approve` or `sign` for a signer: by its full name, or for all of its domain.
#[must_use]
pub fn may(authorizer: &dyn Authorizer, user: &UserInfo, verb: &str, signer_name: &str) -> bool {
    let domain = signer_name.split('/').next().unwrap_or_default();
    let names = [signer_name.to_owned(), format!("{domain}/*")];
    names.iter().any(|name| {
        authorizer.authorize(user, &Attributes::resource(verb, GROUP, "signers").name(name)).allowed()
    })
}

/// Why an update of `approval` or `status` is refused; with the verb `approve` or `sign`.
pub fn refusal(verb: &str, signer_name: &str) -> String {
    format!("user not permitted to {verb} requests with signerName {signer_name:?}")
}

/// A certificate cannot make its bearer the master of the control plane: that group has no policy that
/// could take the power away again.
pub fn check_subject(signer_name: &str, request: &Request) -> Result<(), String> {
    let client = Signer::ApiserverClient.name();
    if signer_name == client && request.organizations.iter().any(|group| group == MASTERS) {
        return Err(format!("use of {client} signer with {MASTERS} group is not allowed"));
    }
    Ok(())
}

/// What the requester of a kubelet's client certificate must be allowed for it to be approved without a
/// person, with the message of the `Approved` condition. Any one of them is enough.
pub fn automatic(
    signer_name: &str,
    request: &Request,
    usages: &[&str],
    requester: &str,
) -> Vec<(Attributes<'static>, &'static str)> {
    let kubelet = Signer::ApiserverClientKubelet;
    if signer_name != kubelet.name() || kubelet.check(request, usages).is_err() {
        return Vec::new();
    }
    let create = Attributes::resource("create", GROUP, "certificatesigningrequests");
    let mut ways = Vec::new();
    if request.common_name == requester {
        let message = "Auto approving self kubelet client certificate after SubjectAccessReview.";
        ways.push((create.subresource("selfnodeclient"), message));
    }
    let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
    ways.push((create.subresource("nodeclient"), message));
    ways
}
