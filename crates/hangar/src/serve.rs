//! `hangar serve`: API servers and nothing else. One control plane, or all that a store has; no operator.
//!
//! This is what runs in the pods of control planes on an existing Kubernetes: whoever starts it decides the keys and
//! gives them as files. What is not given is made once and kept in the data directory.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver::control_plane::{AwsUse, Charter, IN_CLUSTER_ISSUER, Keys, Quota};
use apiserver::{ApiServer, Config, Engine, Engines, Issuers};
use clap::{Args, ValueEnum};
use listener::{Doors, Listener, ServingCertificate};
use objects::CompactString;
use rustix::process::{Resource, Rlimit};
use store::Fence;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clouds::aws::AwsOptions;
use crate::configuration::{self, Audit, egress_range};
use crate::limits::LimitOptions;
use crate::numbers::Numbers;
use crate::stores::{self, Wanted};
use crate::{clouds, controlling, files, hosting, keys, kubeconfig, logs, process, up};

#[derive(Args, Debug)]
pub struct ServeOptions {
    /// The control plane to serve, made if it is not there [default: all that are in the store]
    #[arg(long, value_name = "NAME", env = "HANGAR_CONTROL_PLANE")]
    control_plane: Option<String>,
    /// The controllers to run beside it
    #[arg(long, value_name = "SET", default_value = "denatured")]
    controllers: Controllers,
    /// What to store in: embedded, embedded:DIR, postgres://... or etcd://... [default: embedded]
    #[arg(long, value_name = "STORE", env = "HANGAR_STORE", hide_env_values = true)]
    store: Option<String>,
    /// A further store whose control planes are served, NAME=STORE; any number of times
    #[arg(
        long,
        value_name = "NAME=STORE",
        env = "HANGAR_WITH_STORE",
        hide_env_values = true,
        value_delimiter = ' ',
        conflicts_with = "control_plane"
    )]
    with_store: Vec<String>,
    /// The part of the store that is this process's alone [default: all of it]
    #[arg(long, value_name = "NAME", env = "HANGAR_STORE_ROOM")]
    store_room: Option<String>,
    /// Memory for copies of what is read, of each store, in MiB; 0 is none [default: 256; of an embedded store 64]
    #[arg(long, value_name = "MIB", env = "HANGAR_READ_CACHE")]
    read_cache: Option<usize>,
    /// Where everything is kept that is not said to be elsewhere [default: ~/.hangar]
    #[arg(long, value_name = "DIR", env = "HANGAR_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// The address to serve on
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6443", env = "HANGAR_LISTEN")]
    listen: SocketAddr,
    /// Serve on the socket that is standard input, to the process that started this one, which has the doors (--listen is
    /// the address it has them at); ends with it
    #[arg(long, group = "shown", requires_all = ["control_plane", "root_ca_file"])]
    on_stdin: bool,
    /// The address that clients reach it by [default: the one it serves on]
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// Control plane NAME answers to NAME.DOMAIN
    #[arg(long, value_name = "DOMAIN", default_value = "hangar.localhost", env = "HANGAR_DOMAIN")]
    domain: String,
    /// The certificate to show, PEM; read again when it changes [default: made]
    #[arg(long, value_name = "FILE", group = "shown", requires_all = ["tls_private_key_file", "root_ca_file"])]
    tls_cert_file: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Whom clients trust to have signed that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "shown")]
    root_ca_file: Option<PathBuf>,
    /// The authority of the control plane's client certificates, PEM [default: made]
    #[arg(long, value_name = "FILE", requires_all = ["client_ca_key_file", "service_account_key_file", "control_plane"])]
    client_ca_file: Option<PathBuf>,
    /// Its key, which requests for certificates are signed with, PEM
    #[arg(long, value_name = "FILE", requires = "client_ca_file")]
    client_ca_key_file: Option<PathBuf>,
    /// The key that service accounts' tokens are signed with, PEM
    #[arg(long, value_name = "FILE", requires = "client_ca_file")]
    service_account_key_file: Option<PathBuf>,
    /// The issuer of service accounts' tokens: a URL under which clients find the discovery document [default: made of
    /// the domain or the address]
    #[arg(long, value_name = "URL", requires = "control_plane", value_parser = issuer_url)]
    service_account_issuer: Option<String>,
    /// The longest life of a service account's token that a client can ask for; 0 is no limit
    #[arg(long, value_name = "DURATION", default_value = configuration::MAX_TOKEN_EXPIRATION, value_parser = configuration::token_expiration)]
    service_account_max_token_expiration: configuration::TokenExpiration,
    #[command(flatten)]
    encryption: keys::KeyOptions,
    /// What the control plane may take, as the JSON of its spec.quota [default: what it wants]
    #[arg(long, value_name = "JSON", requires = "control_plane", value_parser = quota)]
    quota: Option<Quota>,
    /// Addresses that control planes may have the server connect to beside public ones, as CIDR ranges; any number of times
    #[arg(long, value_name = "CIDR", env = "HANGAR_EGRESS_ALLOW", value_delimiter = ',', value_parser = egress_range)]
    egress_allow: Vec<String>,
    #[command(flatten)]
    limits: LimitOptions,
    /// The uid of the ControlPlane that it is for
    #[arg(long, value_name = "UID", hide = true, requires = "control_plane")]
    owner: Option<String>,
    /// What the control plane may use of the operator's AWS credentials, as the JSON of its spec.aws
    #[arg(long, value_name = "JSON", hide = true, requires = "on_stdin", value_parser = aws_use)]
    aws_use: Option<AwsUse>,
    /// AWS as the process that started this one has it, as JSON [default: none of it]
    #[arg(long, value_name = "JSON", hide = true, requires = "on_stdin", value_parser = aws_options)]
    aws_options: Option<AwsOptions>,
    /// How much memory this process may write to, in bytes; it ends when it wants more [default: what there is]
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<u64>,
    /// Where to write a kubeconfig of the control plane's administrator [default: nowhere]
    #[arg(long, value_name = "FILE", requires = "control_plane")]
    admin_kubeconfig: Option<PathBuf>,
    /// Write what is done to this file, one JSON event a line [default: nowhere]
    #[arg(long, value_name = "FILE", env = "HANGAR_AUDIT_LOG")]
    audit_log: Option<PathBuf>,
    /// How much to write of what, an audit.k8s.io/v1 Policy [default: writes and secrets, without contents]
    #[arg(long, value_name = "FILE", env = "HANGAR_AUDIT_POLICY", requires = "audit_log")]
    audit_policy: Option<PathBuf>,
    /// Seconds to serve on after being asked to end, not ready any more [default: 5 on a shared store, else 0]
    #[arg(long, value_name = "SECONDS", env = "HANGAR_SHUTDOWN_DELAY")]
    shutdown_delay: Option<u64>,
    #[command(flatten)]
    logging: logs::Options,
}

