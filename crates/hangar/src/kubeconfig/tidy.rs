//! Putting right what diagnosis finds, without touching what is somebody else's.

use jiff::Timestamp;
use serde_json::Value;

use super::document::List;
use super::extension;
use super::files::Kubeconfig;

impl Kubeconfig {
    /// Repairs what can be repaired without asking anybody, and says what it did. `gone` are control planes that the
    /// hosting one says are there no more, by their contexts.
    pub fn tidy(&mut self, gone: &[String], now: Timestamp) -> Vec<String> {
        let mut done = Vec::new();
        self.move_old_extension(now, &mut done);
        for name in gone {
            if self.forget(name).is_ok() {
                done.push(format!("removed context {name:?}: its control plane does not exist any more"));
            }
        }
        let of_control_planes = |name: &&str| self.control_plane_of(name).is_some();
        let broken = self.names(List::Contexts).into_iter().filter(of_control_planes);
        let broken: Vec<_> =
            broken.filter_map(|name| Some((name.to_owned(), self.access(name).err()?))).collect();
        for (name, why) in broken {
            let _ = self.forget(&name);
            done.push(format!("removed context {name:?}: {why}"));
        }
        self.settle_hosting(now, &mut done);
        let current = self.current().to_owned();
        if !current.is_empty() && !self.has_context(&current) {
            let hosting = self.hosting().unwrap_or_default();
            self.set_current(&hosting);
            done.push(match hosting.as_str() {
                "" => format!("current context {current:?} does not exist: there is none now"),
                hosting => format!("current context {current:?} does not exist: it is {hosting:?} now"),
            });
        }
        done
    }

    /// What releases before 0.9 stored below `preferences`.
    fn move_old_extension(&mut self, now: Timestamp, done: &mut Vec<String>) {
        let mut hosting = None;
        for whole in self.wholes_mut() {
            let Some(preferences) = whole.get_mut("preferences") else { continue };
            let Some(extension) = extension::named(preferences, extension::NAME_BEFORE) else { continue };
            let name = extension["data"][extension::HOSTING_BEFORE].as_str().map(str::to_owned);
            hosting = hosting.or(name);
            if let Some(extensions) = preferences.get_mut("extensions").and_then(Value::as_array_mut) {
                extensions.retain(|entry| entry["name"] != extension::NAME_BEFORE);
            }
            done.push("removed the extension of a release before 0.9 from preferences".to_owned());
        }
        if let Some(name) = hosting.filter(|_| self.stored_hosting().is_none())
            && self.set_hosting(&name, now).is_ok()
        {
            done.push(format!("stored {name:?} as hosting context"));
        }
    }

    /// One hosting context: the stored one if it can be used, else the only one that says it is.
    fn settle_hosting(&mut self, now: Timestamp, done: &mut Vec<String>) {
        let says_so = |name: &&str| {
            let body = self.get(List::Contexts, name);
            body.is_some_and(|body| extension::get(body, extension::IS_HOSTING) == Some("true"))
        };
        let flagged: Vec<String> =
            self.names(List::Contexts).into_iter().filter(says_so).map(str::to_owned).collect();
        let hosting = match self.hosting() {
            Ok(name) => Some(name),
            Err(_) => flagged.iter().find(|name| flagged.len() == 1 && self.access(name).is_ok()).cloned(),
        };
        let stored = self.stored_hosting().map(str::to_owned);
        match hosting {
            Some(name) => {
                if stored.as_deref() != Some(&name) {
                    done.push(format!("stored {name:?} as hosting context"));
                }
                for other in flagged.iter().filter(|other| **other != name) {
                    done.push(format!(
                        "context {other:?} does not say any more that it is the hosting context"
                    ));
                }
                if !flagged.contains(&name) {
                    done.push(format!("context {name:?} says that it is the hosting context"));
                }
                let _ = self.set_hosting(&name, now);
            }
            None => {
                if let Some(name) = stored {
                    self.unset_hosting();
                    done.push(format!("hosting context {name:?} cannot be used: none is stored now"));
                }
            }
        }
    }
}
