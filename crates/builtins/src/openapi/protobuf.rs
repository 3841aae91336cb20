//! The version 2 document in protobuf: what kubectl before 1.27 asks for, and takes nothing else.
//!
//! The messages are `openapi.v2.Document` and its parts as gnostic defines them. Each is a table of the JSON
//! words it knows and the number and form each has on the wire; words that no table knows are dropped, and
//! those that begin with `x-` are vendor extensions.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Document;

/// How clients ask for this form, and what it is called in the answer.
pub const V2_PROTOBUF_ACCEPT: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
pub const V2_PROTOBUF_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The form of a field.
enum Form {
    Text,
    Texts,
    Flag,
    Count,
    Number,
    /// Any JSON, which travels as YAML
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// An object whose members are pairs of a name and a message, inside a message of its own
    Named(&'static Message),
    /// `type`: one or several names, inside a message of its own
    Names,
    /// `items`: a schema, inside a message of its own
    Items,
    /// `additionalProperties`: a schema or a boolean
    Additional,
    /// An element of `parameters`, which is sorted by where it is
    Parameters,
    /// `schema` of a response, inside a choice
    Choice(&'static Message),
    /// `responses`: each a choice of a response and a reference
    Responses,
    /// `security`: names with lists of names
    Requirements,
}

struct Message {
    fields: &'static [(&'static str, u32, Form)],
    /// The number of `vendor_extension`
    extension: u32,
}

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Form::Text),
        ("info", 2, Form::One(&INFO)),
        ("definitions", 9, Form::Named(&SCHEMA)),
        ("security", 12, Form::Requirements),
        ("securityDefinitions", 13, Form::Named(&SECURITY)),
    ],
    extension: 16,
};

static INFO: Message =
    Message { fields: &[("title", 1, Form::Text), ("version", 2, Form::Text)], extension: 7 };

/// A choice whose second branch is the key in a header.
static SECURITY: Message = Message { fields: &[("", 2, Form::One(&API_KEY))], extension: 0 };

static API_KEY: Message = Message {
    fields: &[("type", 1, Form::Text), ("name", 2, Form::Text), ("in", 3, Form::Text)],
    extension: 5,
};

static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, Form::One(&OPERATION)),
        ("put", 3, Form::One(&OPERATION)),
        ("post", 4, Form::One(&OPERATION)),
        ("delete", 5, Form::One(&OPERATION)),
        ("patch", 8, Form::One(&OPERATION)),
        ("parameters", 9, Form::Parameters),
    ],
    extension: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Form::Texts),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("produces", 6, Form::Texts),
        ("consumes", 7, Form::Texts),
        ("parameters", 8, Form::Parameters),
        ("responses", 9, Form::Responses),
        ("schemes", 10, Form::Texts),
    ],
    extension: 13,
};

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Flag),
        ("schema", 5, Form::One(&SCHEMA)),
    ],
    extension: 6,
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 6, Form::Text),
        ("format", 7, Form::Text),
        ("uniqueItems", 20, Form::Flag),
    ],
    extension: 23,
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("format", 6, Form::Text),
        ("uniqueItems", 19, Form::Flag),
    ],
    extension: 22,
};

static RESPONSE: Message =
    Message { fields: &[("description", 1, Form::Text), ("schema", 2, Form::Choice(&SCHEMA))], extension: 5 };

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Any),
        ("multipleOf", 6, Form::Number),
        ("maximum", 7, Form::Number),
        ("exclusiveMaximum", 8, Form::Flag),
        ("minimum", 9, Form::Number),
        ("exclusiveMinimum", 10, Form::Flag),
        ("maxLength", 11, Form::Count),
        ("minLength", 12, Form::Count),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Count),
        ("minItems", 15, Form::Count),
        ("uniqueItems", 16, Form::Flag),
        ("maxProperties", 17, Form::Count),
        ("minProperties", 18, Form::Count),
        ("required", 19, Form::Texts),
        ("enum", 20, Form::Anys),
        ("additionalProperties", 21, Form::Additional),
        ("type", 22, Form::Names),
        ("items", 23, Form::Items),
        ("allOf", 24, Form::Many(&SCHEMA)),
        ("properties", 25, Form::Named(&SCHEMA)),
        ("example", 30, Form::Any),
    ],
    extension: 31,
};

/// Encodes a document of [`super::v2_document`].
pub fn v2_protobuf(document: &Document) -> Bytes {
    let json: Map<String, Value> = serde_json::from_slice(&document.bytes).unwrap_or_default();
    let mut out = Writer::default();
    out.message(&DOCUMENT, &json);
    // The only object whose members are not its first field.
    let paths = json.get("paths").and_then(Value::as_object);
    out.nested(8, |out| {
        for (path, item) in paths.into_iter().flatten() {
            out.nested(2, |out| out.named(path, |out| out.one(&PATH_ITEM, item)));
        }
    });
    out.0.into()
}

