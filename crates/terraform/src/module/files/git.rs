//! Repositories, fetched by the git program and read without being checked out: no hook, filter or submodule of them is run.
//!
//! What git is told comes from users. It sees nothing of our environment but proxies and authorities, no configuration and
//! no credentials but those of the Secret that is named, and has its time and its room.

use std::path::{Path, PathBuf};
use std::time::Duration;

use auth::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::Value as Json;
use sandbox::{Share, Spec, StartError, Trees};
use tokio::io::AsyncReadExt as _;

use super::{Held, archive, inside};
use crate::driver::failures;
use crate::plugin::Isolation;
use crate::plugin::process::{PrivateDirectory, inherited, kill_group, private_directory};
use crate::web;

/// For each call of git.
const PATIENCE: Duration = Duration::from_secs(90);
/// What git may write into one file; a pack is one file.
const LARGEST_FILE: u64 = 256 << 20;
/// What a version of a repository may come to.
const LARGEST: u64 = 64 << 20;
/// Of what git complains of.
const LONGEST_REASON: usize = 400;

/// Where a repository is, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// With its scheme, or in the short form of ssh.
    pub url: String,
    /// A branch, a tag or a commit; what is checked out by default, if none is named.
    pub reference: Option<String>,
}

/// What a Secret holds for repositories: Kubeform's `token`, or what Kubernetes has keys for.
#[derive(Default)]
pub struct Credentials {
    user: Option<String>,
    password: Option<Secret<String>>,
    key: Option<Secret<String>>,
    known_hosts: Option<String>,
}

impl Credentials {
    pub fn of(secret: &Json) -> Credentials {
        let text = |key: &str| {
            let encoded = secret.get("data")?.get(key)?.as_str()?;
            let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
            Some(text).filter(|text| !text.trim().is_empty())
        };
        let line = |key: &str| text(key).map(|text| text.trim().to_owned());
        Credentials {
            user: line("username"),
            password: line("token").or_else(|| line("password")).map(Secret::new),
            key: text("ssh-privatekey").map(Secret::new),
            known_hosts: text("known_hosts"),
        }
    }

    /// Tells two of them apart, without what they are.
    pub fn hashed(&self, into: &mut sha2::Sha256) {
        use sha2::Digest as _;
        let secrets = [&self.password, &self.key].map(|one| one.as_ref().map_or("", |one| one.expose()));
        let texts = [&self.user, &self.known_hosts].map(|one| one.as_deref().unwrap_or_default());
        for text in secrets.into_iter().chain(texts) {
            into.update((text.len() as u64).to_be_bytes());
            into.update(text);
        }
    }

    fn redact(&self, text: String) -> String {
        let secrets = [&self.password, &self.key].into_iter().flatten();
        let secrets: Vec<String> = secrets.map(|secret| secret.expose().clone()).collect();
        failures::redacted(text, &secrets)
    }
}

impl Repository {
    /// `host/owner/name` as Kubeform has it, or an address as git has it.
    pub fn of(text: &str, reference: Option<&str>) -> Repository {
        let plain = !text.contains("://") && !is_short(text);
        let url = if plain { format!("https://{text}") } else { text.to_owned() };
        Repository { url, reference: reference.filter(|one| !one.is_empty()).map(str::to_owned) }
    }

    /// The machine that it is on.
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
        rest.split(['/', ':']).next().unwrap_or_default()
    }

    /// Whether the same is always the same version.
    pub fn is_fixed(&self) -> bool {
        let is_commit = |text: &String| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.reference.as_ref().is_some_and(is_commit)
    }

    /// The address that git is told, and its scheme; with the directory of modules, which is all that files may be from.
    fn address(&self, directory: Option<&Path>) -> Result<(String, &'static str), String> {
        let url = self.url.as_str();
        let host = self.host();
        let is_plain = |letter: char| !letter.is_whitespace() && !letter.is_control();
        if url.starts_with('-') || !url.chars().all(is_plain) {
            return Err(misunderstood(url));
        }
        let plain_host = !host.is_empty() && !host.starts_with('-');
        if let Some(path) = url.strip_prefix("file://") {
            let directory =
                directory.ok_or("repositories of this server are in its --terraform-module-dir")?;
            let (_, found) = inside(directory, path.trim_start_matches('/'))?;
            return Ok((format!("file://{}", found.display()), "file"));
        }
        if is_short(url) || url.starts_with("ssh://") {
            return plain_host.then(|| (url.to_owned(), "ssh")).ok_or_else(|| misunderstood(url));
        }
        let scheme = match url.split_once("://") {
            Some(("https", _)) => "https",
            Some(("http", _)) if web::is_safe(url) => "http",
            Some(("http", _)) => return Err("repositories are fetched by https, ssh or file".into()),
            _ => return Err(misunderstood(url)),
        };
        if !plain_host || url.contains('@') {
            return Err("credentials of a repository are in the Secret of cred, not in its address".into());
        }
        Ok((url.to_owned(), scheme))
    }
}

