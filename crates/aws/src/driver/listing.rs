//! What exists in an account, as objects that adopt it. What is only listed below another resource is asked for once for
//! each of those.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use provision::dialect::ack::{ADOPTION_FIELDS, ADOPTION_POLICY, DELETION_POLICY, REGION};
use provision::limits::{Bucket, Pace};
use provision::reading::Nothing;
use provision::{
    Calls, Class, Driver, Facts, Failure, Metrics, OperationType, Reader, Secrets, Surroundings,
};
use serde_json::{Map, Value, json};

use super::{AwsConnection, AwsDriver, Subjected, reading, records, scope};
use crate::kinds::calls::{self, Planned};
use crate::kinds::compare::is_empty;
use crate::kinds::listing::{Listing, Parent};
use crate::kinds::{Home, KindFacts, KindsError, paths};
use crate::rules::vocabulary::Key;

/// What was found of a kind.
#[derive(Debug, Default)]
pub struct Existing {
    /// Objects that adopt what is there. Applied, they change nothing in the account.
    pub objects: Vec<Value>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// Resources that AWS keeps in every account: where that is seen, and by what it begins.
const OF_AWS: &[(&str, &str, &str, &str)] = &[
    ("elasticache", "CacheParameterGroup", "/spec/cacheParameterGroupName", "default."),
    ("iam", "Role", "/spec/path", "/aws-service-role/"),
    ("kms", "Alias", "/spec/name", "alias/aws/"),
    ("kms", "Key", "/status/keyManager", "AWS"),
    ("memorydb", "ParameterGroup", "/spec/name", "default."),
    ("rds", "DBClusterParameterGroup", "/spec/name", "default."),
    ("rds", "DBParameterGroup", "/spec/name", "default."),
];

/// How often a call is made again that the account could not bear.
const TRIES: u32 = 6;

/// One kind in one region, while it is listed.
struct Survey<'a> {
    driver: &'a AwsDriver,
    kind: &'static KindFacts,
    facts: Arc<Facts>,
    connection: Arc<AwsConnection>,
    calls: Calls,
    reader: Reader<'a>,
    region: &'a str,
}

impl AwsDriver {
    /// What the account of the process's credentials has of a kind in a region; none if it cannot be asked for.
    pub async fn existing(
        &self,
        kind: &'static KindFacts,
        region: &str,
    ) -> Result<Option<Existing>, Failure> {
        let Some(listing) = Listing::of(kind).map_err(faulty)? else { return Ok(None) };
        Survey::begin(self, kind, region).await?.all(&listing).await.map(Some)
    }
}

fn faulty(error: KindsError) -> Failure {
    Failure::terminal(error.to_string())
}

fn blank(kind: &KindFacts, region: &str) -> Value {
    json!({
        "apiVersion": format!("{}/v1alpha1", kind.group()), "kind": kind.kind,
        "metadata": {"name": "imported", "namespace": "default", "annotations": {REGION: region}},
        "spec": {}, "status": {},
    })
}

/// A resource as it was read, and what it is found by.
struct Seen {
    fields: BTreeMap<String, String>,
    /// `spec` and `status`, with the ARN where ACK has it.
    object: Value,
}

impl<'a> Survey<'a> {
    async fn begin(
        driver: &'a AwsDriver,
        kind: &'static KindFacts,
        region: &'a str,
    ) -> Result<Survey<'a>, Failure> {
        let resource = format!("{}.{}", kind.plural, kind.group());
        let facts = driver.facts(&resource);
        let facts = facts.ok_or_else(|| Failure::terminal(format!("{resource} is not served")))?;
        let object = blank(kind, region);
        let reader = Reader::new(&Nothing, "", None);
        let surroundings = Surroundings {
            control_plane: "",
            facts: &facts,
            object: &object,
            reader: &reader,
            now: jiff::Timestamp::now(),
        };
        let connection = driver.connect(&surroundings).await?;
        let bucket = Arc::new(Bucket::new(Pace::default()));
        let calls = Calls::new(bucket, Arc::new(Metrics::default()), kind.service);
        Ok(Survey { driver, kind, facts, connection, calls, reader, region })
    }
}

