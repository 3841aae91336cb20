//! How the course of a module is found: from what it declares and what is there, asking providers for the rest.

use std::collections::{BTreeMap, BTreeSet};

use objects::{Value as Json, meta};
use provision::Failure;
use serde_json::json;

use super::children::{self, Saying};
use super::config::Sort;
use super::course::{self, Answer, Asked, Course, Returned, Situation, There, Wanted};
use super::expression::Budget;
use super::files::Loader;
use super::graph::Graph;
use super::inputs::{self, Inputs};
use super::moving;
use super::pass::{SECRET_WORD, Stop};
use super::problem::Problem;
use super::providing::{Configurations, Providers};
use super::tree::Tree;
use super::view::{Child, Definition, Spec, View};
use crate::driver::wanted::Secrets;

/// What is known of a module before anybody is asked.
pub(super) struct Ground {
    module: Json,
    spec: Spec,
    definition: Definition,
    pub tree: Tree,
    graph: Graph,
    given: Inputs,
    providers: Providers,
    pub children: BTreeMap<String, Child>,
    pub there: BTreeMap<String, There>,
    pub secrets: Secrets,
}

/// A course, and what providers said on the way to it.
pub(super) struct Found {
    pub course: Course,
    pub said: Said,
}

#[derive(Clone, Default)]
pub(super) struct Said {
    answers: BTreeMap<String, Answer>,
    returned: Returned,
}

impl Ground {
    pub fn configurations(&self) -> Configurations<'_> {
        Configurations {
            module: &self.module,
            spec: &self.spec,
            definition: &self.definition,
            root: &self.tree.module,
        }
    }

    /// What the module says of the object of an instance.
    pub fn saying<'a>(&'a self, wanted: &'a Wanted) -> Saying<'a> {
        let module = &self.module;
        let name = match self.children.get(&wanted.address) {
            Some(child) => meta::name(&child.object).to_owned(),
            None => {
                let taken = self.children.values().map(|child| meta::name(&child.object));
                children::new_name(meta::name(module), &wanted.address, &taken.collect())
            }
        };
        let provider = self.providers.name(&wanted.provider, &wanted.type_name);
        let configuration = self.configurations().secret(&wanted.provider);
        Saying { module, name, wanted, provider, configuration }
    }

    /// Whether the object of an instance is as it should be.
    fn fits(&self, wanted: &Wanted) -> bool {
        let child = self.children.get(&wanted.address);
        child.is_some_and(|child| child.input == wanted.secret && self.saying(wanted).fits(&child.object))
    }
}

impl View<'_> {
    pub(super) async fn ground(&self) -> Result<Ground, Stop> {
        let wrong = |error: serde_json::Error| Failure::terminal(format!("spec: {error}"));
        let spec: Spec = serde_json::from_value(self.object["spec"].clone()).map_err(wrong)?;
        let definition = self.definition(&spec).await?;
        let secrets = Secrets::read(self.reader, &self.object, SECRET_WORD).await?;
        self.validate(&definition, &secrets)?;
        let caller = self.engine.driver().caller(self.reader.control_plane());
        let loader = Loader {
            reader: self.reader,
            namespace: self.namespace(),
            directory: self.directory,
            archives: self.archives,
            caller: &caller,
            isolation: self.engine.driver().pool().isolation(),
            credentials: Default::default(),
        };
        let tree = loader.load(&definition.module_ref).await?;
        let graph = Graph::of(&tree)?;
        let shown = self.object.pointer("/spec/resource/input").cloned().unwrap_or_else(|| json!({}));
        let given = inputs::inputs(&tree.module, &shown, secrets.input.as_ref(), &Budget::default())?;
        let module = self.object.clone();
        let configurations =
            Configurations { module: &module, spec: &spec, definition: &definition, root: &tree.module };
        let providers = self.providers(&tree, &graph, &configurations)?;
        let children = moving::settled(&tree, self.children().await?);
        let there = self.there(&children, &providers).await?;
        Ok(Ground { module, spec, definition, tree, graph, given, providers, children, there, secrets })
    }

    /// What is to become of the module. What is ephemeral stays closed and is not known, unless data can only be read
    /// with it.
    pub(super) async fn find(&self, ground: &Ground) -> Result<Found, Stop> {
        let (mut said, mut settled) = (Said::default(), BTreeSet::new());
        // What is read, or made by a function, may say what else is to be.
        loop {
            let course = said.course(ground, &|wanted| ground.fits(wanted), false)?;
            if course.asked.is_empty() && course.calls.is_empty() {
                return Ok(Found { course, said });
            }
            settled.clone_from(&course.settled);
            self.call_all(ground, &course, &mut said).await?;
            let Course { asked, opening, providers, .. } = course;
            let (with_open, plain): (Vec<_>, Vec<_>) =
                asked.into_iter().partition(|asked| opening.contains(&asked.provider));
            self.ask_all(ground, &plain, &providers, &mut said).await?;
            if with_open.is_empty() {
                continue;
            }
            let opened = self.open(ground, said.clone(), &settled).await?;
            let (can, cannot): (Vec<_>, Vec<_>) =
                with_open.into_iter().partition(|asked| opened.providers.contains_key(&asked.provider));
            self.ask_all(ground, &can, &opened.providers, &mut said).await?;
            for asked in cannot {
                said.answers.insert(asked.address, Answer { config: asked.config, said: Err(opened.why()) });
            }
        }
    }

    /// The course while what is ephemeral is open. Of the module's resources those that are settled have values.
    pub(super) async fn open(
        &self,
        ground: &Ground,
        mut said: Said,
        settled: &BTreeSet<String>,
    ) -> Result<Course, Stop> {
        loop {
            let course = said.course(ground, &|wanted| settled.contains(&wanted.address), true)?;
            let asked = course.asked.iter().filter(|asked| asked.sort == Sort::Ephemeral);
            let asked: Vec<Asked> = asked.cloned().collect();
            if asked.is_empty() && course.calls.is_empty() {
                return Ok(course);
            }
            self.call_all(ground, &course, &mut said).await?;
            self.ask_all(ground, &asked, &course.providers, &mut said).await?;
        }
    }

    async fn call_all(&self, ground: &Ground, course: &Course, said: &mut Said) -> Result<(), Stop> {
        for calling in &course.calls {
            let made = self.call(calling, &ground.providers, &ground.secrets).await?;
            said.returned.insert(calling.clone(), made);
        }
        Ok(())
    }

    /// `made` are the configurations of providers that the module makes.
    async fn ask_all(
        &self,
        ground: &Ground,
        asked: &[Asked],
        made: &BTreeMap<String, Json>,
        said: &mut Said,
    ) -> Result<(), Stop> {
        let configurations = ground.configurations();
        for asked in asked {
            let config =
                self.configuration(&configurations, &asked.provider, made.get(&asked.provider)).await?;
            let answer = self.ask(asked, &config, &ground.providers, &ground.secrets).await?;
            said.answers.insert(asked.address.clone(), answer);
        }
        Ok(())
    }
}

impl Said {
    fn course(&self, ground: &Ground, fits: &dyn Fn(&Wanted) -> bool, open: bool) -> Result<Course, Problem> {
        course::course(&Situation {
            tree: &ground.tree,
            graph: &ground.graph,
            inputs: &ground.given,
            schemas: &ground.providers,
            there: &ground.there,
            answers: &self.answers,
            returned: &self.returned,
            fits,
            open,
            budget: &Budget::default(),
        })
    }
}
