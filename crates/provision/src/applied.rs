//! What the resource was last made like: remembered on the object, to tell drift from edits.

use std::collections::BTreeMap;

use objects::{Value, meta};
use serde::{Deserialize, Serialize};

use crate::policies::APPLIED;
use crate::secrets;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Applied {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The generation that our own last write of the spec led to, where the resource is not as the object says (yet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<i64>,
    /// Of all that was asked for, with the values of references and Secrets: a keyed hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, secrets::Applied>,
}

impl Applied {
    /// What cannot be read is as good as nothing: everything then counts as an edit.
    pub fn of(object: &Value) -> Applied {
        let text = meta::annotation(object, APPLIED);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Whether an object is as we wrote it ourselves, so that nobody has edited it since.
    pub fn is_own_write(object: &Value) -> bool {
        let (applied, generation) = (Applied::of(object), Some(meta::generation(object)));
        applied.generation == generation || applied.written == generation
    }

    pub fn to_annotation(&self) -> Option<String> {
        if *self == Applied::default() { None } else { serde_json::to_string(self).ok() }
    }
}
