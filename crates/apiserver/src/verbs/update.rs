//! An object replaced.

use objects::{Status, Value, meta};

use crate::call::Call;
use crate::incoming;
use crate::present;
use crate::service::{Answer, Failure};
use crate::verbs::create::check_placement;
use crate::write::{self, Part, Tracking, Update, Updated};

pub async fn update(call: &Call) -> Answer {
    update_part(call, Part::Main).await
}

/// The same for an endpoint that writes a part of the object.
pub async fn update_part(call: &Call, part: Part) -> Answer {
    let options = call.write_options()?;
    let wanted = incoming::object(call)?.object;
    check_name(call, &wanted)?;
    check_placement(call, &wanted)?;
    let update = Update {
        name: &call.target.name,
        part,
        options: &options,
        tracking: Tracking::Update,
        make: &|_| Ok(wanted.clone()),
    };
    match write::update(call, &update).await? {
        Updated::Written(written) => present::written(call, 200, written).await,
        Updated::Missing => Err(call.not_found(&call.target.name)),
    }
}

fn check_name(call: &Call, object: &Value) -> Result<(), Failure> {
    let name = meta::name(object);
    if name != call.target.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        );
        return Err(Status::bad_request(message).into());
    }
    Ok(())
}
