//! The administrator of the hosting control plane: its certificate, and the kubeconfig on this machine that has it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver::Engine;
use apiserver::control_plane::ControlPlane;
use serde_json::Value;

use crate::kubeconfig::{self, Files, Kubeconfig, List};

/// The user that the certificate names.
pub const USER: &str = "hangar-admin";
const DAY: Duration = Duration::from_secs(24 * 3_600);
pub const LIFETIME: Duration = DAY.saturating_mul(365);
/// A new certificate is issued when less than this is left of the old one.
const RENEWED_BEFORE: Duration = DAY.saturating_mul(120);

/// Makes a kubeconfig have the hosting control plane and a good certificate of its administrator. A file that has them
/// is not written to.
pub fn keep_kubeconfig(
    engine: &Arc<Engine>,
    hosting: &ControlPlane,
    path: &Path,
    reached: &kubeconfig::Hosting<'_>,
) -> anyhow::Result<()> {
    let enter = |kubeconfig: &mut Kubeconfig| {
        kubeconfig.prefer_json();
        let kept = kubeconfig.get(List::Users, kubeconfig::HOSTING).cloned();
        let user = match kept.filter(|user| is_good(hosting, user, engine.now() + RENEWED_BEFORE)) {
            Some(user) => user,
            None => {
                let issued = engine.issue_client(hosting, USER, &[auth::user::MASTERS], LIFETIME);
                kubeconfig::user_of(&issued.map_err(|failure| anyhow::anyhow!(failure.0))?)
            }
        };
        reached.enter(kubeconfig, user)
    };
    let files = Files::at(path);
    let Err(error) = files.settle(enter) else { return Ok(()) };
    let works = |kubeconfig: &Kubeconfig| {
        let user = kubeconfig.get(List::Users, kubeconfig::HOSTING);
        reached.is_reached_by(kubeconfig) && user.is_some_and(|user| is_good(hosting, user, engine.now()))
    };
    // A full disk is no reason not to serve while the certificate is good.
    if files.load().is_ok_and(|kubeconfig| works(&kubeconfig)) {
        tracing::warn!(file = %path.display(), error = format!("{error:#}"), "cannot update the kubeconfig");
        return Ok(());
    }
    Err(error).with_context(|| format!("cannot update the kubeconfig {}", path.display()))
}

/// Returns true if an entry has a certificate of the administrator that is valid now and at a later time.
fn is_good(hosting: &ControlPlane, user: &Value, later: jiff::Timestamp) -> bool {
    tenancy::certificate_of(user).is_some_and(|der| {
        hosting
            .authority
            .verify_client(&[der], later)
            .is_ok_and(|user| user.name == USER && user.is_in(auth::user::MASTERS))
    })
}