/// Of the certificate in the kubeconfig that is written once, at the start.
const ADMIN_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Which loops run in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Controllers {
    None,
    /// What a control plane without workloads needs.
    Denatured,
}

fn quota(text: &str) -> Result<Quota, String> {
    serde_json::from_str(text).map_err(|error| format!("not a quota: {error}"))
}

fn aws_use(text: &str) -> Result<AwsUse, String> {
    serde_json::from_str(text).map_err(|error| format!("not a use of AWS: {error}"))
}

/// As upstream takes it.
fn issuer_url(text: &str) -> Result<String, String> {
    let is_url =
        text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#', ' ']));
    if is_url { Ok(text.trim_end_matches('/').to_owned()) } else { Err("not an https URL".to_owned()) }
}

fn aws_options(text: &str) -> Result<AwsOptions, String> {
    serde_json::from_str(text).map_err(|error| format!("not options of AWS: {error}"))
}

pub fn run(options: ServeOptions) -> anyhow::Result<()> {
    if let Some(bytes) = options.memory_limit {
        limit_memory(bytes)?;
    }
    options.logging.start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(Box::pin(serve(options)))
}

/// By the kernel: what is asked for beyond that is not given, and a program that is not given memory ends. What the
/// allocator has reserved by now would count as well, so the program begins again under the limit.
fn limit_memory(bytes: u64) -> anyhow::Result<()> {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if rustix::process::getrlimit(Resource::Data) == limit {
        return Ok(());
    }
    rustix::process::setrlimit(Resource::Data, limit).context("cannot limit memory")?;
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let failed = Command::new(program).args(std::env::args_os().skip(1)).exec();
    Err(failed).context("cannot begin again under a limit of memory")
}

