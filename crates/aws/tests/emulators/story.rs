//! What happens to one object of a kind, from nothing to nothing, by the engine.

use std::collections::BTreeSet;
use std::time::Duration;

use aws::kinds::{self, KindFacts};
use parking_lot::Mutex;
use provision::dialect::ack;
use serde_json::{Map, Value, json};

use crate::world::{Kind, World, condition};
use ::emulators::Call;

/// How far a story has come.
#[derive(Default)]
pub struct Progress(Mutex<&'static str>);

impl Progress {
    fn reach(&self, step: &'static str) {
        *self.0.lock() = step;
    }

    /// The step that is being taken, in the words of `data/emulators.txt`.
    pub fn step(&self) -> &'static str {
        *self.0.lock()
    }
}

/// What AWS must say when it is asked: a call, a place in its answer, and what is there. Null: there is nothing, or
/// the call is refused.
#[derive(Clone)]
pub struct Shown {
    operation: &'static str,
    input: Value,
    at: &'static str,
    value: Value,
}

/// Merged into the spec, and how AWS then is.
#[derive(Clone)]
pub struct Change {
    pub spec: Value,
    shown: Vec<Shown>,
}

/// What is tried with a kind.
#[derive(Clone)]
pub struct Story {
    pub service: &'static str,
    pub kind: &'static str,
    /// `$name` is a name of its own; `$needs.N.path` is a value of the Nth object that is made before. `|last` takes what
    /// follows the last slash.
    pub spec: Value,
    /// What AWS must say of the resource once it is made.
    pub shown: Vec<Shown>,
    /// Made one after the other.
    pub changes: Vec<Change>,
    pub needs: Vec<Story>,
    /// Fields that one who adopts has to give: they are required, no look shows them, and no annotation can carry them.
    pub given: Vec<&'static str>,
    /// Calls that somebody else makes, the last of which must be found and put right. `$self.path` is a value of the
    /// object, `$answer.path` one of the answer before.
    pub drift: Vec<(&'static str, Value)>,
}

/// An object that was made.
pub struct Made {
    pub kind: Kind,
    pub name: String,
    pub object: Value,
}

impl Story {
    pub fn new(service: &'static str, kind: &'static str, spec: Value) -> Story {
        Story {
            service,
            kind,
            spec,
            shown: Vec::new(),
            changes: Vec::new(),
            needs: Vec::new(),
            given: Vec::new(),
            drift: Vec::new(),
        }
    }

    pub fn then(mut self, change: Value) -> Story {
        self.changes.push(Change { spec: change, shown: Vec::new() });
        self
    }

    /// AWS itself is asked after the last change, or after the resource was made where there is none yet. `at` is a
    /// JSON pointer into the answer.
    pub fn shows(mut self, operation: &'static str, input: Value, at: &'static str, value: Value) -> Story {
        let shown = self.changes.last_mut().map_or(&mut self.shown, |change| &mut change.shown);
        shown.push(Shown { operation, input, at, value });
        self
    }

    pub fn after(mut self, need: Story) -> Story {
        self.needs.push(need);
        self
    }

    pub fn given(mut self, fields: &[&'static str]) -> Story {
        self.given.extend(fields);
        self
    }

    pub fn drifts(mut self, operation: &'static str, input: Value) -> Story {
        self.drift.push((operation, input));
        self
    }

    pub fn name(&self) -> String {
        format!("{}/{}", self.service, self.kind)
    }

    pub fn of_kind(&self) -> Kind {
        (self.service, self.kind)
    }

    /// All kinds that occur in it.
    pub fn kinds(&self) -> Vec<Kind> {
        let needed = self.needs.iter().map(Story::of_kind).chain([self.of_kind()]);
        needed.collect::<BTreeSet<Kind>>().into_iter().collect()
    }

    pub fn facts(&self) -> &'static KindFacts {
        kinds::find(self.service, self.kind).unwrap()
    }