fn misunderstood(url: &str) -> String {
    format!("the repository {url:?} is not understood")
}

/// `user@host:path`.
fn is_short(text: &str) -> bool {
    !text.contains("://")
        && text.split_once('@').is_some_and(|(user, rest)| !user.contains('/') && rest.contains(':'))
}

/// Nothing that git takes for more than a name.
fn is_reference(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._/-+".contains(letter);
    !text.starts_with(['-', '+', '/']) && !text.contains("..") && text.chars().all(plain)
}

/// The texts of a version of a repository, by their paths.
pub async fn fetch(
    repository: &Repository,
    credentials: &Credentials,
    directory: Option<&Path>,
    outside: &Outside<'_>,
) -> Result<Held, String> {
    let (url, scheme) = repository.address(directory)?;
    let reference = repository.reference.as_deref().unwrap_or("HEAD");
    if !is_reference(reference) {
        return Err(format!("checkOut {reference:?} is not a name of a branch, a tag or a commit"));
    }
    let scratch = private_directory(&std::env::temp_dir());
    let scratch = scratch.map_err(|error| format!("there is no room for the repository: {error}"))?;
    let modules = directory.filter(|_| scheme == "file");
    let git = Git { scratch, scheme, credentials, modules, outside };
    git.prepare().map_err(|error| format!("there is no room for the repository: {error}"))?;
    git.run(&["init", "--quiet", "--bare", "."]).await?;
    let options = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc"];
    let shallow = [&options[..], &["--depth=1", "--", &url, reference]].concat();
    if let Err(why) = git.run(&shallow).await {
        // Not all servers give one version by itself, or a commit that no branch is at.
        let all = [
            "+refs/heads/*:refs/remotes/origin/*",
            "+refs/tags/*:refs/tags/*",
            "+HEAD:refs/remotes/origin/HEAD",
        ];
        let whole = [&options[..], &["--", &url], &all[..]].concat();
        git.run(&whole).await.map_err(|_| why)?;
        let candidates = [
            format!("refs/remotes/origin/{reference}"),
            format!("refs/tags/{reference}"),
            reference.to_owned(),
        ];
        for candidate in candidates {
            if let Ok(tar) = git.run(&["archive", "--format=tar", &candidate]).await {
                return archive::of_tar(&tar);
            }
        }
        return Err(format!("the repository has no branch, tag or commit {reference:?}"));
    }
    archive::of_tar(&git.run(&["archive", "--format=tar", "FETCH_HEAD"]).await?)
}

/// How git is run, and on whose behalf.
pub struct Outside<'a> {
    pub isolation: &'a Isolation,
    pub control_plane: &'a str,
}

struct Git<'a> {
    scratch: PrivateDirectory,
    scheme: &'static str,
    credentials: &'a Credentials,
    /// The directory of modules, where the repository is in it.
    modules: Option<&'a Path>,
    outside: &'a Outside<'a>,
}

/// Where git is, by the search path of the server.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join("git")).find(|program| program.is_file())
}

