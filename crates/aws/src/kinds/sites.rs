//! Structures of the model as the rules want them seen: members left out, added, renamed, told more of.
//!
//! ACK generates one Go type per structure, so what a rule says of one path holds wherever the structure is used
//! in the service. The input and the output of an operation are structures of their own, even where the model
//! uses one shape for several.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use crate::crd::names;
use crate::model::{self, Kind as ShapeKind, Shape};
use crate::rules::ServiceRules;
use crate::rules::vocabulary::{Drop, Field as FieldRule};

/// A structure that rules can speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Input(&'static str),
    Output(&'static str),
    Shape(u32),
}

/// A shape, and as what it is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    pub place: Place,
    pub shape: Shape<'static>,
}

impl Site {
    pub fn of(shape: Shape<'static>) -> Site {
        Site { place: Place::Shape(shape.id()), shape }
    }

    /// The message an operation takes.
    pub fn input(model: &'static model::Service, operation: &str) -> Option<Site> {
        let operation = model.operation(operation)?;
        Some(Site { place: Place::Input(operation.name()), shape: operation.input()? })
    }

    /// The message an operation answers with.
    pub fn output(model: &'static model::Service, operation: &str) -> Option<Site> {
        let operation = model.operation(operation)?;
        Some(Site { place: Place::Output(operation.name()), shape: operation.output()? })
    }

    /// A structure by the word of a rule: a message (`CreateQueueInput`) or a shape.
    pub fn named(model: &'static model::Service, word: &str) -> Option<Site> {
        let message = |ending: &str, find: fn(&'static model::Service, &str) -> Option<Site>| {
            find(model, word.strip_suffix(ending)?)
        };
        message("Input", Site::input)
            .or_else(|| message("Output", Site::output))
            .or_else(|| model.shape(word).map(Site::of))
    }

    /// What lies inside lists and maps.
    pub fn content(self) -> Site {
        let mut site = self;
        // Models nest lists and maps a few levels at most; the bound keeps a faulty model from going round.
        for _ in 0..8 {
            let inner = match site.shape.kind() {
                ShapeKind::List => site.shape.element().map(|element| element.shape()),
                ShapeKind::Map => site.shape.entry().map(|(_, value)| value.shape()),
                _ => None,
            };
            match inner {
                Some(shape) => site = Site::of(shape),
                None => break,
            }
        }
        site
    }

    /// The member of this structure, or of the structures in this list or map.
    pub fn member(self, word: &str) -> Option<Site> {
        self.content().shape.member(word).map(|member| Site::of(member.shape()))
    }
}

/// A type that no shape has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    String,
    Boolean,
    Integer,
    Number,
    Time,
    Bytes,
    List(Box<Literal>),
    Map(Box<Literal>),
}

impl Literal {
    /// `string`, `[]string`, `map[string]string`, ...
    pub fn parse(text: &str) -> Option<Literal> {
        if let Some(element) = text.strip_prefix("[]") {
            return Some(Literal::List(Box::new(Literal::parse(element)?)));
        }
        if let Some(value) = text.strip_prefix("map[string]") {
            return Some(Literal::Map(Box::new(Literal::parse(value)?)));
        }
        Some(match text {
            "string" => Literal::String,
            "bool" => Literal::Boolean,
            "int" | "int64" => Literal::Integer,
            "float64" => Literal::Number,
            "time.Time" => Literal::Time,
            "bytes" => Literal::Bytes,
            _ => return None,
        })
    }
}

/// What the rules say of one structure.
#[derive(Debug, Default)]
pub struct Told {
    pub dropped: Vec<String>,
    pub added: BTreeMap<String, Literal>,
    pub published: BTreeMap<String, String>,
    pub referring: BTreeMap<String, bool>,
    pub secret: Vec<String>,
    pub immutable: Vec<String>,
}

/// What the rules of a service say of its structures.
#[derive(Debug, Default)]
pub struct Overlay {
    told: HashMap<Place, Told>,
    dropped_shapes: Vec<u32>,
    opaque: Vec<u32>,
    counted: Vec<(String, String)>,
    /// Published names of words; as many as the model has words in use.
    published: RwLock<HashMap<Box<str>, Arc<str>>>,
}

static NOTHING: Told = Told {
    dropped: Vec::new(),
    added: BTreeMap::new(),
    published: BTreeMap::new(),
    referring: BTreeMap::new(),
    secret: Vec::new(),
    immutable: Vec::new(),
};