    pub async fn tell(&self, world: &World, progress: &Progress) {
        let (made, needs) = self.started(world, progress).await;
        self.is_shown(world, &made, &needs, &self.shown).await;
        progress.reach("change");
        for Change { spec, shown } in &self.changes {
            world.proxy.take();
            let spec = filled(spec, &made, &needs);
            world.patch(made.kind, &made.name, json!({"spec": spec})).await;
            world.settled(made.kind, &made.name).await;
            let calls = world.proxy.take();
            assert!(calls.iter().any(|call| call.writes), "{spec} changes nothing: {}", told(&calls));
            let again = calls.iter().any(|call| self.only_makes(&call.operation));
            assert!(!again, "it was lost by {spec}, and made again: {}", told(&calls));
            self.is_shown(world, &made, &needs, shown).await;
        }
        progress.reach("rest");
        rests(world, &made).await;
        progress.reach("drift");
        self.drift(world, &made, &needs).await;
        progress.reach("adopt");
        let adopted = self.adopt(world, &made).await;
        self.ended(world, progress, &adopted, &needs).await;
    }

    /// Whether an operation makes resources of the kind, and never changes one.
    fn only_makes(&self, operation: &str) -> bool {
        let rules = self.facts().rules;
        let steps = rules.update.iter().filter_map(|step| step.call.as_ref());
        let mut changing = steps.chain(&rules.operations.update);
        rules.operations.create.value == operation
            && rules.function.is_none()
            && changing.all(|call| call.value != operation)
    }

    /// Made, at rest and deleted, and nothing else.
    pub async fn try_out(&self, world: &World, progress: &Progress) {
        let (made, needs) = self.started(world, progress).await;
        progress.reach("rest");
        rests(world, &made).await;
        self.ended(world, progress, &made, &needs).await;
    }

    async fn started(&self, world: &World, progress: &Progress) -> (Made, Vec<Made>) {
        progress.reach("make");
        let needs = self.make_needs(world).await;
        let made = self.make(world, &needs).await;
        self.is_told(world, &made.object).await;
        (made, needs)
    }

    async fn ended(&self, world: &World, progress: &Progress, made: &Made, needs: &[Made]) {
        progress.reach("delete");
        world.delete(made.kind, &made.name).await;
        world.vanished(made.kind, &made.name).await;
        // Of work that is stopped a record stays.
        let delete = self.facts().rules.operations.delete.as_ref();
        if !delete
            .is_some_and(|delete| delete.value.starts_with("Stop") || delete.value.starts_with("Cancel"))
        {
            self.is_gone(world, made).await;
        }
        for need in needs.iter().rev() {
            world.delete(need.kind, &need.name).await;
            world.vanished(need.kind, &need.name).await;
        }
    }

    pub async fn make_needs(&self, world: &World) -> Vec<Made> {
        let mut needs = Vec::new();
        for need in &self.needs {
            let made = need.make(world, &needs).await;
            needs.push(made);
        }
        needs
    }

    pub async fn make(&self, world: &World, needs: &[Made]) -> Made {
        let made = self.begin(world, needs).await;
        let object = world.settled(made.kind, &made.name).await;
        Made { object, ..made }
    }

    /// Applies an object without waiting for what becomes of it.
    pub async fn begin(&self, world: &World, needs: &[Made]) -> Made {
        let own = uuid::Uuid::new_v4().simple().to_string();
        let (own, kind) = (&own[..10], self.kind.to_lowercase());
        let name = format!("{}-{own}", &kind[..kind.len().min(12)]);
        let made = Made { kind: self.of_kind(), name, object: Value::Null };
        world.create(made.kind, &made.name, json!({}), filled(&self.spec, &made, needs)).await;
        made
    }

