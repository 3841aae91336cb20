//! `adopt`: a cluster that is there already becomes a control plane of type external.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

use super::create::{Hook, PATIENCE, add_hook, announce, check_new_name, undone_if_refused};
use super::{Session, waiting};
use crate::api;
use crate::kubeconfig::{Files, Kubeconfig, List};

const SYSTEM_NAMESPACE: &str = "kubeflex-system";
const KEY: &str = "kubeconfig-incluster";

#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Adopt {
    /// name of the control plane
    name: String,
    #[command(flatten)]
    hook: Hook,
    /// path to the kubeconfig file for the adopted cluster. If unspecified, it uses the default Kubeconfig
    #[arg(short, long, value_name = "FILE")]
    adopted_kubeconfig: Option<PathBuf>,
    /// path to adopted cluster context in adopted kubeconfig
    #[arg(short = 'c', long, value_name = "CONTEXT", default_value = "")]
    adopted_context: String,
    /// URL overrride for adopted cluster. Required when cluster address uses local host address, e.g. `https://127.0.0.1`
    #[arg(short, long, value_name = "URL", default_value = "")]
    url_override: String,
    /// adopted token expiration in seconds. Default is one year.
    #[arg(short = 'x', long, value_name = "SECONDS", default_value_t = 86_400 * 365)]
    expiration_seconds: i64,
}

/// Our own.
#[derive(Args, Clone, Debug)]
pub struct Extras {
    /// return only when the cluster has been adopted and answers
    #[arg(long)]
    wait: bool,
    /// how long to wait
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = super::duration)]
    timeout: Duration,
}

impl Default for Extras {
    /// As KubeFlex does it.
    fn default() -> Self {
        Extras { wait: false, timeout: PATIENCE }
    }
}

pub async fn run(session: &Session, adopt: Adopt, extras: Extras) -> anyhow::Result<()> {
    let name = adopt.name.as_str();
    check_new_name(name)?;
    let bootstrap = format!("{name}-bootstrap");
    let mut spec = json!({
        "type": "external",
        "tokenExpirationSeconds": adopt.expiration_seconds,
        "bootstrapSecretRef": {"name": bootstrap, "namespace": SYSTEM_NAMESPACE, "inClusterKey": KEY},
    });
    add_hook(&mut spec, &adopt.hook).context("error generating control plane object")?;

    let kubeconfig = session.files.load()?;
    let adopted = match &adopt.adopted_kubeconfig {
        Some(path) => Files::find(Some(path))?.load_existing()?,
        None => kubeconfig.clone(),
    };
    let context = match (adopt.adopted_context.as_str(), &adopt.adopted_kubeconfig) {
        // A file of its own says itself which of its contexts it is about.
        ("", Some(_)) => adopted.current().to_owned(),
        (context, _) => context.to_owned(),
    };
    if context.is_empty() {
        bail!("error creating adopted cluster kubeconfig: say which context to adopt with --adopted-context");
    }
    let entrance = entrance(&adopted, &context, &adopt.url_override)
        .context("error creating adopted cluster kubeconfig")?;

    let hosting = session.hosting(&kubeconfig).await?;
    announce(session, &hosting);
    let step = session.progress.step(format!("Adopting control plane {name} of type external ..."));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": bootstrap, "namespace": SYSTEM_NAMESPACE},
        "data": {KEY: STANDARD.encode(wire::yaml::encode(&entrance))},
    });
    let object = json!({
        "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": name}, "spec": spec,
    });
    let api = &hosting.api;
    // The object first, so that nothing is done to one that is there already: credentials are given to nobody but it.
    let created = api.create(api::CONTROL_PLANES, "", &object).await;
    let created = created.context("Error creating ControlPlane object")?;
    if let Err(error) = put(api, &bootstrap, &secret).await {
        let _ = api.delete_this(api::CONTROL_PLANES, &created).await;
        let failed = format!("failed to create secret {bootstrap} in namespace {SYSTEM_NAMESPACE}");
        return Err(error).context(failed);
    }
    let now = jiff::Timestamp::now();
    session.files.change(|kubeconfig| hosting.record(kubeconfig, now))?;
    step.done();
    if extras.wait {
        let step = session.progress.step("Waiting for the adopted cluster to answer...");
        let usable = waiting::usable(api, name, Some(created.clone()), true, extras.timeout).await;
        undone_if_refused(api, &created, usable.map(drop)).await?;
        step.done();
    }
    Ok(())
}

/// Writes the Secret, also over one that was left behind.
async fn put(api: &api::Api, name: &str, secret: &Value) -> Result<(), api::ApiError> {
    match api.create(api::SECRETS, SYSTEM_NAMESPACE, secret).await {
        Err(error) if error.code() == Some(409) => {
            api.replace(api::SECRETS, SYSTEM_NAMESPACE, name, secret).await.map(drop)
        }
        created => created.map(drop),
    }
}

