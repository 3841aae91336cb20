//! From one version of a kind to another.
//!
//! Custom resources with a conversion webhook are converted many at once: one `ConversionReview` carries what a page of a
//! list needs, up to [`MAX_OBJECTS`] objects and [`MAX_BYTES`] bytes.

mod review;
#[cfg(test)]
mod tests;

use std::time::Duration;

use objects::{Reason, Status, Value, meta};
use tokio::time::Instant;

use crate::call::Call;
use crate::route::Action;
use crate::service::Failure;
use crate::surface::{Definition, Row, Source};
use crate::webhook;
use review::{Batch, Review};

/// As upstream: how long a webhook may take for one review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the reviews of one request may take, from its beginning; a watch has no end and counts each review alone.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// As many as clients usually ask for in one page.
const MAX_OBJECTS: usize = 500;
/// Beyond this size a review is sent without waiting for more objects. One object may be larger.
const MAX_BYTES: usize = 4 << 20;

/// Objects of one kind as a row serves them, in their order.
pub async fn to_row(call: &Call, values: Vec<Value>, row: &Row) -> Result<Vec<Value>, Failure> {
    to_version(call, values, row, &row.api_version).await
}

/// The object as its type is stored.
pub async fn to_storage(call: &Call, value: Value, row: &Row) -> Result<Value, Failure> {
    let converted = to_version(call, vec![value], row, &row.storage_api_version).await?;
    converted.into_iter().next().ok_or_else(|| Status::internal("a conversion lost an object").into())
}

async fn to_version(
    call: &Call,
    mut values: Vec<Value>,
    row: &Row,
    api_version: &str,
) -> Result<Vec<Value>, Failure> {
    let others = values.iter_mut().filter(|value| meta::api_version(value) != api_version);
    match &row.source {
        Source::BuiltIn(_) => {
            let gv = objects::GroupVersion::parse(api_version).unwrap_or_default();
            for value in others {
                let converted = builtins::convert(value, &gv.with_kind(row.ty.kind.clone()));
                *value = converted.ok_or_else(|| {
                    let from = meta::api_version(value);
                    let message = format!("{} cannot be converted from {from} to {api_version}", row.ty.kind);
                    Status::internal(message)
                })?;
            }
        }
        Source::Custom(custom) => {
            let definition = &custom.definition;
            if definition.object.pointer("/spec/conversion/strategy").and_then(Value::as_str)
                != Some("Webhook")
            {
                others.for_each(|value| value["apiVersion"] = api_version.into());
                return Ok(values);
            }
            by_webhook(call, definition, others.collect(), api_version).await?;
        }
    }
    Ok(values)
}

/// Converts in place.
async fn by_webhook(
    call: &Call,
    definition: &Definition,
    mut objects: Vec<&mut Value>,
    api_version: &str,
) -> Result<(), Failure> {
    let Some(first) = objects.first() else { return Ok(()) };
    let (from, kind) = (meta::api_version(first).to_owned(), meta::kind(first).to_owned());
    let failed = |why: &dyn std::fmt::Display| {
        let message = format!("conversion webhook for {from}, Kind={kind} failed: {why}");
        Failure::from(Status::new(Reason::InternalError, message))
    };
    let null = Value::Null;
    let webhook = definition.object.pointer("/spec/conversion/webhook").unwrap_or(&null);
    let config = webhook.get("clientConfig").unwrap_or(&null);
    let review = Review::new(webhook, api_version).map_err(|error| failed(&error))?;
    let mut left = objects.as_mut_slice();
    while !left.is_empty() {
        let Batch { uid, body, count } = review.request(left, MAX_OBJECTS, MAX_BYTES);
        let answer = webhook::call(&call.engine, &call.plane, config, body, timeout(call)).await;
        let answer = answer.map_err(|error| failed(&error))?;
        let (batch, rest) = left.split_at_mut(count);
        review.accept(&uid, &answer, batch).map_err(|error| failed(&error))?;
        left = rest;
    }
    Ok(())
}

/// What is left for one review.
fn timeout(call: &Call) -> Duration {
    match call.action {
        Action::Watch => REVIEW_TIMEOUT,
        _ => REVIEW_TIMEOUT.min((call.began + REQUEST_TIMEOUT).saturating_duration_since(Instant::now())),
    }
}
