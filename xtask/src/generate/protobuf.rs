//! The protobuf messages of the built-in kinds, from the Go types that upstream's own `.proto` files are made of.
//!
//! The `.proto` files do not say all that is needed to get from the wire to JSON: which structs are inlined, which
//! scalars are pointers (so that a zero on the wire was meant), which fields JSON leaves out when empty. The tags and
//! types of the Go structs say all of it, the field numbers included. One line per field, a message per paragraph:
//!
//! ```text
//! core.v1.ConfigMap v1
//! 1 metadata meta.v1.ObjectMeta
//! 3 binaryData {}bytes
//! 4 immutable *bool
//! ```
//!
//! The head names the message and the `apiVersion` it is a kind of (`*`: of every one). A field has a number, a name
//! (`-` if its members stand inline in the parent; `!` after it if JSON shows it even when it is empty), and a type:
//! `[]` list, `{}` map from strings, `*` pointer, then a scalar, a special form or a message.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};

use super::go::{Declared, Field, Package, Shape};

/// The release of Kubernetes' Go modules: the same as that of the definitions.
const TAG: &str = "v0.36.0";
const MODULES: [&str; 4] = ["api", "apimachinery", "apiextensions-apiserver", "kube-aggregator"];

const DEFINITIONS: &str = "crates/builtins/data/definitions.jsonl";
const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
const META_BETA: &str = "k8s.io/apimachinery/pkg/apis/meta/v1beta1";

/// What the server speaks beside the kinds it serves.
const ALSO: &[(&str, &str)] = &[
    (META, "APIGroup"),
    (META, "APIGroupList"),
    (META, "APIResourceList"),
    (META, "APIVersions"),
    (META, "DeleteOptions"),
    (META, "PartialObjectMetadata"),
    (META, "PartialObjectMetadataList"),
    (META, "Status"),
    (META, "WatchEvent"),
    (META_BETA, "PartialObjectMetadataList"),
    ("k8s.io/api/apidiscovery/v2", "APIGroupDiscoveryList"),
    ("k8s.io/api/apidiscovery/v2beta1", "APIGroupDiscoveryList"),
];

/// Types whose JSON is not that of their fields. The decoder knows them by the names on the right.
const SPECIAL: &[(&str, &str, &str)] = &[
    (META, "Time", "time"),
    (META, "MicroTime", "micro-time"),
    (META, "FieldsV1", "json"),
    ("k8s.io/apimachinery/pkg/runtime", "RawExtension", "json"),
    ("k8s.io/apimachinery/pkg/api/resource", "Quantity", "quantity"),
    ("k8s.io/apimachinery/pkg/util/intstr", "IntOrString", "int-or-string"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSON", "json"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSONSchemaPropsOrArray", "schema-or-list"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSONSchemaPropsOrBool", "schema-or-bool"),
    (
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
        "JSONSchemaPropsOrStringArray",
        "schema-or-names",
    ),
];

const SCALARS: &[(&str, &str)] =
    &[("string", "string"), ("bool", "bool"), ("int32", "int32"), ("int64", "int64"), ("float64", "double")];

/// A type by the path of its package and its own name.
type Name = (String, String);

/// The content of `messages.txt`.
pub fn messages(root: &Path) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    for module in MODULES {
        clone(module, &folder.path().join(module))?;
    }
    let mut reader = Reader { folder: folder.path(), packages: BTreeMap::new(), referred: Vec::new() };
    let mut next = roots(root)?;
    let kinds: BTreeSet<Name> = next.iter().cloned().collect();
    let mut written = BTreeMap::new();
    while let Some(name) = next.pop() {
        if written.contains_key(&short(&name)) {
            continue;
        }
        let is_kind = kinds.contains(&name);
        let text = reader.message(&name, is_kind).with_context(|| format!("{}.{}", name.0, name.1))?;
        written.insert(short(&name), text);
        next.append(&mut reader.referred);
    }
    Ok(written.into_values().collect::<Vec<_>>().join("\n"))
}

fn clone(module: &str, folder: &Path) -> anyhow::Result<()> {
    let url = format!("https://github.com/kubernetes/{module}");
    let arguments =
        ["-c", "advice.detachedHead=false", "clone", "--quiet", "--depth=1", "--branch", TAG, &url];
    let status = Command::new("git").args(arguments).arg(folder).status().context("cannot run git")?;
    ensure!(status.success(), "git clone {url} ended with {status}");
    Ok(())
}

/// The kinds among the committed definitions, and [`ALSO`].
fn roots(root: &Path) -> anyhow::Result<Vec<Name>> {
    let text =
        std::fs::read_to_string(root.join(DEFINITIONS)).with_context(|| format!("no {DEFINITIONS}"))?;
    let mut names: Vec<Name> =
        ALSO.iter().map(|(package, name)| ((*package).to_owned(), (*name).to_owned())).collect();
    for line in text.lines() {
        for (name, schema) in serde_json::from_str::<Map<String, Value>>(line)? {
            if schema.get("x-kubernetes-group-version-kind").is_none() {
                continue;
            }
            let path = name.strip_prefix("io.k8s.").context("a definition of Kubernetes' own")?;
            let (package, kind) = path.rsplit_once('.').context("a definition stands in a package")?;
            names.push((format!("k8s.io/{}", package.replace('.', "/")), kind.to_owned()));
        }
    }
    Ok(names)
}

/// `k8s.io/api/core/v1`, `Pod` to `core.v1.Pod`.
fn short((package, name): &Name) -> String {
    let mut last = package.rsplit('/');
    let (version, group) = (last.next().unwrap_or_default(), last.next().unwrap_or_default());
    format!("{group}.{version}.{name}")
}

