//! The words of a rule file, as types. What each word means is told in `rules/README.md`.
//!
//! Not here: whether a word fits the model ([`super::check`]) and what a kind looks like in the end
//! ([`crate::kinds`]).

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use std::collections::BTreeMap;

/// The rules of one service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// What no kind shows.
    #[serde(default)]
    pub drop: Drop,
    /// Structures without members that are shown as maps of strings.
    #[serde(default)]
    pub opaque: Vec<Spanned<String>>,
    /// Members that are dropped because they only say how many items another one has.
    #[serde(default)]
    pub counted: BTreeMap<String, Spanned<String>>,
    /// Boxed: maps keep room for more of them than most services have.
    pub kinds: BTreeMap<String, Spanned<Box<Kind>>>,
}

/// Shapes and members that no kind shows.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drop {
    #[serde(default)]
    pub shapes: Vec<Spanned<String>>,
    /// Members by the structure that has them; `<Operation>Input` and `<Operation>Output` name messages.
    #[serde(default)]
    pub members: BTreeMap<String, Spanned<Vec<String>>>,
}

/// The rules of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// The model's word for the kind, where it is spelled in another way.
    pub named: Option<String>,
    /// The plural, where it does not follow from the kind.
    pub plural: Option<String>,
    #[serde(default)]
    pub short: Vec<String>,
    #[serde(default)]
    pub columns: Vec<Column>,
    pub operations: Operations,
    pub attributes: Option<Attributes>,
    /// The one member of the creating call whose members are the fields.
    pub inside: Option<Spanned<String>>,
    /// Where the object lies in the answer of an operation.
    #[serde(default)]
    pub answers: BTreeMap<String, Spanned<String>>,
    /// Members that an operation always gets.
    #[serde(default)]
    pub constants: BTreeMap<String, Spanned<BTreeMap<String, Value>>>,
    /// What the fields are called that an operation's members are, where the words differ.
    #[serde(default)]
    pub renames: BTreeMap<String, Spanned<BTreeMap<String, String>>>,
    /// Whether the token that makes a call repeatable is a field.
    pub token: Option<Token>,
    /// What identifies an object, where it is not a field.
    pub key: Option<Key>,
    /// By path, in the model's words.
    #[serde(default)]
    pub fields: BTreeMap<String, Spanned<Box<Field>>>,
    #[serde(default)]
    pub tags: TagsRule,
    #[serde(default)]
    pub errors: Errors,
    #[serde(default)]
    pub synced: Vec<Gate>,
    #[serde(default)]
    pub updatable: Vec<Gate>,
    #[serde(default)]
    pub deletable: Vec<Gate>,
    /// States from which there is no return without a change of the spec.
    #[serde(default)]
    pub failed: Vec<Gate>,
    /// Open gates say that the object counts as not found.
    #[serde(default)]
    pub gone: Vec<Gate>,
    /// All of the kind's behaviour is told, and tried against an emulator.
    #[serde(default)]
    pub full: bool,
    /// A named function does all calls of the kind.
    pub function: Option<String>,
    /// Fields that pick the object out of a list.
    #[serde(default, rename = "match")]
    pub matching: Vec<Spanned<String>>,
    /// Seconds to the next look after all is well.
    pub requeue: Option<u32>,
    /// An update sends what changed, and what identifies the object, and nothing else.
    #[serde(default)]
    pub send_changed_only: bool,
    pub read: Option<Call>,
    /// Lists all that an account has, where the listing operation does not, or has more than that.
    pub listing: Option<Call>,
    /// What looks for something that an interrupted create may have made, where reading needs what only its answer tells.
    pub find: Option<Call>,
    /// Carries a tag that says whose it is, because a name does not say it, or there is none.
    #[serde(default)]
    pub marked: bool,
    #[serde(default)]
    pub create: Vec<Variant>,
    #[serde(default)]
    pub update: Vec<Step>,
    pub delete: Option<Delete>,
    #[serde(default)]
    pub parts: BTreeMap<String, Spanned<Part>>,
    #[serde(default)]
    pub collections: BTreeMap<String, Spanned<Collection>>,
    pub versions: Option<Versions>,
    /// Answers that show several fields, or what lies beside the object.
    #[serde(default)]
    pub looks: Vec<Look>,
    /// Annotations of the object that become members of a call.
    #[serde(default)]
    pub annotations: BTreeMap<String, AnnotationRule>,
}

