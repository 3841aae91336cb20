//! What happens to one object of a kind, from nothing to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws::client::{CallError, Client, Http};
use aws::credentials::Provider;
use aws::endpoint::Settings;
use aws::kinds::calls::{self, Planned};
use aws::kinds::compare::{FieldChange, compare, pruned};

use aws::kinds::send::Scope;
use aws::kinds::{self, KindFacts};
use serde_json::{Map, Value, json};

use crate::reading::{Found, Reading};

/// Passes in which an object must come to rest.
const MOST_PASSES: usize = 8;
const REGION: &str = "eu-west-1";

/// What is tried with a kind.
pub struct Story {
    pub service: &'static str,
    pub kind: &'static str,
    /// `$name` is a name of its own; `$needs.N.path` is a value of the Nth object that is made before.
    pub spec: Value,
    /// Merged into the spec one after the other.
    pub changes: Vec<Value>,
    pub needs: Vec<Story>,
    /// What the emulator does wrong, and a part of the failure that comes of it.
    pub wrong: Option<(&'static str, &'static str)>,
}

impl Story {
    pub fn new(service: &'static str, kind: &'static str, spec: Value) -> Story {
        Story { service, kind, spec, changes: Vec::new(), needs: Vec::new(), wrong: None }
    }

    pub fn then(mut self, change: Value) -> Story {
        self.changes.push(change);
        self
    }

    pub fn after(mut self, need: Story) -> Story {
        self.needs.push(need);
        self
    }

    /// The emulator has a fault: the story fails with this text until it is mended.
    pub fn fails(mut self, reason: &'static str, text: &'static str) -> Story {
        self.wrong = Some((reason, text));
        self
    }

    pub fn name(&self) -> String {
        match self.wrong {
            None => format!("{}/{}", self.service, self.kind),
            Some((reason, _)) => format!("{}/{} ({reason})", self.service, self.kind),
        }
    }

    pub fn run(&self, url: &str) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let told = runtime.block_on(self.tell(url));
        match (self.wrong, told) {
            (None, told) => told,
            (Some((_, text)), Err(fault)) if fault.contains(text) => Ok(()),
            (Some(_), Err(fault)) => Err(fault),
            (Some((reason, _)), Ok(())) => Err(format!("the emulator is mended: {reason} no longer holds")),
        }
    }

    async fn tell(&self, url: &str) -> Result<(), String> {
        let http = Http::new(std::time::Duration::from_secs(60)).map_err(|error| error.to_string())?;
        let settings = Settings { url: Some(url.to_owned()), path_style: true, ..Settings::default() };
        let credentials = Provider::given("AKIAEXAMPLE", "secret", None);
        let client = Client::new(Arc::new(http), credentials, REGION, settings);
        let mut made = Vec::new();
        for need in &self.needs {
            let (object, _) = Box::pin(need.make(&client, &made)).await?;
            made.push((need, object));
        }
        let (mut object, name) = self.make(&client, &made).await?;
        for change in &self.changes {
            let change = filled(change, &name, &made);
            merge(&mut object.value["spec"], &change);
            let changes = object.differences().await?;
            if changes.is_empty() {
                return Err(format!("{change} changes nothing"));
            }
            object.settle().await?;
        }
        object.is_found_by_its_identity().await?;
        object.delete().await?;
        for (_, mut object) in made.into_iter().rev() {
            object.delete().await?;
        }
        Ok(())
    }

    async fn make<'c>(
        &self,
        client: &'c Client,
        made: &[(&Story, Object<'c>)],
    ) -> Result<(Object<'c>, String), String> {
        let name = format!("story-{}-{}", self.kind.to_lowercase(), uuid::Uuid::new_v4().simple());
        let name = name.chars().take(40).collect::<String>();
        let facts = kinds::find(self.service, self.kind).ok_or("no such kind")?;
        let value =
            json!({"metadata": {"name": name}, "spec": filled(&self.spec, &name, made), "status": {}});
        let mut object = Object { client, facts, value };
        if object.read().await?.is_some() {
            return Err("it is there before it is made".to_owned());
        }
        object.create().await?;
        object.settle().await?;
        Ok((object, name))
    }
}

/// An object, and what it is made with.
struct Object<'a> {
    client: &'a Client,
    facts: &'static KindFacts,
    value: Value,
}