struct Reader<'a> {
    folder: &'a Path,
    packages: BTreeMap<String, Package>,
    /// Messages that fields refer to and that are still to be written
    referred: Vec<Name>,
}

impl Reader<'_> {
    fn package(&mut self, path: &str) -> anyhow::Result<&Package> {
        if !self.packages.contains_key(path) {
            let relative =
                path.strip_prefix("k8s.io/").with_context(|| format!("{path} is not Kubernetes'"))?;
            let package = Package::read(&self.folder.join(relative))?;
            self.packages.insert(path.to_owned(), package);
        }
        self.packages.get(path).context("was just read")
    }

    fn declared(&mut self, (package, name): &Name) -> anyhow::Result<&Declared> {
        self.package(package)?.types.get(name).with_context(|| format!("{package} declares no {name}"))
    }

    fn message(&mut self, name: &Name, is_kind: bool) -> anyhow::Result<String> {
        let mut text = short(name);
        if is_kind {
            text.push_str(&format!(" {}", self.api_version(&name.0)?));
        }
        text.push('\n');
        let declared = self.declared(name)?;
        let imports = declared.imports.clone();
        let Shape::Struct(fields) = &declared.shape else { bail!("is no struct") };
        // (number, JSON name, Go type)
        let mut lines: Vec<(u32, String, String)> = Vec::new();
        for field in fields {
            lines.extend(numbered(field)?.map(|(number, json)| (number, json, field.ty.clone())));
        }
        lines.sort();
        for (number, json, go) in lines {
            let ty = self.ty(&name.0, &imports, &go).with_context(|| format!("{json} {go}"))?;
            text.push_str(&format!("{number} {json} {ty}\n"));
        }
        Ok(text)
    }

    /// The `apiVersion` of a package's kinds.
    fn api_version(&mut self, path: &str) -> anyhow::Result<String> {
        if path == META {
            return Ok("*".to_owned());
        }
        let group = self.package(path)?.group.clone().with_context(|| format!("{path} names no group"))?;
        let version = path.rsplit('/').next().unwrap_or_default();
        Ok(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") })
    }

    /// A Go type in the words of the table.
    fn ty(&mut self, package: &str, imports: &BTreeMap<String, String>, go: &str) -> anyhow::Result<String> {
        if go == "[]byte" {
            return Ok("bytes".to_owned());
        }
        if let Some(scalar) = SCALARS.iter().find(|(name, _)| *name == go) {
            return Ok(scalar.1.to_owned());
        }
        if let Some(pointed) = go.strip_prefix('*') {
            let pointed = self.ty(package, imports, pointed)?;
            ensure!(!pointed.starts_with(['*', '[', '{']), "a pointer to a list or a pointer");
            return Ok(format!("*{pointed}"));
        }
        let (prefix, element) = match (go.strip_prefix("[]"), go.strip_prefix("map[")) {
            (Some(element), _) => ("[]", element),
            (_, Some(map)) => {
                let (key, element) = map.split_once(']').context("a map has a key")?;
                ensure!(self.ty(package, imports, key)? == "string", "a map's key is no string");
                ("{}", element)
            }
            _ => return self.named(package, imports, go),
        };
        let element = self.ty(package, imports, element)?;
        ensure!(!element.starts_with(['*', '[', '{']), "a list or a map of {element}");
        Ok(format!("{prefix}{element}"))
    }

    fn named(
        &mut self,
        package: &str,
        imports: &BTreeMap<String, String>,
        go: &str,
    ) -> anyhow::Result<String> {
        let name: Name = match go.split_once('.') {
            None => (package.to_owned(), go.to_owned()),
            Some((alias, name)) => {
                let path = imports.get(alias).with_context(|| format!("{alias} is not imported"))?;
                (path.clone(), name.to_owned())
            }
        };
        if let Some(special) = SPECIAL.iter().find(|(package, ty, _)| name.0 == *package && name.1 == *ty) {
            return Ok(special.2.to_owned());
        }
        let declared = self.declared(&name)?;
        let Shape::Named(underlying) = &declared.shape else {
            self.referred.push(name.clone());
            return Ok(short(&name));
        };
        let (underlying, imports) = (underlying.clone(), declared.imports.clone());
        // A list that can be absent has a message around it; upstream marks these.
        if declared.markers.iter().any(|marker| marker == "protobuf.nullable=true") {
            ensure!(underlying == "[]string", "a nullable list of something else than strings");
            return Ok("strings".to_owned());
        }
        self.ty(&name.0, &imports, &underlying)
    }
}

/// The number of a field and its name in the table; none if it is not part of the message.
fn numbered(field: &Field) -> anyhow::Result<Option<(u32, String)>> {
    let (json, protobuf) = (field.tag("json"), field.tag("protobuf"));
    let Some(protobuf) = protobuf.filter(|tag| *tag != "-") else {
        let left_out = field.ty.ends_with("TypeMeta") || json.is_none_or(|tag| tag == "-");
        ensure!(left_out, "a field {} ({json:?}) without a number", field.ty);
        return Ok(None);
    };
    let number = protobuf.split(',').nth(1).context("a protobuf tag has a number")?.parse()?;
    let json = json.context("a field has a JSON tag")?;
    let mut options = json.split(',');
    let name = options.next().unwrap_or_default();
    let options: Vec<&str> = options.collect();
    if name.is_empty() {
        ensure!(field.embedded, "a field without a JSON name that is not inline");
        return Ok(Some((number, "-".to_owned())));
    }
    let hidden_when_empty = options.contains(&"omitempty") || options.contains(&"omitzero");
    Ok(Some((number, if hidden_when_empty { name.to_owned() } else { format!("{name}!") })))
}
