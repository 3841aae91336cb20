//! `create`: a control plane, and a context for it.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use super::{Program, Session, duration, waiting};
use crate::api::{self, Api};
use crate::hosting::{Found, Hosting};

pub const TYPES: [&str; 6] = ["k8s", "k3s", "ocm", "vcluster", "host", "external"];
const BACKENDS: [&str; 2] = ["shared", "dedicated"];

/// KubeFlex's flags.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Create {
    /// name of the control plane
    pub name: String,
    /// type of control plane: k8s|k3s|ocm|vcluster
    #[arg(short, long, value_name = "TYPE", default_value = "k8s")]
    pub r#type: String,
    /// backend DB sharing: shared|dedicated
    #[arg(short, long, value_name = "BACKEND", default_value = "shared")]
    pub backend_type: String,
    #[command(flatten)]
    pub hook: Hook,
}

#[derive(Args, Clone, Debug, Default)]
pub struct Hook {
    /// name of post create hook to run
    #[arg(short, long, value_name = "HOOK", default_value = "")]
    pub postcreate_hook: String,
    /// set post create hook variables, in the form name=value
    #[arg(short = 'e', long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// Our own.
#[derive(Args, Clone, Debug)]
pub struct Extras {
    /// a further hook to run, any number of times; all see the variables of --global-var
    #[arg(long, value_name = "HOOK")]
    pub hook: Vec<String>,
    /// set a variable of all hooks, in the form name=value
    #[arg(long, value_name = "NAME=VALUE")]
    pub global_var: Vec<String>,
    /// be ready only when the hooks are done
    #[arg(long)]
    pub wait_for_hooks: bool,
    /// how far it is kept apart from others: shared|process
    #[arg(long, value_name = "ISOLATION", value_parser = ["shared", "process"])]
    pub isolation: Option<String>,
    /// how much memory its own process may take, such as 512Mi
    #[arg(long, value_name = "SIZE", requires = "isolation")]
    pub memory_limit: Option<String>,
    #[command(flatten)]
    pub quota: Quota,
    /// the store to keep it in, where the server has several
    #[arg(long, value_name = "NAME", default_value = "")]
    pub store: String,
    #[command(flatten)]
    pub waiting: Waiting,
    /// leave the current context as it is
    #[arg(long)]
    pub no_switch: bool,
}

impl Default for Extras {
    fn default() -> Self {
        Extras {
            hook: Vec::new(),
            global_var: Vec::new(),
            wait_for_hooks: false,
            isolation: None,
            memory_limit: None,
            quota: Quota::default(),
            store: String::new(),
            waiting: Waiting { wait: true, timeout: PATIENCE },
            no_switch: false,
        }
    }
}

/// What it may take of the server.
#[derive(Args, Clone, Debug, Default)]
pub struct Quota {
    /// how many objects it may hold
    #[arg(long, value_name = "NUMBER")]
    max_objects: Option<u64>,
    /// how many bytes it may hold, such as 500Mi
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_bytes: Option<u64>,
    /// how many requests per second it may make
    #[arg(long, value_name = "NUMBER")]
    max_requests_per_second: Option<f64>,
    /// how many watches it may have open
    #[arg(long, value_name = "NUMBER")]
    max_watches: Option<u32>,
}

impl Quota {
    /// As in the spec; none if nothing is limited.
    fn to_value(&self) -> Option<Value> {
        let limits = [
            ("objects", self.max_objects.map(Value::from)),
            ("bytes", self.max_bytes.map(Value::from)),
            ("requestsPerSecond", self.max_requests_per_second.map(Value::from)),
            ("watches", self.max_watches.map(Value::from)),
        ];
        let said: Map<String, Value> =
            limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect();
        (!said.is_empty()).then(|| said.into())
    }
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = objects::Quantity::parse(text).ok().and_then(|size| u64::try_from(size.value()).ok());
    bytes.ok_or_else(|| format!("{text:?} is not a size like 1000000, 500Mi or 2G"))
}

pub const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Args, Clone, Debug)]
pub struct Waiting {
    /// return only when it is done; without waiting, no context is written
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = clap::ArgAction::Set)]
    pub wait: bool,
    /// how long to wait
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub timeout: Duration,
}

