//! One look at one module: what it says, what is there, and what is done about it.

use std::collections::BTreeMap;
use std::time::Duration;

use objects::{Value as Json, meta};
use provision::Failure;
use provision::dialect::Verdict;
use runtime::Error;
use serde_json::json;

use super::children::{self, SECRET_KEY};
use super::course::{self, Course, There};
use super::finding::Ground;
use super::kinds::FINALIZER;
use super::moving;
use super::planning::Overlay;
use super::problem::Problem;
use super::view::{Child, View};
use super::writing::Write;
use crate::backend::file::Instance;
use crate::driver::wanted::Secrets;

/// Woken when something goes; looked at all the same.
const LEAVING: Duration = Duration::from_secs(30);
/// Of the Secret with what is to be taken over.
pub(super) const IMPORT_KEY: &str = "instance";
/// Named in the Secret that is made for outputs, where Kubeform names a provider.
pub(super) const SECRET_WORD: &str = "module";

/// Why a look ended early.
pub enum Stop {
    /// To be told on the object.
    Failed(Failure),
    /// To be tried again, with nothing to tell.
    Unable(Error),
}

impl Stop {
    /// In words, for those who tell it on another object or on none.
    pub fn told(self) -> Failure {
        match self {
            Stop::Failed(failure) => failure,
            Stop::Unable(error) => Failure::recoverable(error.to_string()),
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Unable(error)
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Stop {
        Stop::Failed(Failure::terminal(problem.to_string()))
    }
}

pub enum Outcome {
    Told(Verdict),
    /// There is nothing left to tell it on.
    Gone,
}

pub struct Pass<'a> {
    pub view: View<'a>,
    pub client: &'a kube::Client,
    /// While only a plan is asked for: what would be written is kept there.
    pub over: Option<&'a Overlay<'a>>,
    /// What is told of its resources.
    pub resources: Option<Json>,
}

impl Pass<'_> {
    /// Everything that the module declares is made so, as far as it can be by now.
    pub async fn run(&mut self) -> Result<Outcome, Stop> {
        let Foreseen { course, children, there, secrets, left, steps } = self.foresee().await?;
        self.mark().await?;
        for Step { address, name, secret, imports, change } in steps {
            if let Some(import) = left.get(&address).filter(|_| imports) {
                let owner = crate::driver::owner(&self.view.object, false);
                self.keep_secret(&children::import_name(&name), IMPORT_KEY, import, owner).await?;
            }
            if let Some((secret, owner)) = secret {
                let secret_name = children::secret_name(&name);
                self.keep_secret(&secret_name, SECRET_KEY, &secret, owner).await?;
            }
            self.write(&name, change).await?;
        }
        self.take_away(&children, &course.going).await?;
        self.describe(&children);
        if course.waiting.is_empty() && !left.is_empty() {
            self.taken_over(&left, &course, &children).await?;
        }
        self.conclude(course, &there, &secrets).await
    }

    /// What is to be done, without doing any of it.
    pub(super) async fn foresee(&self) -> Result<Foreseen, Stop> {
        let ground = self.view.ground().await?;
        let left = moving::settled(&ground.tree, self.view.left_behind().await?);
        let found = self.view.find(&ground).await?;
        self.configure(&ground, &found.course.providers).await?;
        let mut steps = Vec::new();
        for wanted in &found.course.wanted {
            let saying = ground.saying(wanted);
            let known = ground.children.get(&wanted.address);
            let child = known.filter(|child| !meta::is_deleting(&child.object));
            let kept = child.is_some_and(|child| child.input == wanted.secret && child.owns_secret);
            let owner = child.map_or(&self.view.object, |child| &child.object);
            let owner = crate::driver::owner(owner, false);
            let secret = wanted.secret.clone().filter(|_| !kept).map(|secret| (secret, owner));
            let change = match child {
                None => Some(Write::Create(saying.created(left.contains_key(&wanted.address)))),
                Some(child) => saying.patch(&child.object).map(Write::Patch),
            };
            // What still goes by this name has to be gone first.
            let change = change.filter(|_| child.is_some() || known.is_none());
            let (address, imports) = (wanted.address.clone(), child.is_none());
            steps.push(Step { address, name: saying.name, secret, imports, change });
        }
        let Ground { children, there, secrets, .. } = ground;
        Ok(Foreseen { course: found.course, children, there, secrets, left, steps })
    }

