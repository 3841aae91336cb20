//! Fields of a spec that nothing read is held against: a change of them is not noticed, and the object says that all is
//! well. Of a full kind each must say why (`unseen` in the rules).

use super::compare::tags_field;
use super::fields::{Field, Home};
use super::{KindFacts, KindsError};
use crate::rules::vocabulary::Compare;

/// The fields whose change is not noticed, with the reason that the rules give.
pub fn unseen(facts: &KindFacts) -> Result<Vec<(&Field, Option<&str>)>, KindsError> {
    let rules = facts.rules;
    let translator = facts.translator()?;
    let readable = translator.readable();
    let tags = tags_field(facts);
    let is_seen = |field: &Field| {
        let rule = rules.fields.get(&field.word).map(|rule| &rule.value);
        // What identifies an object cannot change, and of Secrets there are hashes.
        let fixed = field.immutable || field.secret || rule.is_some_and(|rule| rule.key || rule.hidden);
        let compared =
            readable.contains_key(&field.word) && rule.and_then(|rule| rule.compare) != Some(Compare::Ignore);
        let has_calls = rules.parts.contains_key(&field.word) || rules.collections.contains_key(&field.word);
        let tagging = tags.as_deref().is_some_and(|word| word.split('.').next() == Some(&field.word));
        fixed || compared || has_calls || tagging
    };
    // A function that does all calls of a kind compares what it reads.
    let fields = translator.plan.fields().iter().filter(|_| rules.function.is_none());
    let of_spec = fields.filter(|field| field.home == Home::Spec && field.refers_for.is_none());
    let reason = |field: &Field| rules.fields.get(&field.word)?.value.unseen.as_deref();
    Ok(of_spec.filter(|field| !is_seen(field)).map(|field| (field, reason(field))).collect())
}
