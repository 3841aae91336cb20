//! A value, where it stands, and what was said about it so far.

use std::cell::RefCell;
use std::ops::Deref;

use objects::field::Error;
use objects::quantity::Quantity;
use objects::{ErrorList, Path, Value, names};

use crate::dotted::Dotted;

pub(crate) struct Place<'a> {
    pub value: &'a Value,
    path: Path,
    errors: &'a RefCell<ErrorList>,
}

/// A place reads like its value.
impl Deref for Place<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value
    }
}

/// Checks an object and returns what was found.
pub(crate) fn checked(object: &Value, check: impl FnOnce(&Place<'_>)) -> ErrorList {
    let errors = RefCell::default();
    check(&Place { value: object, path: Path::root(), errors: &errors });
    errors.into_inner()
}

impl<'a> Place<'a> {
    /// A part of the value, by a dotted path; null where there is none.
    pub fn at(&self, path: &str) -> Place<'a> {
        Place { value: self.value.at(path), path: self.path_to(path), errors: self.errors }
    }

    /// The elements of a list.
    pub fn items(&self, path: &str) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let (list, errors) = (self.path_to(path), self.errors);
        let items = self.value.list(path).iter().enumerate();
        items.map(move |(i, value)| Place { value, path: list.index(i), errors })
    }

    /// The entries of a map, `path[key]`.
    pub fn keyed(&self, path: &str) -> impl Iterator<Item = (&'a str, Place<'a>)> + use<'a> {
        let (map, errors) = (self.path_to(path), self.errors);
        let entries = self.value.at(path).as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), Place { value, path: map.key(key), errors }))
    }

    /// The same value under another name: upstream reports some errors beside the field they are about.
    pub fn called(&self, path: Path) -> Place<'a> {
        Place { value: self.value, path, errors: self.errors }
    }

    /// Another value in the same place: upstream checks some objects as they will be, not as they are.
    pub fn instead<'b>(&self, value: &'b Value) -> Place<'b>
    where
        'a: 'b,
    {
        Place { value, path: self.path.clone(), errors: self.errors }
    }

    pub fn path_to(&self, path: &str) -> Path {
        if path.is_empty() { self.path.clone() } else { self.path.child(path) }
    }

    pub fn report(&self, error: Error) {
        self.errors.borrow_mut().push(error);
    }

    pub fn extend(&self, errors: ErrorList) {
        self.errors.borrow_mut().extend(errors);
    }

    /// How much was said so far, about anything.
    pub fn said(&self) -> usize {
        self.errors.borrow().len()
    }

    pub fn required(&self, path: &str, detail: impl Into<String>) {
        self.report(Error::required(&self.path_to(path), detail));
    }

    pub fn forbidden(&self, path: &str, detail: impl Into<String>) {
        self.report(Error::forbidden(&self.path_to(path), detail));
    }

    pub fn invalid(&self, path: &str, detail: impl Into<String>) {
        self.report(Error::invalid(&self.path_to(path), self.value.at(path).clone(), detail));
    }

    /// Invalid, shown as something else than what stands there.
    pub fn invalid_as(&self, path: &str, shown: impl Into<Value>, detail: impl Into<String>) {
        self.report(Error::invalid(&self.path_to(path), shown, detail));
    }

    pub fn duplicate(&self, path: &str) {
        self.report(Error::duplicate(&self.path_to(path), self.value.at(path).clone()));
    }

    pub fn not_found(&self, path: &str) {
        self.report(Error::not_found(&self.path_to(path), self.value.at(path).clone()));
    }

    pub fn unsupported(&self, path: &str, supported: &[&str]) {
        self.report(Error::not_supported(&self.path_to(path), self.value.at(path).clone(), supported));
    }

    pub fn too_many(&self, path: &str, max: usize) {
        self.report(Error::too_many(&self.path_to(path), self.value.count(path), max));
    }

    /// Text that must be there. Tells whether it is.
    pub fn need(&self, path: &str) -> bool {
        let there = !self.value.text(path).is_empty();
        if !there {
            self.required(path, "");
        }
        there
    }

    /// Text of a shape, whatever it is.
    pub fn shape(&self, path: &str, rule: fn(&str) -> Vec<String>) {
        for sentence in rule(self.value.text(path)) {
            self.invalid_as(path, self.value.text(path), sentence);
        }
    }

    /// Text of a shape, if there is any.
    pub fn shape_if(&self, path: &str, rule: fn(&str) -> Vec<String>) {
        if !self.value.text(path).is_empty() {
            self.shape(path, rule);
        }
    }

    /// Text that must be there and of a shape.
    pub fn need_shape(&self, path: &str, rule: fn(&str) -> Vec<String>) {
        if self.need(path) {
            self.shape(path, rule);
        }
    }

    /// One of these, and required.
    pub fn choice(&self, path: &str, allowed: &[&str]) {
        if self.need(path) {
            self.choice_if(path, allowed);
        }
    }

    /// One of these, if it is there.
    pub fn choice_if(&self, path: &str, allowed: &[&str]) {
        if self.value.has(path) && !allowed.contains(&self.value.text(path)) {
            self.unsupported(path, allowed);
        }
    }

    pub fn not_negative(&self, path: &str) {
        if self.value.number(path) < 0 {
            self.invalid(path, "must be greater than or equal to 0");
        }
    }

    /// Zero is no positive number, and neither is nothing.
    pub fn positive(&self, path: &str) {
        if self.value.number(path) <= 0 {
            self.invalid_as(path, self.value.number(path), "must be greater than zero");
        }
    }

    /// A number within bounds, if it is there.
    pub fn in_range(&self, path: &str, low: i64, high: i64) {
        if let Some(number) = self.value.int(path) {
            for sentence in names::in_range(number, low, high) {
                self.invalid(path, sentence);
            }
        }
    }

    /// The number of a port, which cannot be zero.
    pub fn port(&self, path: &str) {
        for sentence in names::port_number(self.value.number(path)) {
            self.invalid_as(path, self.value.number(path), sentence);
        }
    }

    pub fn port_or_name(&self, path: &str) {
        match self.value.at(path) {
            Value::String(_) => self.shape(path, names::port_name),
            _ => self.port(path),
        }
    }

    /// A quantity that can be read; says so if it cannot.
    pub fn quantity(&self, path: &str) -> Option<Quantity> {
        match Quantity::from_value(self.value.at(path)) {
            Ok(quantity) => Some(quantity),
            Err(error) => {
                self.invalid(path, error.to_string());
                None
            }
        }
    }

    pub fn not_negative_quantity(&self, path: &str) {
        if self.quantity(path).is_some_and(|quantity| quantity.sign() < 0) {
            self.invalid(path, "must be greater than or equal to 0");
        }
    }

    /// A number that is not negative or a percentage.
    pub fn int_or_percent(&self, path: &str) {
        match self.value.at(path) {
            Value::String(_) => self.shape(path, names::percent),
            _ => self.not_negative(path),
        }
    }

    /// A map of labels.
    pub fn labels(&self, path: &str) {
        if let Some(labels) = self.value.at(path).as_object() {
            self.extend(objects::metadata::labels(labels, &self.path_to(path)));
        }
    }

    /// What differs from the old object and may not.
    pub fn immutable(&self, old: &Value, paths: &[&str]) {
        for path in paths {
            if !crate::behaviour::same(self.value.at(path), old.at(path)) {
                self.invalid(path, "field is immutable");
            }
        }
    }
}

/// Reports every value that is in the list before, at a path of the elements.
pub(super) fn no_repeats<'a>(items: impl Iterator<Item = Place<'a>>, path: &str) {
    let mut seen: Vec<&Value> = Vec::new();
    for item in items {
        let value = item.value.at(path);
        if seen.contains(&value) {
            item.duplicate(path);
        } else if !value.is_null() {
            seen.push(value);
        }
    }
}