/// A printed column.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Column {
    /// `synced` or `age`, the columns that many kinds have.
    Known(KnownColumn),
    /// Name, path and type.
    Shown(String, String, String),
    /// Name, path, type and priority.
    Ranked(String, String, String, i32),
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum KnownColumn {
    Synced,
    Age,
}

/// The operations of a kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    pub create: Spanned<String>,
    /// Answers with one object.
    pub read: Option<Spanned<String>>,
    /// Answers with many, of which one is the object.
    pub list: Option<Spanned<String>>,
    pub update: Option<Spanned<String>>,
    pub delete: Option<Spanned<String>>,
    pub get_attributes: Option<Spanned<String>>,
    pub set_attributes: Option<Spanned<String>>,
}

impl Operations {
    /// Every operation that is named, with its role.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Spanned<String>)> {
        let roles = [
            ("create", Some(&self.create)),
            ("read", self.read.as_ref()),
            ("list", self.list.as_ref()),
            ("update", self.update.as_ref()),
            ("delete", self.delete.as_ref()),
            ("get_attributes", self.get_attributes.as_ref()),
            ("set_attributes", self.set_attributes.as_ref()),
        ];
        roles.into_iter().filter_map(|(role, operation)| Some((role, operation?)))
    }
}

/// Fields that travel in a map of strings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    /// The setting call takes a name and a value instead of a map.
    #[serde(default)]
    pub one_by_one: bool,
    /// Members that the getting call needs.
    #[serde(default)]
    pub ask: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Token {
    Drop,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// The ARN in `status.ackResourceMetadata`.
    Arn,
}

/// What is told of a field beyond what the model tells.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// A type of its own: `string`, `bool`, `int64`, `[]string`, `map[string]string`.
    #[serde(rename = "type")]
    pub literal: Option<String>,
    /// `Operation` or `Operation.path`: the type is that of the message or of a member in it.
    pub from: Option<String>,
    pub list_of: Option<String>,
    pub map_of: Option<String>,
    /// In the status, not in the spec.
    #[serde(default)]
    pub status: bool,
    #[serde(default)]
    pub attribute: bool,
    /// The published name, where it does not follow from the word.
    #[serde(rename = "as")]
    pub published: Option<String>,
    pub required: Option<bool>,
    #[serde(default)]
    pub immutable: bool,
    #[serde(default)]
    pub secret: bool,
    /// AWS takes it and never shows it, or not in clear.
    #[serde(default)]
    pub hidden: bool,
    /// Identifies the object.
    #[serde(default)]
    pub key: bool,
    #[serde(default)]
    pub arn: bool,
    #[serde(default)]
    pub owner: bool,
    /// `service/Kind path`: the field may be given by naming an object.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The named object need not be synced (cycles).
    #[serde(default)]
    pub ref_unready: bool,
    pub late: Option<Late>,
    pub compare: Option<Compare>,
    /// What it is put to, in published names, when the spec leaves it empty and AWS has something there.
    pub clear: Option<Value>,
    /// Why a change of it is not noticed.
    pub unseen: Option<String>,
    /// Brought to its wanted value before the object is deleted.
    #[serde(default)]
    pub before_delete: bool,
    /// Calls that do not send the field, though they have a member for it.
    #[serde(default)]
    pub unsent: Vec<Verb>,
    /// What reading shows under its word is not taken: it is something else there, or stale.
    #[serde(default)]
    pub unread: bool,
    /// Where the field lies in the answer of the reading call.
    pub read_from: Option<String>,
    /// A named function tells from the answer of the reading call what it is.
    pub shown_by: Option<String>,
    /// The member that the field is in requests.
    pub send_to: Option<String>,
}

impl Field {
    /// Whether what reading shows under the field's word is left there.
    pub fn is_not_taken(&self) -> bool {
        self.unread || self.hidden
    }
}