impl Git<'_> {
    /// What ssh reads from files.
    fn prepare(&self) -> std::io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = |name: &str, text: &str| {
            let mut options = std::fs::OpenOptions::new();
            let mut file =
                options.write(true).create_new(true).mode(0o600).open(self.scratch.path().join(name))?;
            std::io::Write::write_all(&mut file, text.as_bytes())
        };
        if let Some(key) = &self.credentials.key {
            file("key", &format!("{}\n", key.expose().trim_end()))?;
        }
        file("known_hosts", self.credentials.known_hosts.as_deref().unwrap_or_default())?;
        // The modules are the operator's, whoever git is; what git starts itself sees only this file.
        file(".gitconfig", "[safe]\n\tdirectory = *\n")?;
        // In a sandbox of a server that is root, git is another user.
        let owner = self.outside.isolation.sandbox().ok().and_then(|sandbox| sandbox.owner());
        let Some((user, group)) = owner else { return Ok(()) };
        let own = |path: &Path| std::os::unix::fs::chown(path, Some(user), Some(group));
        for entry in std::fs::read_dir(self.scratch.path())? {
            own(&entry?.path())?;
        }
        own(self.scratch.path())
    }

    fn spec(&self, program: PathBuf, arguments: &[&str]) -> Spec {
        let directory = self.scratch.path();
        let mut shares = vec![Share { path: directory.to_owned(), writable: true }];
        let modules = self.modules.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        shares.extend(modules.map(|path| Share { path, writable: false }));
        let mut environment = inherited(&mut shares);
        let at = |name: &str| directory.join(name).display().to_string();
        let ssh = format!(
            "ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes \
             -o UserKnownHostsFile='{}' -i '{}'",
            at("known_hosts"),
            at("key")
        );
        let header = self.credentials.password.as_ref().map(|password| {
            // GitLab wants this name with a token; GitHub wants any.
            let user = self.credentials.user.as_deref().unwrap_or("oauth2");
            format!("Authorization: Basic {}", STANDARD.encode(format!("{user}:{}", password.expose())))
        });
        let redirects = if header.is_some() { "false" } else { "initial" };
        let mut settings = vec![("core.hooksPath", "/dev/null"), ("http.followRedirects", redirects)];
        settings.extend(header.as_deref().map(|header| ("http.extraHeader", header)));
        let mut set = |name: &str, value: &str| environment.insert(name.to_owned(), value.to_owned());
        set("GIT_CONFIG_COUNT", &settings.len().to_string());
        for (at, (name, value)) in settings.into_iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{at}"), name);
            set(&format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        set("GIT_CONFIG_NOSYSTEM", "1");
        set("GIT_TERMINAL_PROMPT", "0");
        set("GIT_ALLOW_PROTOCOL", self.scheme);
        set("GIT_SSH_COMMAND", &ssh);
        set("HOME", &directory.display().to_string());
        Spec {
            program,
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
            environment: environment.into_iter().collect(),
            directory: directory.to_owned(),
            shares,
            trees: Trees::System,
            hidden: Vec::new(),
            network: true,
            limits: sandbox::Limits { file_size: LARGEST_FILE, ..Default::default() },
        }
    }

    /// What a call of git writes, or why it came to nothing.
    async fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        let missing =
            "this server has no git; put the module into the directory of modules, or name an archive of it";
        let program = program().ok_or(missing)?;
        let sandbox = self.outside.isolation.sandbox()?;
        let egress = self.outside.isolation.egress_of(self.outside.control_plane);
        let egress = Some(egress).filter(|_| self.scheme != "file");
        let started = sandbox.start(self.spec(program, arguments), egress).await;
        let mut running = started.map_err(|error| match error {
            StartError::Program(error) => format!("git cannot be run: {error}"),
            StartError::Sandbox(error) => format!("git cannot be run: {error}"),
        })?;
        let child = &mut running.child;
        let id = child.id();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (mut written, mut said) = (Vec::new(), Vec::new());
        let ended = async {
            let write = async {
                if let Some(stdout) = stdout {
                    let _ = stdout.take(LARGEST + 1).read_to_end(&mut written).await;
                }
            };
            let say = async {
                if let Some(stderr) = stderr {
                    let _ = stderr.take(64 << 10).read_to_end(&mut said).await;
                }
            };
            tokio::join!(write, say);
            child.wait().await
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        // Helpers of git that go on without it.
        kill_group(id);
        let status = match ended {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => return Err(format!("git cannot be run: {error}")),
            Err(_) => {
                return Err(format!("the repository was not fetched within {} seconds", PATIENCE.as_secs()));
            }
        };
        if written.len() as u64 > LARGEST {
            return Err("the repository is too large".into());
        }
        if status.success() {
            return Ok(written);
        }
        let said = self.credentials.redact(String::from_utf8_lossy(&said).into_owned());
        let said: String =
            said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        // What it gave up for comes last: before it there may be a banner of ssh's about a key that it does not know.
        let skipped = said.chars().count().saturating_sub(LONGEST_REASON);
        let said: String = said.chars().skip(skipped).collect();
        Err(if said.is_empty() { format!("git ended ({status})") } else { said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |text: &str| Repository::of(text, None).address(None);
        let check = |text: &str, url: &str, scheme: &str| {
            assert_eq!(
                of(text).map(|(url, scheme)| (url, scheme.to_owned())),
                Ok((url.into(), scheme.into()))
            );
        };
        check("github.com/a/b", "https://github.com/a/b", "https");
        check("https://example.com/a/b.git", "https://example.com/a/b.git", "https");
        check("git@github.com:a/b.git", "git@github.com:a/b.git", "ssh");
        check("ssh://git@example.com:22/a/b", "ssh://git@example.com:22/a/b", "ssh");
        check("http://127.0.0.1:80/a", "http://127.0.0.1:80/a", "http");
        for wrong in [
            "http://example.com/a",
            "http://localhost.example.com/a",
            "https://token@example.com/a",
            "ext::sh -c touch%20/tmp/x",
            "file:///etc",
            "ssh://-oProxyCommand=x/a",
            "-u@x:y",
            "git://example.com/a",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        for (reference, fine) in [
            ("v1", true),
            ("feature/a-b_c.1", true),
            ("--upload-pack=x", false),
            ("a..b", false),
            ("a b", false),
            ("a:b", false),
        ] {
            assert_eq!(is_reference(reference), fine, "{reference}");
        }
    }
}
