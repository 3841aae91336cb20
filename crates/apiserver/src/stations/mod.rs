//! What every request passes before its verb, in this order: authenticate, impersonate, fairness, authorize,
//! decode.

pub mod authenticate;
pub mod authorize;
pub mod decode;
pub mod fairness;
pub mod impersonate;
