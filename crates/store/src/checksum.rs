//! Checksums of stored records: XXH3 with 64 bits over what a record says and where it belongs.
//!
//! A record that lies under another key, of another tenant or at another revision does not fit its checksum, so a
//! damaged key is found like a damaged value. They guard against damage, not against forgery.

use twox_hash::XxHash3_64;

/// What a record is. Part of its checksum, so that no record passes for one of another table.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Record {
    /// A value: tenant, created, modified; key; value.
    Value = b'v',
    /// Where a superseded value is found.
    History = b'h',
    /// A change without its value.
    Change = b'l',
    /// The value that a change superseded.
    Superseded = b's',
    Tenant = b't',
    /// A tenant's row in the directory.
    Directory = b'd',
    /// How many entries there are of a type.
    Tally = b'n',
    Counter = b'k',
    /// Up to where a log is known to reach.
    Head = b'e',
}

/// The checksum of a record. Every kind of record has a fixed number of `numbers`.
pub fn of(record: Record, numbers: &[u64], key: &[u8], value: &[u8]) -> u64 {
    let mut head = Vec::with_capacity(1 + 8 * numbers.len() + key.len());
    head.push(record as u8);
    for number in numbers {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(key);
    // The seed, so that long values are not copied.
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&head), value)
}

/// The same as a number of a database, which has a sign.
pub fn signed(record: Record, numbers: &[u64], key: &[u8], value: &[u8]) -> i64 {
    of(record, numbers, key, value).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored databases depend on these numbers.
    #[test]
    fn checksums_stay_as_they_are() {
        assert_eq!(of(Record::Value, &[1, 2, 3], b"key", b"value"), 7_268_194_655_541_374_638);
        let long = vec![b'x'; 1000];
        let all = [
            of(Record::Value, &[1, 2, 3], b"key", b"value"),
            of(Record::Value, &[1, 2, 4], b"key", b"value"),
            of(Record::Value, &[1, 2, 3], b"kez", b"value"),
            of(Record::Value, &[1, 2, 3], b"key", b"valuf"),
            of(Record::Value, &[1, 2, 3], b"key", &long),
            of(Record::Change, &[1, 2, 3], b"key", b"value"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{index}");
        }
    }
}
