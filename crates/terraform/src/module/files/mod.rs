//! Where the files of a module come from: a ConfigMap, an archive, or a directory below the one that the operator
//! allows; and those of the modules that it calls.
//!
//! A module that is named by its repository is looked for below the same directory first, under
//! `HOST/OWNER/REPOSITORY` or `HOST/OWNER/REPOSITORY@REFERENCE`, where somebody may have put it, and fetched if it is not there;
//! those of registries are only looked for there.

mod archive;
mod git;
mod source;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use egress::Caller;
use objects::Value as Json;
use provision::{Failure, Reader};
use quick_cache::sync::Cache;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::config::Module;
use super::pass::Stop;
use super::problem::{File, Problem};
use super::tree::Tree;
use crate::plugin::Isolation;
use crate::web;
use git::{Credentials, Repository};
use source::{Source, is_sha256, walked};

const MOST_FILES: usize = 1_000;
const MOST_BYTES: u64 = 4 << 20;
/// A file that declares nothing is only read up to this size, and so deep below the module.
const LARGEST_BESIDE: usize = 256 << 10;
const DEEPEST_BESIDE: usize = 4;
/// Entries of directories that are looked at for one module: links can lead to the same ones again and again.
const MOST_ENTRIES: usize = 20_000;
/// Modules that one may call, each as often as it is called.
const MOST_MODULES: usize = 100;
const DEEPEST: usize = 10;
/// Archives and repositories that are kept in memory; each is at most as large as a module may be.
const ARCHIVES: usize = 16;
/// Branches and tags move: a version that is older than this is fetched again.
const FRESH: Duration = Duration::from_secs(300);

/// Texts by their paths.
type Held = BTreeMap<String, String>;

/// How much was read already.
#[derive(Default)]
struct Size {
    files: usize,
    bytes: u64,
}

impl Size {
    /// The text of a file; none if it is not one that a module can use.
    fn text(&mut self, name: &str, bytes: Vec<u8>) -> Result<Option<String>, String> {
        let declares = is_module_file(name);
        if !declares && (bytes.len() > LARGEST_BESIDE || self.files == MOST_FILES) {
            return Ok(None);
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return if declares { Err(format!("{name} is not text")) } else { Ok(None) };
        };
        self.files += 1;
        self.bytes += text.len() as u64;
        if self.files > MOST_FILES || self.bytes > MOST_BYTES {
            return Err("the module is too large".into());
        }
        Ok(Some(text))
    }
}

/// What was fetched: archives by their checksums, and repositories by where they are and who asked.
pub struct Archives {
    archives: Cache<String, Arc<Held>>,
    repositories: Cache<[u8; 32], Fetched>,
}

/// A version of a repository.
#[derive(Clone)]
struct Fetched {
    held: Arc<Held>,
    at: Instant,
}