impl Overlay {
    /// What drops say; words that the model does not know are the business of `rules::check`.
    pub fn new(model: &'static model::Service, rules: &ServiceRules) -> Overlay {
        let Drop { shapes, members } = &rules.rules.drop;
        let id = |word: &str| Some(model.shape(word)?.id());
        let mut overlay = Overlay {
            told: HashMap::new(),
            dropped_shapes: shapes.iter().filter_map(|word| id(&word.value)).collect(),
            opaque: rules.rules.opaque.iter().filter_map(|word| id(&word.value)).collect(),
            counted: rules
                .rules
                .counted
                .iter()
                .map(|(count, items)| (count.clone(), items.value.clone()))
                .collect(),
            published: RwLock::default(),
        };
        for (structure, members) in members {
            if let Some(site) = Site::named(model, structure) {
                overlay.told.entry(site.place).or_default().dropped.extend(members.value.iter().cloned());
            }
        }
        overlay
    }

    pub fn told(&self, place: Place) -> &Told {
        self.told.get(&place).unwrap_or(&NOTHING)
    }

    /// The published name of a word, worked out once.
    pub fn published(&self, word: &str) -> Arc<str> {
        let known = self.published.read().map(|known| known.get(word).cloned()).unwrap_or_default();
        known.unwrap_or_else(|| {
            let name: Arc<str> = names::published(word).into();
            if let Ok(mut known) = self.published.write() {
                known.insert(word.into(), name.clone());
            }
            name
        })
    }

    pub fn is_opaque(&self, shape: Shape<'_>) -> bool {
        self.opaque.contains(&shape.id())
    }

    /// The members of a structure that are seen, with their words, sorted.
    pub fn members(&self, site: Site) -> impl Iterator<Item = (&'static str, Site)> + use<'_> {
        let told = self.told(site.place);
        site.shape.members().filter_map(move |member| {
            let gone = told.dropped.iter().any(|word| word == member.name())
                || self.dropped_shapes.contains(&member.shape().id());
            if gone { None } else { Some((member.name(), Site::of(member.shape()))) }
        })
    }

    /// The members of a structure that nobody sees because they only count the items of another, and those others.
    pub fn counts(&self, site: Site) -> impl Iterator<Item = (&str, &str)> {
        let dropped = &self.told(site.place).dropped;
        let counted = self
            .counted
            .iter()
            .filter(move |(count, items)| dropped.contains(count) && site.shape.member(items).is_some());
        counted.map(|(count, items)| (count.as_str(), items.as_str()))
    }

    /// The members of a structure that are published as texts of JSON, because their structures hold themselves.
    pub fn texts(&self, site: Site) -> impl Iterator<Item = &'static str> + use<'_> {
        let told = self.told(site.place).added.iter().filter(|(_, literal)| **literal == Literal::String);
        told.filter_map(move |(word, _)| {
            let member = site.shape.member(word)?;
            let nested = matches!(
                member.shape().kind(),
                ShapeKind::Structure | ShapeKind::Union | ShapeKind::List | ShapeKind::Map
            );
            nested.then(|| member.name())
        })
    }

    /// Takes in what a rule says of a path below a field (`rest` are the words after the field's).
    pub fn tell(&mut self, field: Site, rest: &[&str], rule: &FieldRule) {
        let Some((last, parents)) = rest.split_last() else { return };
        let mut site = field.content();
        for word in parents {
            match site.member(word) {
                Some(member) => site = member.content(),
                None => return,
            }
        }
        let of_list = site.member(last).is_some_and(|member| member.shape.kind() == ShapeKind::List);
        let told = self.told.entry(site.place).or_default();
        if let Some(literal) = rule.literal.as_deref().and_then(Literal::parse) {
            told.added.insert((*last).to_owned(), literal);
        }
        if let Some(name) = &rule.published {
            told.published.insert((*last).to_owned(), name.clone());
        }
        if rule.reference.is_some() {
            told.referring.insert((*last).to_owned(), of_list);
        }
        for (said, words) in [(rule.secret, &mut told.secret), (rule.immutable, &mut told.immutable)] {
            if said && !words.iter().any(|word| word == last) {
                words.push((*last).to_owned());
            }
        }
    }
}