/// The kubeconfig by which the operator gets in the first time: one context, with everything it needs inside.
fn entrance(adopted: &Kubeconfig, context: &str, url: &str) -> anyhow::Result<Value> {
    let access = adopted.access(context).map_err(anyhow::Error::msg)?;
    let body = adopted.get(List::Contexts, context).cloned().unwrap_or_default();
    let cluster_name = body["cluster"].as_str().unwrap_or_default();
    let (mut cluster, mut user) = (access.cluster, access.user);
    let of = |list, name| adopted.dir_of(list, name);
    inline(
        &mut cluster,
        "certificate-authority",
        "certificate-authority-data",
        true,
        of(List::Clusters, cluster_name),
    )?;
    let dir = of(List::Users, body["user"].as_str().unwrap_or_default());
    inline(&mut user, "client-certificate", "client-certificate-data", true, dir)?;
    inline(&mut user, "client-key", "client-key-data", true, dir)?;
    inline(&mut user, "tokenFile", "token", false, dir)?;
    for program in ["exec", "auth-provider"] {
        if user.get(program).is_some_and(|value| !value.is_null()) {
            bail!(
                "the user of context {context} logs in by {program}, which the operator cannot run: \
                   use one with a token or a certificate"
            );
        }
    }
    if !url.is_empty() {
        check_url(url).map_err(|_| {
            anyhow!(
                "invalid server endpoint {url}. Please provide a valid value with the `url-override` option"
            )
        })?;
        cluster["server"] = url.into();
    }
    let mut entry = json!({"cluster": cluster_name, "user": context});
    for key in ["namespace", "extensions"] {
        if let Some(value) = body.get(key) {
            entry[key] = value.clone();
        }
    }
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {},
        "clusters": [{"name": cluster_name, "cluster": cluster}],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": entry}],
        "current-context": context,
    }))
}

/// The contents of a file in the place of its path: the operator has other files.
fn inline(
    body: &mut Value,
    path: &str,
    data: &str,
    encoded: bool,
    dir: Option<&std::path::Path>,
) -> anyhow::Result<()> {
    let Some(map) = body.as_object_mut() else { return Ok(()) };
    let Some(Value::String(file)) = map.remove(path).filter(|file| file.as_str() != Some("")) else {
        return Ok(());
    };
    // Data that is there counts more than a file, as for kubectl.
    if map.get(data).and_then(Value::as_str).is_some_and(|data| !data.is_empty()) {
        return Ok(());
    }
    let file = dir.map_or_else(|| PathBuf::from(&file), |dir| dir.join(&file));
    let contents = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let value = if encoded {
        STANDARD.encode(contents)
    } else {
        String::from_utf8_lossy(&contents).trim().to_owned()
    };
    map.insert(data.to_owned(), value.into());
    Ok(())
}

/// A server that the operator can reach: not this machine, which it may not be on.
fn check_url(url: &str) -> Result<(), &'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or("URL must start with http:// or https://")?;
    if rest.contains(['?', '#']) {
        return Err("URL must not contain query parameters or fragments");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err("URL must not contain user info");
    }
    let parsed: http::uri::Authority = authority.parse().map_err(|_| "URL must have a host part")?;
    let host = parsed.host().trim_matches(['[', ']']);
    if host.is_empty() {
        return Err("URL must have a host part");
    }
    let local = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if local { Err("URL must not use local addresses") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for good in
            ["https://ext-control-plane:6443", "http://10.0.0.1", "https://a.b/path", "https://[fe80::1]:1"]
        {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "ext:6443",
            "ftp://a",
            "https://",
            "https:///a",
            "https://u@a",
            "https://a?b",
            "https://a#b",
            "https://127.0.0.1",
            "https://127.0.0.1:6443",
            "https://localhost:1/x",
            "https://[::1]:6443",
            "https://a b",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_entrance_has_everything_inside() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.crt"), "CA").unwrap();
        std::fs::write(dir.path().join("token"), "secret\n").unwrap();
        let text =
            "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca.crt}}]
users: [{name: u, user: {tokenFile: token}}, {name: e, user: {exec: {command: x}}}]
contexts:
- {name: x, context: {cluster: c, user: u, namespace: work}}
- {name: e, context: {cluster: c, user: e}}
- {name: lost, context: {cluster: none, user: u}}";
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        let adopted = Files::find(Some(&path)).unwrap().load().unwrap();
        let made = entrance(&adopted, "x", "https://ext:6443").unwrap();
        assert_eq!(
            made["clusters"][0],
            json!({"name": "c", "cluster": {"server": "https://ext:6443", "certificate-authority-data": "Q0E="}})
        );
        assert_eq!(made["users"][0], json!({"name": "x", "user": {"token": "secret"}}));
        assert_eq!(
            made["contexts"][0],
            json!({"name": "x", "context": {"cluster": "c", "user": "x", "namespace": "work"}})
        );
        assert_eq!(made["current-context"], "x");
        let refused =
            |context: &str, url: &str| format!("{:#}", entrance(&adopted, context, url).unwrap_err());
        assert_eq!(refused("none", ""), "context none not found in the kubeconfig");
        assert_eq!(refused("lost", ""), "cluster none not found for context lost");
        assert!(refused("e", "").contains("logs in by exec"));
        assert!(refused("x", "https://localhost").starts_with("invalid server endpoint https://localhost."));
    }
}
