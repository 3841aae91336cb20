//! A driver for the cloud in memory: four kinds, one for each way to find again what was made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use objects::{CompactString, Value, meta};
use serde_json::{Map, json};

use super::cloud::{Cloud, Resource};
use crate::dialect::ack::Ack;
use crate::driver::*;
use crate::facts::{Facts, Reference, SecretField};
use crate::failure::{Class, Failure};
use crate::plan::{Change, Plan};
use crate::{Calls, Intent, LimitKey, OperationType};

/// Made with an idempotency token; found again by it.
pub const TOKENS: &str = "tokens.cloud.test";
/// Made with a token, and only found again by making it again.
pub const REPEATS: &str = "repeats.cloud.test";
/// Found by its unique name.
pub const NAMES: &str = "names.cloud.test";
/// Neither; found by the owner's mark on it.
pub const MARKS: &str = "marks.cloud.test";
pub const KINDS: [(&str, &str); 4] =
    [(TOKENS, "Token"), (REPEATS, "Repeat"), (NAMES, "Name"), (MARKS, "Mark")];

/// Fields of the spec that are fields of the resource.
const FIELDS: [&str; 7] = ["size", "color", "zone", "grumpy", "fixed", "parentID", "protected"];

pub struct TestDriver {
    pub cloud: Arc<Cloud>,
    facts: BTreeMap<&'static str, Arc<Facts>>,
}

pub struct Account(Place);

impl Connection for Account {
    fn limit(&self, facts: &Facts) -> LimitKey {
        LimitKey::of([self.0.account.as_str(), &facts.service])
    }

    fn display(&self) -> String {
        format!("{}/{}", self.0.account, self.0.region)
    }

    fn place(&self) -> Option<&Place> {
        Some(&self.0)
    }
}

impl TestDriver {
    pub fn new(cloud: Arc<Cloud>) -> TestDriver {
        let dialect = Arc::new(Ack::default());
        let facts = KINDS.map(|(resource, kind)| {
            let finalizer = format!("finalizers.cloud.test/{kind}");
            let mut facts = Facts::new(resource, kind, "cloud", finalizer, dialect.clone());
            facts.references = vec![Reference {
                field: "spec.parentID".to_owned(),
                reference: "spec.parentRef".to_owned(),
                kind: TOKENS.into(),
                target: "status.id".to_owned(),
                required: false,
                unready: false,
                later: false,
            }];
            facts.secrets = vec![SecretField { field: "spec.password".to_owned() }];
            facts.before_delete = vec!["spec.protected".to_owned()];
            (resource, Arc::new(facts))
        });
        TestDriver { cloud, facts: facts.into_iter().collect() }
    }
}

type S<'a> = Subject<'a, Account>;

fn has_token(subject: &S<'_>) -> bool {
    subject.facts.resource == TOKENS || subject.facts.resource == REPEATS
}

fn is_named(subject: &S<'_>) -> bool {
    subject.facts.resource == NAMES
}

fn id<'a>(subject: &'a S<'_>) -> Option<&'a str> {
    subject.desired.pointer("/status/id").and_then(Value::as_str).filter(|id| !id.is_empty())
}

fn recorded(id: String) -> Record {
    Record { arn: Some(format!("arn:{id}")), status: json!({"id": id}), ..Record::default() }
}

async fn make<T>(
    calls: &Calls,
    purpose: OperationType,
    operation: &str,
    call: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    calls.make(purpose, operation, call).await
}

#[async_trait]
impl Driver for TestDriver {
    type Connection = Account;
    type Note = String;