impl Default for Archives {
    fn default() -> Archives {
        Archives { archives: Cache::new(ARCHIVES), repositories: Cache::new(ARCHIVES) }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModuleRef {
    pub git: Option<Git>,
    pub directory: Option<String>,
    pub config_map: Option<ObjectRef>,
    pub archive: Option<Archive>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Git {
    pub r#ref: String,
    pub check_out: Option<String>,
    /// The Secret with what it takes to fetch it.
    pub cred: Option<ObjectRef>,
}

/// An object, and where it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObjectRef {
    pub name: String,
    /// That of the Module, if none is named.
    pub namespace: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Archive {
    pub url: String,
    pub sha256: String,
    /// A directory in it.
    pub directory: String,
}

/// A directory with a module in it.
#[derive(Clone)]
struct Place {
    from: From,
    at: String,
    /// What names of files begin with in messages.
    shown: String,
}

#[derive(Clone)]
enum From {
    /// In memory.
    Held(Arc<Held>),
    /// Below the directory of modules.
    Directory,
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::recoverable(message).at("spec.moduleRef")
}

fn is_module_file(name: &str) -> bool {
    name.ends_with(".tf") || name.ends_with(".tf.json")
}

pub struct Loader<'a> {
    pub reader: &'a Reader<'a>,
    pub namespace: &'a str,
    /// Modules that the operator allows.
    pub directory: Option<&'a Path>,
    pub archives: &'a Archives,
    /// How git is run.
    pub isolation: &'a Isolation,
    /// Whose modules these are.
    pub caller: &'a Caller,
    /// What the module itself is fetched with, and from which machine: what it calls there is fetched with the same.
    pub credentials: OnceLock<(String, Credentials)>,
}

impl Loader<'_> {
    /// A module with all that it calls.
    pub async fn load(&self, from: &ModuleRef) -> Result<Tree, Stop> {
        let place = self.place(from).await?;
        let mut left = MOST_MODULES;
        self.tree(place, DEEPEST, &mut left).await
    }

    async fn place(&self, from: &ModuleRef) -> Result<Place, Failure> {
        let root = |from: From, at: String| Place { from, at, shown: String::new() };
        match from {
            ModuleRef { config_map: Some(map), git: None, directory: None, archive: None } => {
                let own = map.namespace.as_deref().filter(|own| !own.is_empty());
                let held = self.config_map(own.unwrap_or(self.namespace), &map.name).await?;
                Ok(root(From::Held(Arc::new(held)), String::new()))
            }
            ModuleRef { config_map: None, git: None, directory: Some(path), archive: None } => {
                Ok(root(From::Directory, path.clone()))
            }
            ModuleRef { config_map: None, git: Some(git), directory: None, archive: None } => {
                let Source::Repository { repository, inside, below } =
                    source::repository(&git.r#ref, git.check_out.as_deref().filter(|out| !out.is_empty()))
                else {
                    return Err(wrong("git.ref is not understood"));
                };
                if let Some(cred) = &git.cred {
                    let credentials = self.credentials(cred).await?;
                    self.credentials.get_or_init(|| (repository.host().to_owned(), credentials));
                }
                let (from, at) = self.repository(&repository, inside, below).await?;
                Ok(root(from, at))
            }
            ModuleRef { config_map: None, git: None, directory: None, archive: Some(archive) } => {
                if !is_sha256(&archive.sha256) {
                    return Err(wrong("archive.sha256 is 64 hexadecimal digits"));
                }
                let held = self.archive(&archive.url, &archive.sha256.to_ascii_lowercase()).await?;
                let at = walked("", &archive.directory)
                    .ok_or_else(|| wrong("archive.directory leads out of the archive"))?;
                Ok(root(From::Held(held), at))
            }
            _ => Err(wrong("one of git, directory, configMap and archive is required")),
        }
    }

    /// The module at a place, and those it calls.
    fn tree<'b>(
        &'b self,
        place: Place,
        deep: usize,
        left: &'b mut usize,
    ) -> Pin<Box<dyn Future<Output = Result<Tree, Stop>> + Send + 'b>> {
        Box::pin(async move {
            let module = Module::parse(&self.files(&place).await?)?;
            let mut calls = BTreeMap::new();
            for (name, call) in &module.calls {
                let problem = |message: String| Problem::Wrong { place: Some(call.place.clone()), message };
                *left = left.saturating_sub(1);
                if deep == 0 || *left == 0 {
                    return Err(problem("modules call each other too often or too deeply".into()).into());
                }
                let source = Source::parse(&call.source, call.version.as_deref()).map_err(problem)?;
                let called = self.called(&place, source).await.map_err(|failure| Failure {
                    message: format!("{}: {}", call.place, failure.message),
                    ..failure
                })?;
                calls.insert(name.clone(), self.tree(called, deep - 1, left).await?);
            }
            Ok(Tree { module, calls })
        })
    }