async fn serve(options: ServeOptions) -> anyhow::Result<()> {
    process::file_size_limit_is_an_error()?;
    if let Some(why) = objects::names::dns1123_subdomain(&options.domain).first() {
        bail!("--domain {:?} is not a domain: {why}", options.domain);
    }
    let data_dir = hosting::data_dir(options.data_dir.as_deref());
    let data_dir = data_dir.context("$HOME is not set: say where to keep data with --data-dir")?;
    let wanted = Wanted::new(options.store.clone(), options.store_room.clone());
    let mut wanted = stores::all(wanted.place(&data_dir)?, &options.with_store, &data_dir)?;
    if options.control_plane.is_some() {
        // One control plane is in one store.
        wanted.truncate(1);
    }
    let numbers = Numbers::default();
    let opening =
        stores::Opening { hosting: up::HOSTING, read_cache: options.read_cache, numbers: numbers.clone() };
    let stores = opening.open(&wanted).await?;

    if data_dir.exists() {
        files::close_to_others(&data_dir)?;
    }
    let used = stores.is_used().await?;
    let opened = keys::open(&options.encryption, &data_dir, stores.is_shared(), used).await?;
    let shown = Shown::of(&options, &data_dir, used)?;
    let single = options.control_plane.as_deref();
    let hosting = single.unwrap_or(up::HOSTING);
    let door = FrontDoor::open(&options, &shown, hosting).await?;
    let bound = up::reachable(door.address(&options)?);
    let address = options.advertise_address.map_or(bound, |ip| SocketAddr::new(ip, bound.port()));

    let audit = options.audit_log.clone().map(|log| Audit { log, policy: options.audit_policy.clone() });
    let engines = stores.engines(Config {
        hosting: hosting.into(),
        keys: opened.keys.clone(),
        serving_authority: shown.authority.clone(),
        address,
        issuers: issuers(&options, address),
        max_token_lifetime: options.service_account_max_token_expiration.0,
        limits: options.limits.requests(),
        egress: egress::Policy::new(egress::Ranges::parse(&options.egress_allow)?),
        admin_token: None,
        audit: up::audit_log(audit.as_ref())?,
    })?;
    stores::hosting(engines.default_store(), hosting, &data_dir).await?;
    if let Some(name) = single {
        establish(engines.default_store(), name, &options).await?;
    }

    let rotation = keys::Rotation::new(opened, engines.clone());
    engines.default_store().rotate_with(rotation.clone());
    tokio::spawn(rotation.go_on());
    for engine in engines.iter() {
        tokio::spawn(engine.clone().renew_values());
    }
    // Whatever is served here is a tenant's.
    let clouds = clouds::set_up(&options.aws_options.clone().unwrap_or_default(), &engines, None).await?;

    let (stop, closing) = (CancellationToken::new(), CancellationToken::new());
    let seats = controlling::join(&engines, &stores, &numbers).await?;
    engines.default_store().metrics.register(numbers.collector());
    let sets = || {
        let make = Box::new(|engine: &Arc<Engine>, _: Option<&Fence>| controllers::denatured(engine));
        match options.controllers {
            Controllers::None => Vec::new(),
            Controllers::Denatured => {
                let controllers = match single {
                    Some(_) => controlling::Set::controllers_of_one(make),
                    None => controlling::Set::controllers(make),
                };
                std::iter::once(controllers).chain(clouds::set(&clouds)).collect()
            }
        }
    };
    let controlling = seats.iter().map(|seat| seat.start(sets(), stop.clone())).collect();
    let controlling = controlling::together(controlling, seats);
    let interrupts = process::Interrupts::listen()?;
    if stores.is_shared() {
        tokio::spawn(engines.default_store().clone().feel_pulse());
    }
    let serving = door.serve(&engines, closing.clone());
    tokio::spawn(shown.follow(stop.clone()));
    tracing::info!(%address, control_plane = single.unwrap_or("all"), "serving");
    let delay = process::delay(options.shutdown_delay, stores.is_shared());
    process::Running { interrupts, engines, stop, closing, delay, serving, controlling }.until_stopped().await
}

