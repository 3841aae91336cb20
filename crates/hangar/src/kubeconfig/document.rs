//! One kubeconfig file. What we do not know in it stays as it is.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

/// The three lists of a kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Clusters,
    Users,
    Contexts,
}

impl List {
    const ALL: [List; 3] = [List::Clusters, List::Users, List::Contexts];

    fn key(self) -> &'static str {
        match self {
            List::Clusters => "clusters",
            List::Users => "users",
            List::Contexts => "contexts",
        }
    }

    /// Where an entry has what its name stands for.
    fn body(self) -> &'static str {
        match self {
            List::Clusters => "cluster",
            List::Users => "user",
            List::Contexts => "context",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Document {
    path: PathBuf,
    value: Value,
    /// As it is in the file; none where there is no file.
    on_disk: Option<Value>,
    /// Who wrote JSON gets JSON back.
    is_json: bool,
}

impl Document {
    /// A file that does not exist has nothing in it.
    pub fn read(path: &Path) -> anyhow::Result<Document> {
        match std::fs::read(path) {
            Ok(bytes) => Document::parse(path, &bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Document { path: path.to_owned(), value: json!({}), on_disk: None, is_json: false })
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    pub fn parse(path: &Path, bytes: &[u8]) -> anyhow::Result<Document> {
        let what = || format!("{} is not a kubeconfig", path.display());
        let value = match wire::yaml::decode(bytes).with_context(what)?.value {
            Value::Null => json!({}),
            value => value,
        };
        let Value::Object(map) = &value else { bail!("{}: it is no mapping", what()) };
        for key in List::ALL.map(List::key).into_iter().chain(["extensions"]) {
            if !matches!(map.get(key), None | Some(Value::Null | Value::Array(_))) {
                bail!("{}: {key} is no list", what());
            }
        }
        let is_json = bytes.trim_ascii_start().first() == Some(&b'{');
        Ok(Document { path: path.to_owned(), on_disk: Some(value.clone()), value, is_json })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn exists(&self) -> bool {
        self.on_disk.is_some()
    }

    /// The whole, for what is in no list.
    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn value_mut(&mut self) -> &mut Value {
        &mut self.value
    }

    fn entries(&self, list: List) -> impl Iterator<Item = &Value> {
        self.value[list.key()].as_array().into_iter().flatten()
    }

    pub fn names(&self, list: List) -> impl Iterator<Item = &str> {
        self.entries(list).filter_map(|entry| entry["name"].as_str())
    }

    /// What a name stands for.
    pub fn get(&self, list: List, name: &str) -> Option<&Value> {
        self.entries(list).find(|entry| entry["name"] == name).map(|entry| &entry[list.body()])
    }

    pub fn get_mut(&mut self, list: List, name: &str) -> Option<&mut Value> {
        let entries = self.value.get_mut(list.key())?.as_array_mut()?;
        let entry = entries.iter_mut().find(|entry| entry["name"] == name)?;
        entry.as_object_mut()?.entry(list.body()).or_insert(Value::Null).into()
    }

    pub fn put(&mut self, list: List, name: &str, body: Value) {
        if let Some(found) = self.get_mut(list, name) {
            *found = body;
            return;
        }
        let map = self.map();
        let entries = map.entry(list.key()).or_insert(Value::Null);
        if !entries.is_array() {
            *entries = json!([]);
        }
        if let Value::Array(entries) = entries {
            let mut entry = json!({"name": name});
            entry[list.body()] = body;
            entries.push(entry);
        }
    }

    pub fn remove(&mut self, list: List, name: &str) {
        if let Some(entries) = self.value.get_mut(list.key()).and_then(Value::as_array_mut) {
            entries.retain(|entry| entry["name"] != name);
        }
    }

    pub fn current(&self) -> &str {
        self.value["current-context"].as_str().unwrap_or_default()
    }

    pub fn set_current(&mut self, context: &str) {
        self.map().insert("current-context".to_owned(), context.into());
    }

    fn map(&mut self) -> &mut Map<String, Value> {
        if !self.value.is_object() {
            self.value = json!({});
        }
        match &mut self.value {
            Value::Object(map) => map,
            _ => unreachable!("made an object above"),
        }
    }

    pub fn is_changed(&self) -> bool {
        match &self.on_disk {
            Some(on_disk) => *on_disk != self.value,
            None => self.value.as_object().is_some_and(|map| !map.is_empty()),
        }
    }

    /// A new file is written as JSON, which is YAML too.
    pub fn prefer_json(&mut self) {
        self.is_json |= self.on_disk.is_none();
    }

    /// As it is to be written.
    pub fn encoded(&self) -> String {
        let mut value = self.value.clone();
        if let (None, Value::Object(map)) = (&self.on_disk, &mut value) {
            // What kubectl gives a new file.
            map.entry("apiVersion").or_insert_with(|| "v1".into());
            map.entry("kind").or_insert_with(|| "Config".into());
            map.entry("preferences").or_insert_with(|| json!({}));
        }
        if self.is_json { format!("{value:#}\n") } else { wire::yaml::encode(&value) }
    }

    /// Copies the file as it is on the disk to `FILE.bak`, in the place of an earlier copy.
    pub fn back_up(&self) -> anyhow::Result<()> {
        if self.on_disk.is_none() {
            return Ok(());
        }
        let bytes = std::fs::read(&self.path);
        let bytes = bytes.with_context(|| format!("cannot read {}", self.path.display()))?;
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".bak");
        crate::files::write_private(&self.path.with_file_name(name), &bytes)
    }

    /// Replaces the file in one step. Of a link, what it points at: dotfiles are often links.
    pub fn save(&self) -> anyhow::Result<()> {
        let target = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        crate::files::write_private(&target, self.encoded().as_bytes())
    }
}