pub async fn run(session: &Session, create: Create, extras: Extras) -> anyhow::Result<()> {
    let name = create.name.as_str();
    check_new_name(name)?;
    if !TYPES.contains(&create.r#type.as_str()) {
        bail!("unknown control plane type: {}", create.r#type);
    }
    if create.r#type == "external" {
        bail!("unknown control plane type: external; clusters that are there already come in by `adopt`");
    }
    let object = control_plane(name, &create, &extras).context("error generating control plane object")?;
    if create.r#type == "ocm" {
        session.progress.warn(
            "WARNING: OCM-type control plane is deprecated and will be removed in a future version. \
             Consider using k8s or vcluster type instead.",
        );
    }
    create_object(session, name, &object, &extras).await
}

/// Creates a control plane as it is described, and enters it into the kubeconfig.
pub async fn create_object(
    session: &Session,
    name: &str,
    object: &Value,
    extras: &Extras,
) -> anyhow::Result<()> {
    let kubeconfig = session.files.load()?;
    let is_host = super::type_of(object) == "host";
    if let Some(why) = kubeconfig.taken(name).filter(|_| !is_host) {
        bail!("{why}: rename it with `{} ctx rename`, or choose another name", session.program.name());
    }
    let hosting = session.hosting(&kubeconfig).await?;
    announce(session, &hosting);
    let api = &hosting.api;

    let step = session
        .progress
        .step(format!("Creating new control plane {name} of type {} ...", super::type_of(object)));
    let created = api.create(api::CONTROL_PLANES, "", object).await.context("error creating instance")?;
    step.done();
    let settled = settle(session, &hosting, name, created.clone(), extras).await;
    undone_if_refused(api, &created, settled).await
}

/// What was just made and is refused is taken away again: only a change could help it, and the next try is one.
pub async fn undone_if_refused(
    api: &Api,
    created: &Value,
    settled: anyhow::Result<()>,
) -> anyhow::Result<()> {
    match settled {
        Err(error) if error.is::<waiting::Refused>() => {
            api.delete_this(api::CONTROL_PLANES, created).await.context("error deleting it again")?;
            Err(error)
        }
        settled => settled,
    }
}

/// Waits for a control plane that was just made, and enters it into the kubeconfig.
pub async fn settle(
    session: &Session,
    hosting: &Hosting,
    name: &str,
    created: Value,
    extras: &Extras,
) -> anyhow::Result<()> {
    let is_host = super::type_of(&created) == "host";
    let api = &hosting.api;
    if !extras.waiting.wait {
        return Ok(());
    }

    let step = session.progress.step("Waiting for API server to become ready...");
    let ready =
        waiting::usable(api, name, Some(created), extras.wait_for_hooks, extras.waiting.timeout).await?;
    let access = match is_host {
        true => None,
        false => Some(waiting::access(api, &ready).await.context("error loading and merging kubeconfig")?),
    };
    let now = jiff::Timestamp::now();
    session.files.change(|kubeconfig| {
        hosting.record(kubeconfig, now)?;
        if let Some(access) = &access {
            kubeconfig.admit(name, access, now);
        }
        if !extras.no_switch {
            // The hosting control plane is a control plane of type host.
            let context = if is_host { hosting.context.as_str() } else { name };
            kubeconfig.set_current(context);
        }
        Ok(())
    })?;
    step.done();
    if is_host {
        eprintln!(
            "control plane {name} is of type 'host', using hosting cluster context ({})",
            hosting.context
        );
    }
    Ok(())
}

/// What KubeFlex says of the context it works in.
pub fn announce(session: &Session, hosting: &Hosting) {
    match hosting.found {
        Found::Current => session.progress.note("Current context accesses the hosting cluster, using it"),
        Found::Stored | Found::Embedded(_) if session.program == Program::Kflex => {
            session.progress.note("Switching to hosting cluster context...");
        }
        Found::Stored | Found::Embedded(_) => {}
    }
}

/// What can be asked for at all: every control plane that there may be.
pub fn check_name(name: &str) -> anyhow::Result<()> {
    refuse(name, objects::names::dns1123_label(name))
}