    fn name(&self) -> &'static str {
        "test-cloud"
    }

    fn kinds(&self) -> Vec<CompactString> {
        self.facts.keys().map(|kind| CompactString::from(*kind)).collect()
    }

    fn facts(&self, kind: &str) -> Option<Arc<Facts>> {
        self.facts.get(kind).cloned()
    }

    async fn connect(&self, surroundings: &Surroundings<'_>) -> Result<Arc<Account>, Failure> {
        let account = match meta::annotation(surroundings.object, "cloud.test/account") {
            Some("wrong") => return Err(Failure::new(Class::Denied, "InvalidClientTokenId", "who are you?")),
            Some(account) => account,
            None => "1",
        };
        let place = Place { account: account.into(), region: "here".into(), ..Place::default() };
        Ok(Arc::new(Account(place)))
    }

    fn identify(
        &self,
        _: &Facts,
        fields: &BTreeMap<String, String>,
        desired: &mut Value,
    ) -> Result<(), Failure> {
        let id = fields.get("id").ok_or_else(|| Failure::terminal("required field missing: id"))?;
        desired["status"]["id"] = id.as_str().into();
        Ok(())
    }

    async fn observe(&self, subject: &S<'_>) -> Result<Observation<String>, Failure> {
        let by_name = is_named(subject) && id(subject).is_none();
        let key = match (by_name, id(subject)) {
            (true, _) => meta::name(subject.object).to_owned(),
            (false, Some(id)) => id.to_owned(),
            (false, None) => return Ok(Observation::Absent),
        };
        let read = self.cloud.get(&key, by_name);
        let (id, resource) = match make(subject.calls, OperationType::ReadOne, "Get", read).await {
            Ok(found) => found,
            Err(failure) if failure.is_not_found() => return Ok(Observation::Absent),
            Err(failure) => return Err(failure),
        };
        let readiness = match resource.going {
            Some(_) => {
                Readiness::Busy { message: "going".to_owned(), after: Some(Duration::from_millis(20)) }
            }
            None if resource.fields.get("color") == Some(&json!("broken")) => {
                Readiness::Failed { message: "color is broken".to_owned() }
            }
            None => Readiness::Ready,
        };
        Ok(Observation::Present(Box::new(Observed {
            status: json!({"id": id, "note": resource.fields.get("color").unwrap_or(&json!("none"))}),
            spec: Value::Object(resource.fields),
            arn: Some(format!("arn:{id}")),
            readiness,
            note: id,
        })))
    }

    async fn plan(
        &self,
        subject: &S<'_>,
        observed: Option<&Observed<String>>,
    ) -> Result<Plan<String>, Failure> {
        let Some(observed) = observed else {
            return Ok(Plan::new(Vec::new(), vec!["cloud:Create".to_owned()], String::new()));
        };
        let spec = &subject.desired["spec"];
        let field = |name: &&str| {
            let (to, from) = (spec[*name].clone(), observed.spec[*name].clone());
            // What the user leaves open is the cloud's to choose.
            let differs = to != from && !(to.is_null() && *name == "zone");
            let change = Change::new(format!("spec.{name}"), from, to);
            differs.then_some(Change { replaces: *name == "fixed", ..change })
        };
        let mut changes: Vec<Change> = FIELDS.iter().filter_map(field).collect();
        changes.extend(subject.secrets.changed().map(Change::sensitive));
        let calls = changes.iter().map(|change| format!("cloud:Set {}", change.path)).collect();
        Ok(Plan::new(changes, calls, observed.note.clone()))
    }

    async fn create(&self, subject: &S<'_>, intent: &Intent, _: &Plan<String>) -> Result<Made, Failure> {
        let spec = &subject.desired["spec"];
        let given = FIELDS.iter().filter(|name| !spec[**name].is_null());
        let fields: Map<String, Value> =
            given.map(|name| ((*name).to_owned(), spec[*name].clone())).collect();
        let password = subject.secrets.get("spec.password").map(|secret| secret.expose().clone());
        if password.as_deref() == Some("refused") {
            return Err(Failure::terminal("password refused is too weak"));
        }
        let resource = Resource {
            name: meta::name(subject.object).to_owned(),
            token: if has_token(subject) { intent.token.clone() } else { String::new() },
            mark: meta::uid(subject.object).to_owned(),
            fields,
            password: password.unwrap_or_default(),
            going: None,
        };
        let create = self.cloud.create(resource, is_named(subject));
        let id = make(subject.calls, OperationType::Create, "Create", create).await?;
        Ok(recorded(id).into())
    }

    async fn update(
        &self,
        subject: &S<'_>,
        observed: &Observed<String>,
        plan: &Plan<String>,
    ) -> Result<Updated<String>, Failure> {
        for change in &plan.changes {
            let name = change.path.trim_start_matches("spec.");
            let value = match subject.secrets.get(&change.path) {
                Some(secret) => json!(secret.expose()),
                None => change.to.clone(),
            };
            let set = self.cloud.set(&observed.note, name, value);
            make(subject.calls, OperationType::Update, "Set", set).await?;
        }
        Ok(Updated { record: Record::default(), observed: None, after: None })
    }

    async fn delete(&self, subject: &S<'_>, observed: &Observed<String>) -> Result<Deleted, Failure> {
        let delete = self.cloud.delete(&observed.note);
        match make(subject.calls, OperationType::Delete, "Delete", delete).await? {
            true => Ok(Deleted::Gone),
            false => Ok(Deleted::Going(Duration::from_millis(20))),
        }
    }

    async fn recover(&self, subject: &S<'_>, intent: &Intent) -> Result<Recovery, Failure> {
        if id(subject).is_some() && intent.deposed.is_none() {
            return Ok(Recovery::Made(Record::default()));
        }
        if subject.facts.resource == REPEATS {
            return Ok(Recovery::Repeat);
        }
        let (token, mark) = (intent.token.as_str(), meta::uid(subject.object));
        let deposed = intent.deposed.as_ref().and_then(Value::as_str).unwrap_or("");
        let by_token = subject.facts.resource == TOKENS;
        let old = self.cloud.of(meta::name(subject.object)).len() > 1;
        let find = self.cloud.find(|one| match by_token {
            true => one.token == token,
            false => one.mark == mark && (deposed.is_empty() || old),
        });
        Ok(match make(subject.calls, OperationType::ReadMany, "List", find).await? {
            Some(id) => Recovery::Made(recorded(id)),
            None => Recovery::NotMade,
        })
    }

    fn recorded(&self, subject: &S<'_>) -> Option<Observed<String>> {
        let id = id(subject)?.to_owned();
        Some(Observed {
            spec: Value::Null,
            status: json!({"id": id}),
            arn: Some(format!("arn:{id}")),
            readiness: Readiness::Ready,
            note: id,
        })
    }

    fn deposed(&self, subject: &S<'_>) -> Option<Value> {
        Some(json!(id(subject)?)).filter(|_| subject.facts.resource == TOKENS)
    }

    async fn delete_deposed(&self, subject: &S<'_>, deposed: &Value) -> Result<Deleted, Failure> {
        let delete = self.cloud.delete(deposed.as_str().unwrap_or(""));
        make(subject.calls, OperationType::Delete, "Delete", delete).await.map(|_| Deleted::Gone)
    }

    fn forgotten(&self, _: &S<'_>) -> Record {
        Record { status: json!({"id": null}), ..Record::default() }
    }

    fn shown(&self, subject: &S<'_>, observed: &Observed<String>) -> Record {
        match subject.facts.resource == MARKS {
            true => Record { spec: json!({"state": {"size": observed.spec["size"]}}), ..Record::default() },
            false => Record::default(),
        }
    }

    fn late_initialization(&self, _: &S<'_>, observed: &Observed<String>) -> LateInitialization {
        let zone = observed.spec.get("zone");
        LateInitialization {
            spec: zone.map_or(Value::Null, |zone| json!({"zone": zone})),
            missing: zone.is_none().then(|| "spec.zone".to_owned()).into_iter().collect(),
            applies: true,
        }
    }
}
