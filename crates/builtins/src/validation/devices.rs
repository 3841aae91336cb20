//! Claims on devices and what they are met from.
//!
//! Selectors of devices are expressions; whoever allocates compiles them.

use objects::{ErrorList, Value, names};

use super::{Place, checked};
use crate::dotted::Dotted;

const MAX_REQUESTS: usize = 32;
const MAX_DEVICES: usize = 128;

pub(crate) fn resource_claim(claim: &Value) -> ErrorList {
    checked(claim, |claim| device_claim(&claim.at("spec.devices")))
}

pub(crate) fn resource_claim_template(template: &Value) -> ErrorList {
    checked(template, |template| device_claim(&template.at("spec.spec.devices")))
}

fn device_claim(devices: &Place<'_>) {
    if devices.count("requests") > MAX_REQUESTS {
        devices.too_many("requests", MAX_REQUESTS);
    }
    super::place::no_repeats(devices.items("requests"), "name");
    for request in devices.items("requests") {
        request.need_shape("name", names::dns1123_label);
        let either = "exactly one of `exactly` or `firstAvailable` is required";
        match (request.has("exactly"), request.count("firstAvailable")) {
            (false, 0) => request.required("", either),
            (true, 1..) => request.invalid("", format!("{either}, but multiple fields are set")),
            (true, 0) => device_request(&request.at("exactly")),
            (false, _) => {
                super::place::no_repeats(request.items("firstAvailable"), "name");
                for choice in request.items("firstAvailable") {
                    choice.need_shape("name", names::dns1123_label);
                    device_request(&choice);
                }
            }
        }
    }
}

fn device_request(request: &Place<'_>) {
    request.need_shape("deviceClassName", names::dns1123_subdomain);
    match request.text("allocationMode") {
        "All" if request.number("count") != 0 => {
            request.invalid("count", "must not be specified when allocationMode is 'All'");
        }
        "All" => {}
        "ExactCount" => request.positive("count"),
        _ => request.unsupported("allocationMode", &["All", "ExactCount"]),
    }
}

/// What was claimed cannot become another claim.
pub(crate) fn resource_claim_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |claim| claim.immutable(old, &["spec"]))
}

pub(crate) fn resource_slice(slice: &Value) -> ErrorList {
    checked(slice, |slice| {
        let spec = slice.at("spec");
        spec.need_shape("driver", names::dns1123_subdomain);
        spec.need("pool.name");
        if spec.number("pool.resourceSliceCount") <= 0 {
            let count = spec.number("pool.resourceSliceCount");
            spec.invalid_as("pool.resourceSliceCount", count, "must be greater than zero");
        }
        if spec.count("devices") > MAX_DEVICES {
            spec.too_many("devices", MAX_DEVICES);
        }
        super::place::no_repeats(spec.items("devices"), "name");
        spec.items("devices").for_each(|device| device.need_shape("name", names::dns1123_label));
    })
}

/// A slice keeps to its node, driver and pool.
pub(crate) fn resource_slice_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |slice| slice.immutable(old, &["spec.nodeName", "spec.driver", "spec.pool.name"]))
}
