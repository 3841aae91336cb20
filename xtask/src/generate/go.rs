//! Reads just enough of Go: the type declarations of a package, with the tags of their fields.
//!
//! The files are formatted by gofmt, so a declaration begins in the first column and a struct ends with a brace
//! there. Functions, values and whatever else a file holds are passed over.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

/// The types of one package.
#[derive(Default)]
pub struct Package {
    pub types: BTreeMap<String, Declared>,
    /// `const GroupName`
    pub group: Option<String>,
}

pub struct Declared {
    pub shape: Shape,
    /// Comment lines that begin with `+`, right above the declaration
    pub markers: Vec<String>,
    /// The import names of the file it stands in, with the paths they mean
    pub imports: BTreeMap<String, String>,
}

pub enum Shape {
    Struct(Vec<Field>),
    /// `type PodPhase string`
    Named(String),
}

pub struct Field {
    /// The type as written: `*int32`, `[]v1.Container`
    pub ty: String,
    /// Has no name of its own.
    pub embedded: bool,
    tags: String,
}

impl Field {
    /// The value of `key:"value"`.
    pub fn tag(&self, key: &str) -> Option<&str> {
        let (_, rest) = self.tags.split_once(&format!("{key}:\""))?;
        rest.split_once('"').map(|(value, _)| value)
    }
}

impl Package {
    /// All files of a folder that were written by people.
    pub fn read(folder: &Path) -> anyhow::Result<Package> {
        let mut package = Package::default();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
            files.push(entry?.path());
        }
        files.sort();
        for path in files {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let generated = name.contains("generated") || name.ends_with("_test.go");
            if name.ends_with(".go") && !generated {
                let text = std::fs::read_to_string(&path)?;
                package.add(&text).with_context(|| path.display().to_string())?;
            }
        }
        Ok(package)
    }

    fn add(&mut self, text: &str) -> anyhow::Result<()> {
        let imports = imports(text);
        let mut markers = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(comment) = line.strip_prefix("//") {
                markers.extend(comment.trim().strip_prefix('+').map(str::to_owned));
                continue;
            }
            if let Some(value) = line.strip_prefix("const GroupName = ") {
                self.group = Some(value.trim_matches('"').to_owned());
            }
            if let Some((name, rest)) = line.strip_prefix("type ").and_then(|rest| rest.split_once(' ')) {
                let shape = match rest {
                    "struct {" => Shape::Struct(fields(&mut lines)?),
                    "struct{}" => Shape::Struct(Vec::new()),
                    named => Shape::Named(named.trim_start_matches("= ").to_owned()),
                };
                let declared =
                    Declared { shape, markers: std::mem::take(&mut markers), imports: imports.clone() };
                self.types.insert(name.to_owned(), declared);
            }
            // Upstream leaves an empty line between some markers and their type, so only code ends them.
            if !line.is_empty() {
                markers.clear();
            }
        }
        Ok(())
    }
}

/// The lines of a struct up to its closing brace.
fn fields<'a>(lines: &mut impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<Field>> {
    let mut fields = Vec::new();
    for line in lines {
        if line == "}" {
            return Ok(fields);
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let mut parts = line.split('`');
        let (declaration, tags) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let declaration = declaration.split("//").next().unwrap_or_default();
        let words: Vec<&str> = declaration.split_whitespace().collect();
        let (ty, embedded) = match words.as_slice() {
            [ty] => (*ty, true),
            [_, ty] => (*ty, false),
            // Functions and channels, of which no message is made.
            _ => ("func", false),
        };
        fields.push(Field { ty: ty.to_owned(), embedded, tags: tags.to_owned() });
    }
    bail!("a struct does not end")
}

/// Import names to paths, of `import "path"` and of import blocks.
fn imports(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim().trim_start_matches("import ");
        let Some((alias, rest)) = line.split_once('"') else { continue };
        let Some(path) = rest.strip_suffix('"') else { continue };
        let alias = match alias.trim() {
            "" => path.rsplit('/').next().unwrap_or(path),
            alias => alias,
        };
        if alias.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            found.insert(alias.to_owned(), path.to_owned());
        }
    }
    found
}
