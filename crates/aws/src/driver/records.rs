//! Record sets of Route 53, which are made, changed and deleted by one call that takes a list of changes.

use provision::{Deleted, Failure, Observed, OperationType, Record};
use serde_json::{Map, Value, json};

use super::scope::Wanted;
use super::{Note, Subjected, changing, reading};
use crate::kinds::calls::Planned;
use crate::kinds::compare::FieldChange;
use crate::kinds::sites::Site;
use crate::kinds::{Home, KindFacts};

/// What the rules call it.
pub(super) const FUNCTION: &str = "route53_record_set";
const CHANGE: &str = "ChangeResourceRecordSets";
const LIST: &str = "ListResourceRecordSets";
/// Where an answer has the name with that of its zone.
const FULL_NAME: &str = "FullName";
/// A star in names, as lists show it.
const STAR: &str = "\\052";

fn text<'a>(wanted: &'a Wanted, field: &str) -> &'a str {
    wanted.object["spec"].get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Zones are named with and without `/hostedzone/` before their id.
fn zone(wanted: &Wanted) -> &str {
    let zone = text(wanted, "hostedZoneID");
    zone.rsplit('/').next().unwrap_or(zone)
}

/// The name of the record: what the object says, with the zone's name where it says a relative one.
async fn name(kind: &'static KindFacts, subject: &Subjected<'_>, wanted: &Wanted) -> Result<String, Failure> {
    let given = text(wanted, "name");
    if given.ends_with('.') {
        return Ok(given.to_owned());
    }
    let request = Map::from_iter([("Id".to_owned(), zone(wanted).into())]);
    let ask = Planned { operation: "GetHostedZone".to_owned(), request, ..Planned::default() };
    let reply = reading::ask(kind, subject, OperationType::ReadOne, &ask).await?;
    let zone = reply.pointer("/HostedZone/Name").and_then(Value::as_str).unwrap_or_default();
    let bare = zone.trim_end_matches('.');
    Ok(match given {
        "" => zone.to_owned(),
        given if given == bare || given.ends_with(&format!(".{bare}")) => format!("{given}."),
        given => format!("{given}.{zone}"),
    })
}

