//! ResourceQuota: what objects use, whether a request still fits, and what is used in all.
//!
//! [`check`] answers for one request and says what to write into the quotas' status if it goes through;
//! [`recompute`] is what the controller counts from scratch. Both use the same [`usage`] and scopes.

mod check;
mod scopes;
#[cfg(test)]
mod tests;
mod usage;

use jiff::Timestamp;
use objects::GroupResource;
use objects::quantity::Quantity;
use serde_json::{Value, json};

use crate::Amounts;
pub use check::{Charge, Request, check};
pub use usage::{is_ignored, usage};

/// The `status` of a quota over all objects of its namespace. A name that nothing counts has no usage.
pub fn recompute<'a>(
    quota: &Value,
    objects: impl IntoIterator<Item = (&'a GroupResource, &'a Value)>,
    now: Timestamp,
) -> Value {
    let hard = Amounts::of(quota.pointer("/spec/hard"));
    let counted = hard.names().filter(|name| usage::is_known(name));
    let mut used: Amounts = counted.map(|name| (name.to_owned(), Quantity::ZERO)).collect();
    for (resource, object) in objects {
        if is_ignored(resource) || !scopes::matches(quota, resource, object) {
            continue;
        }
        let own = usage(resource, object, now);
        used.add(&own.only(|name| hard.get(name).is_some() && usage::tracks(resource, name)));
    }
    json!({"hard": hard.to_value(), "used": used.to_value()})
}
