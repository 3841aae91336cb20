//! `hangar up`: everything on one machine.

use std::ffi::OsStr;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver::{ApiServer, Config, Engine, Issuers, audit};
use auth::pki::Authority;
use listener::{Doors, Listener, ServingCertificate};
use store::Fence;
use tenancy::processes::{self, Processes};
use tokio_util::sync::CancellationToken;

use crate::clouds;
use crate::commands::machine;
use crate::configuration::{Audit, Configuration, UpOptions};
use crate::numbers::Numbers;
use crate::{admin, controlling, files, keys, kubeconfig, logs, process, stores};

/// The control plane that hosts the others.
pub const HOSTING: &str = "host";
const DAY: Duration = Duration::from_secs(24 * 3_600);
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3_653);
/// Renewed at every start; a server that runs for longer than this is restarted for updates before.
const SERVING_LIFETIME: Duration = DAY.saturating_mul(730);

pub fn run(options: UpOptions) -> anyhow::Result<()> {
    let configuration = Configuration::resolve(options)?;
    logs::start(&configuration.log_level, configuration.json_logs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(serve(configuration))
}

/// Where keys, databases and credentials of this server are.
fn secrets(configuration: &Configuration) -> Vec<PathBuf> {
    let Configuration { data_dir, kubeconfig, admin_token_file, audit, encryption, .. } = configuration;
    let named = [
        Some(data_dir),
        Some(kubeconfig),
        admin_token_file.as_ref(),
        audit.as_ref().map(|audit| &audit.log),
        encryption.encryption_key_file.as_ref(),
    ];
    let stores = configuration.stores.iter().filter_map(|store| store.place.directory());
    named.into_iter().flatten().cloned().chain(stores).collect()
}

async fn serve(configuration: Configuration) -> anyhow::Result<()> {
    let began = Instant::now();
    process::file_size_limit_is_an_error()?;
    files::private_dir(&configuration.data_dir)?;
    let _held = machine::hold(&configuration.data_dir).await?;
    files::close_to_others(&configuration.data_dir)?;
    let numbers = Numbers::default();
    let opening =
        stores::Opening { hosting: HOSTING, read_cache: configuration.read_cache, numbers: numbers.clone() };
    let stores = opening.open(&configuration.stores).await?;

    // Also what was made while they were opened.
    files::close_to_others(&configuration.data_dir)?;
    let used = stores.is_used().await?;
    let opened =
        keys::open(&configuration.encryption, &configuration.data_dir, stores.is_shared(), used).await?;

    let now = jiff::Timestamp::now();
    let authority = serving_authority(&configuration.data_dir, used, now)?;
    let certificate = serving_certificate(&authority, &configuration.domain, configuration.listen.ip(), now)?;
    let options = listener::Options {
        doors: Doors { domain: configuration.domain.clone(), hosting: HOSTING.into() },
        limits: configuration.limits.connections(),
    };
    let socket = Listener::bind(configuration.listen, certificate, options).await?;
    let address = reachable(socket.local_addr()?);

    let engines = stores.engines(Config {
        hosting: HOSTING.into(),
        keys: opened.keys.clone(),
        serving_authority: authority.certificate_pem(),
        address,
        issuers: issuers(&configuration.domain, address),
        max_token_lifetime: configuration.max_token_lifetime,
        limits: configuration.limits.requests(),
        egress: egress::Policy::new(configuration.egress_allow.clone()),
        admin_token: configuration.admin_token_file.as_deref().map(admin_token).transpose()?,
        audit: audit_log(configuration.audit.as_ref())?,
    })?;
    let engine = engines.default_store();
    let hosting = match stores::hosting(engine, HOSTING, &configuration.data_dir).await? {
        Some(plane) => plane,
        None => engine.create_control_plane(HOSTING).await.map_err(|failure| anyhow::anyhow!(failure.0))?,
    };
    let rotation = keys::Rotation::new(opened, engines.clone());
    engine.rotate_with(rotation.clone());
    tokio::spawn(rotation.go_on());
    for engine in engines.iter() {
        tokio::spawn(engine.clone().renew_values());
    }
    let (server, trusted) = (format!("https://{address}"), authority.certificate_pem());
    let reached = kubeconfig::Hosting { server: &server, authority: &trusted };
    admin::keep_kubeconfig(engine, &hosting, &configuration.kubeconfig, &reached)?;

    let (stop, closing) = (CancellationToken::new(), CancellationToken::new());
    let kubeconfig = configuration.kubeconfig.clone();
    tokio::spawn(admin::keep_good(engine.clone(), kubeconfig, server, trusted, stop.clone()));
    let settings = tenancy::Settings::new(&configuration.domain, address.port());
    let processes = processes(&configuration, address, &authority, stop.clone(), stores.is_shared())?;
    tenancy::prepare(engines.clone(), &settings, processes.as_ref()).await?;
    let clouds = clouds::set_up(&configuration.aws, &engines, Some(HOSTING)).await?;
    let operate = {
        let (all, processes) = (engines.clone(), processes.clone());
        move |_: &Arc<Engine>, fence: Option<&Fence>| {
            let engines = fence.map_or_else(|| all.clone(), |fence| all.fenced(fence));
            tenancy::controllers(engines, settings.clone(), processes.clone())
        }
    };
    let mut operator = Some(controlling::Set::operator(Box::new(operate)));
    let seats = controlling::join(&engines, &stores, &numbers).await?;
    engine.metrics.register(numbers.collector());
    let mut controlling = Vec::new();
    for seat in &seats {
        // Control planes are objects of the hosting one, which is in the first.
        let make = Box::new(|engine: &Arc<Engine>, _: Option<&Fence>| controllers::denatured(engine));
        let controllers = controlling::Set::controllers(make);
        let sets = [Some(controllers), clouds::set(&clouds), operator.take()].into_iter().flatten().collect();
        controlling.push(seat.start(sets, stop.clone()));
    }
    if let Some(processes) = processes {
        controlling.push(tokio::spawn(async move {
            processes.ended().await;
            Ok(())
        }));
    }
    if let Some(directory) = &configuration.terraform_plugin_dir {
        // Plugins run in directories of their own.
        let directory = std::fs::canonicalize(directory)
            .with_context(|| format!("--terraform-plugin-dir {} cannot be used", directory.display()))?;
        let wanted = clouds::terraform::Wanted {
            directory,
            modules: configuration.terraform_module_dir.clone(),
            cache: configuration.data_dir.join("terraform"),
            memory: configuration.data_dir.join("terraform-kinds"),
            hosting: HOSTING.into(),
            key: clouds::key(engine).await?,
            providers: configuration.providers.clone(),
            hidden: secrets(&configuration),
        };
        let leases = seats.first().and_then(controlling::Seat::leases);
        // Their processes end before this one does.
        let in_use = stores.in_use();
        controlling.push(clouds::terraform::start(&engines, in_use, leases, wanted, stop.clone()).await?);
    }
    let controlling = controlling::together(controlling, seats);
    let interrupts = process::Interrupts::listen()?;
    if stores.is_shared() {
        tokio::spawn(engine.clone().feel_pulse());
    }
    let serving = tokio::spawn(socket.serve(ApiServer::new(engines.clone()), closing.clone()));
    tracing::info!(%address, data = %configuration.data_dir.display(), took = ?began.elapsed(), "serving");
    // A reader that went away after the first line is no reason to stop.
    let _ = write!(
        std::io::stdout(),
        "Hangar is up at https://{address}\n\n  export KUBECONFIG={}\n  kubectl get namespaces\n",
        quoted(&configuration.kubeconfig)
    );

    let delay = process::delay(configuration.shutdown_delay, stores.is_shared());
    process::Running { interrupts, engines, stop, closing, delay, serving, controlling }.until_stopped().await
}

/// Issuers that clients can reach: by host name in a domain of the installation's own, by path otherwise.
pub fn issuers(domain: &str, address: SocketAddr) -> Issuers {
    if tenancy::is_local(domain) {
        Issuers::Path(address)
    } else {
        Issuers::Host { domain: domain.to_owned(), port: address.port() }
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |one: char| one.is_ascii_alphanumeric() || "/._-+,:@%=".contains(one);
    if !path.is_empty() && path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// Control planes with processes of their own, where no other server has a say in what runs.
fn processes(
    configuration: &Configuration,
    address: SocketAddr,
    authority: &Authority,
    stop: CancellationToken,
    shared: bool,
) -> anyhow::Result<Option<Arc<Processes>>> {
    if shared {
        return Ok(None);
    }
    let directory = configuration.data_dir.join("processes");
    files::private_dir(&directory)?;
    let directory = std::fs::canonicalize(directory)?;
    let shown = std::fs::canonicalize(&configuration.data_dir)?.join("keys/serving-authority.crt");
    files::write_private(&shown, authority.certificate_pem().as_bytes())?;
    let format = if configuration.json_logs { "json" } else { "text" };
    let mut arguments = vec![
        format!("--listen={address}"),
        format!("--domain={}", configuration.domain),
        format!("--root-ca-file={}", shown.display()),
        format!("--log-level={}", configuration.log_level),
        format!("--log-format={format}"),
    ];
    if !configuration.egress_allow.is_empty() {
        arguments.push(format!("--egress-allow={}", configuration.egress_allow));
    }
    let seconds = configuration.max_token_lifetime.map_or(0, |lifetime| lifetime.as_secs());
    arguments.push(format!("--service-account-max-token-expiration={seconds}s"));
    if let Some(Audit { policy: Some(policy), .. }) = &configuration.audit {
        arguments.push(format!("--audit-policy={}", std::fs::canonicalize(policy)?.display()));
    }
    let mut environment = Vec::new();
    if configuration.aws.wanted() {
        arguments.push(format!("--aws-options={}", serde_json::to_string(&configuration.aws)?));
        environment.extend(std::env::vars_os().filter(|(name, _)| is_of_aws(name)));
    }
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let audited = configuration.audit.is_some();
    let launch = processes::Launch { program, directory, arguments, environment, audited };
    Ok(Some(Processes::open(launch, stop)?))
}

/// Where AWS's programs look for credentials and settings, and for the files that have them.
fn is_of_aws(variable: &OsStr) -> bool {
    variable == "HOME" || variable.to_str().is_some_and(|name| name.starts_with("AWS_"))
}

/// Short enough to be guessed is worse than none.
const SHORTEST_TOKEN: usize = 16;

/// A static token, for scripts that have nowhere to keep a certificate.
fn admin_token(path: &Path) -> anyhow::Result<auth::Secret<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let token = text.trim();
    if token.len() < SHORTEST_TOKEN || token.contains(char::is_whitespace) {
        anyhow::bail!("{} does not hold one token of at least {SHORTEST_TOKEN} characters", path.display());
    }
    Ok(auth::Secret::new(token.to_owned()))
}

/// Opened before anything is served, so that nothing is done untold.
pub fn audit_log(wanted: Option<&Audit>) -> anyhow::Result<Option<audit::Log>> {
    let Some(Audit { log, policy }) = wanted else { return Ok(None) };
    let policy = match policy {
        None => audit::Policy::standard(),
        Some(path) => {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            audit::Policy::parse(&bytes)
                .with_context(|| format!("{} is not a valid audit policy", path.display()))?
        }
    };
    let opened = audit::Log::open(audit::LogOptions::new(log, policy));
    Ok(Some(opened.with_context(|| format!("cannot write the audit log {}", log.display()))?))
}

/// Where a client on this machine reaches a socket that is bound to all addresses.
pub fn reachable(bound: SocketAddr) -> SocketAddr {
    match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], bound.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], bound.port())),
        _ => bound,
    }
}