    async fn called(&self, caller: &Place, source: Source) -> Result<Place, Failure> {
        match source {
            Source::Relative(steps) => {
                let at = walked(&caller.at, &steps);
                let at = at.ok_or_else(|| wrong(format!("the source {steps:?} leads out of the module")))?;
                let shown = walked(&caller.shown, &steps).unwrap_or_else(|| at.clone());
                Ok(Place { from: caller.from.clone(), at, shown })
            }
            Source::Below(at) => Ok(Place { from: From::Directory, shown: at.clone(), at }),
            Source::Repository { repository, inside, below } => {
                let (from, at) = self.repository(&repository, inside, below.clone()).await?;
                Ok(Place { from, at, shown: below })
            }
            Source::Archive { url, sha256, inside } => {
                let held = self.archive(&url, &sha256).await?;
                let name = url.rsplit('/').next().unwrap_or_default().to_owned();
                Ok(Place { from: From::Held(held), shown: format!("{name}/{inside}"), at: inside })
            }
        }
    }

    /// The `.tf` files of a module, by name.
    async fn files(&self, place: &Place) -> Result<Vec<Arc<File>>, Failure> {
        let own = match &place.from {
            From::Held(held) => below(held, &place.at),
            From::Directory => self.below(place.at.clone(), read).await?,
        };
        let (declaring, beside): (Held, Held) = own.into_iter().partition(|(path, _)| is_module_file(path));
        let beside = Arc::new(beside);
        let shown = match place.shown.trim_end_matches('/') {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let declaring = declaring.into_iter().filter(|(path, _)| !path.contains('/'));
        let files: Vec<Arc<File>> = declaring
            .map(|(path, text)| File { name: format!("{shown}{path}"), text, beside: beside.clone() })
            .map(Arc::new)
            .collect();
        if let Some(json) = files.iter().find(|file| file.name.ends_with(".tf.json")) {
            return Err(wrong(format!("{}: modules in JSON are not supported", json.name)));
        }
        if files.is_empty() {
            let place = if shown.is_empty() { String::new() } else { format!(" in {shown}") };
            return Err(wrong(format!("the module has no .tf files{place}")));
        }
        Ok(files)
    }

    /// Keys cannot have slashes: `--` stands for them.
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Held, Failure> {
        let object = self.reader.get("configmaps", namespace, name).await?;
        let object = object.ok_or_else(|| wrong(format!("ConfigMap {namespace}/{name} does not exist")))?;
        let data = object.get("data").and_then(Json::as_object).into_iter().flatten();
        Ok(data.filter_map(|(key, text)| Some((key.replace("--", "/"), text.as_str()?.to_owned()))).collect())
    }

    async fn credentials(&self, cred: &ObjectRef) -> Result<Credentials, Failure> {
        let own = cred.namespace.as_deref().filter(|own| !own.is_empty());
        let (namespace, name) = (own.unwrap_or(self.namespace), &cred.name);
        let secret = self.reader.get("secrets", namespace, name).await?;
        let missing = || wrong(format!("Secret {namespace}/{name} does not exist"));
        Ok(Credentials::of(&secret.ok_or_else(missing)?))
    }

    /// A version of a repository, and where in it the module is: in the directory of modules, if somebody has put it there.
    async fn repository(
        &self,
        repository: &Repository,
        within: String,
        below: String,
    ) -> Result<(From, String), Failure> {
        if self.directory.is_some_and(|directory| inside(directory, &below).is_ok()) {
            return Ok((From::Directory, below));
        }
        let nobody = Credentials::default();
        let own = self.credentials.get().filter(|(host, _)| host == repository.host());
        let credentials = own.map_or(&nobody, |(_, credentials)| credentials);
        let mut hash = Sha256::new();
        hash.update(format!("{repository:?}"));
        credentials.hashed(&mut hash);
        let key: [u8; 32] = hash.finalize().into();
        let repositories = &self.archives.repositories;
        let fresh = |fetched: &Fetched| repository.is_fixed() || fetched.at.elapsed() < FRESH;
        if let Some(fetched) = repositories.get(&key).filter(fresh) {
            return Ok((From::Held(fetched.held), within));
        }
        let outside = git::Outside { isolation: self.isolation, control_plane: self.reader.control_plane() };
        let held = git::fetch(repository, credentials, self.directory, &outside).await;
        let held = Arc::new(held.map_err(|why| wrong(format!("{}: {why}", repository.url)))?);
        repositories.insert(key, Fetched { held: held.clone(), at: Instant::now() });
        Ok((From::Held(held), within))
    }

    /// Fetched once for each checksum.
    async fn archive(&self, url: &str, sha256: &str) -> Result<Arc<Held>, Failure> {
        let fetched = async {
            let bytes = match url.strip_prefix("file://") {
                Some(path) => self.below(path.trim_start_matches('/').to_owned(), read_archive).await?,
                None if url.starts_with("https://") => {
                    let got = web::get(web::From::Tenant(self.caller), url, archive::LARGEST).await;
                    let got = got.map_err(|error| wrong(error.to_string()))?;
                    got.ok_or_else(|| wrong(format!("{url} is not there")))?.to_vec()
                }
                None => return Err(wrong("archives are fetched by https, or from the directory of modules")),
            };
            let sha256 = sha256.to_owned();
            let opened = tokio::task::spawn_blocking(move || archive::open(&bytes, &sha256)).await;
            let opened = opened.map_err(|_| wrong("the archive cannot be read"))?;
            opened.map(Arc::new).map_err(|why| wrong(format!("{url}: {why}")))
        };
        self.archives.archives.get_or_insert_async(sha256, fetched).await
    }

    /// Reads what is below the directory of modules.
    async fn below<T: Send + 'static>(
        &self,
        path: String,
        read: fn(&Path, &str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let Some(directory) = self.directory.map(Path::to_path_buf) else {
            return Err(wrong("modules of this server are not served: it has no --terraform-module-dir"));
        };
        let read = tokio::task::spawn_blocking(move || read(&directory, &path));
        read.await.map_err(|_| wrong("the module cannot be read"))?.map_err(wrong)
    }
}

/// The directory of modules, and what is really below it by this path: no way leads out.
fn inside(directory: &Path, path: &str) -> Result<(PathBuf, PathBuf), String> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let missing = || format!("there is no module {path:?} in the directory of modules");
    if path.is_empty() || !Path::new(path).components().all(plain) {
        return Err(missing());
    }
    let root = directory.canonicalize().map_err(|_| missing())?;
    let found = root.join(path).canonicalize().ok().filter(|real| real.starts_with(&root));
    Ok((root, found.ok_or_else(missing)?))
}

