//! Hooks.
use crate::host::Host;
use crate::plane::Plane;
use objects::Value;
use runtime::{Context, Error, Next};
use std::time::Duration;
pub struct Outcome {
    pub completed: bool,
    pub again: Option<Duration>,
}
pub async fn run(_: &dyn Host, _: &Context, _: &Plane, _: &mut Value) -> Result<Outcome, Error> {
    Ok(Outcome { completed: true, again: None })
}
pub async fn changed(_: &Context, _: &str) -> Result<Next, Error> {
    Ok(Next::Done)
}
pub async fn clean_up(_: &Context, _: &Plane) -> Result<(), Error> {
    Ok(())
}