/// What tokens say who issued them.
fn issuers(options: &ServeOptions, address: SocketAddr) -> Issuers {
    match (&options.service_account_issuer, &options.control_plane) {
        (Some(url), _) => Issuers::One(url.clone()),
        (None, None) => up::issuers(&options.domain, address),
        // The process that started this one serves it beside others.
        (None, Some(name)) if options.on_stdin => {
            Issuers::One(up::issuers(&options.domain, address).url(name, up::HOSTING))
        }
        // Of a server behind something else, only whoever put it there knows the address.
        (None, Some(_)) => Issuers::One(IN_CLUSTER_ISSUER.to_owned()),
    }
}

/// Where requests come in.
enum FrontDoor {
    Listener(Box<Listener>),
    /// From the process that started this one.
    Relay(UnixStream, CompactString),
}

impl FrontDoor {
    async fn open(options: &ServeOptions, shown: &Shown, hosting: &str) -> anyhow::Result<FrontDoor> {
        let Some(certificate) = &shown.certificate else {
            let socket = std::io::stdin().as_fd().try_clone_to_owned();
            let socket =
                std::os::unix::net::UnixStream::from(socket.context("standard input cannot be used")?);
            socket.set_nonblocking(true).context("standard input is not a socket")?;
            let socket = UnixStream::from_std(socket).context("standard input is not a socket")?;
            socket.peer_addr().context("standard input is not a socket")?;
            return Ok(FrontDoor::Relay(socket, hosting.into()));
        };
        let doors = Doors { domain: options.domain.clone(), hosting: hosting.into() };
        let listening = listener::Options { doors, limits: options.limits.connections() };
        let listener = Listener::bind(options.listen, certificate.clone(), listening).await?;
        Ok(FrontDoor::Listener(Box::new(listener)))
    }

    fn address(&self, options: &ServeOptions) -> anyhow::Result<SocketAddr> {
        match self {
            FrontDoor::Listener(listener) => Ok(listener.local_addr()?),
            FrontDoor::Relay(..) => Ok(options.listen),
        }
    }

    fn serve(self, engines: &Engines, stop: CancellationToken) -> JoinHandle<()> {
        let server = ApiServer::new(engines.clone());
        match self {
            FrontDoor::Listener(listener) => tokio::spawn(listener.serve(server, stop)),
            FrontDoor::Relay(socket, name) => {
                let endpoints = tenancy::Endpoints::new(engines.clone(), None);
                engines.default_store().extend(Arc::new(endpoints));
                tokio::spawn(listener::relay::serve(socket, name, server, stop))
            }
        }
    }
}

