//! What Kubeform's controller of modules left: one state of Terraform for the whole module, in `spec.state`, sealed with
//! that controller's key.
//!
//! It is packed with gzip, sealed with NaCl's secretbox behind its nonce, and written in basE91. The controller made
//! one call of the module, named like the object, so that is what all addresses begin with.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};

use super::address::Which;
use crate::backend::file::{Instance, StateFile};

/// The Secret with the key that Kubeform's controller was started with, under `secret-key`.
pub const KEY_FROM: &str = "terraform.hangar.dev/kubeform-key-from";
pub const KEY: &str = "secret-key";

const NONCE: usize = 24;
/// An object has less than this.
const LARGEST: u64 = 64 << 20;

const LETTERS: &[u8; 91] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&()*+,./:;<=>?@[]^_`{|}~\"";

/// What there is, by its address in the module.
pub fn open(name: &str, sealed: &str, key: &str) -> Result<BTreeMap<String, Instance>, String> {
    let state = StateFile::parse(&unsealed(sealed, key)?).map_err(|error| error.to_string())?;
    let mut found = BTreeMap::new();
    for resource in state.resources.into_iter().filter(|resource| resource.mode == "managed") {
        let inside = resource.module.strip_prefix(&format!("module.{name}")).unwrap_or(&resource.module);
        let inside = match inside.trim_start_matches('.') {
            "" => String::new(),
            path => format!("{path}."),
        };
        for mut instance in resource.instances {
            instance.type_name = Some(resource.r#type.clone());
            let which = match &instance.index_key {
                None => Which::Only,
                Some(key) => match key.as_u64().and_then(|at| usize::try_from(at).ok()) {
                    Some(at) => Which::Number(at),
                    None => Which::Key(key.as_str().unwrap_or_default().to_owned()),
                },
            };
            let left = if instance.deposed.is_some() { " (deposed)" } else { "" };
            let address = format!("{inside}{}.{}{which}{left}", resource.r#type, resource.name);
            found.insert(address, instance);
        }
    }
    Ok(found)
}

fn unsealed(sealed: &str, key: &str) -> Result<Vec<u8>, String> {
    let key = key.trim();
    let key = STANDARD.decode(key).or_else(|_| URL_SAFE.decode(key)).unwrap_or_default();
    let key: [u8; 32] = key.try_into().map_err(|_| "the key is not 32 bytes in base 64".to_owned())?;
    let bytes = decoded(sealed);
    let (nonce, sealed) =
        bytes.split_at_checked(NONCE).ok_or_else(|| "it is not what Kubeform writes".to_owned())?;
    let cipher = XSalsa20Poly1305::new(&key.into());
    let packed = cipher.decrypt(nonce.into(), sealed).map_err(|_| "the key does not open it".to_owned())?;
    let mut state = Vec::new();
    let read = flate2::read::GzDecoder::new(packed.as_slice()).take(LARGEST).read_to_end(&mut state);
    read.map_err(|_| "it is not what Kubeform writes".to_owned())?;
    Ok(state)
}

/// Of basE91: pairs of letters are 13 or 14 bits.
fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count, mut first) = (Vec::new(), 0_u32, 0, None);
    let digits = text.bytes().filter_map(|letter| LETTERS.iter().position(|one| *one == letter));
    for digit in digits.map(|digit| digit as u32) {
        let Some(low) = first.take() else {
            first = Some(digit);
            continue;
        };
        let pair = low + digit * 91;
        bits |= pair << count;
        count += if pair & 8191 > 88 { 13 } else { 14 };
        while count >= 8 {
            bytes.push((bits & 255) as u8);
            bits >>= 8;
            count -= 8;
        }
    }
    if let Some(last) = first {
        bytes.push(((bits | last << count) & 255) as u8);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn encoded(bytes: &[u8]) -> String {
        String::from_utf8(base91::slice_encode(bytes)).unwrap()
    }

    #[test]
    fn letters() {
        assert_eq!(decoded("fPNKd"), b"test");
        for length in 0..200_u8 {
            let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(89)).collect();
            assert_eq!(decoded(&encoded(&bytes)), bytes);
        }
    }

    #[test]
    fn a_sealed_state() {
        let state = r#"{"version": 4, "resources": [
            {"module": "module.shop", "mode": "managed", "type": "a_b", "name": "c", "provider": "",
             "instances": [{"index_key": 1, "attributes": {}}, {"index_key": "k", "attributes": {}}]},
            {"module": "module.shop.module.net[0]", "mode": "managed", "type": "a_b", "name": "d", "provider": "",
             "instances": [{"attributes": {}}, {"deposed": "x", "attributes": {}}]},
            {"module": "module.shop", "mode": "data", "type": "a_b", "name": "e", "provider": "",
             "instances": [{"attributes": {}}]}]}"#;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        packed.write_all(state.as_bytes()).unwrap();
        let (key, nonce) = ([7_u8; 32], [9_u8; NONCE]);
        let cipher = XSalsa20Poly1305::new(&key.into());
        let sealed = cipher.encrypt(&nonce.into(), packed.finish().unwrap().as_slice()).unwrap();
        let text = encoded(&[&nonce[..], &sealed].concat());
        let found = open("shop", &text, &STANDARD.encode(key)).unwrap();
        let expected = ["a_b.c[\"k\"]", "a_b.c[1]", "module.net[0].a_b.d", "module.net[0].a_b.d (deposed)"];
        assert!(found.keys().eq(expected), "{:?}", found.keys());
        let refused =
            |text: &str, key: &str, why: &str| assert_eq!(open("shop", text, key).unwrap_err(), why);
        refused(&text, &STANDARD.encode([8_u8; 32]), "the key does not open it");
        refused(&text, "short", "the key is not 32 bytes in base 64");
        refused("x", &STANDARD.encode(key), "it is not what Kubeform writes");
    }
}