impl Survey<'_> {
    fn subject<'a>(&'a self, object: &'a Value, secrets: &'a Secrets) -> Subjected<'a> {
        Subjected {
            control_plane: "",
            facts: &self.facts,
            object,
            desired: object,
            secrets,
            connection: &self.connection,
            calls: &self.calls,
            reader: &self.reader,
            client: None,
            now: jiff::Timestamp::now(),
        }
    }

    async fn all(&self, listing: &Listing<'_>) -> Result<Existing, Failure> {
        let mut existing = Existing::default();
        for object in self.listed(listing, &mut existing.unread).await? {
            match self.one(&object).await {
                Ok(Some(seen)) => existing.objects.push(self.manifest(&seen)?),
                Ok(None) => {}
                Err(failure) => existing.unread.push(format!("{}: {failure}", identity(&object))),
            }
        }
        Ok(existing)
    }

    /// What lists say of everything there is of the kind, as objects. What is below something that cannot be read is
    /// left out, and `unread` says so.
    async fn listed(&self, listing: &Listing<'_>, unread: &mut Vec<String>) -> Result<Vec<Value>, Failure> {
        let blank = blank(self.kind, self.region);
        let Some(parent) = &listing.parent else { return self.list(listing, &blank).await };
        let mut objects = Vec::new();
        for above in self.above(parent, unread).await? {
            let mut blank = blank.clone();
            blank["spec"][&parent.field] = above.as_str().into();
            match self.list(listing, &blank).await {
                Ok(listed) => objects.extend(listed),
                Err(failure) => unread.push(format!("below {} {above}: {failure}", parent.kind.kind)),
            }
        }
        Ok(objects)
    }

    /// What the resources of a parent are named by.
    async fn above(&self, parent: &Parent, unread: &mut Vec<String>) -> Result<Vec<String>, Failure> {
        let Some(listing) = Listing::of(parent.kind).map_err(faulty)? else { return Ok(Vec::new()) };
        let survey = Survey::begin(self.driver, parent.kind, self.region).await?;
        let mut names = Vec::new();
        for object in Box::pin(survey.listed(&listing, unread)).await? {
            match survey.one(&object).await {
                Ok(seen) => {
                    let name = seen.and_then(|seen| paths::take(&seen.object, &parent.target, &|_| None));
                    names.extend(name.as_ref().and_then(Value::as_str).map(str::to_owned));
                }
                Err(failure) => {
                    unread.push(format!("below {} {}: {failure}", parent.kind.kind, identity(&object)));
                }
            }
        }
        Ok(names)
    }

    /// One list: `blank` has what it is asked for by.
    async fn list(&self, listing: &Listing<'_>, blank: &Value) -> Result<Vec<Value>, Failure> {
        let secrets = Secrets::default();
        let subject = self.subject(blank, &secrets);
        let wanted = scope::wanted(&subject);
        let request = wanted.scope(self.kind, None)?.request(listing.operation, &listing.send);
        let planned = Planned { operation: listing.operation.to_owned(), request, ..Planned::default() };
        let list = || reading::ask(self.kind, &subject, OperationType::ReadMany, &planned);
        let mut items = listing.items(&patiently(list).await?);
        if self.kind.rules.function.as_deref() == Some(records::FUNCTION) {
            items = records::listed(items);
        }
        let object = |item: &Value| {
            let learned = listing.identity(item);
            let mut object = blank.clone();
            object["status"] = Value::Object(learned.status);
            for (field, value) in learned.spec {
                // What it was asked for by is told as it was asked.
                if object["spec"].get(&field).is_none() {
                    object["spec"][&field] = value;
                }
            }
            if let Some(arn) = &learned.arn {
                object["status"]["ackResourceMetadata"] = json!({"arn": arn});
            }
            object
        };
        Ok(items.iter().map(object).collect())
    }

    /// Reads one resource; none if it is gone meanwhile, or AWS's own.
    async fn one(&self, object: &Value) -> Result<Option<Seen>, Failure> {
        let fields = self.fields(object)?;
        let secrets = Secrets::default();
        let subject = self.subject(object, &secrets);
        let wanted = scope::wanted(&subject);
        let read = || reading::observe(self.kind, &subject, &wanted);
        let Some(found) = patiently(read).await? else { return Ok(None) };
        let observed = self.driver.observed(self.kind, &subject, found);
        let mut seen = json!({"spec": observed.spec, "status": observed.status});
        if let Some(arn) = &observed.arn {
            scope::put(&mut seen, &["status", "ackResourceMetadata", "arn"], arn.as_str().into());
        }
        // Some things are said by lists alone, such as where a subscription delivers to.
        for (field, value) in object["spec"].as_object().into_iter().flatten() {
            if seen["spec"].get(field).is_none_or(is_empty) {
                seen["spec"][field] = value.clone();
            }
        }
        let of_aws = OF_AWS.iter().any(|(service, kind, at, beginning)| {
            let text = seen.pointer(at).and_then(Value::as_str);
            (*service, *kind) == (self.kind.service, self.kind.kind)
                && text.is_some_and(|text| text.starts_with(beginning))
        });
        Ok((!of_aws).then_some(Seen { fields, object: seen }))
    }

    /// The object that adopts a resource.
    fn manifest(&self, Seen { fields, object: seen }: &Seen) -> Result<Value, Failure> {
        let mut object = json!({
            "apiVersion": format!("{}/v1alpha1", self.kind.group()), "kind": self.kind.kind,
            "metadata": {"name": name(fields, &seen["spec"]), "annotations": {
                ADOPTION_POLICY: "adopt", ADOPTION_FIELDS: json!(fields).to_string(), REGION: self.region,
                // Whoever takes the object away again does not mean what it found.
                DELETION_POLICY: "retain",
            }},
        });
        // A field that is required and that no read shows is AWS's to know; without a spec, nothing is required.
        if let Some(spec) = self.whole(fields, &seen["spec"])? {
            object["spec"] = Value::Object(spec);
        }
        Ok(object)
    }

    /// What was read, without what is empty; none if a field that is required is missing.
    fn whole(
        &self,
        fields: &BTreeMap<String, String>,
        spec: &Value,
    ) -> Result<Option<Map<String, Value>>, Failure> {
        let plan = self.kind.plan().map_err(faulty)?;
        let mut spec = spec.as_object().cloned().unwrap_or_default();
        spec.retain(|_, value| !is_empty(value));
        let needed = plan.fields().iter().filter(|field| field.home == Home::Spec && field.required);
        for field in needed {
            if spec.contains_key(&field.name) {
                continue;
            }
            // What is found by its ARN or address has its name at the end of that.
            let is_name = field.word == "Name" || field.word == format!("{}Name", self.kind.resource());
            match fields.values().next().filter(|_| is_name).and_then(|text| text.rsplit(['/', ':']).next()) {
                Some(name) => _ = spec.insert(field.name.clone(), name.into()),
                None => return Ok(None),
            }
        }
        Ok(Some(spec))
    }

    /// The least by which the resource is found: what reading it needs, and what the rules say identifies it.
    fn fields(&self, object: &Value) -> Result<BTreeMap<String, String>, Failure> {
        let rules = self.kind.rules;
        let plan = self.kind.plan().map_err(faulty)?;
        let read = |object: &Value| -> Result<Option<Planned>, Failure> {
            let secrets = Secrets::default();
            let wanted = scope::wanted(&self.subject(object, &secrets));
            Ok(calls::read(self.kind, &wanted.scope(self.kind, None)?))
        };
        let Some(whole) = read(object)? else {
            return Err(Failure::terminal("the list does not say what it is found by"));
        };
        let mut least = object.clone();
        let mut fields = BTreeMap::new();
        for field in plan.fields() {
            let home = if field.home == Home::Spec { "spec" } else { "status" };
            let Some(value) = object[home].get(&field.name).and_then(Value::as_str) else { continue };
            let told = rules.fields.get(&field.word).is_some_and(|rule| rule.value.key)
                || rules.matching.iter().any(|word| word.value == field.word);
            if told || !is_dispensable(&mut least, home, &field.name, &whole, &read)? {
                fields.insert(field.name.clone(), value.to_owned());
            }
        }
        let arn = object.pointer("/status/ackResourceMetadata/arn").and_then(Value::as_str);
        if let Some(arn) = arn {
            let needed = rules.key == Some(Key::Arn)
                || !is_dispensable(&mut least, "status", "ackResourceMetadata", &whole, &read)?;
            if needed {
                fields.insert("arn".to_owned(), arn.to_owned());
            }
        }
        Ok(fields)
    }
}

