//! Where the files of a module come from: a ConfigMap, or a directory below the one that the operator allows.
//!
//! Git is not spoken: a module that an object names by its repository is looked for below the same directory, under
//! `HOST/OWNER/REPOSITORY` or `HOST/OWNER/REPOSITORY@REFERENCE`, where somebody has put it.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use objects::Value as Json;
use provision::{Failure, Reader};
use serde::Deserialize;

use super::problem::File;

const MOST_FILES: usize = 100;
const MOST_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModuleRef {
    pub git: Option<Git>,
    pub directory: Option<String>,
    pub config_map: Option<Place>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Git {
    pub r#ref: String,
    pub check_out: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Place {
    pub name: String,
    /// That of the Module, if none is named.
    pub namespace: Option<String>,
}

/// The `.tf` files, by name.
pub async fn load(
    reader: &Reader<'_>,
    namespace: &str,
    directory: Option<&Path>,
    from: &ModuleRef,
) -> Result<Vec<Arc<File>>, Failure> {
    let files = match from {
        ModuleRef { config_map: Some(place), git: None, directory: None } => {
            let namespace = place.namespace.as_deref().filter(|own| !own.is_empty()).unwrap_or(namespace);
            of_config_map(reader, namespace, &place.name).await?
        }
        ModuleRef { config_map: None, git: None, directory: Some(path) } => {
            of_directory(directory, path.clone()).await?
        }
        ModuleRef { config_map: None, git: Some(git), directory: None } => {
            let plain = git.r#ref.clone();
            let reference = git.check_out.as_ref().filter(|out| !out.is_empty());
            let path = reference.map_or(plain.clone(), |reference| format!("{plain}@{reference}"));
            of_directory(directory, path).await?
        }
        _ => return Err(wrong("one of git, directory and configMap is required")),
    };
    if let Some(json) = files.iter().find(|file| file.name.ends_with(".tf.json")) {
        return Err(wrong(format!("{}: modules in JSON are not supported", json.name)));
    }
    if files.is_empty() {
        return Err(wrong("the module has no .tf files"));
    }
    Ok(files.into_iter().map(Arc::new).collect())
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::recoverable(message).at("spec.moduleRef")
}

fn is_module_file(name: &str) -> bool {
    name.ends_with(".tf") || name.ends_with(".tf.json")
}

async fn of_config_map(reader: &Reader<'_>, namespace: &str, name: &str) -> Result<Vec<File>, Failure> {
    let object = reader.get("configmaps", namespace, name).await?;
    let object = object.ok_or_else(|| wrong(format!("ConfigMap {namespace}/{name} does not exist")))?;
    let data = object.get("data").and_then(Json::as_object).into_iter().flatten();
    let files = data
        .filter(|(name, _)| is_module_file(name))
        .filter_map(|(name, text)| Some(File { name: name.clone(), text: text.as_str()?.to_owned() }));
    Ok(files.collect())
}

async fn of_directory(directory: Option<&Path>, below: String) -> Result<Vec<File>, Failure> {
    let Some(directory) = directory.map(Path::to_path_buf) else {
        return Err(wrong("modules of this server are not served: it has no --terraform-module-dir"));
    };
    let read = tokio::task::spawn_blocking(move || read(&directory, &below));
    read.await.map_err(|_| wrong("the module cannot be read"))?.map_err(wrong)
}

/// Only what is really below the directory: no way leads out of it.
fn read(directory: &Path, path: &str) -> Result<Vec<File>, String> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let missing = || format!("there is no module {path:?} in the directory of modules");
    if path.is_empty() || !Path::new(path).components().all(plain) {
        return Err(missing());
    }
    let root = directory.canonicalize().map_err(|_| missing())?;
    let inside = |found: PathBuf| found.canonicalize().ok().filter(|real| real.starts_with(&root));
    let place = inside(root.join(path)).ok_or_else(missing)?;
    let mut files = Vec::new();
    let mut left = MOST_BYTES;
    for entry in std::fs::read_dir(place).map_err(|_| missing())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_module_file(&name) {
            continue;
        }
        let Some(real) = inside(entry.path()) else { continue };
        let size = real.metadata().map(|about| about.len()).unwrap_or(u64::MAX);
        left = left.checked_sub(size).ok_or_else(|| format!("the module {path:?} is too large"))?;
        let text = std::fs::read_to_string(real).map_err(|_| format!("{name} cannot be read"))?;
        files.push(File { name, text });
        if files.len() > MOST_FILES {
            return Err(format!("the module {path:?} has too many files"));
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
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
        std::fs::write(inside.join("notes.txt"), "no").unwrap();
        std::os::unix::fs::symlink(directory.path().join("secret/main.tf"), inside.join("c.tf")).unwrap();
        std::os::unix::fs::symlink(directory.path().join("secret"), directory.path().join("modules/way"))
            .unwrap();
        let modules = directory.path().join("modules");
        let names = |path: &str| {
            let files = read(&modules, path)?;
            Ok::<_, String>(files.into_iter().map(|file| file.name).collect::<Vec<_>>())
        };
        assert_eq!(names("example.com/team/net@v1"), Ok(vec!["a.tf".to_owned(), "b.tf".to_owned()]));
        let absolute = directory.path().join("secret").display().to_string();
        for path in ["", ".", "..", "../secret", "way", "example.com/team/net", absolute.as_str()] {
            assert!(names(path).is_err(), "{path}");
        }
    }
}