/// Whether the spec takes what AWS chose for an empty field.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Late {
    /// The object is not synced until it is there.
    Wait,
    /// Whenever it comes.
    Soon,
}

/// How a wanted value and a found one are compared.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// Not at all: a part, a collection or a function looks after the field, or nothing can.
    Ignore,
    /// Empty equals zero.
    Zero,
    /// As policies: order of statements, actions and principals, one or a list of one, do not count.
    Policy,
    /// As JSON documents.
    Document,
    /// As a set, also where the items are structures.
    Set,
    /// Without case.
    Caseless,
    /// Without the dot at the end of a domain name.
    Domain,
    /// Only where the spec says something.
    IfSet,
    /// Only where reading shows something.
    IfFound,
    /// Equal when one is the ARN that ends with the other.
    ArnOrName,
    /// Equal when the found one begins with the wanted one: versions.
    Prefix,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    Create,
    Read,
    Update,
    Delete,
    Any,
}

/// `false`, or how the tags of a kind are kept.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum TagsRule {
    Kept(bool),
    Told(Box<Tags>),
}

impl Default for TagsRule {
    fn default() -> TagsRule {
        TagsRule::Kept(true)
    }
}

/// How the tags of a kind are kept.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tags {
    /// The field, in the model's words; `Tags` where nothing is said.
    pub field: Option<String>,
    pub key: Option<String>,
    pub value: Option<String>,
    /// Reads them, where the object does not show them.
    pub get: Option<Call>,
    /// `$tags` are the tags to set, in the form of the member they are sent in.
    pub add: Option<Call>,
    /// `$keys` are the keys to remove.
    pub remove: Option<Call>,
}

/// What the codes of errors mean.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    #[serde(default)]
    pub not_found: Vec<NotFound>,
    #[serde(default)]
    pub terminal: Vec<String>,
    /// Codes that will pass, though they look like the caller's fault.
    #[serde(default)]
    pub retry: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum NotFound {
    Code(String),
    Message(NotFoundMessage),
}

/// A code that many faults share, and how the message begins or ends when nothing is there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotFoundMessage {
    pub code: String,
    pub starts: Option<String>,
    pub ends: Option<String>,
}

/// Open while the value at a path (`status.state`) is one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub at: Spanned<String>,
    #[serde(rename = "in")]
    pub values: Vec<Value>,
}

/// A call, what it sends and what is taken from its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub call: Spanned<String>,
    /// A tree of members; a string that begins with `$` is looked up.
    #[serde(default)]
    pub send: Value,
    /// Where in the answer the value lies; `[]` goes through a list.
    pub take: Option<String>,
    /// Codes that say that there is nothing.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Codes that are as good as success.
    #[serde(default)]
    pub ignore: Vec<String>,
    #[serde(default)]
    pub when: Vec<String>,
    /// The members of `$item` are members of the call.
    #[serde(default)]
    pub spread: bool,
    /// Nothing else is written in this pass; the next look goes on.
    #[serde(default)]
    pub alone: bool,
}

/// Another operation that creates the object when its conditions hold; the first that fits is used.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The creating operation of the kind where nothing is said.
    pub call: Option<Spanned<String>>,
    #[serde(default)]
    pub when: Vec<String>,
    #[serde(default)]
    pub send: Value,
}

/// One call of an update.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The updating operation of the kind where nothing is said.
    pub call: Option<Spanned<String>>,
    /// Made when one of these differs; all that no part and no other step has, where nothing is said.
    #[serde(default)]
    pub fields: Vec<Spanned<String>>,
    /// Of the fields, only those that differ are sent.
    #[serde(default)]
    pub changed_only: bool,
    #[serde(default)]
    pub when: Vec<String>,
    #[serde(default)]
    pub send: Value,
    /// A named function does it instead of a call.
    pub function: Option<String>,
    /// Nothing else is written in this pass; the next look goes on.
    #[serde(default)]
    pub alone: bool,
}

