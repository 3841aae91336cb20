//! The fields of a kind, from the creating call, its answer and the rules.

use std::collections::BTreeMap;

use super::sites::{Literal, Overlay, Site};
use crate::crd::names;
use crate::model::{self, Kind as ShapeKind};
use crate::rules::vocabulary::{Field as FieldRule, Kind as KindRules, Token};

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Spec,
    Status,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// As the model has it.
    Model(Site),
    ListOf(Site),
    MapOf(Site),
    Literal(Literal),
    /// `{from: {name, namespace}}`, or a list of it.
    Reference {
        of_list: bool,
    },
}

/// A top-level field of a kind.
#[derive(Clone, Debug)]
pub struct Field {
    /// In the model's words, after renaming; `fields` of the rules speak of it so.
    pub word: String,
    /// As it is published.
    pub name: String,
    pub home: Home,
    pub kind: Type,
    pub required: bool,
    pub immutable: bool,
    pub secret: bool,
    /// It travels in the attributes map, under its word.
    pub attribute: bool,
    /// The word of the field that this one refers for.
    pub refers_for: Option<String>,
}

/// What is needed to find the fields of a kind.
pub(super) struct Derivation<'a> {
    pub model: &'static model::Service,
    pub overlay: &'a Overlay,
    pub resource: &'a str,
    pub rules: &'a KindRules,
}

/// Fields by word.
type Fields = BTreeMap<String, Field>;

