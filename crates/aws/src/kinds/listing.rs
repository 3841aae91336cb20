//! Everything that an account has of a kind: the call that lists it, and what an item of its answer says of an object.
//!
//! Some kinds are only listed below another resource, such as grants of a key. Which one that is follows from the
//! references of the kind: the field that the call needs can be given by naming an object, and its kind is the parent.

use serde_json::{Map, Value};

use super::fields::Home;
use super::sites::Site;
use super::translate::{Learned, Translator, flattened};
use super::{KindFacts, KindsError, paths};
use crate::crd::names;
use crate::model::Kind as ShapeKind;

/// How a kind is listed.
pub struct Listing<'a> {
    kind: &'a KindFacts,
    translator: Translator<'a>,
    pub operation: &'a str,
    /// What is sent, as in rules.
    pub send: Value,
    take: Option<&'a str>,
    /// Where there is one, every resource of it has a list of its own.
    pub parent: Option<Parent>,
}

/// The kind whose resources others are listed below.
#[derive(Debug)]
pub struct Parent {
    pub kind: &'static KindFacts,
    /// The field of the spec that names it.
    pub field: String,
    /// Where what it is named by stands in it, such as `status.keyID`.
    pub target: String,
}

impl<'a> Listing<'a> {
    /// None where an account cannot be asked for all of a kind: no operation lists it, or only with something that nobody
    /// knows beforehand.
    pub fn of(kind: &'a KindFacts) -> Result<Option<Listing<'a>>, KindsError> {
        let translator = kind.translator()?;
        let rules = kind.rules;
        let (operation, send, take) = match (&rules.listing, &rules.operations.list) {
            (Some(call), _) => (call.call.value.as_str(), call.send.clone(), call.take.as_deref()),
            // What a function looks up in a list of its own is not all that there is.
            (None, Some(operation)) if rules.function.is_none() => {
                let constants = rules.constants.get(&operation.value).map(|told| told.value.clone());
                let send = Value::Object(constants.unwrap_or_default().into_iter().collect());
                (operation.value.as_str(), send, None)
            }
            _ => return Ok(None),
        };
        let mut listing = Listing { kind, translator, operation, send, take, parent: None };
        Ok(listing.is_made_whole()?.then_some(listing))
    }

    /// Adds what the call needs beyond what the rules send, and finds the parent; whether it can be made then.
    fn is_made_whole(&mut self) -> Result<bool, KindsError> {
        let mut send = self.send.as_object().cloned().unwrap_or_default();
        let input = Site::input(self.translator.plan.model(), self.operation);
        let members = input.into_iter().flat_map(|input| input.shape.members());
        for member in members.filter(|member| member.is_required()) {
            if !send.contains_key(member.name()) {
                let Some(field) = self.translator.field_of(self.operation, member.name()) else {
                    return Ok(false);
                };
                send.insert(member.name().to_owned(), format!("$spec.{}", field.name).into());
            }
        }
        let words = send.values().filter_map(Value::as_str);
        let named =
            words.filter_map(|word| word.strip_prefix("$spec.")).map(|path| path.trim_end_matches("|last"));
        match named.collect::<Vec<_>>().as_slice() {
            [] => {}
            [field] => {
                let Some(parent) = self.parent(field)? else { return Ok(false) };
                self.parent = Some(parent);
            }
            _ => return Ok(false),
        }
        self.send = Value::Object(send);
        Ok(true)
    }

    /// The kind that a field names objects of, if all of that can be listed.
    fn parent(&self, field: &str) -> Result<Option<Parent>, KindsError> {
        let place = format!("spec.{field}");
        let told = self.kind.references().into_iter().find(|told| told.field == place);
        let Some(told) = told else { return Ok(None) };
        let Some(kind) = super::find(&told.service, &told.kind) else { return Ok(None) };
        let is_listed = Listing::of(kind)?.is_some();
        Ok(is_listed.then(|| Parent { kind, field: field.to_owned(), target: told.target }))
    }

    /// The items of an answer, each a structure.
    pub fn items(&self, reply: &Value) -> Vec<Value> {
        let (path, word) = self.place();
        let found = match self.take {
            Some(path) => paths::take(reply, path, &|_| None),
            None => flattened(reply, &path),
        };
        let items = found.as_ref().and_then(Value::as_array).into_iter().flatten();
        // A list of names or ARNs is one of structures with that one member.
        items
            .map(|item| match item {
                Value::String(_) => Value::Object(Map::from_iter([(names::singular(&word), item.clone())])),
                other => other.clone(),
            })
            .collect()
    }

    /// Where the items lie in an answer, and what they are called there.
    fn place(&self) -> (Vec<&'a str>, String) {
        let told = self.take.map(paths::members).unwrap_or_default();
        let (mut path, of_list) = self.translator.answer_path(self.operation);
        if !of_list {
            let output = Site::output(self.translator.plan.model(), self.operation);
            let members = output.into_iter().flat_map(|output| output.shape.members());
            let lists = members.filter(|member| member.shape().kind() == ShapeKind::List);
            path = lists.take(1).map(|list| list.name()).collect();
        }
        let word = told.last().or(path.last()).copied().unwrap_or_default().to_owned();
        (path, word)
    }

    /// What an item says of the object's identity: its texts, under whatever words the kind's operations have for them.
    pub fn identity(&self, item: &Value) -> Learned {
        let mut learned = Learned::default();
        let asked = self.send.as_object().into_iter().flatten();
        let asked = asked.filter(|(_, value)| value.as_str().is_some_and(|text| !text.starts_with('$')));
        let told = item.as_object().into_iter().flatten().filter(|(_, value)| value.is_string());
        for (member, value) in asked.chain(told) {
            if self.translator.is_own_arn(member) {
                learned.arn = value.as_str().map(str::to_owned);
            }
            let Some(field) = self.words(member).find_map(|word| self.translator.field_of("", &word)) else {
                continue;
            };
            let home = match field.home {
                Home::Spec => &mut learned.spec,
                Home::Status => &mut learned.status,
            };
            if field.refers_for.is_none() && !field.secret {
                home.insert(field.name.clone(), value.clone());
            }
        }
        self.name_of_arn(&mut learned);
        learned
    }

    /// What is listed by ARN and read by name has the name at the end of its ARN.
    fn name_of_arn(&self, learned: &mut Learned) {
        let Some(name) = learned.arn.as_deref().and_then(|arn| arn.rsplit(['/', ':']).next()) else { return };
        let keys = self.kind.rules.fields.iter().filter(|(_, rule)| rule.value.key);
        let mut fields = keys.filter_map(|(word, _)| self.translator.plan.field(word));
        if let (Some(only), None) = (fields.next(), fields.next())
            && only.home == Home::Spec
            && !self.translator.is_own_arn(&only.word)
        {
            learned.spec.entry(only.name.clone()).or_insert_with(|| name.into());
        }
    }

    /// A member by other words: renamed as in any operation, with or without the kind's own name before it.
    fn words(&self, member: &str) -> impl Iterator<Item = String> {
        let renames = self.kind.rules.renames.values();
        let mut words: Vec<String> =
            renames.filter_map(|renames| renames.value.get(member)).cloned().collect();
        words.push(member.to_owned());
        words.push(format!("{}{member}", self.kind.resource()));
        words.extend(member.strip_prefix(self.kind.resource()).map(str::to_owned));
        words.into_iter().filter(|word| !word.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::{all, find};

    #[test]
    fn items_become_identities() {
        let check = |service, kind, reply: Value, spec: Value, status: Value, arn: Option<&str>| {
            let listing = Listing::of(find(service, kind).unwrap()).unwrap().unwrap();
            let [item] = listing.items(&reply).try_into().unwrap();
            let learned = listing.identity(&item);
            let found = (json!(learned.spec), json!(learned.status), learned.arn.as_deref());
            assert_eq!(found, (spec, status, arn), "{service} {kind}");
        };
        check("s3", "Bucket", json!({"Buckets": [{"Name": "b"}]}), json!({"name": "b"}), json!({}), None);
        check("sqs", "Queue", json!({"QueueUrls": ["u"]}), json!({}), json!({"queueURL": "u"}), None);
        check("dynamodb", "Table", json!({"TableNames": ["t"]}), json!({"tableName": "t"}), json!({}), None);
        let aliases = json!({"Aliases": [{"Name": "live", "FunctionVersion": "1"}]});
        check("lambda", "Alias", aliases, json!({"name": "live", "functionVersion": "1"}), json!({}), None);
        let topics = json!({"Topics": [{"TopicArn": "a"}]});
        check("sns", "Topic", topics, json!({}), json!({"topicARN": "a"}), Some("a"));
        check("iam", "Role", json!({"Roles": [{"RoleName": "r"}]}), json!({"name": "r"}), json!({}), None);
        check("ec2", "VPC", json!({"Vpcs": [{"VpcId": "v"}]}), json!({}), json!({"vpcID": "v"}), None);
        check("kms", "Key", json!({"Keys": [{"KeyId": "k"}]}), json!({}), json!({"keyID": "k"}), None);
        let clusters = json!({"clusterArns": ["arn:aws:ecs:eu-west-1:1:cluster/c"]});
        let arn = Some("arn:aws:ecs:eu-west-1:1:cluster/c");
        check("ecs", "Cluster", clusters, json!({"name": "c"}), json!({}), arn);
        let sets = json!({"IPSets": [{"Name": "s", "Id": "i", "ARN": "a"}]});
        check(
            "wafv2",
            "IPSet",
            sets,
            json!({"name": "s", "scope": "REGIONAL"}),
            json!({"id": "i"}),
            Some("a"),
        );
        let parameters = json!({"Parameters": [{"Name": "p", "Version": 1}]});
        check("ssm", "Parameter", parameters, json!({"name": "p"}), json!({}), None);
    }

    #[test]
    fn what_is_listed_below_what() {
        let check = |service, kind, above: Option<(&str, &str, &str)>, send: Value| {
            let listing = Listing::of(find(service, kind).unwrap()).unwrap().unwrap();
            let parent = listing.parent.as_ref();
            let parent =
                parent.map(|parent| (parent.kind.kind, parent.field.as_str(), parent.target.as_str()));
            assert_eq!((parent, listing.send), (above, send), "{service} {kind}");
        };
        check("ec2", "Subnet", None, json!({}));
        check("kms", "Alias", None, json!({}));
        check("sns", "Subscription", None, json!({}));
        let key = Some(("Key", "keyID", "status.keyID"));
        check("kms", "Grant", key, json!({"KeyId": "$spec.keyID"}));
        let function = Some(("Function", "functionName", "spec.name"));
        check("lambda", "Alias", function, json!({"FunctionName": "$spec.functionName"}));
        let bus = Some(("EventBus", "eventBusName", "spec.name"));
        check("eventbridge", "Rule", bus, json!({"EventBusName": "$spec.eventBusName"}));
        let balancer = Some(("LoadBalancer", "loadBalancerARN", "status.ackResourceMetadata.arn"));
        check("elbv2", "Listener", balancer, json!({"LoadBalancerArn": "$spec.loadBalancerARN"}));
        let zone = Some(("HostedZone", "hostedZoneID", "status.id"));
        check("route53", "RecordSet", zone, json!({"HostedZoneId": "$spec.hostedZoneID|last"}));
    }

    #[test]
    fn what_cannot_be_listed() {
        let listable = |service, kind| Listing::of(find(service, kind).unwrap()).unwrap().is_some();
        assert!(!listable("iam", "ServiceLinkedRole"));
        assert!(!listable("sns", "PlatformEndpoint"), "no operation of its rules lists it");
        let count = all().iter().filter(|kind| Listing::of(kind).unwrap().is_some()).count();
        assert!(count > 170, "only {count} kinds are listable");
    }
}