fn read_archive(directory: &Path, path: &str) -> Result<Vec<u8>, String> {
    let (_, found) = inside(directory, path)?;
    if !found.is_file() {
        return Err(format!("the archive {path:?} cannot be read"));
    }
    let size = found.metadata().map(|about| about.len()).unwrap_or(u64::MAX);
    if size > archive::LARGEST as u64 {
        return Err(format!("the archive {path:?} is too large"));
    }
    std::fs::read(found).map_err(|_| format!("the archive {path:?} cannot be read"))
}

/// What is below a directory of what is held, by its path from there.
fn below(held: &Held, directory: &str) -> Held {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let own = held.iter().filter_map(|(path, text)| Some((path.strip_prefix(&prefix)?, text)));
    own.map(|(path, text)| (path.to_owned(), text.clone())).collect()
}

fn read(directory: &Path, path: &str) -> Result<Held, String> {
    let (root, place) = inside(directory, path)?;
    if !place.is_dir() {
        return Err(format!("there is no module {path:?} in the directory of modules"));
    }
    let (mut held, mut size) = (Held::new(), Size::default());
    let mut waiting = vec![(place, String::new(), 0)];
    let mut seen = 0;
    while let Some((place, shown, deep)) = waiting.pop() {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                return Err(format!("the module {path:?} is too large"));
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let real = entry.path().canonicalize().ok().filter(|real| real.starts_with(&root));
            let Some(real) = real.filter(|_| !name.starts_with('.')) else { continue };
            if real.is_dir() {
                if deep < DEEPEST_BESIDE {
                    waiting.push((real, format!("{shown}{name}/"), deep + 1));
                }
                continue;
            }
            // Nobody may be at the other end of a pipe.
            if !real.is_file() {
                continue;
            }
            // Declarations below belong to other modules.
            let length = real.metadata().map_or(u64::MAX, |about| about.len());
            let useful = if is_module_file(&name) { deep == 0 } else { length <= LARGEST_BESIDE as u64 };
            if !useful {
                continue;
            }
            if length > MOST_BYTES {
                return Err(format!("the module {path:?} is too large"));
            }
            let bytes = std::fs::read(real).map_err(|_| format!("{name} cannot be read"))?;
            if let Some(text) = size.text(&name, bytes)? {
                held.insert(format!("{shown}{name}"), text);
            }
        }
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_of_the_directory_is_read() {
        let directory = tempfile::TempDir::new().unwrap();
        let inside = directory.path().join("modules/example.com/team/net@v1");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir(directory.path().join("secret")).unwrap();
        std::fs::write(directory.path().join("secret/main.tf"), "secret").unwrap();
        std::fs::write(inside.join("b.tf"), "b").unwrap();
        std::fs::write(inside.join("a.tf"), "a").unwrap();
        std::fs::write(inside.join("notes.txt"), "beside").unwrap();
        std::fs::write(inside.join("noise"), [0xff, 0xfe]).unwrap();
        std::fs::create_dir(inside.join("sub")).unwrap();
        std::fs::write(inside.join("sub/main.tf"), "another module").unwrap();
        std::fs::write(inside.join("sub/policy.json"), "{}").unwrap();
        std::os::unix::fs::symlink(directory.path().join("secret/main.tf"), inside.join("c.tf")).unwrap();
        std::os::unix::fs::symlink(directory.path().join("secret"), directory.path().join("modules/way"))
            .unwrap();
        let modules = directory.path().join("modules");
        let names = |path: &str| {
            let held = read(&modules, path)?;
            Ok::<_, String>(held.into_keys().collect::<Vec<_>>())
        };
        // Nor is what is no file, whoever put it there.
        for pipe in ["pipe.tf", "pipe.txt", "pipe.zip"] {
            let mode = rustix::fs::Mode::from_bits_truncate(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, inside.join(pipe), rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        }
        let own = ["a.tf", "b.tf", "notes.txt", "sub/policy.json"].map(str::to_owned);
        assert_eq!(names("example.com/team/net@v1"), Ok(own.to_vec()));
        let absolute = directory.path().join("secret").display().to_string();
        for path in ["", ".", "..", "../secret", "way", "example.com/team/net", absolute.as_str()] {
            assert!(names(path).is_err(), "{path}");
        }
        std::os::unix::fs::symlink(directory.path().join("secret/main.tf"), inside.join("link.zip")).unwrap();
        for archive in ["link.zip", "pipe.zip"] {
            assert!(
                read_archive(&modules, &format!("example.com/team/net@v1/{archive}")).is_err(),
                "{archive}"
            );
        }
    }

    #[test]
    fn links_that_lead_in_circles_end() {
        let directory = tempfile::TempDir::new().unwrap();
        let module = directory.path().join("module");
        std::fs::create_dir(&module).unwrap();
        std::fs::write(module.join("main.tf"), "").unwrap();
        for number in 0..30 {
            std::os::unix::fs::symlink(&module, module.join(number.to_string())).unwrap();
        }
        let refused = read(directory.path(), "module").unwrap_err();
        assert!(refused.contains("too large"), "{refused}");
    }
}
