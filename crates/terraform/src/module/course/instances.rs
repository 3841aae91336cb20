//! What becomes of one declaration in one instance of its module: resource objects that should be there, or data to be
//! read.

use std::sync::Arc;

use serde_json::Value as Json;

use super::known::{Form, Instance, keys};
use super::{Asked, Opens, Situation, There, Wanted, not_there};
use crate::module::address::Which;
use crate::module::body::{self, Audience};
use crate::module::config::{Resource, Sort};
use crate::module::expression::Scope;
use crate::module::inputs::holds;
use crate::module::problem::Problem;
use crate::module::term::{Entries, Term};
use crate::schema::Schema;
use crate::shape;

/// A declaration, and where it stands.
pub(super) struct Declared<'a> {
    /// What the addresses of its module's instance begin with.
    pub prefix: &'a str,
    /// In its module.
    pub address: &'a str,
    /// Among all modules, without keys.
    pub declaration: &'a str,
    pub resource: &'a Resource,
    /// The provider as the root knows it.
    pub provider: String,
    /// Its configuration is not known as a whole unless something ephemeral is open.
    pub provider_opens: bool,
}

/// What became of it.
pub(super) struct Found {
    /// Addresses that stay; none while it is not known which there should be.
    pub staying: Option<Vec<String>>,
    pub wanted: Vec<Wanted>,
    pub asked: Vec<Asked>,
    pub settled: Vec<String>,
    pub waiting: Vec<String>,
    /// Of what is waited for, what will not come by itself.
    pub failed: Option<String>,
    pub value: Result<Term, Problem>,
}

impl Found {
    pub fn pending(staying: Option<Vec<String>>, why: String) -> Found {
        Found {
            staying,
            wanted: Vec::new(),
            asked: Vec::new(),
            settled: Vec::new(),
            waiting: vec![why.clone()],
            failed: None,
            value: Err(Problem::Pending(why)),
        }
    }
}