/// The record as AWS lists it. Reading gives the operation and an answer that is the record itself.
pub(super) async fn read(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
) -> Result<Option<(String, Value)>, Failure> {
    if zone(wanted).is_empty() {
        return Ok(None);
    }
    let name = name(kind, subject, wanted).await?;
    let request = json!({"HostedZoneId": zone(wanted), "StartRecordName": name, "StartRecordType": text(wanted, "recordType"), "MaxItems": "100"});
    let ask = Planned {
        operation: LIST.to_owned(),
        request: request.as_object().cloned().unwrap_or_default(),
        ..Planned::default()
    };
    let reply = match reading::ask(kind, subject, OperationType::ReadMany, &ask).await {
        Ok(reply) => reply,
        Err(failure) if failure.is_not_found() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let identifier = text(wanted, "setIdentifier");
    let is_it = |record: &&Value| {
        let is = |member: &str, value: &str| {
            record.get(member).and_then(Value::as_str).unwrap_or_default() == value
        };
        let listed = record.get("Name").and_then(Value::as_str).unwrap_or_default().replace(STAR, "*");
        listed.eq_ignore_ascii_case(&name)
            && is("Type", text(wanted, "recordType"))
            && is("SetIdentifier", identifier)
    };
    let found = reply["ResourceRecordSets"].as_array().into_iter().flatten().find(is_it).cloned();
    Ok(found.map(|mut record| {
        // As the object names it: the answer is in AWS's own form.
        if let Some(members) = record.as_object_mut() {
            members.insert("Name".to_owned(), text(wanted, "name").into());
            let kind = members.remove("Type").unwrap_or_default();
            members.insert("RecordType".to_owned(), kind);
            members.insert("HostedZoneId".to_owned(), text(wanted, "hostedZoneID").into());
        }
        (LIST.to_owned(), json!({"ResourceRecordSets": [record], FULL_NAME: name}))
    }))
}

/// Records of a zone as objects name them. Those that AWS makes with the zone itself are left out.
pub(super) fn listed(mut items: Vec<Value>) -> Vec<Value> {
    let of_zone = items.iter().find(|item| item["Type"] == "SOA").map(|item| item["Name"].clone());
    items.retain(|item| {
        let made_with_it = item["Type"] == "SOA" || item["Type"] == "NS";
        !(made_with_it && Some(&item["Name"]) == of_zone.as_ref())
    });
    for members in items.iter_mut().filter_map(Value::as_object_mut) {
        let kind = members.remove("Type").unwrap_or_default();
        members.insert("RecordType".to_owned(), kind);
        if let Some(Value::String(name)) = members.get_mut("Name") {
            *name = name.replace(STAR, "*");
        }
    }
    items
}

/// The record that the object wants, in AWS's words.
fn record_set(kind: &KindFacts, object: &Value, name: &str) -> Result<Value, Failure> {
    let translator = kind.translator().map_err(|error| Failure::terminal(error.to_string()))?;
    let input = Site::input(translator.plan.model(), CHANGE);
    let target = ["ChangeBatch", "Changes", "ResourceRecordSet"];
    let target = target.iter().try_fold(input, |site, word| Some(site?.content().member(word))).flatten();
    let Some(target) = target else { return Err(Failure::terminal("the model has no record sets")) };
    let mut record = Map::new();
    for field in translator.plan.fields().iter().filter(|field| field.home == Home::Spec) {
        let member = if field.word == "RecordType" { "Type" } else { field.word.as_str() };
        let (Some(site), Some(value)) = (target.member(member), translator.value(field, object)) else {
            continue;
        };
        record.insert(member.to_owned(), translator.outbound(field, site, value));
    }
    record.insert("Name".to_owned(), name.into());
    Ok(Value::Object(record))
}

fn change(wanted: &Wanted, action: &str, record: Value) -> Planned {
    let request = json!({
        "HostedZoneId": zone(wanted),
        "ChangeBatch": {"Changes": [{"Action": action, "ResourceRecordSet": record}]},
    });
    Planned {
        operation: CHANGE.to_owned(),
        request: request.as_object().cloned().unwrap_or_default(),
        ..Planned::default()
    }
}

pub(super) async fn create(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
) -> Result<Record, Failure> {
    let name = name(kind, subject, wanted).await?;
    let planned = change(wanted, "CREATE", record_set(kind, &wanted.object, &name)?);
    let answer = changing::perform(kind, subject, OperationType::Create, &planned, None).await?;
    let scope = wanted.scope(kind, None)?;
    Ok(changing::record(kind, wanted, &scope, CHANGE, &answer))
}

pub(super) fn update(
    kind: &KindFacts,
    wanted: &Wanted,
    note: &Note,
    differences: &[FieldChange],
) -> Result<Vec<Planned>, Failure> {
    if differences.is_empty() {
        return Ok(Vec::new());
    }
    let name = note.reply.get(FULL_NAME).and_then(Value::as_str).unwrap_or_else(|| text(wanted, "name"));
    let planned = change(wanted, "UPSERT", record_set(kind, &wanted.object, name)?);
    Ok(vec![Planned { serves: differences.iter().map(|change| change.word.clone()).collect(), ..planned }])
}

pub(super) async fn delete(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    observed: &Observed<Note>,
) -> Result<Deleted, Failure> {
    let name = name(kind, subject, wanted).await?;
    // What is deleted must be told as it is, not as it is wanted.
    let planned = change(wanted, "DELETE", record_set(kind, &observed.note.observed, &name)?);
    match changing::perform(kind, subject, OperationType::Delete, &planned, None).await {
        Ok(_) => Ok(Deleted::Gone),
        Err(failure) if failure.is_not_found() => Ok(Deleted::Gone),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_somebody_made() {
        let record = |name: &str, kind: &str| json!({"Name": name, "Type": kind});
        let items = ["NS", "SOA", "A"].map(|kind| record("example.com.", kind)).into_iter();
        let items = items.chain([record("below.example.com.", "NS"), record("\\052.example.com.", "A")]);
        let listed = listed(items.collect());
        let named = |one: &Value| format!("{} {}", one["RecordType"], one["Name"]).replace('"', "");
        let listed: Vec<String> = listed.iter().map(named).collect();
        assert_eq!(listed, ["A example.com.", "NS below.example.com.", "A *.example.com."]);
    }
}