/// The one control plane, with the keys and the quota that were asked for.
async fn establish(engine: &Arc<Engine>, name: &str, options: &ServeOptions) -> anyhow::Result<()> {
    let refused = |failure: apiserver::service::Failure| anyhow::anyhow!("{}", failure.0.message);
    if engine.planes.find(name).await?.is_none() {
        engine.create_control_plane(name).await.map_err(refused)?;
    }
    if let (Some(certificate), Some(key), Some(tokens)) =
        (&options.client_ca_file, &options.client_ca_key_file, &options.service_account_key_file)
    {
        let keys = Keys {
            authority_certificate: read(certificate)?,
            authority_key: read(key)?.into(),
            token_key: read(tokens)?.into(),
        };
        engine.set_keys(name, keys).await.map_err(refused)?;
    }
    let plane = engine.planes.find(name).await?.context("the control plane is gone")?;
    let before = plane.charter.clone();
    let after = Charter {
        quota: options.quota.unwrap_or(before.quota),
        owner: options.owner.clone().or(before.owner.clone()),
        // What it may connect to is said to this process as a whole.
        egress: egress::Ranges::default(),
        aws: options.aws_use.clone().unwrap_or_default(),
        generation: before.generation,
    };
    if after != before {
        engine.change_charter(name, |charter| *charter = after.clone()).await.map_err(refused)?;
    }
    if let Some(path) = &options.admin_kubeconfig {
        let plane = engine.planes.find(name).await?.context("the control plane is gone")?;
        let admin = engine
            .issue_client(&plane, "kubernetes-admin", &[auth::user::MASTERS], ADMIN_LIFETIME)
            .map_err(refused)?;
        let server = format!("https://{}", engine.config.address);
        let config = kubeconfig::single(name, &server, &engine.config.serving_authority, &admin);
        files::write_private(path, format!("{config:#}\n").as_bytes())?;
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What is shown to clients, and where it comes from.
struct Shown {
    /// None when another process shows it.
    certificate: Option<Arc<ServingCertificate>>,
    /// PEM.
    authority: String,
    files: Option<(PathBuf, PathBuf)>,
}

/// Kubernetes renews the files of a Secret within a minute or two.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

impl Shown {
    fn of(options: &ServeOptions, data_dir: &Path, used: bool) -> anyhow::Result<Shown> {
        if let (Some(chain), Some(key), Some(root)) =
            (&options.tls_cert_file, &options.tls_private_key_file, &options.root_ca_file)
        {
            let certificate = ServingCertificate::from_pem(&read(chain)?, &read(key)?)
                .with_context(|| format!("{} and {} cannot be used", chain.display(), key.display()))?;
            return Ok(Shown {
                certificate: Some(Arc::new(certificate)),
                authority: read(root)?,
                files: Some((chain.clone(), key.clone())),
            });
        }
        if let (true, Some(root)) = (options.on_stdin, &options.root_ca_file) {
            return Ok(Shown { certificate: None, authority: read(root)?, files: None });
        }
        files::private_dir(data_dir)?;
        let now = jiff::Timestamp::now();
        let authority = up::serving_authority(data_dir, used, now)?;
        let ip = options.advertise_address.unwrap_or(options.listen.ip());
        let certificate = up::serving_certificate(&authority, &options.domain, ip, now)?;
        Ok(Shown { certificate: Some(certificate), authority: authority.certificate_pem(), files: None })
    }

    /// Shows a new certificate when the files have one.
    async fn follow(self, stop: CancellationToken) {
        let (Some(certificate), Some((chain, key))) = (&self.certificate, &self.files) else { return };
        let both = || Some((std::fs::read_to_string(chain).ok()?, std::fs::read_to_string(key).ok()?));
        let mut known = both();
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_AGAIN)).await.is_some() {
            let Some(now) = both().filter(|now| known.as_ref() != Some(now)) else { continue };
            match certificate.replace(&now.0, &now.1) {
                Ok(()) => {
                    tracing::info!(file = %chain.display(), "shows a new certificate");
                    known = Some(now);
                }
                // Half of it is new: the other half follows.
                Err(error) => {
                    tracing::warn!(file = %chain.display(), %error, "a new certificate cannot be used")
                }
            }
        }
    }
}