/// What deleting needs beyond its operation.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    pub call: Option<Spanned<String>>,
    #[serde(default)]
    pub before: Vec<Call>,
    #[serde(default)]
    pub send: Value,
    /// The object is gone when it is no longer found, not when the call is answered.
    #[serde(default)]
    pub wait: bool,
}

/// A field that has calls of its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub get: Option<Call>,
    /// `$value` is the field as AWS wants it.
    pub put: Call,
    /// Makes it absent; where nothing is said, `default` is put.
    pub delete: Option<Call>,
    /// What is there when nothing was ever put: an empty field equals it.
    pub default: Option<Value>,
    /// Parts that are put before this one.
    #[serde(default)]
    pub after: Vec<String>,
    /// Created with the object: the creating call carries the field.
    #[serde(default)]
    pub on_create: bool,
    /// An empty field is left as it is found.
    #[serde(default)]
    pub keep: bool,
    /// The same where the spec has one of these fields, which want it so.
    #[serde(default)]
    pub keep_with: Vec<Spanned<String>>,
    /// What is there is deleted before another value is put.
    #[serde(default)]
    pub replace: bool,
    /// What is there is deleted before the object is.
    #[serde(default)]
    pub clear_before_delete: bool,
    /// A wanted value for which `delete` is called instead of `put`.
    pub delete_when: Option<Value>,
    /// Members, by published name, that are true when what was read has one of these words at a path.
    #[serde(default)]
    pub truths: BTreeMap<String, Truth>,
    /// The field is a list of which only the wanted items count; the member that identifies an item.
    pub subset: Option<String>,
}

/// A word in an answer that a request says as true or false.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    pub at: String,
    pub is: Vec<String>,
}

/// A field whose items are added and removed one by one or in batches.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    /// Where nothing is said, the object itself shows the items.
    pub list: Option<Call>,
    /// For each key listed, what the item is (`$key`).
    pub each: Option<Call>,
    /// Asked before items come and go: its answer is `$reply` then.
    pub ask: Option<Call>,
    /// The members that identify an item, in published names; the whole item where nothing is said.
    #[serde(default)]
    pub key: Vec<String>,
    /// `$item`, `$key` (of maps), or `$items` in batches.
    pub add: Call,
    pub remove: Option<Call>,
    /// For an item whose key is there with another value; without it, it is removed and added.
    pub change: Option<Call>,
    /// As many items as a call takes; one where nothing is said.
    pub batch: Option<u32>,
    /// All items are removed before the object is deleted.
    #[serde(default)]
    pub clear_before_delete: bool,
    /// Items come with the creating call.
    #[serde(default)]
    pub on_create: bool,
    /// Where the items lie in the object that was read, where it is not under the field's word.
    pub read_from: Option<String>,
    /// A list of structures that is a map: the members that are key and value.
    pub pairs: Option<Pairs>,
    /// An empty field is left as it is found.
    #[serde(default)]
    pub keep: bool,
    /// A named function brings both sides into one form before they are compared.
    pub canonical: Option<String>,
    /// Texts are URL-encoded in answers.
    #[serde(default)]
    pub url_encoded: bool,
}

/// The members of a structure that are key and value of a map.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    pub key: String,
    pub value: String,
}

/// Fields of which an answer tells: that of a call of its own, of the call that lists a collection, or of the reading call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    pub read: Option<Call>,
    /// The collection.
    pub of: Option<Spanned<String>>,
    /// By the field's word, where it lies in the whole answer.
    pub fills: BTreeMap<String, Spanned<String>>,
}

/// A document of which AWS keeps versions that never change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    pub field: String,
    pub list: Call,
    pub id: String,
    pub is_default: String,
    pub created: String,
    /// As many as AWS keeps; the oldest is deleted before one too many.
    pub most: u32,
    pub create: Call,
    /// `$version` is the id.
    pub delete: Call,
    /// Reads the default version's document.
    pub get: Option<Call>,
    #[serde(default)]
    pub url_encoded: bool,
}

/// An annotation that becomes a member of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnotationRule {
    pub operation: Spanned<String>,
    pub member: String,
    #[serde(rename = "type")]
    pub literal: String,
    pub default: Option<Value>,
}
