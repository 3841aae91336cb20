//! Secrets with kubeconfigs: written once, kept while they are good, written anew before they expire.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::Value;
use runtime::{Context, Error};
use serde_json::{Map, json};

use crate::furniture::{self, Wanted};
use crate::host::{Host, Subject};
use crate::kubeconfig::{self, Credential, Entry};
use crate::plane::{Plane, Type};
use crate::sync::{self, SyncError};
use crate::types::Hosted;

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// A year, and a new one when a third of it is left: whoever copies it has at least four months.
pub const LIFETIME: Duration = DAY.saturating_mul(365);
pub const RENEWED_BEFORE: Duration = DAY.saturating_mul(120);

const ADMIN: Subject<'static> = Subject { user: "kubernetes-admin", groups: &[auth::user::MASTERS] };
const CONTROLLER_MANAGER: Subject<'static> =
    Subject { user: auth::user::KUBE_CONTROLLER_MANAGER, groups: &[] };

/// One kubeconfig in a Secret.
struct Wish<'a> {
    key: &'a str,
    entry: Entry<'a>,
    subject: Subject<'a>,
}

/// All Secrets of a hosted control plane.
pub async fn ensure(
    host: &dyn Host,
    context: &Context,
    plane: &Plane,
    row: &Hosted,
) -> Result<(), SyncError> {
    let doors = host.doors(plane).await?;
    let (cluster, user, name) = row.naming.of(&plane.name);
    let authority = host.serving_authority(plane).await?;
    let server_name = doors.server_name.as_deref();
    let entry = |server| Entry {
        cluster: &cluster,
        user: &user,
        context: &name,
        server,
        server_name,
        authority: &authority,
    };
    let mut wishes = vec![Wish { key: row.key, entry: entry(&doors.off_cluster), subject: ADMIN }];
    if !row.in_cluster_key.is_empty() {
        wishes.push(Wish { key: row.in_cluster_key, entry: entry(&doors.in_cluster), subject: ADMIN });
    }
    let mut extra = Vec::new();
    if plane.spec.r#type == Type::K3s {
        extra.push(("token", node_token(context, plane, row.secret).await?));
    }
    kubeconfigs(host, context, plane, row.secret, &wishes, extra).await?;

    if plane.spec.r#type == Type::K8s {
        let entry = Entry { user: CONTROLLER_MANAGER.user, ..entry(&doors.in_cluster) };
        let wish = Wish { key: "kubeconfig", entry, subject: CONTROLLER_MANAGER };
        kubeconfigs(host, context, plane, "cm-kubeconfig", &[wish], Vec::new()).await?;
        let shown = host.certificates(plane).await?;
        if !shown.is_empty() {
            let data = shown.into_iter().map(|(key, text)| (key.to_owned(), text.into_bytes())).collect();
            sync::ensure(context, plane, &secret(plane, "k8s-certs", data)).await?;
        }
    }
    Ok(())
}

async fn kubeconfigs(
    host: &dyn Host,
    context: &Context,
    plane: &Plane,
    name: &str,
    wishes: &[Wish<'_>],
    extra: Vec<(&'static str, String)>,
) -> Result<(), SyncError> {
    let live = context.get("secrets", &plane.namespace, name).await?.unwrap_or_default();
    let mut data = Vec::with_capacity(wishes.len() + extra.len());
    for wish in wishes {
        let kept = kubeconfig::secret_value(&live, wish.key);
        let good = match kept.as_deref().and_then(|text| wish.entry.user_in(text)) {
            Some(user) => match kubeconfig::certificate_of(&user) {
                Some(der) => host.trusts(plane, &der, wish.subject, RENEWED_BEFORE).await?,
                None => false,
            },
            None => false,
        };
        let text = match kept.filter(|_| good) {
            Some(text) => text,
            None => {
                let issued = host.issue(plane, wish.subject, LIFETIME).await?;
                wish.entry.write(&Credential::Certificate(&issued)).into_bytes()
            }
        };
        data.push((wish.key.to_owned(), text));
    }
    data.extend(extra.into_iter().map(|(key, text)| (key.to_owned(), text.into_bytes())));
    sync::ensure(context, plane, &secret(plane, name, data)).await.map(drop)
}

pub fn secret(plane: &Plane, name: &str, data: Vec<(String, Vec<u8>)>) -> Wanted {
    let data: Map<String, Value> =
        data.into_iter().map(|(key, text)| (key, STANDARD.encode(text).into())).collect();
    furniture::owned(plane, "Secret", name, json!({"type": "Opaque", "data": data}))
}

/// What agents would join with: in the form of k3s, and the same for as long as the Secret lives.
async fn node_token(context: &Context, plane: &Plane, secret: &str) -> Result<String, Error> {
    let live = context.get("secrets", &plane.namespace, secret).await?.unwrap_or_default();
    let kept = kubeconfig::secret_value(&live, "token").and_then(|token| String::from_utf8(token).ok());
    Ok(kept.filter(|token| !token.is_empty()).unwrap_or_else(|| {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("K10{}::server:{}", hex(rand::random()), &hex(rand::random())[..32])
    }))
}
