//! A module with the modules that it calls, each as often as it is called.

use std::collections::BTreeMap;

use super::config::{Before, Call, Module};
use super::problem::Problem;

#[derive(Debug, Default)]
pub struct Tree {
    pub module: Module,
    /// By the names of the calls.
    pub calls: BTreeMap<String, Tree>,
}

/// `aws` of `aws.west`.
pub fn plain(provider: &str) -> &str {
    provider.split('.').next().unwrap_or_default()
}

impl Tree {
    /// The module that a path of calls leads to.
    pub fn at(&self, path: &[String]) -> Option<&Tree> {
        path.iter().try_fold(self, |tree, call| tree.calls.get(call))
    }

    /// The call that leads to a module; none leads to the root.
    pub fn call(&self, path: &[String]) -> Option<&Call> {
        let (last, before) = path.split_last()?;
        self.at(before)?.module.calls.get(last)
    }

    /// Every module, with the path to it.
    pub fn all(&self) -> Vec<(Vec<String>, &Tree)> {
        let mut found = vec![(Vec::new(), self)];
        for (name, tree) in &self.calls {
            let below = tree.all().into_iter().map(|(mut path, tree)| {
                path.insert(0, name.clone());
                (path, tree)
            });
            found.extend(below);
        }
        found
    }

    /// What a provider that a module knows by a name is called in the root.
    pub fn root_provider(&self, path: &[String], name: &str) -> Option<String> {
        let mut name = name.to_owned();
        for length in (1..=path.len()).rev() {
            let call = self.call(&path[..length])?;
            match call.providers.get(&name) {
                Some(outer) => name = outer.clone(),
                // Only those without an alias are known in called modules by themselves.
                None if name.contains('.') => return None,
                None => {}
            }
        }
        Some(name)
    }

    /// What a list of `depends_on` means: addresses of resources in this module, seen from it.
    pub fn meant(&self, before: &[Before], place: &str) -> Result<Vec<(Vec<String>, String)>, Problem> {
        let mut found = Vec::new();
        for one in before {
            let missing = |what: String| Problem::Wrong {
                place: Some(place.to_owned()),
                message: format!("depends_on names {what}, which is not declared"),
            };
            match one {
                Before::Resource(address) => {
                    if !self.module.resources.contains_key(address) {
                        return Err(missing(address.clone()));
                    }
                    found.push((Vec::new(), address.clone()));
                }
                Before::Call(call) => {
                    let tree = self.calls.get(call).ok_or_else(|| missing(format!("module.{call}")))?;
                    for (below, tree) in tree.all() {
                        let path: Vec<String> = [call.clone()].into_iter().chain(below).collect();
                        found.extend(tree.module.resources.keys().map(|one| (path.clone(), one.clone())));
                    }
                }
            }
        }
        Ok(found)
    }
}
