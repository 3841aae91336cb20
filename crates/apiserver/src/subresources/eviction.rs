//! Eviction: a deletion that a disruption budget may put off.

use objects::selector::labels;
use objects::{Reason, Status, Value, meta};
use wire::options::DeleteOptions;
use wire::protobuf::Kind;

use crate::call::Call;
use crate::present;
use crate::read;
use crate::service::{Answer, Failure};
use crate::stations::decode;
use crate::verbs::delete;

const EVICTION: Kind<'static> = Kind { api_version: "policy/v1", kind: "Eviction" };

pub async fn create(call: &Call) -> Answer {
    let eviction = decode::object(call, EVICTION)?.value;
    let name = &call.target.name;
    let mut options = match eviction.get("deleteOptions").filter(|options| !options.is_null()) {
        Some(options) => DeleteOptions::from_body(options)?,
        None => DeleteOptions::default(),
    };
    // As upstream: a dry run may be asked for in the query or in the options of the deletion.
    options.dry_run |= call.write_options()?.dry_run;
    let pod = read::current(call, name).await?.ok_or_else(|| call.not_found(name))?.value;
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    // A pod that does not run, or is going already, disrupts nobody.
    if !matches!(phase, "Succeeded" | "Failed" | "Pending") && !meta::is_deleting(&pod) {
        respect_budgets(call, &pod).await?;
    }
    delete::delete_object(call, name, &options).await?;
    let mut status = Status::new(Reason::Unknown, "");
    status.code = 201;
    present::success(call, &status)
}

async fn respect_budgets(call: &Call, pod: &Value) -> Result<(), Failure> {
    let kind = "poddisruptionbudgets.policy";
    for (budget, _) in read::objects(&call.engine, &call.plane, kind, &call.target.namespace).await? {
        let selects = budget
            .pointer("/spec/selector")
            .and_then(|selector| labels::Selector::from_value(selector).ok())
            .is_some_and(|selector| selector.matches(meta::labels(pod)));
        let allowed = budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0);
        if selects && allowed <= 0 {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let detail = format!("The disruption budget {} does not allow it now", meta::name(&budget));
            return Err(Status::new(Reason::TooManyRequests, message)
                .cause("DisruptionBudget", detail, "")
                .into());
        }
    }
    Ok(())
}
