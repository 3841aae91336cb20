//! What apply asks about the versions of a type.

use std::borrow::Cow;

use objects::meta;
use schemas::Cursor;
use serde_json::Value;

use crate::compare::{Comparison, compare};
use crate::place::Place;
use crate::set::FieldSet;

/// The versions of one kind. An entry of `managedFields` speaks of the object as its version shows it.
pub trait Versions {
    /// The schema of a version; `None` if the kind has no such version (any more).
    fn cursor(&self, api_version: &str) -> Option<Cursor<'_>>;

    /// The object as another version shows it. Asked only for versions that have a cursor.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;

    /// What exists in every object of the kind, written or not, as Go writes its zero value:
    /// `{"spec": {"template": {"spec": {"containers": null}}}, "status": {}}`.
    ///
    /// Upstream's built-in kinds are Go structs, whose struct fields are always there, and so nobody becomes
    /// their owner by writing into them first. Custom resources have nothing of the kind.
    fn zero(&self, api_version: &str) -> Option<&Value> {
        let _ = api_version;
        None
    }
}

/// The kind could not be shown in a version that it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to convert object to version {0}")]
pub struct ConversionError(pub String);

/// An object as a version shows it; borrowed when it is in that version already.
pub(crate) fn at_version<'v>(
    versions: &dyn Versions,
    object: &'v Value,
    api_version: &str,
) -> Result<Cow<'v, Value>, ConversionError> {
    let is_already = meta::api_version(object);
    if is_already == api_version || is_already.is_empty() {
        return Ok(Cow::Borrowed(object));
    }
    let converted = versions.convert(object, api_version);
    converted.map(Cow::Owned).ok_or_else(|| ConversionError(api_version.to_owned()))
}

pub(crate) fn place<'v>(versions: &'v dyn Versions, api_version: &str) -> Option<Place<'v>> {
    versions.cursor(api_version).map(|cursor| Place::Root(Some(cursor)))
}

/// The comparisons of two objects in the versions that owners speak of, each made once.
pub(crate) struct Comparisons<'a> {
    pub versions: &'a dyn Versions,
    pub old: &'a Value,
    pub new: &'a Value,
    /// Fields that nobody gains, loses or fights about here.
    pub reset: &'a FieldSet,
    pub made: Vec<(String, Comparison)>,
}

impl Comparisons<'_> {
    /// `None` if the version is no more.
    pub fn at(&mut self, api_version: &str) -> Result<Option<&Comparison>, ConversionError> {
        if let Some(known) = self.made.iter().position(|(version, _)| version == api_version) {
            return Ok(self.made.get(known).map(|(_, comparison)| comparison));
        }
        let Some(cursor) = self.versions.cursor(api_version) else { return Ok(None) };
        let old = at_version(self.versions, self.old, api_version)?;
        let new = at_version(self.versions, self.new, api_version)?;
        let mut comparison = compare(&old, &new, Some(cursor), self.versions.zero(api_version));
        comparison.exclude(self.reset);
        self.made.push((api_version.to_owned(), comparison));
        Ok(self.made.last().map(|(_, comparison)| comparison))
    }
}
