//! The checksum of a body, for operations that want one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::Request;
use crate::model::Operation;

/// Adds the checksum that the operation requires: CRC-32 where its model offers a choice, else MD5.
pub(super) fn add(operation: Operation<'_>, request: &mut Request) {
    if !operation.is_checksum_required() || has_checksum(request) {
        return;
    }
    if operation.checksum_member().is_some() {
        let mut crc = flate2::Crc::new();
        crc.update(&request.body);
        request.add_header("x-amz-checksum-crc32", STANDARD.encode(crc.sum().to_be_bytes()));
        request.add_header("x-amz-sdk-checksum-algorithm", "CRC32");
    } else {
        request.add_header("content-md5", STANDARD.encode(Md5::digest(&request.body)));
    }
}

fn has_checksum(request: &Request) -> bool {
    let is_checksum = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "content-md5" || name.starts_with("x-amz-checksum-")
    };
    request.headers.iter().any(|(name, _)| is_checksum(name))
}
