//! Devices and the claims on them.

use objects::{Value, meta};

use super::{AGE, Column, NAME, shown, text};
use crate::dotted::Dotted;

pub(crate) static RESOURCE_CLAIM: [Column; 3] = [NAME, shown("State", claim_state), AGE];

fn claim_state(claim: &Value) -> String {
    let deleting = meta::is_deleting(claim);
    let allocated = claim.has("status.allocation");
    let states = [
        ("deleted", deleting),
        ("pending", !allocated && !deleting),
        ("allocated", allocated),
        ("reserved", allocated && claim.count("status.reservedFor") > 0),
    ];
    states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state).collect::<Vec<_>>().join(",")
}

pub(crate) static RESOURCE_SLICE: [Column; 5] =
    [NAME, text("Node", "spec.nodeName"), text("Driver", "spec.driver"), text("Pool", "spec.pool.name"), AGE];
