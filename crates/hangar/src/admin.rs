//! The administrator of the hosting control plane: its certificate, and the kubeconfig on this machine that has it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver::Engine;
use apiserver::control_plane::ControlPlane;
use auth::UserInfo;
use auth::pki::ClientCertificateError;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kubeconfig::{self, Files, Kubeconfig, List};

/// The user that the certificate names.
pub const USER: &str = "hangar-admin";
const DAY: Duration = Duration::from_secs(24 * 3_600);
const LIFETIME: Duration = DAY.saturating_mul(30);
/// A new certificate is issued when less than this is left of the old one.
const RENEWED_BEFORE: Duration = DAY.saturating_mul(10);
const LOOK_AGAIN: Duration = Duration::from_secs(3_600);

/// Keeps a kubeconfig good while the server runs: before the certificate expires, and when the authority that signed it
/// has been replaced.
pub async fn keep_good(
    engine: Arc<Engine>,
    path: PathBuf,
    server: String,
    authority: String,
    stop: CancellationToken,
) {
    let name = engine.config.hosting.clone();
    let mut changes = engine.planes.changes(&name);
    let reached = kubeconfig::Hosting { server: &server, authority: &authority };
    loop {
        let woken = async {
            tokio::select! {
                () = changes.next() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        };
        if stop.run_until_cancelled(woken).await.is_none() {
            return;
        }
        let kept = match engine.planes.find(&name).await {
            // It may wait for somebody who has the file locked.
            Ok(Some(hosting)) => {
                tokio::task::block_in_place(|| keep_kubeconfig(&engine, &hosting, &path, &reached))
            }
            Ok(None) => continue,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = kept {
            tracing::warn!(file = %path.display(), error = format!("{error:#}"), "cannot update the kubeconfig");
        }
    }
}

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
        let later = engine.now() + RENEWED_BEFORE;
        let user = match kept
            .filter(|user| is_good(user, |der| hosting.authority.verify_own_client(&[der], later)))
        {
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
        let now = |der| hosting.authority.verify_client(&[der], engine.now());
        reached.is_reached_by(kubeconfig) && user.is_some_and(|user| is_good(user, now))
    };
    // A full disk is no reason not to serve while the certificate is good.
    if files.load().is_ok_and(|kubeconfig| works(&kubeconfig)) {
        tracing::warn!(file = %path.display(), error = format!("{error:#}"), "cannot update the kubeconfig");
        return Ok(());
    }
    Err(error).with_context(|| format!("cannot update the kubeconfig {}", path.display()))
}

/// Returns true if an entry has a certificate that is found to be the administrator's.
fn is_good(user: &Value, verify: impl FnOnce(Vec<u8>) -> Result<UserInfo, ClientCertificateError>) -> bool {
    tenancy::certificate_of(user)
        .is_some_and(|der| verify(der).is_ok_and(|user| user.name == USER && user.is_in(auth::user::MASTERS)))
}
