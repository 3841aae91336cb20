//! Objects that live outside of expressions and are called from within them, such as `authorizer`.

use std::fmt;

use serde_json::Value;

use crate::error::EvalError;

/// What a call to a [`HostObject`] gives.
#[derive(Clone, Debug)]
pub enum HostValue {
    Json(Value),
    Object(std::sync::Arc<dyn HostObject>),
}

/// A value with methods that the caller of this crate implements. Expressions can hold it, pass it on and call it;
/// the methods are looked up at evaluation, and must answer without blocking.
pub trait HostObject: fmt::Debug + Send + Sync {
    /// Calls a method. Arguments are what CEL evaluated, as JSON.
    fn call(&self, method: &str, args: &[Value]) -> Result<HostValue, EvalError>;
}