/// What a list says of a resource, for people.
fn identity(object: &Value) -> &Value {
    if is_empty(&object["spec"]) { &object["status"] } else { &object["spec"] }
}

/// Takes a member away if the resource is read in the same way without it.
fn is_dispensable(
    object: &mut Value,
    home: &str,
    member: &str,
    whole: &Planned,
    read: &dyn Fn(&Value) -> Result<Option<Planned>, Failure>,
) -> Result<bool, Failure> {
    let mut without = object.clone();
    without[home].as_object_mut().map(|members: &mut Map<String, Value>| members.remove(member));
    let same = read(&without)?.as_ref() == Some(whole);
    if same {
        *object = without;
    }
    Ok(same)
}

/// A name that objects can have: that of the resource, or what it is found by.
fn name(fields: &BTreeMap<String, String>, spec: &Value) -> String {
    let own = spec.get("name").and_then(Value::as_str);
    let found = || fields.values().next().map(String::as_str);
    let text = own.or_else(found).unwrap_or_default();
    let last = text.trim_end_matches(['/', '.']).rsplit(['/', ':']).next().unwrap_or_default();
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() || letter == '.' => letter,
        _ => '-',
    };
    let name: String = last.chars().map(letter).take(LONGEST_NAME).collect();
    let name = name.trim_matches(['-', '.']).replace("..", ".").replace(".-", "-").replace("-.", "-");
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// Room is left for a number, should others have the same.
const LONGEST_NAME: usize = 200;

/// What fails because there are too many calls is tried again.
async fn patiently<T, F>(call: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut wait = Duration::from_millis(500);
    for _ in 1..TRIES {
        match Box::pin(call()).await {
            Err(failure) if matches!(failure.class, Class::Throttled | Class::Waiting(_)) => {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            other => return other,
        }
    }
    Box::pin(call()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_resources() {
        let check = |fields: &[(&str, &str)], spec: Value, expected: &str| {
            let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            assert_eq!(name(&fields, &spec), expected);
        };
        check(&[("name", "Logs_2024")], json!({}), "logs-2024");
        check(&[("queueURL", "https://sqs.eu-west-1.amazonaws.com/1/orders.fifo")], json!({}), "orders.fifo");
        check(&[("arn", "arn:aws:sns:eu-west-1:1:topic")], json!({}), "topic");
        check(&[("id", "Z1")], json!({"name": "example.com."}), "example.com");
        check(&[("name", "alias/my/key")], json!({}), "key");
        check(&[("name", "___")], json!({}), "unnamed");
    }
}
