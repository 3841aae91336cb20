//! The kubeconfig files a command works on, found as kubectl finds them, and what they say together.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::document::{Document, List};
use super::lock::Lock;

/// Which files, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// One file that was asked for by name: it has to be there to be read.
    explicit: bool,
}

impl Files {
    /// `--kubeconfig`, else `$KUBECONFIG`, else `~/.kube/config`.
    pub fn find(flag: Option<&Path>) -> anyhow::Result<Files> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Files::from(flag, variable("KUBECONFIG").as_deref(), variable("HOME").as_deref())
    }

    fn from(flag: Option<&Path>, list: Option<&OsStr>, home: Option<&OsStr>) -> anyhow::Result<Files> {
        if let Some(path) = flag.filter(|path| !path.as_os_str().is_empty()) {
            return Ok(Files { paths: vec![path.to_owned()], explicit: true });
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in list.iter().flat_map(std::env::split_paths) {
            if !path.as_os_str().is_empty() && !paths.contains(&path) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            let home = home.context("$HOME is not set: say which kubeconfig with --kubeconfig")?;
            paths.push(Path::new(home).join(".kube/config"));
        }
        Ok(Files { paths, explicit: false })
    }

    /// One file, whether it exists or not.
    pub fn at(path: &Path) -> Files {
        Files { paths: vec![path.to_owned()], explicit: true }
    }

    /// For a message.
    pub fn shown(&self) -> String {
        self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// What they say; files that do not exist say nothing.
    pub fn load(&self) -> anyhow::Result<Kubeconfig> {
        let documents = self.paths.iter().map(|path| Document::read(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(Kubeconfig::of(documents))
    }

    /// The same for commands that make no sense without a file.
    pub fn load_existing(&self) -> anyhow::Result<Kubeconfig> {
        self.require()?;
        self.load()
    }

    fn require(&self) -> anyhow::Result<()> {
        match self.missing() {
            Some(path) => bail!("error loading kubeconfig: {} does not exist", path.display()),
            None => Ok(()),
        }
    }

    /// The file that was asked for by name, if it is not there.
    pub fn missing(&self) -> Option<&Path> {
        self.paths.first().filter(|path| self.explicit && !path.exists()).map(PathBuf::as_path)
    }

    /// Changes them while nobody else does. All or nothing of the change is written; entries others wrote meanwhile
    /// are seen by it, since the files are read anew.
    pub fn change<T>(&self, change: impl FnOnce(&mut Kubeconfig) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut sorted: Vec<&PathBuf> = self.paths.iter().collect();
        sorted.sort();
        let _locks = sorted.into_iter().map(|path| Lock::take(path)).collect::<Result<Vec<_>, _>>()?;
        let mut kubeconfig = self.load()?;
        let changed = change(&mut kubeconfig)?;
        for document in kubeconfig.changed() {
            document.save()?;
        }
        Ok(changed)
    }

    /// Changes them like [`Files::change`], and keeps a copy of each changed file beside it. If there is nothing to
    /// change, nothing is written and no lock is taken, so that a read-only disk is no obstacle. The change is called
    /// twice: without the lock and with it. Returns whether something was changed.
    pub fn settle(&self, change: impl Fn(&mut Kubeconfig) -> anyhow::Result<()>) -> anyhow::Result<bool> {
        let mut seen = self.load()?;
        change(&mut seen)?;
        if seen.changed().next().is_none() {
            return Ok(false);
        }
        self.change(|kubeconfig| {
            change(kubeconfig)?;
            kubeconfig.changed().try_for_each(Document::back_up)
        })?;
        Ok(true)
    }

    pub fn change_existing<T>(
        &self,
        change: impl FnOnce(&mut Kubeconfig) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.require()?;
        self.change(change)
    }
}

/// Several files as one: the first that has an entry is right about it.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    documents: Vec<Document>,
    /// Where new entries go.
    default: usize,
}

impl Kubeconfig {
    pub(super) fn of(documents: Vec<Document>) -> Kubeconfig {
        let first = documents.iter().position(Document::exists);
        let default = first.unwrap_or_else(|| documents.len().saturating_sub(1));
        Kubeconfig { documents, default }
    }

    /// One that is in no file.
    pub fn parse(text: &[u8]) -> anyhow::Result<Kubeconfig> {
        Ok(Kubeconfig::of(vec![Document::parse(Path::new("it"), text)?]))
    }

    fn changed(&self) -> impl Iterator<Item = &Document> {
        self.documents.iter().filter(|document| document.is_changed())
    }

    /// A file that is made now is written as JSON.
    pub fn prefer_json(&mut self) {
        self.documents.iter_mut().for_each(Document::prefer_json);
    }

    /// Every name of a list once, sorted.
    pub fn names(&self, list: List) -> Vec<&str> {
        let mut names: Vec<&str> = self.documents.iter().flat_map(|document| document.names(list)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub fn get(&self, list: List, name: &str) -> Option<&Value> {
        self.documents.iter().find_map(|document| document.get(list, name))
    }

    pub fn get_mut(&mut self, list: List, name: &str) -> Option<&mut Value> {
        self.documents.iter_mut().find_map(|document| document.get_mut(list, name))
    }

    /// The directory that an entry's relative paths start from.
    pub fn dir_of(&self, list: List, name: &str) -> Option<&Path> {
        let document = self.documents.iter().find(|document| document.get(list, name).is_some())?;
        document.path().parent()
    }

    pub fn put(&mut self, list: List, name: &str, body: Value) {
        let at = self.documents.iter().position(|document| document.get(list, name).is_some());
        if let Some(document) = self.documents.get_mut(at.unwrap_or(self.default)) {
            document.put(list, name, body);
        }
    }

    /// Puts an entry beside another one, in its file.
    pub fn put_beside(&mut self, list: List, neighbour: &str, name: &str, body: Value) {
        let at = self.documents.iter().position(|document| document.get(list, neighbour).is_some());
        if let Some(document) = self.documents.get_mut(at.unwrap_or(self.default)) {
            document.put(list, name, body);
        }
    }

    /// From all files, lest one that was hidden behind it appears.
    pub fn remove(&mut self, list: List, name: &str) {
        for document in &mut self.documents {
            document.remove(list, name);
        }
    }

    pub fn current(&self) -> &str {
        self.documents.iter().map(Document::current).find(|current| !current.is_empty()).unwrap_or_default()
    }

    pub fn set_current(&mut self, context: &str) {
        if self.current() == context {
            return;
        }
        if context.is_empty() {
            for document in self.documents.iter_mut().filter(|document| !document.current().is_empty()) {
                document.set_current("");
            }
        } else if let Some(document) = self.documents.get_mut(self.default) {
            document.set_current(context);
        }
    }

    /// Whole files, for what is in no list.
    pub fn wholes(&self) -> impl Iterator<Item = &Value> {
        self.documents.iter().map(Document::value)
    }

    pub fn wholes_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.documents.iter_mut().map(Document::value_mut)
    }

    /// The file that has something, or the one for what is new.
    pub fn whole_with(&mut self, has: impl Fn(&Value) -> bool) -> Option<&mut Value> {
        let at = self.documents.iter().position(|document| has(document.value()));
        self.documents.get_mut(at.unwrap_or(self.default)).map(Document::value_mut)
    }

    #[cfg(test)]
    pub fn encoded(&self) -> Vec<String> {
        self.documents.iter().map(Document::encoded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flag: Option<&str>, list: Option<&str>, home: Option<&str>, expected: &[&str]) {
        let found = Files::from(flag.map(Path::new), list.map(OsStr::new), home.map(OsStr::new)).unwrap();
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(found.paths, expected);
    }

    #[test]
    fn files_are_found_as_kubectl_finds_them() {
        check(Some("/a"), Some("/b:/c"), Some("/h"), &["/a"]);
        check(None, Some("/b:/c"), Some("/h"), &["/b", "/c"]);
        check(None, Some("/b::/b:/c"), None, &["/b", "/c"]);
        check(None, Some(":"), Some("/h"), &["/h/.kube/config"]);
        check(None, None, Some("/h"), &["/h/.kube/config"]);
        assert!(Files::from(None, None, None).is_err());
    }
}
