//! What the provider does: one resource type, `shelf_thing` (and more that are alike), one data source, and keys.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use prost::Message;
use prost::bytes::Bytes;
use terraform::protocol::messages as wire;
use terraform::value::{Fields, Type, Value};

use super::serve::Reply;
use super::{Shelf, beside, identity, key, listing};

const ERROR: i32 = 1;
pub const WARNING: i32 = 2;

/// (name, type, flags): r required, o optional, c computed, s sensitive, w write-only
pub type Attributes = &'static [(&'static str, &'static str, &'static str)];
const PROVIDER: Attributes = &[
    ("directory", r#""string""#, "r"),
    ("password", r#""string""#, "os"),
    // Should be sensitive, as in many a provider.
    ("account_key", r#""string""#, "o"),
];
const THING: Attributes = &[
    ("id", r#""string""#, "c"),
    ("name", r#""string""#, "r"),
    ("size", r#""number""#, "o"),
    ("tags", r#"["map","string"]"#, "o"),
    ("zones", r#"["set","string"]"#, "oc"),
    ("note", r#""string""#, "oc"),
    ("extra", r#""dynamic""#, "o"),
    ("secret", r#""string""#, "os"),
    ("secret_wo", r#""string""#, "ow"),
    ("token", r#""string""#, "cs"),
    ("private_ip_address", r#""string""#, "c"),
];
const RULE: Attributes =
    &[("port", r#""number""#, "r"), ("cidr", r#""string""#, "o"), ("id", r#""string""#, "c")];
const NETWORK: Attributes = &[("subnet", r#""string""#, "r")];
/// Of blocks that hide something, one of each nesting.
const LOCK: Attributes = &[("label", r#""string""#, "r"), ("password", r#""string""#, "os")];
const LOCKS: [(&str, i32); 3] = [("lock", 2), ("key", 3), ("user", 4)];
const TIMEOUTS: Attributes = &[("create", r#""string""#, "o"), ("delete", r#""string""#, "o")];

pub fn block(attributes: Attributes, blocks: Vec<wire::NestedBlock>) -> wire::Block {
    let attribute = |(name, ty, flags): &(&str, &str, &str)| {
        let attribute = wire::Attribute5 {
            name: (*name).into(),
            r#type: Bytes::from(ty.to_string()),
            description: format!("The {name} of it."),
            required: flags.contains('r'),
            optional: flags.contains('o'),
            computed: flags.contains('c'),
            sensitive: flags.contains('s'),
            deprecated: false,
            write_only: flags.contains('w'),
        };
        attribute.encode_to_vec().into()
    };
    wire::Block {
        attributes: attributes.iter().map(attribute).collect(),
        block_types: blocks,
        description: String::new(),
        deprecated: false,
    }
}

fn nested(name: &str, attributes: Attributes, nesting: i32, max_items: i64) -> wire::NestedBlock {
    let block = Some(block(attributes, Vec::new()));
    wire::NestedBlock { type_name: name.into(), block, nesting, min_items: 0, max_items }
}

fn schema() -> wire::GetProviderSchemaResponse {
    let encode = |version, block| wire::Schema { version, block: Some(block) }.encode_to_vec();
    let mut blocks = vec![
        nested("rule", RULE, 2, 0),
        nested("network", NETWORK, 2, 1),
        nested("timeouts", TIMEOUTS, 1, 0),
    ];
    blocks.extend(LOCKS.map(|(name, nesting)| nested(name, LOCK, nesting, 0)));
    // More types of the same, for those who want to see what many cost.
    let more: usize = std::env::var("TYPES").ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    let thing = encode(1, block(THING, blocks));
    let names = (1..more).map(|number| format!("shelf_kind{number}_thing"));
    let names = std::iter::once("shelf_thing".to_owned()).chain(names);
    let names: Vec<String> = names.collect();
    wire::GetProviderSchemaResponse {
        provider: encode(0, block(PROVIDER, Vec::new())).into(),
        list_resource_schemas: listing::schemas(&names),
        resource_schemas: names.into_iter().map(|name| (name, thing.clone())).collect(),
        data_source_schemas: [(
            "shelf_count".to_owned(),
            encode(0, block(&[("count", r#""number""#, "c")], vec![])),
        )]
        .into(),
        server_capabilities: Some(beside::capabilities()),
        functions: beside::functions(),
        ephemeral_resource_schemas: [(key::NAME.to_owned(), encode(0, block(key::KEY, vec![])))].into(),
        ..Default::default()
    }
}

pub fn types(attributes: Attributes) -> BTreeMap<String, Type> {
    attributes.iter().map(|(name, ty, _)| (name.to_string(), Type::parse(ty.as_bytes()).unwrap())).collect()
}

pub fn thing_type() -> Type {
    let mut all = types(THING);
    all.insert("rule".into(), Type::List(Box::new(Type::object(types(RULE)))));
    all.insert("network".into(), Type::List(Box::new(Type::object(types(NETWORK)))));
    all.insert("timeouts".into(), Type::object(types(TIMEOUTS)));
    for (name, nesting) in LOCKS {
        let lock = Box::new(Type::object(types(LOCK)));
        let ty = match nesting {
            2 => Type::List(lock),
            3 => Type::Set(lock),
            _ => Type::Map(lock),
        };
        all.insert(name.into(), ty);
    }
    Type::object(all)
}

pub fn error(summary: &str, attribute: &[&str]) -> wire::Diagnostic {
    let step = |name: &&str| wire::Step {
        selector: Some(match name.parse() {
            Ok(index) => wire::Selector::ElementKeyInt(index),
            Err(_) => wire::Selector::AttributeName((*name).into()),
        }),
    };
    let attribute =
        (!attribute.is_empty()).then(|| wire::AttributePath { steps: attribute.iter().map(step).collect() });
    wire::Diagnostic { severity: ERROR, summary: summary.into(), detail: String::new(), attribute }
}

/// What is put off until something else is there.
fn deferred(fault: Option<&str>) -> Option<wire::Deferred> {
    (fault == Some("defer")).then_some(wire::Deferred { reason: 3 })
}

/// What is amiss, with what a provider should keep to itself.
fn warnings(fault: Option<&str>, what: &str, config: &Value) -> Vec<wire::Diagnostic> {
    let secret = config.field("secret").as_str().unwrap_or("nothing");
    let warning = error(&format!("{what}: {secret} is old"), &["size"]);
    if fault == Some("warn") { vec![wire::Diagnostic { severity: WARNING, ..warning }] } else { vec![] }
}

pub fn value(value: &Option<wire::DynamicValue>, ty: &Type) -> Value {
    Value::from_msgpack(&value.as_ref().expect("a value").msgpack, ty).expect("a value of the type")
}

pub fn dynamic(value: &Value, ty: &Type) -> Option<wire::DynamicValue> {
    Some(wire::DynamicValue { msgpack: value.to_msgpack(ty).unwrap().into(), json: Bytes::new() })
}

pub fn answer(shelf: &Shelf, method: &str, body: &[u8], fault: Option<&str>) -> Reply {
    let ty = thing_type();
    match method {
        "GetSchema" => reply(&schema()),
        "GetResourceIdentitySchemas" => identity::schemas(),
        "UpgradeResourceIdentity" => identity::upgrade(&wire::UpgradeRequest::decode(body).unwrap()),
        "PrepareProviderConfig" => {
            let request = wire::ValidateProviderRequest::decode(body).unwrap();
            let config = value(&request.config, &Type::object(types(PROVIDER)));
            let wrong = config.field("password").as_str() == Some("wrong");
            let diagnostics =
                if wrong { vec![error("the password is wrong", &["password"])] } else { vec![] };
            reply(&wire::ValidateProviderResponse { prepared_config: request.config, diagnostics })
        }
        "Configure" => {
            let request = wire::ConfigureRequest::decode(body).unwrap();
            let config = value(&request.config, &Type::object(types(PROVIDER)));
            let directory = config.field("directory").as_str().unwrap_or_default().to_owned();
            let diagnostics = if Path::new(&directory).is_dir() {
                note_account(&directory, &config);
                shelf.directory.set(directory.into()).expect("configured once");
                vec![]
            } else {
                let key = config.field("account_key").as_str();
                let of = key.map(|key| format!(" of the account {key}")).unwrap_or_default();
                vec![error(&format!("there is no such directory{of}"), &["directory"])]
            };
            reply(&wire::DiagnosticsResponse { diagnostics })
        }
        "ValidateResourceTypeConfig" => {
            let request = wire::ValidateRequest::decode(body).unwrap();
            let config = value(&request.config, &ty);
            let mut diagnostics = warnings(fault, "validated", &config);
            if config.field("name").as_str() == Some("") {
                diagnostics.push(error("a thing needs a name", &["name"]));
            }
            for (index, rule) in config.field("rule").as_sequence().unwrap_or_default().iter().enumerate() {
                if *rule.field("port") == Value::number(0) {
                    diagnostics.push(error("0 is no port", &["rule", &index.to_string(), "port"]));
                }
            }
            reply(&wire::DiagnosticsResponse { diagnostics })
        }
        "UpgradeResourceState" => {
            let request = wire::UpgradeRequest::decode(body).unwrap();
            let json = request.raw_state.unwrap().json;
            match Value::from_state_json(&json, &ty) {
                Ok(state) => reply(&wire::UpgradeResponse {
                    upgraded_state: dynamic(&state, &ty),
                    diagnostics: warnings(fault, "upgraded", &state),
                }),
                Err(problem) => reply(&wire::UpgradeResponse {
                    upgraded_state: None,
                    diagnostics: vec![error(&problem.to_string(), &[])],
                }),
            }
        }
        "ReadResource" => {
            let request = wire::ReadRequest::decode(body).unwrap();
            let state = value(&request.current_state, &ty);
            let found = Things::of(shelf).read(state.field("id").as_str().unwrap_or_default(), &ty);
            let diagnostics = warnings(fault, "read", &state);
            let found = found.unwrap_or(Value::Null);
            let new_identity = identity::of(&found);
            let new_state = dynamic(&found, &ty);
            let (private, deferred) = (request.private, deferred(fault));
            reply(&wire::ReadResponse { new_state, private, diagnostics, deferred, new_identity })
        }
        "PlanResourceChange" => plan(wire::PlanRequest::decode(body).unwrap(), &ty, fault),
        "ApplyResourceChange" => {
            apply(&Things::of(shelf), wire::ApplyRequest::decode(body).unwrap(), &ty, fault)
        }
        "ImportResourceState" => {
            let request = wire::ImportRequest::decode(body).unwrap();
            let things = Things::of(shelf);
            let found = match &request.identity {
                Some(identity) => things.named(&identity::name(identity), &ty),
                None => things.read(&request.id, &ty),
            };
            match found {
                Some(state) => reply(&wire::ImportResponse {
                    imported_resources: vec![wire::ImportedResource {
                        type_name: request.type_name,
                        state: dynamic(&state, &ty),
                        private: Bytes::from_static(b"imported"),
                        identity: identity::of(&state),
                    }],
                    deferred: deferred(fault),
                    diagnostics: warnings(fault, "imported", &state),
                }),
                None => reply(&wire::ImportResponse {
                    diagnostics: vec![error("there is no thing with this id", &[])],
                    ..Default::default()
                }),
            }
        }
        "ReadDataSource" => {
            let count = Things::of(shelf).count();
            let ty = Type::object([("count".to_owned(), Type::Number)]);
            let state = Value::Fields([("count".to_owned(), Value::number(count as i64))].into());
            let diagnostics = warnings(fault, "counted", &Value::Null);
            reply(&wire::ReadDataResponse { state: dynamic(&state, &ty), diagnostics, deferred: None })
        }
        "ValidateEphemeralResourceConfig" => key::validate(&wire::ValidateRequest::decode(body).unwrap()),
        "OpenEphemeralResource" => key::open(shelf, &wire::ValidateRequest::decode(body).unwrap()),
        "RenewEphemeralResource" => key::renew(shelf, &wire::EphemeralRequest::decode(body).unwrap()),
        "CloseEphemeralResource" => key::close(shelf, &wire::EphemeralRequest::decode(body).unwrap()),
        "ValidateListResourceConfig" => listing::validate(&wire::ValidateListRequest::decode(body).unwrap()),
        "ListResource" => {
            let things = Things::of(shelf).all(&ty);
            listing::list(things, &wire::ListRequest::decode(body).unwrap(), fault)
        }
        "CallFunction" => beside::call(&wire::CallFunctionRequest::decode(body).unwrap()),
        "MoveResourceState" => {
            let request = wire::MoveRequest::decode(body).unwrap();
            beside::moved(&request, &ty, warnings(fault, "moved", &Value::Null))
        }
        "GenerateResourceConfig" => beside::written(&wire::GenerateConfigRequest::decode(body).unwrap(), &ty),
        "ValidateDataSourceConfig" => reply(&wire::DiagnosticsResponse::default()),
        "Stop" => reply(&wire::StopResponse::default()),
        _ => Reply::Failure(12, format!("unknown method {method}")),
    }
}

/// With which accounts it was configured.
fn note_account(directory: &str, config: &Value) {
    let Some(key) = config.field("account_key").as_str() else { return };
    let path = Path::new(directory).join("accounts");
    let mut accounts = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(accounts, "{key}").unwrap();
}

/// Whether an ApplyResourceChange is a creation.
pub fn creates(body: &[u8]) -> bool {
    let request = wire::ApplyRequest::decode(body).unwrap();
    value(&request.prior_state, &thing_type()).is_null()
}

pub fn reply(message: &impl Message) -> Reply {
    Reply::Message(message.encode_to_vec())
}

/// Fills in what it will know, and leaves open what it will learn.
fn plan(request: wire::PlanRequest, ty: &Type, fault: Option<&str>) -> Reply {
    if fault == Some("bad-msgpack") {
        let planned_state =
            Some(wire::DynamicValue { msgpack: Bytes::from_static(&[0xc1, 0xff, 0x00]), json: Bytes::new() });
        return reply(&wire::PlanResponse { planned_state, ..Default::default() });
    }
    let prior = value(&request.prior_state, ty);
    let mut planned = value(&request.proposed_new_state, ty);
    let mut requires_replace = Vec::new();
    if let Value::Fields(fields) = &mut planned {
        for name in ["id", "token", "private_ip_address"] {
            if prior.is_null() {
                fields.insert(name.into(), Value::Unknown(None));
            }
        }
        if fields["note"].is_null() {
            fields.insert("note".into(), Value::string("none"));
        }
        if fields["zones"].is_null() {
            fields.insert("zones".into(), Value::set(vec![Value::string("b"), Value::string("a")]));
        }
        if let Some(Value::Sequence(rules)) = fields.get_mut("rule") {
            for rule in rules {
                let Value::Fields(rule) = rule else { continue };
                if rule["id"].is_null() {
                    // A promise about it: not null, and it begins with "r".
                    let refinement = [0x82, 0x01, 0xc2, 0x02, 0xa1, b'r'];
                    rule.insert("id".into(), Value::Unknown(Some(refinement.into())));
                }
            }
        }
        if !prior.is_null() && prior.field("name") != &fields["name"] {
            let step = wire::Step { selector: Some(wire::Selector::AttributeName("name".into())) };
            requires_replace.push(wire::AttributePath { steps: vec![step] });
        }
    }
    reply(&wire::PlanResponse {
        planned_identity: identity::of(&planned),
        planned_state: dynamic(&planned, ty),
        diagnostics: warnings(fault, "planned", &planned),
        deferred: deferred(fault),
        requires_replace,
        planned_private: if request.prior_private.is_empty() {
            Bytes::from_static(b"planned")
        } else {
            request.prior_private
        },
        legacy_type_system: fault != Some("strict"),
    })
}

fn apply(things: &Things, request: wire::ApplyRequest, ty: &Type, fault: Option<&str>) -> Reply {
    let prior = value(&request.prior_state, ty);
    let planned = value(&request.planned_state, ty);
    let private = Bytes::from([request.planned_private.as_ref(), b"+applied"].concat());
    let refused = match (prior.is_null(), planned.is_null(), fault) {
        (_, _, Some("until-stopped")) => Some("the shelf is closing"),
        (true, _, Some("refuse-create")) => Some("the shelf is full"),
        (_, true, Some("refuse-delete")) => Some("the shelf is high"),
        _ => None,
    };
    if let Some(why) = refused {
        let new_state = request.prior_state;
        return reply(&wire::ApplyResponse {
            new_state,
            diagnostics: vec![error(why, &[])],
            ..Default::default()
        });
    }
    let Value::Fields(mut fields) = planned else {
        things.remove(prior.field("id").as_str().unwrap_or_default());
        return reply(&wire::ApplyResponse { new_state: dynamic(&Value::Null, ty), ..Default::default() });
    };
    if fault == Some("unknown") {
        let new_state = dynamic(&Value::Fields(fields), ty);
        return reply(&wire::ApplyResponse { new_state, private, ..Default::default() });
    }
    let config = value(&request.config, ty);
    let id = match prior.field("id").as_str() {
        Some(id) => id.to_owned(),
        None => format!("thing-{:08x}", rand::random::<u32>()),
    };
    fields.insert("id".into(), Value::string(&id));
    fields.insert("private_ip_address".into(), Value::string("10.0.0.1"));
    if prior.is_null() {
        fields.insert("token".into(), Value::string(format!("token of {id}")));
    }
    if let Some(Value::Sequence(rules)) = fields.get_mut("rule") {
        for (index, rule) in rules.iter_mut().enumerate() {
            let Value::Fields(rule) = rule else { continue };
            if !rule["id"].known() {
                rule.insert("id".into(), Value::string(format!("r{index}")));
            }
        }
    }
    if !prior.is_null() && fault == Some("partial") {
        fields.insert("size".into(), prior.field("size").clone());
    }
    if fault == Some("tells") {
        fields.insert("secret_wo".into(), config.field("secret_wo").clone());
    }
    if fault == Some("other-size") {
        fields.insert("size".into(), Value::number(1));
    }
    things.write(&id, &fields, &config, ty);
    let diagnostics = match fault {
        Some("partial") => vec![error("the shelf is too short", &["size"])],
        fault => warnings(fault, "applied", &config),
    };
    let made = Value::Fields(fields);
    reply(&wire::ApplyResponse {
        new_state: dynamic(&made, ty),
        private,
        diagnostics,
        legacy_type_system: true,
        new_identity: identity::of(&made),
    })
}

/// The shelf itself.
struct Things {
    directory: PathBuf,
}

impl Things {
    fn of(shelf: &Shelf) -> Things {
        Things { directory: shelf.directory.get().expect("configured first").clone() }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{}.json", id.replace('/', "_")))
    }

    fn read(&self, id: &str, ty: &Type) -> Option<Value> {
        let text = std::fs::read(self.path(id)).ok()?;
        Value::from_state_json(&text, ty).ok()
    }

    fn all(&self, ty: &Type) -> Vec<Value> {
        let files =
            std::fs::read_dir(&self.directory).expect("the shelf").flatten().map(|entry| entry.path());
        let things = files
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .filter_map(|path| Value::from_state_json(&std::fs::read(path).ok()?, ty).ok());
        things.collect()
    }

    fn named(&self, name: &str, ty: &Type) -> Option<Value> {
        self.all(ty).into_iter().find(|thing| thing.field("name").as_str() == Some(name))
    }

    fn write(&self, id: &str, fields: &Fields, config: &Value, ty: &Type) {
        let text = Value::Fields(fields.clone()).to_state_json(ty).expect("all is known");
        // Whole or not at all: others look at the shelf, too.
        let beside = self.path(id).with_extension("new");
        std::fs::write(&beside, text).expect("a place on the shelf");
        std::fs::rename(&beside, self.path(id)).expect("a place on the shelf");
        if let Some(secret) = config.field("secret_wo").as_str() {
            std::fs::write(self.directory.join(format!("{id}.wo")), secret).expect("a place on the shelf");
        }
    }

    fn remove(&self, id: &str) {
        let _ = std::fs::remove_file(self.path(id));
    }

    fn count(&self) -> usize {
        let names = std::fs::read_dir(&self.directory).expect("the shelf").flatten();
        names.filter(|entry| entry.path().extension().is_some_and(|end| end == "json")).count()
    }
}