    /// AWS, asked behind the engine's back, says what it must.
    async fn is_shown(&self, world: &World, made: &Made, needs: &[Made], shown: &[Shown]) {
        for Shown { operation, input, at, value } in shown {
            let answer = world.call(self.service, operation, filled(input, made, needs)).await;
            let answer = match answer {
                Err(refusal) => {
                    assert!(value.is_null(), "{operation}: {refusal}");
                    continue;
                }
                Ok(answer) => answer,
            };
            let found = answer.pointer(at).filter(|found| *found != "").cloned().unwrap_or_default();
            assert_eq!(found, filled(value, made, needs), "{operation} {at}: {answer}");
        }
    }

    /// What the status must say of what is there.
    async fn is_told(&self, world: &World, object: &Value) {
        let metadata = &object["status"]["ackResourceMetadata"];
        let we = world.call("sts", "GetCallerIdentity", json!({})).await.unwrap();
        assert_eq!(metadata["ownerAccountID"], we["Account"]);
        assert_eq!(metadata["region"], ::emulators::REGION);
        let known = self.identity(object);
        assert!(!known.is_empty(), "nothing says what was made: {object:#}");
        assert_eq!(condition(object, "Ready").as_deref(), Some("True"));
    }

    /// The fields by which the resource of an object is found again.
    fn identity(&self, object: &Value) -> Map<String, Value> {
        let facts = self.facts();
        let own = ["Name", "Id", "ID", "Identifier", "Url"];
        let resource = facts.resource();
        let is_own = |word: &str| {
            let by_resource = own.iter().any(|end| format!("{resource}{end}").eq_ignore_ascii_case(word));
            by_resource || own.iter().any(|end| end.eq_ignore_ascii_case(word))
        };
        let mut known = Map::new();
        for field in facts.plan().unwrap().fields() {
            let key = facts.rules.fields.get(&field.word).is_some_and(|rule| rule.value.key);
            let referring = facts
                .references()
                .iter()
                .any(|one| one.required && one.field == format!("spec.{}", field.name));
            let value = ["spec", "status"].iter().map(|home| &object[home][&field.name]);
            let value = value.into_iter().find(|value| value.is_string());
            if let Some(value) = value.filter(|_| key || referring || field.required || is_own(&field.word)) {
                known.insert(field.name.clone(), value.clone());
            }
        }
        if let Some(arn) = object.pointer("/status/ackResourceMetadata/arn") {
            known.insert("arn".to_owned(), arn.clone());
        }
        known
    }

    /// Somebody else changes the resource, or takes it away; it becomes again what it was.
    async fn drift(&self, world: &World, made: &Made, needs: &[Made]) {
        let object = world.get(made.kind, &made.name).await.unwrap();
        let mut made = Made { kind: made.kind, name: made.name.clone(), object };
        if self.drift.is_empty() {
            return;
        }
        for (operation, input) in &self.drift {
            let input = filled(input, &made, needs);
            made.object["answer"] = world.call(self.service, operation, input).await.unwrap();
        }
        let calls = world.pass(made.kind, &made.name).await;
        let mended = calls.iter().any(|call| call.writes);
        assert!(mended, "{:?} was not found, or not put right: {}", self.drift, told(&calls));
        world.settled(made.kind, &made.name).await;
        rests(world, &made).await;
    }

    /// The object goes and leaves its resource behind; another one takes it over by ACK's annotations.
    async fn adopt(&self, world: &World, made: &Made) -> Made {
        let object = world.get(made.kind, &made.name).await.unwrap();
        let keep = json!({ack::DELETION_POLICY: "retain"});
        world.patch(made.kind, &made.name, json!({"metadata": {"annotations": keep}})).await;
        world.delete(made.kind, &made.name).await;
        world.vanished(made.kind, &made.name).await;
        let name = format!("{}-again", made.name);
        world.create(made.kind, &name, self.adoption(&object), self.given_of(&object)).await;
        let adopted = world.settled(made.kind, &name).await;
        let (before, after) = (self.identity(&object), self.identity(&adopted));
        let same = before.iter().all(|(field, value)| after.get(field) == Some(value));
        assert!(same, "{after:?} was adopted, and not {before:?}");
        let adopted = Made { kind: made.kind, name, object: adopted };
        // What says whose it is may have to be written first.
        world.pass(adopted.kind, &adopted.name).await;
        world.settled(adopted.kind, &adopted.name).await;
        rests(world, &adopted).await;
        adopted
    }