    /// All of it is objects now; nothing of the old state is needed any more, unless something is only there.
    async fn taken_over(
        &mut self,
        left: &BTreeMap<String, Instance>,
        course: &Course,
        children: &BTreeMap<String, Child>,
    ) -> Result<(), Stop> {
        let known = |address: &String| course.wanted.iter().any(|wanted| wanted.address == *address);
        if let Some(other) = left.keys().find(|address| !known(address)) {
            let message = format!(
                "{other} was made by Kubeform, and the module does not declare it; remove spec.state to leave it alone"
            );
            return Err(Failure::recoverable(message).at("spec.state").into());
        }
        for child in children.values() {
            self.forget_secret(&children::import_name(meta::name(&child.object))).await?;
        }
        self.patch_module(&json!({"spec": {"state": null}})).await
    }

    /// What is as it should be is told with outputs; what failed is told before what only waits.
    async fn conclude(
        &mut self,
        course: Course,
        there: &BTreeMap<String, There>,
        secrets: &Secrets,
    ) -> Result<Outcome, Stop> {
        let Some(first) = course.waiting.first() else {
            self.give(course, secrets).await?;
            return Ok(Outcome::Told(Verdict::Synced));
        };
        let mut failed =
            there.iter().filter_map(|(address, one)| Some(format!("{address}: {}", one.failure.as_ref()?)));
        let verdict = match failed.next().or(course.failed) {
            Some(why) => Verdict::Failed(Failure::recoverable(why)),
            None => Verdict::NotSynced { message: first.clone(), after: None },
        };
        Ok(Outcome::Told(verdict))
    }

    /// Everything goes, in the reverse order of what stands on what.
    pub async fn leave(&mut self) -> Result<Outcome, Stop> {
        if !meta::finalizers(&self.view.object).any(|one| one == FINALIZER) {
            return Ok(Outcome::Gone);
        }
        let children = self.view.children().await?;
        let sealed = self.view.object.pointer("/spec/state").and_then(Json::as_str).unwrap_or_default();
        if children.is_empty() && !sealed.is_empty() {
            let message = "there are resources that Kubeform made and that were not taken over yet; remove \
                spec.state to leave them alone";
            return Err(Failure::recoverable(message).at("spec.state").into());
        }
        if children.is_empty() {
            let left: Vec<&str> =
                meta::finalizers(&self.view.object).filter(|one| *one != FINALIZER).collect();
            let patch = json!({"metadata": {
                "resourceVersion": meta::resource_version(&self.view.object), "finalizers": left,
            }});
            self.patch_module(&patch).await?;
            return Ok(Outcome::Gone);
        }
        let there: BTreeMap<String, There> = children
            .iter()
            .map(|(address, child)| {
                (address.clone(), children::there(address, &child.object, None, &Secrets::default()))
            })
            .collect();
        self.take_away(&children, &course::departure(&there)).await?;
        self.describe(&children);
        let failed = there.iter().find_map(|(address, one)| Some((address, one.failure.as_ref()?)));
        Ok(Outcome::Told(match failed {
            Some((address, why)) => Verdict::Failed(Failure::recoverable(format!("{address}: {why}"))),
            None => {
                let message = format!("{} resources are not gone yet", children.len());
                Verdict::Deleting { message, after: LEAVING }
            }
        }))
    }

    /// Nothing is done with the resources either.
    pub async fn pause(&mut self) -> Result<Outcome, Stop> {
        for child in self.view.children().await?.values() {
            let mut annotations = children::passed(&self.view.object);
            annotations.retain(|name, value| meta::annotation(&child.object, name) != value.as_str());
            if !annotations.is_empty() {
                let patch = json!({"metadata": {"annotations": annotations}});
                self.write(meta::name(&child.object), Some(Write::Patch(patch))).await?;
            }
        }
        Ok(Outcome::Told(Verdict::Paused))
    }

    fn describe(&mut self, children: &BTreeMap<String, Child>) {
        let line = |(address, child): (&String, &Child)| {
            let phase = child.object.pointer("/status/phase").cloned().unwrap_or_default();
            json!({"address": address, "name": meta::name(&child.object), "phase": phase})
        };
        self.resources = Some(children.iter().map(line).collect());
    }
}

/// What is to be done about a module, before anything of it is done.
pub(super) struct Foreseen {
    pub course: Course,
    pub children: BTreeMap<String, Child>,
    pub there: BTreeMap<String, There>,
    pub secrets: Secrets,
    /// What Kubeform's controller left.
    pub left: BTreeMap<String, Instance>,
    pub steps: Vec<Step>,
}

/// What is done about one instance.
pub(super) struct Step {
    pub address: String,
    /// Of its object.
    pub name: String,
    /// What goes into its Secret, and who owns that.
    pub secret: Option<(Json, Json)>,
    /// It may be there already, if it was left by others.
    pub imports: bool,
    pub change: Option<Write>,
}
