//! Named quantities: what a `ResourceList` holds.

use std::collections::BTreeMap;

use objects::quantity::Quantity;
use serde_json::{Map, Value};

/// Quantities by resource name, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads a `ResourceList`; what is absent is empty and what is no quantity is left out, for
    /// validation to complain about.
    pub fn of(list: Option<&Value>) -> Self {
        let entries = list.and_then(Value::as_object).into_iter().flatten();
        let amounts =
            entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_value(value).ok()?)));
        Amounts(amounts.collect())
    }

    /// As it is written into an object.
    pub fn to_value(&self) -> Value {
        let entries = self.0.iter().map(|(name, amount)| (name.clone(), Value::String(amount.to_string())));
        Value::Object(entries.collect::<Map<String, Value>>())
    }

    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            // The format of what was there first is kept, as upstream adds.
            let sum = self.get(name).map_or(amount, |own| own + amount);
            self.set(name, sum);
        }
    }

    /// The larger of the two, name by name.
    pub(crate) fn raise(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            if self.get(name).is_none_or(|own| amount > own) {
                self.set(name, amount);
            }
        }
    }

    /// What is more than in `other`, name by name; what is not more is zero.
    #[must_use]
    pub(crate) fn increase_over(&self, other: &Amounts) -> Amounts {
        let mut difference = Amounts::default();
        for (name, amount) in self.iter() {
            let change = other.get(name).map_or(amount, |before| amount - before);
            difference.set(name, if change > Quantity::ZERO { change } else { Quantity::ZERO });
        }
        difference
    }

    #[must_use]
    pub(crate) fn only(&self, keep: impl Fn(&str) -> bool) -> Amounts {
        Amounts(
            self.0
                .iter()
                .filter(|(name, _)| keep(name))
                .map(|(name, amount)| (name.clone(), *amount))
                .collect(),
        )
    }

    #[must_use]
    pub(crate) fn without_zeros(&self) -> Amounts {
        let mut rest = self.clone();
        rest.0.retain(|_, amount| !amount.is_zero());
        rest
    }
}

/// `cpu=1,pods=2`, as messages about quotas show amounts.
impl std::fmt::Display for Amounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (name, amount)) in self.iter().enumerate() {
            write!(f, "{}{name}={amount}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromIterator<(String, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (String, Quantity)>>(entries: I) -> Self {
        Amounts(entries.into_iter().collect())
    }
}