impl Declared<'_> {
    fn placed(&self, problem: Problem) -> Problem {
        match problem {
            Problem::Wrong { place: None, message } => {
                Problem::Wrong { place: Some(self.resource.place.clone()), message }
            }
            other => other,
        }
    }

    fn own(&self, which: &Which) -> String {
        format!("{}{}{which}", self.prefix, self.address)
    }

    /// `before` says why it has to wait, whatever its arguments are.
    pub fn find(
        &self,
        situation: &Situation<'_>,
        known: &Instance<'_>,
        before: Option<String>,
    ) -> Result<Found, Problem> {
        let scope = Scope::new(&self.resource.file, known, situation.budget);
        let whole = format!("{}{}", self.prefix, self.address);
        let keyed = match keys(&scope, &self.resource.repetition).map_err(|problem| self.placed(problem)) {
            Err(Problem::Pending(why)) => return Ok(Found::pending(None, waits(&whole, &why))),
            found => found?,
        };
        let staying: Vec<String> = keyed.iter().map(|(which, _)| self.own(which)).collect();
        if let Some(why) = before {
            return Ok(Found::pending(Some(staying), waits(&whole, &why)));
        }
        let type_name = &self.resource.type_name;
        let schema = situation.schemas.resource(self.resource.sort, &self.provider, type_name);
        let schema = schema.map_err(|problem| self.placed(problem))?;
        let mut found = Found { waiting: Vec::new(), ..Found::pending(Some(staying), String::new()) };
        let mut values = Vec::new();
        for (which, bound) in keyed {
            let scope = scope.with(bound);
            let own = self.own(&which);
            let judged = self
                .judge(situation, &scope, &schema, own.clone(), &mut found)
                .and_then(|state| match state {
                    Some(state) => self.postconditions(&scope, state).map(Some),
                    None => Ok(None),
                })
                .map_err(|problem| self.placed(problem));
            match judged {
                Ok(Some(state)) => {
                    values.push((which, state));
                    found.settled.push(own);
                }
                Ok(None) => {}
                Err(Problem::Pending(why)) => found.waiting.push(waits(&own, &why)),
                Err(problem) => return Err(problem),
            }
        }
        found.value = match found.waiting.first() {
            Some(why) => Err(Problem::Pending(why.clone())),
            None => Ok(Form::of(&self.resource.repetition).together(values)),
        };
        Ok(found)
    }

    /// The state of an instance, if it is there and as it should be.
    fn judge(
        &self,
        situation: &Situation<'_>,
        scope: &Scope<'_>,
        schema: &Arc<Schema>,
        own: String,
        found: &mut Found,
    ) -> Result<Option<Term>, Problem> {
        self.resource.preconditions.iter().try_for_each(|check| holds(check, scope))?;
        match self.resource.sort {
            Sort::Data => return self.read(situation, scope, schema, own, found, Audience::Provider),
            Sort::Ephemeral if situation.open => {
                let opened = self.read(situation, scope, schema, own, found, Audience::Passing)?;
                return Ok(opened.map(Term::secret));
            }
            Sort::Ephemeral => {
                // Looked at all the same, for what is wrong or is not there yet.
                body::value(scope, &self.resource.body, &schema.block, Audience::Passing)?;
                return Ok(Some(Term::Ephemeral));
            }
            Sort::Managed => {}
        }
        let arguments = body::value(scope, &self.resource.body, &schema.block, Audience::Everybody)?;
        let opens = Opens { arguments: arguments.opens, provider: self.provider_opens };
        let arguments = arguments.value;
        let wanted = Wanted {
            address: own.clone(),
            resource: self.declaration.to_owned(),
            type_name: self.resource.type_name.clone(),
            provider: self.provider.clone(),
            shown: without_nulls(shape::shown(&schema.block, &arguments)),
            secret: shape::secrets(&schema.block, &arguments),
            opens,
            behind: situation.graph.behind.get(self.declaration).cloned().unwrap_or_default(),
            create_before_destroy: self.resource.create_before_destroy,
            prevent_destroy: self.resource.prevent_destroy,
            ignored: self.resource.ignored.clone(),
        };
        let there = situation.there.get(&own).filter(|there| !there.going);
        let there = there.filter(|_| (situation.fits)(&wanted));
        found.wanted.push(wanted);
        match there {
            Some(There { state: Some(state), .. }) => return Ok(Some(state.clone())),
            Some(There { failure: Some(why), .. }) => found.waiting.push(format!("{own}: {why}")),
            _ => found.waiting.push(not_there(&own)),
        }
        Ok(None)
    }

    /// What was read of a data source, or what is to be read; or the same of what is opened.
    fn read(
        &self,
        situation: &Situation<'_>,
        scope: &Scope<'_>,
        schema: &Arc<Schema>,
        own: String,
        found: &mut Found,
        audience: Audience,
    ) -> Result<Option<Term>, Problem> {
        let arguments = body::value(scope, &self.resource.body, &schema.block, audience)?;
        match situation.answers.get(&own).filter(|answer| answer.config == arguments.value) {
            Some(answer) => match &answer.said {
                Ok(value) => {
                    let state = Term::of_state(&schema.block, value);
                    // What was asked with a secret may be told with it.
                    let Term::Object(entries) = state else { return Ok(Some(state)) };
                    let marked = entries.into_iter().map(|(name, term)| {
                        let secret = arguments.secret.contains(&name);
                        (name, term.secret_if(secret))
                    });
                    return Ok(Some(Term::Object(marked.collect::<Entries>())));
                }
                Err(why) => {
                    let why = format!("{own}: {why}");
                    found.failed.get_or_insert_with(|| why.clone());
                    found.waiting.push(why);
                }
            },
            None => {
                found.waiting.push(not_asked(self.resource.sort, &own));
                found.asked.push(Asked {
                    sort: self.resource.sort,
                    address: own,
                    type_name: self.resource.type_name.clone(),
                    provider: self.provider.clone(),
                    config: arguments.value,
                });
            }
        }
        Ok(None)
    }

    fn postconditions(&self, scope: &Scope<'_>, state: Term) -> Result<Term, Problem> {
        if self.resource.postconditions.is_empty() {
            return Ok(state);
        }
        let scope = scope.with([("self".to_owned(), state.clone())]);
        self.resource.postconditions.iter().try_for_each(|check| holds(check, &scope))?;
        Ok(state)
    }
}

fn not_asked(sort: Sort, address: &str) -> String {
    let done = if sort == Sort::Ephemeral { "opened" } else { "read" };
    format!("{address} is not {done} yet")
}

/// Objects hold no nulls: what is null is not there.
fn without_nulls(json: Json) -> Json {
    match json {
        Json::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, json)| !json.is_null());
            Json::Object(kept.map(|(name, json)| (name, without_nulls(json))).collect())
        }
        Json::Array(elements) => elements.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn waits(address: &str, why: &str) -> String {
    format!("{address} waits: {why}")
}