/// The authority of everything this installation serves. It is made only where nobody trusts one yet.
pub fn serving_authority(data_dir: &Path, used: bool, now: jiff::Timestamp) -> anyhow::Result<Authority> {
    let path = data_dir.join("keys/serving-authority.pem");
    if used && !path.try_exists().with_context(|| format!("read key file {}", path.display()))? {
        anyhow::bail!(
            "read key file {}: it is missing, and clients of the control planes in the store trust it: put the file back from a \
             backup or from another server of this installation",
            path.display()
        );
    }
    let pem = files::read_or_create(&path, || {
        let made = Authority::generate("hangar-serving", now, AUTHORITY_LIFETIME)?.to_pem();
        Ok(format!("{}{}", made.certificate, made.key.expose()).into_bytes())
    })?;
    let pem = String::from_utf8(pem).with_context(|| format!("{} is not PEM", path.display()))?;
    Authority::from_pem(&pem, &pem).with_context(|| format!("{} cannot be used", path.display()))
}

/// For control planes of a domain, on this machine and at an address.
pub fn serving_certificate(
    authority: &Authority,
    domain: &str,
    listen: IpAddr,
    now: jiff::Timestamp,
) -> anyhow::Result<Arc<ServingCertificate>> {
    let names = [
        "localhost".to_owned(),
        domain.to_owned(),
        format!("*.{domain}"),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        "kubernetes.default.svc.cluster.local".to_owned(),
    ];
    let mut addresses = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    if !listen.is_unspecified() && !addresses.contains(&listen) {
        addresses.push(listen);
    }
    let issued = authority.issue_server(&names, &addresses, now, SERVING_LIFETIME)?;
    Ok(Arc::new(ServingCertificate::from_pem(&issued.certificate, issued.key.expose())?))
}