    fn adoption(&self, object: &Value) -> Value {
        let fields = Value::Object(self.identity(object)).to_string();
        json!({ack::ADOPTION_POLICY: "adopt", ack::ADOPTION_FIELDS: fields})
    }

    fn given_of(&self, object: &Value) -> Value {
        let fields = self.given.iter().map(|field| ((*field).to_owned(), object["spec"][field].clone()));
        let fields: Map<String, Value> = fields.collect();
        if fields.is_empty() { Value::Null } else { Value::Object(fields) }
    }

    /// There is nothing left that could be adopted.
    async fn is_gone(&self, world: &World, made: &Made) {
        let name = format!("{}-gone", made.name);
        let given = self.given_of(&made.object);
        world.create(made.kind, &name, self.adoption(&made.object), given).await;
        world
            .until(made.kind, &name, "found to be gone", async |world| {
                let object = world.get(made.kind, &name).await.unwrap_or_default();
                object["status"]["conditions"].to_string().contains("adopted resource not found")
            })
            .await;
        world.delete(made.kind, &name).await;
        world.vanished(made.kind, &name).await;
    }
}

/// A settled resource causes no write, and what is read of it is read once.
async fn rests(world: &World, made: &Made) {
    world.at_rest().await;
    world.proxy.take();
    let object = world.get(made.kind, &made.name).await.unwrap();
    let first = sorted(world.pass(made.kind, &made.name).await);
    let second = sorted(world.pass(made.kind, &made.name).await);
    for calls in [&first, &second] {
        assert!(
            !calls.iter().any(|call| call.writes),
            "it does not rest: {}: {}",
            told(calls),
            object["spec"]
        );
        let once: BTreeSet<&Call> = calls.iter().collect();
        assert!(once.len() == calls.len(), "something is read twice: {}", told(calls));
    }
    assert!(!first.is_empty(), "it was not looked at");
    // Nor does anything happen without being asked for.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(world.proxy.count() == 0, "it is looked at without need: {}", told(&world.proxy.take()));
    assert!(first == second, "looks differ: {} and {}", told(&first), told(&second));
    let after = world.get(made.kind, &made.name).await.unwrap();
    assert_eq!(object["status"]["conditions"], after["status"]["conditions"], "conditions are written anew");
}

fn sorted(mut calls: Vec<Call>) -> Vec<Call> {
    calls.sort();
    calls
}

fn told(calls: &[Call]) -> String {
    calls.iter().map(Call::to_string).collect::<Vec<_>>().join(", ")
}

/// A value with its `$words` looked up.
pub fn filled(value: &Value, made: &Made, needs: &[Made]) -> Value {
    let at = |object: &Value, path: &str| {
        let (path, last) = path.strip_suffix("|last").map_or((path, false), |path| (path, true));
        let found = object.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or_default();
        match found.as_str().filter(|_| last) {
            Some(text) => text.rsplit('/').next().into(),
            None => found,
        }
    };
    match value {
        Value::String(text) => match text.split_once('.') {
            Some(("$needs", path)) => {
                let (number, path) = path.split_once('.').unwrap();
                at(&needs[number.parse::<usize>().unwrap()].object, path)
            }
            Some(("$self", path)) => at(&made.object, path),
            Some(("$answer", path)) => at(&made.object["answer"], path),
            _ => text.replace("$name", &made.name).into(),
        },
        Value::Array(items) => items.iter().map(|item| filled(item, made, needs)).collect(),
        Value::Object(members) => {
            let filled = members.iter().map(|(key, value)| (key.clone(), filled(value, made, needs)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
