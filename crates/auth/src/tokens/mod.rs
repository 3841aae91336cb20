//! Bearer tokens: of service accounts (signed here), bootstrap tokens (kept in Secrets) and static ones.

pub mod bootstrap;
mod claims;
mod fixed;
mod issuer;
pub mod request;
mod verified;

#[cfg(test)]
mod tests;

pub use claims::{BoundToken, Reference};
pub use fixed::StaticTokens;
pub use issuer::Issuer;
pub use verified::{Lookup, VerifiedToken};

/// Paths under which an issuer publishes its keys.
pub const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
pub const KEYS_PATH: &str = "/openid/v1/jwks";

/// Tokens that kubelets ask for on behalf of pods say this lifetime; see [`EXTENDED_LIFETIME`].
pub const PROJECTED_LIFETIME_SECONDS: i64 = 60 * 60 + 7;
/// What such tokens really get, with a warning from the promised time on, so that clients that read
/// their token only once keep working.
pub const EXTENDED_LIFETIME_SECONDS: i64 = 365 * 24 * 60 * 60;

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not a token of this issuer: another authenticator may know it.
    #[error("not a token of this issuer")]
    NotOurs,
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("invalid signature")]
    Signature,
    #[error("token audiences {has} is invalid for the target audiences {wants}")]
    Audience { has: String, wants: String },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("service account token is issued in the future")]
    IssuedInTheFuture,
    #[error("{0} claim is missing")]
    ClaimMissing(&'static str),
    #[error("sub claim is invalid")]
    Subject,
    #[error("{0}")]
    Gone(String),
    #[error("the token could not be signed")]
    Sign,
}
