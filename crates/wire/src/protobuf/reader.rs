//! The wire format: keys and values, without knowing what they mean.

use super::DecodeError;

/// A value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl Wire<'_> {
    /// The number the format gives the form.
    pub fn number(self) -> u8 {
        match self {
            Wire::Varint(_) => 0,
            Wire::Fixed64(_) => 1,
            Wire::Bytes(_) => 2,
            Wire::Fixed32(_) => 5,
        }
    }
}

/// The fields of one message, in the order in which they come.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next field: its number and its value.
    pub fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0);
        let illegal = DecodeError::Tag { number: key >> 3, wire: key & 7 };
        let Some(number) = number else { return Err(illegal) };
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups: proto2's forgotten form, which no message of Kubernetes has.
            _ => return Err(illegal),
        };
        Ok(Some((number, value)))
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for (i, byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if i == 9 && bits > 1 {
                return Err(DecodeError::Overflow);
            }
            value |= bits << (7 * i);
            if byte & 0x80 == 0 {
                self.take(i + 1)?;
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { DecodeError::Truncated } else { DecodeError::Overflow })
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }
}