impl Object<'_> {
    fn meta(&self) -> BTreeMap<&'static str, String> {
        let text = |pointer: &str| {
            self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        BTreeMap::from([
            ("arn", text("/status/ackResourceMetadata/arn")),
            ("account", "123456789012".to_owned()),
            ("region", REGION.to_owned()),
            ("partition", "aws".to_owned()),
            ("name", text("/metadata/name")),
            ("uid", text("/metadata/name")),
        ])
    }

    async fn call(&self, call: &Planned) -> Result<Value, CallError> {
        let model = self.facts.plan().map_err(|_| ()).ok().map(|plan| plan.model());
        let Some(model) = model else { return Ok(Value::Null) };
        let result = self.client.call(model, &call.operation, &Value::Object(call.request.clone())).await;
        if std::env::var_os("HANGAR_TRACE_CALLS").is_some() {
            eprintln!("{} {} -> {result:?}", call.operation, Value::Object(call.request.clone()));
        }
        match result {
            Err(error) if call.ignore.contains(&error.code) => Ok(Value::Null),
            other => other,
        }
    }

    async fn read(&self) -> Result<Option<Found>, String> {
        let mut reading =
            Reading::new(self.facts, &self.value, &self.meta()).map_err(|error| error.to_string())?;
        while let Some(call) = reading.next_call() {
            match self.call(&call).await {
                Ok(reply) => reading.answer(&reply),
                Err(error) => {
                    if !reading.refused(&error.code, &error.message) {
                        return Err(told(&call, &error));
                    }
                }
            }
        }
        Ok(reading.finish())
    }

    /// Calls that a function of the found and the wanted makes.
    fn plan(
        &self,
        found: Option<&Found>,
        plan: impl Fn(&Scope<'_>) -> Vec<Planned>,
    ) -> Result<Vec<Planned>, String> {
        let observed = found.map(|found| json!({"spec": found.spec, "status": found.status}));
        let scope = Scope {
            translator: self.facts.translator().map_err(|error| error.to_string())?,
            object: &self.value,
            observed: observed.as_ref(),
            meta: &self.meta(),
            answer: found.map(|found| &found.answer),
            reply: found.map(|found| &found.reply),
            lists: found.map(|found| &found.lists),
            field: None,
            now: BTreeMap::new(),
        };
        Ok(plan(&scope))
    }

    async fn create(&mut self) -> Result<(), String> {
        let token = uuid::Uuid::new_v4().to_string();
        let calls = self.plan(None, |scope| vec![calls::create(self.facts, scope, &token)])?;
        for call in calls {
            let reply = self.call(&call).await.map_err(|error| told(&call, &error))?;
            let learned =
                self.facts.translator().map_err(|error| error.to_string())?.made(&call.operation, &reply);
            for (name, value) in learned.status {
                self.value["status"][name] = value;
            }
            if let Some(arn) = learned.arn {
                self.value["status"]["ackResourceMetadata"] = json!({"arn": arn});
            }
        }
        Ok(())
    }

    async fn differences(&self) -> Result<Vec<FieldChange>, String> {
        let found = self.read().await?.ok_or("it is not there")?;
        let plan = self.facts.plan().map_err(|error| error.to_string())?;
        Ok(compare(self.facts, plan, &pruned(&self.value["spec"]), &Value::Object(found.spec)))
    }

    /// Changes what differs until nothing does.
    async fn settle(&mut self) -> Result<(), String> {
        let mut changes = Vec::new();
        for _ in 0..MOST_PASSES {
            let found = self.read().await?.ok_or("it is not there")?;
            for (name, value) in found.status.clone() {
                self.value["status"][name] = value;
            }
            if let Some(arn) = &found.arn {
                self.value["status"]["ackResourceMetadata"] = json!({"arn": arn});
            }
            let plan = self.facts.plan().map_err(|error| error.to_string())?;
            let wanted = pruned(&self.value["spec"]);
            changes = compare(self.facts, plan, &wanted, &Value::Object(found.spec.clone()));
            if changes.is_empty() {
                return Ok(());
            }
            let calls = self.plan(Some(&found), |scope| calls::update(self.facts, scope, &changes))?;
            if calls.is_empty() {
                return Err(format!("nothing is planned for {changes:?}"));
            }
            for call in calls {
                if call.makes_version {
                    self.prune(&found).await?;
                }
                self.call(&call).await.map_err(|error| told(&call, &error))?;
                if call.alone {
                    break;
                }
            }
        }
        Err(format!("it does not come to rest: {changes:?}"))
    }

    async fn prune(&self, found: &Found) -> Result<(), String> {
        let Some(versions) = &self.facts.rules.versions else { return Ok(()) };
        let send = |call: &aws::rules::vocabulary::Call, version: Value| {
            self.plan(Some(found), |scope| {
                let scope = scope.now(None, [("version", version.clone())]);
                let request = scope.request(&call.call.value, &call.send);
                vec![Planned { operation: call.call.value.clone(), request, ..Planned::default() }]
            })
        };
        for call in send(&versions.list, Value::Null)? {
            let listed = self.call(&call).await.map_err(|error| told(&call, &error))?;
            let Some(oldest) = calls::version_to_prune(self.facts, &listed) else { continue };
            for call in send(&versions.delete, oldest.into())? {
                self.call(&call).await.map_err(|error| told(&call, &error))?;
            }
        }
        Ok(())
    }

    /// An object that has nothing but what identifies it finds the same.
    async fn is_found_by_its_identity(&self) -> Result<(), String> {
        let found = self.read().await?.ok_or("it is not there")?;
        let rules = self.facts.rules;
        let plan = self.facts.plan().map_err(|error| error.to_string())?;
        let names = ["Name", "name", "Id", "ID"].map(str::to_owned);
        let resource = self.facts.resource();
        let own = ["Name", "Id", "ID", "Identifier", "Url"].map(|ending| format!("{resource}{ending}"));
        let references = self.facts.references().map_err(|error| error.to_string())?;
        let mut stranger = json!({"metadata": self.value["metadata"], "spec": {}, "status": {}});
        stranger["status"]["ackResourceMetadata"] = self.value["status"]["ackResourceMetadata"].clone();
        for field in plan.fields() {
            let told = rules
                .fields
                .get(&field.word)
                .is_some_and(|rule| rule.value.key || rule.value.required == Some(true));
            let by_name = names.iter().chain(&own).any(|name| name.eq_ignore_ascii_case(&field.word));
            let referring =
                references.iter().any(|one| one.required && one.field == format!("spec.{}", field.name));
            for home in ["spec", "status"] {
                if (told || referring || field.required || by_name)
                    && !self.value[home][&field.name].is_null()
                {
                    stranger[home][&field.name] = self.value[home][&field.name].clone();
                }
            }
        }
        let other = Object { client: self.client, facts: self.facts, value: stranger };
        let again = other.read().await?.ok_or("it is not found by its identity")?;
        if again.arn != found.arn {
            return Err(format!("{:?} was found instead of {:?}", again.arn, found.arn));
        }
        Ok(())
    }

    async fn delete(&mut self) -> Result<(), String> {
        for _ in 0..MOST_PASSES {
            let Some(found) = self.read().await? else { return Ok(()) };
            for call in self.plan(Some(&found), |scope| calls::delete(self.facts, scope))? {
                match self.call(&call).await {
                    Err(error) if !self.facts.is_not_found(&error.code, &error.message) => {
                        return Err(told(&call, &error));
                    }
                    _ => {}
                }
            }
        }
        Err("it is still there".to_owned())
    }
}

fn told(call: &Planned, error: &CallError) -> String {
    format!("{} {}: {error}", call.operation, Value::Object(call.request.clone()))
}

fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(members), Value::Object(patch)) => {
            for (name, patch) in patch {
                if patch.is_null() {
                    members.remove(name);
                } else {
                    merge(members.entry(name.clone()).or_insert(Value::Null), patch);
                }
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

fn filled(value: &Value, name: &str, made: &[(&Story, Object<'_>)]) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("$needs.") {
            Some(path) => {
                let (at, path) = path.split_once('.').unwrap_or((path, ""));
                let object = at.parse::<usize>().ok().and_then(|at| made.get(at));
                let pointer = format!("/{}", path.replace('.', "/"));
                object.and_then(|(_, object)| object.value.pointer(&pointer)).cloned().unwrap_or_default()
            }
            None => text.replace("$name", name).into(),
        },
        Value::Array(items) => items.iter().map(|item| filled(item, name, made)).collect(),
        Value::Object(members) => {
            let filled = members.iter().map(|(key, value)| (key.clone(), filled(value, name, made)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