impl Derivation<'_> {
    /// Spec and status, sorted by published name.
    pub fn fields(&self) -> Vec<Field> {
        let mut spec = Fields::new();
        self.take_input(&mut spec);
        self.take_rules(&mut spec, Home::Spec);
        let mut status = Fields::new();
        self.take_output(&spec, &mut status);
        self.take_rules(&mut status, Home::Status);
        if self.rules.attributes.is_some() {
            self.take_attributes(&mut status, Home::Status);
        }
        let mut fields: Vec<Field> = spec.into_values().chain(status.into_values()).collect();
        fields.sort_by(|one, other| (one.home as u8, &one.name).cmp(&(other.home as u8, &other.name)));
        fields
    }

    fn create(&self) -> &str {
        &self.rules.operations.create.value
    }

    /// What a member of an operation is called as a field.
    fn word<'b>(&'b self, operation: &str, member: &'b str) -> &'b str {
        let renames = self.rules.renames.get(operation);
        renames.and_then(|renames| renames.value.get(member)).map_or(member, String::as_str)
    }

    fn rule(&self, word: &str) -> Option<&FieldRule> {
        self.rules.fields.get(word).map(|rule| &*rule.value)
    }

    fn take_input(&self, spec: &mut Fields) {
        let Some(input) = Site::input(self.model, self.create()) else { return };
        if let Some(inside) = &self.rules.inside {
            for (member, site) in
                input.member(&inside.value).into_iter().flat_map(|site| self.overlay.members(site))
            {
                self.add(spec, self.word(self.create(), member), Type::Model(site), Home::Spec);
            }
            return;
        }
        for (member, site) in self.overlay.members(input) {
            let is_token = input.shape.member(member).is_some_and(|member| member.is_idempotency_token());
            if is_token && self.rules.token == Some(Token::Drop) {
                continue;
            }
            if member == "Attributes" && self.rules.attributes.is_some() {
                self.take_attributes(spec, Home::Spec);
                continue;
            }
            self.add(spec, self.word(self.create(), member), Type::Model(site), Home::Spec);
        }
    }

    fn take_attributes(&self, fields: &mut Fields, home: Home) {
        for (word, rule) in &self.rules.fields {
            let rule = &rule.value;
            if rule.attribute && rule.status == (home == Home::Status) && !self.is_arn(word) {
                let kind =
                    fields.get(word).map_or(Type::Literal(Literal::String), |known| known.kind.clone());
                self.add(fields, word, kind, home);
            }
        }
    }

    fn take_rules(&self, fields: &mut Fields, home: Home) {
        for (word, rule) in &self.rules.fields {
            let rule = &rule.value;
            if rule.status != (home == Home::Status) || word.contains('.') {
                continue;
            }
            if let Some(kind) = told_type(self.model, rule) {
                self.add(fields, word, kind, home);
            }
        }
    }

    fn take_output(&self, spec: &Fields, status: &mut Fields) {
        let Some(mut output) = Site::output(self.model, self.create()) else { return };
        if let Some(path) = self.rules.answers.get(self.create()) {
            for word in path.value.split('.') {
                match output.member(word) {
                    Some(member) => output = member.content(),
                    None => return,
                }
            }
        } else {
            // An answer that is one structure is that structure.
            let mut members = self.overlay.members(output);
            if let (Some((_, only)), None) = (members.next(), members.next())
                && only.shape.is_structure()
            {
                output = only;
            }
        }
        for (member, site) in self.overlay.members(output) {
            let word = self.word(self.create(), member);
            let known = spec.contains_key(word) || spec.contains_key(self.word(self.create(), word));
            let is_map = member == "Attributes" && self.rules.attributes.is_some();
            if !known && !is_map && !self.is_arn(member) {
                self.add(status, word, Type::Model(site), Home::Status);
            }
        }
    }

    /// Whether a word is that of the object's own ARN, which stands in `ackResourceMetadata`.
    fn is_arn(&self, word: &str) -> bool {
        let told = self.rules.fields.iter().find(|(_, rule)| rule.value.arn);
        match told {
            Some((arn, _)) => arn.eq_ignore_ascii_case(word),
            None => {
                word.eq_ignore_ascii_case("arn")
                    || word.eq_ignore_ascii_case(&format!("{}arn", self.resource))
            }
        }
    }

    fn add(&self, fields: &mut Fields, word: &str, kind: Type, home: Home) {
        let rule = self.rule(word);
        let refers = home == Home::Spec && rule.is_some_and(|rule| rule.reference.is_some());
        let of_list = is_list(&kind);
        let name = rule.and_then(|rule| rule.published.clone()).unwrap_or_else(|| names::published(word));
        let field = Field {
            word: word.to_owned(),
            name,
            home,
            kind,
            required: home == Home::Spec && !refers && self.is_required(word, rule),
            immutable: home == Home::Spec && rule.is_some_and(|rule| rule.immutable),
            secret: rule.is_some_and(|rule| rule.secret),
            attribute: rule.is_some_and(|rule| rule.attribute),
            refers_for: None,
        };
        fields.insert(word.to_owned(), field);
        if refers {
            let reference = names::reference(word, of_list);
            let field = Field {
                name: names::published(&reference),
                word: reference.clone(),
                home,
                kind: Type::Reference { of_list },
                required: false,
                immutable: false,
                secret: false,
                attribute: false,
                refers_for: Some(word.to_owned()),
            };
            fields.insert(reference, field);
        }
    }

    fn is_required(&self, word: &str, rule: Option<&FieldRule>) -> bool {
        if let Some(required) = rule.and_then(|rule| rule.required) {
            return required;
        }
        let renames = self.rules.renames.get(self.create());
        let member = renames
            .and_then(|renames| renames.value.iter().find(|(_, field)| *field == word))
            .map_or(word, |(member, _)| member.as_str());
        let input = Site::input(self.model, self.create());
        input.and_then(|input| input.shape.member(member)).is_some_and(|member| member.is_required())
    }
}

/// The type that a rule gives a field.
pub(crate) fn told_type(model: &'static model::Service, rule: &FieldRule) -> Option<Type> {
    if let Some(from) = &rule.from {
        return source(model, from, rule.status).map(Type::Model);
    }
    if let Some(word) = &rule.list_of {
        return Site::named(model, word).map(Type::ListOf);
    }
    if let Some(word) = &rule.map_of {
        return Site::named(model, word).map(Type::MapOf);
    }
    rule.literal.as_deref().and_then(Literal::parse).map(Type::Literal)
}

/// What `Operation.path` means: fields of the spec look into the input first, those of the status into the output.
pub(crate) fn source(model: &'static model::Service, from: &str, status: bool) -> Option<Site> {
    let mut words = from.split('.');
    let operation = words.next()?;
    let words: Vec<&str> = words.collect();
    let input = Site::input(model, operation);
    let output = Site::output(model, operation);
    let messages = if status { [output, input] } else { [input, output] };
    messages
        .into_iter()
        .flatten()
        .find_map(|message| words.iter().try_fold(message, |site, word| site.member(word)))
}

fn is_list(kind: &Type) -> bool {
    match kind {
        Type::Model(site) => site.shape.kind() == ShapeKind::List,
        Type::ListOf(_) | Type::Literal(Literal::List(_)) => true,
        _ => false,
    }
}
