//! Values that are nearly the same in every tenant are stored once, and in each tenant as what differs.
//!
//! A new tenant begins with some hundred objects which differ from those of any other only in a uid and a time. The first
//! of them is kept as a template of its key; the others are the template's number and the bytes that differ. Readers
//! get the whole value; a change of it is stored as a value of its own.
//!
//! Templates are never removed: there are few of them ([`VERSIONS`] of each key that tenants begin with).

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::fault::damaged;

/// Templates of one key: as many versions of the program change what is in its value.
const VERSIONS: usize = 16;
/// What differs is at most this part of the value.
const WORTH: usize = 2;
/// Equal bytes between two differences that cost less than a new difference.
const GAP: usize = 3;

/// A value as it stands in a row.
pub(super) struct Packed {
    pub template: Option<i64>,
    pub bytes: Bytes,
}

impl Packed {
    pub(super) fn whole(value: &Bytes) -> Packed {
        Packed { template: None, bytes: value.clone() }
    }
}

/// Packs a value by the templates of its key. With `make`, a value that none of them is like becomes one.
pub(super) fn pack(
    connection: &Connection,
    key: &[u8],
    value: &Bytes,
    make: bool,
) -> rusqlite::Result<Packed> {
    let mut select =
        connection.prepare_cached("SELECT id, value FROM template WHERE key = ?1 ORDER BY id DESC")?;
    let mut rows = select.query([key])?;
    let mut versions = 0;
    while let Some(row) = rows.next()? {
        versions += 1;
        if let Some(patch) = difference(row.get_ref(1)?.as_blob()?, value) {
            return Ok(Packed { template: Some(row.get(0)?), bytes: patch.into() });
        }
    }
    if !make || versions >= VERSIONS {
        return Ok(Packed::whole(value));
    }
    connection
        .prepare_cached("INSERT INTO template (key, value) VALUES (?1, ?2)")?
        .execute(params![key, value.as_ref()])?;
    Ok(Packed { template: Some(connection.last_insert_rowid()), bytes: Bytes::new() })
}

/// The value of a row: `template` is that of the template, if it has one.
pub(super) fn unpack(template: Option<&[u8]>, bytes: &[u8]) -> rusqlite::Result<Bytes> {
    match template {
        None => Ok(Bytes::copy_from_slice(bytes)),
        Some(template) => {
            patched(template, bytes).ok_or_else(|| damaged("its value does not fit its template"))
        }
    }
}

/// What makes `value` of `template`: numbers of bytes to keep and to replace in turn, each followed by the new bytes. None
/// if it is not of the same length, or too much of it differs.
fn difference(template: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    if template.len() != value.len() {
        return None;
    }
    let differs = |at: usize| template.get(at) != value.get(at);
    let (mut patch, mut at, mut kept) = (Vec::new(), 0, 0);
    while at < value.len() {
        if !differs(at) {
            (at, kept) = (at + 1, kept + 1);
            continue;
        }
        // To the last byte that differs before a run of equal ones.
        let mut end = at + 1;
        while let Some(next) = (end..value.len().min(end + GAP + 1)).find(|next| differs(*next)) {
            end = next + 1;
        }
        number(&mut patch, kept);
        number(&mut patch, end - at);
        patch.extend_from_slice(value.get(at..end)?);
        (at, kept) = (end, 0);
        if patch.len() > value.len() / WORTH {
            return None;
        }
    }
    Some(patch)
}

fn patched(template: &[u8], mut patch: &[u8]) -> Option<Bytes> {
    let mut value = template.to_vec();
    let mut at = 0_usize;
    while !patch.is_empty() {
        at = at.checked_add(take_number(&mut patch)?)?;
        let length = take_number(&mut patch)?;
        let (new, rest) = patch.split_at_checked(length)?;
        let end = at.checked_add(length)?;
        value.get_mut(at..end)?.copy_from_slice(new);
        (at, patch) = (end, rest);
    }
    Some(value.into())
}

/// Seven bits a byte, the lowest first; all but the last byte have the eighth set.
fn number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(from: &mut &[u8]) -> Option<usize> {
    let mut number = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_makes_the_value_again() {
        let long = "x".repeat(300);
        let check = |template: &str, value: &str, expected: Option<usize>| {
            let patch = difference(template.as_bytes(), value.as_bytes());
            assert_eq!(patch.as_ref().map(Vec::len), expected, "{template} {value}");
            if let Some(patch) = patch {
                assert_eq!(patched(template.as_bytes(), &patch).unwrap(), value.as_bytes());
            }
        };
        check("", "", Some(0));
        check("same", "same", Some(0));
        check("length", "lengths", None);
        check("abcdefgh", "Abcdefgh", Some(3));
        check("abcdefgh", "abcdefgH", Some(3));
        check("abcdefgh", "AbcdEfgh", None);
        check("abcdefghijklmnop", "aBcdEfghijklmnop", Some(6));
        check("abcdefghijklmnop", "aBcdefghijklmnoP", Some(6));
        check(&format!("{long}a"), &format!("{long}b"), Some(4));
        check(&long, &"y".repeat(300), None);
    }

    #[test]
    fn no_patch_makes_it_panic() {
        for patch in [
            &[1][..],
            &[0x80],
            &[0xff; 12],
            &[9, 1, b'x'],
            &[0, 9, b'x'],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1],
        ] {
            assert_eq!(patched(b"template", patch), None, "{patch:?}");
        }
    }
}
