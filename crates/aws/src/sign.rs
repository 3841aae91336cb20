//! Signatures, version 4, by the `aws-sigv4` crate.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode,
};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;

/// A request cannot be signed.
#[derive(Debug, thiserror::Error)]
#[error("the request cannot be signed: {reason}")]
pub struct SignError {
    reason: String,
}

/// What is signed, and for whom.
pub(crate) struct Signable<'a> {
    pub method: &'a str,
    pub url: &'a str,
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
    pub region: &'a str,
    /// The service's name in signatures.
    pub name: &'a str,
    pub time: SystemTime,
    /// S3 and its kin: paths are signed as they are, and the hash of the body is a header.
    pub s3: bool,
    /// The body is no part of the signature.
    pub unsigned_payload: bool,
}

/// The headers that make a request a signed one.
pub(crate) fn headers(
    request: &Signable<'_>,
    credentials: &Credentials,
) -> Result<Vec<(String, String)>, SignError> {
    let failed = |error: &dyn std::fmt::Display| SignError { reason: error.to_string() };
    let mut settings = SigningSettings::default();
    if request.s3 {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    if request.unsigned_payload {
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    let identity: Identity = credentials.clone().into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(request.region)
        .name(request.name)
        .time(request.time)
        .settings(settings)
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let body = match request.unsigned_payload {
        true => SignableBody::UnsignedPayload,
        false => SignableBody::Bytes(request.body),
    };
    let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let signable =
        SignableRequest::new(request.method, request.url, headers, body).map_err(|error| failed(&error))?;
    let output = aws_sigv4::http_request::sign(signable, &parameters).map_err(|error| failed(&error))?;
    let (instructions, _) = output.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests;