/// Every name that is made of it has to be a name, too; that of a Service may not begin with a digit.
pub fn check_new_name(name: &str) -> anyhow::Result<()> {
    let namespace = format!("{name}-system");
    refuse(name, objects::names::dns1035_label(name))?;
    refuse(name, objects::names::dns1123_label(&namespace))
}

fn refuse(name: &str, why: Vec<String>) -> anyhow::Result<()> {
    match why.first() {
        Some(why) => bail!("{name:?} cannot be the name of a control plane: {why}"),
        None => Ok(()),
    }
}

fn control_plane(name: &str, create: &Create, extras: &Extras) -> anyhow::Result<Value> {
    if !BACKENDS.contains(&create.backend_type.as_str()) {
        bail!("unknown backend type: {} (use shared or dedicated)", create.backend_type);
    }
    let mut spec = json!({"type": create.r#type, "backend": create.backend_type});
    add_hook(&mut spec, &create.hook)?;
    if !extras.hook.is_empty() {
        spec["postCreateHooks"] = extras.hook.iter().map(|hook| json!({"hookName": hook})).collect();
    }
    if !extras.global_var.is_empty() {
        spec["globalVars"] = pairs(&extras.global_var)?.into();
    }
    if extras.wait_for_hooks {
        spec["waitForPostCreateHooks"] = true.into();
    }
    if let Some(isolation) = &extras.isolation {
        spec["isolation"] = isolation.as_str().into();
    }
    if let Some(limit) = &extras.memory_limit {
        spec["process"] = json!({"memoryLimit": limit});
    }
    if let Some(quota) = extras.quota.to_value() {
        spec["quota"] = quota;
    }
    if !extras.store.is_empty() {
        spec["store"] = extras.store.as_str().into();
    }
    Ok(json!({
        "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1",
        "kind": "ControlPlane",
        "metadata": {"name": name},
        "spec": spec,
    }))
}

/// The single hook that KubeFlex's flags name.
pub fn add_hook(spec: &mut Value, hook: &Hook) -> anyhow::Result<()> {
    let variables = pairs(&hook.set)?;
    if !hook.postcreate_hook.is_empty() {
        spec["postCreateHook"] = hook.postcreate_hook.as_str().into();
        if !variables.is_empty() {
            spec["postCreateHookVars"] = variables.into();
        }
    }
    Ok(())
}

fn pairs(expressions: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut pairs = Map::new();
    for expression in expressions.iter().filter(|expression| !expression.is_empty()) {
        let Some((key, value)) = expression.split_once('=') else {
            bail!("unexpected expression {expression:?}. Must be in the form 'key=value'");
        };
        if key.trim().is_empty() {
            bail!("invalid key in expression {expression:?}");
        }
        pairs.insert(key.trim().to_owned(), value.trim().into());
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_variables() {
        let check = |given: &[&str], expected: Result<Value, &str>| {
            let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
            let read = pairs(&given).map(Value::from).map_err(|error| error.to_string());
            assert_eq!(read, expected.map_err(str::to_owned));
        };
        check(&[], Ok(json!({})));
        check(&["a=b", "", " c = d=e "], Ok(json!({"a": "b", "c": "d=e"})));
        check(&["a="], Ok(json!({"a": ""})));
        check(&["a"], Err("unexpected expression \"a\". Must be in the form 'key=value'"));
        check(&["=b"], Err("invalid key in expression \"=b\""));
    }

    #[test]
    fn quotas() {
        assert_eq!(Quota::default().to_value(), None);
        let quota = Quota { max_objects: Some(5), max_bytes: size("2Ki").ok(), ..Quota::default() };
        assert_eq!(quota.to_value(), Some(json!({"objects": 5, "bytes": 2_048})));
        for bad in ["", "much", "-1", "5Q"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names() {
        for good in ["cp1", "a", "its-1", "a1"] {
            assert!(check_new_name(good).is_ok(), "{good}");
        }
        let long = "a".repeat(57);
        for bad in ["", "Cp", "1a", "a.b", "-a", "a-", "a b", "a/b", long.as_str()] {
            assert!(check_new_name(bad).is_err(), "{bad}");
        }
        assert!(check_new_name(&"a".repeat(56)).is_ok());
        assert!(check_name("1a").is_ok(), "there may be one from before");
    }
}