/// The wire format: a key of number and kind, then the value.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn key(&mut self, number: u32, kind: u64) {
        self.varint(u64::from(number) << 3 | kind);
    }

    fn text(&mut self, number: u32, text: &str) {
        self.key(number, 2);
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn nested(&mut self, number: u32, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        write(&mut inner);
        self.key(number, 2);
        self.varint(inner.0.len() as u64);
        self.0.append(&mut inner.0);
    }

    /// `name = 1; value = 2`
    fn named(&mut self, name: &str, write: impl FnOnce(&mut Writer)) {
        self.text(1, name);
        self.nested(2, write);
    }

    /// `value = 1; yaml = 2`; JSON is YAML.
    fn any(&mut self, value: &Value) {
        self.text(2, &value.to_string());
    }

    fn one(&mut self, message: &Message, value: &Value) {
        if let Some(words) = value.as_object() {
            self.message(message, words);
        }
    }

    fn message(&mut self, message: &Message, words: &Map<String, Value>) {
        for (word, number, form) in message.fields {
            match words.get(*word) {
                Some(value) => self.field(*number, form, value),
                // A branch of a choice takes the whole object.
                None if word.is_empty() => {
                    if let Form::One(branch) = form {
                        self.nested(*number, |out| out.message(branch, words));
                    }
                }
                None => {}
            }
        }
        for (word, value) in words.iter().filter(|(word, _)| word.starts_with("x-")) {
            self.nested(message.extension, |out| out.named(word, |out| out.any(value)));
        }
    }

    fn field(&mut self, number: u32, form: &Form, value: &Value) {
        let each = || value.as_array().into_iter().flatten();
        let members = || value.as_object().into_iter().flatten();
        match form {
            Form::Text => value.as_str().into_iter().for_each(|text| self.text(number, text)),
            Form::Texts => each().filter_map(Value::as_str).for_each(|text| self.text(number, text)),
            Form::Flag => {
                if value == &Value::Bool(true) {
                    self.key(number, 0);
                    self.varint(1);
                }
            }
            Form::Count => {
                if let Some(count) = value.as_i64() {
                    self.key(number, 0);
                    self.varint(count as u64);
                }
            }
            Form::Number => {
                if let Some(float) = value.as_f64() {
                    self.key(number, 1);
                    self.0.extend_from_slice(&float.to_le_bytes());
                }
            }
            Form::Any => self.nested(number, |out| out.any(value)),
            Form::Anys => each().for_each(|one| self.nested(number, |out| out.any(one))),
            Form::One(message) => self.nested(number, |out| out.one(message, value)),
            Form::Many(message) => each().for_each(|one| self.nested(number, |out| out.one(message, one))),
            Form::Named(message) => self.nested(number, |out| {
                for (name, one) in members() {
                    out.nested(1, |out| out.named(name, |out| out.one(message, one)));
                }
            }),
            Form::Names => self.nested(number, |out| {
                let names = each().chain(std::iter::once(value)).filter_map(Value::as_str);
                names.for_each(|name| out.text(1, name));
            }),
            Form::Items => self.nested(number, |out| out.nested(1, |out| out.one(&SCHEMA, value))),
            Form::Additional => self.nested(number, |out| match value.as_bool() {
                Some(allowed) => {
                    out.key(2, 0);
                    out.varint(allowed.into());
                }
                None => out.nested(1, |out| out.one(&SCHEMA, value)),
            }),
            Form::Parameters => each().for_each(|one| self.nested(number, |out| out.parameter(one))),
            Form::Choice(message) => {
                self.nested(number, |out| out.nested(1, |out| out.one(message, value)));
            }
            Form::Responses => self.nested(number, |out| {
                for (code, response) in members() {
                    out.nested(1, |out| {
                        out.named(code, |out| out.nested(1, |out| out.one(&RESPONSE, response)));
                    });
                }
            }),
            Form::Requirements => {
                for requirement in each().filter_map(Value::as_object) {
                    self.nested(number, |out| {
                        for name in requirement.keys() {
                            out.nested(1, |out| out.named(name, |_| {}));
                        }
                    });
                }
            }
        }
    }

    /// A parameter, in the branch of two choices that fits where it is.
    fn parameter(&mut self, parameter: &Value) {
        let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
        self.nested(1, |out| match place {
            "body" => out.nested(1, |out| out.one(&BODY_PARAMETER, parameter)),
            "path" => out.nested(2, |out| out.nested(4, |out| out.one(&PATH_PARAMETER, parameter))),
            _ => out.nested(2, |out| out.nested(3, |out| out.one(&QUERY_PARAMETER, parameter))),
        });
    }
}
