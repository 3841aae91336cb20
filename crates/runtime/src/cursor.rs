//! How far a set of controllers has come, as it is kept over a restart.

use objects::CompactString;
use serde::{Deserialize, Serialize};
use store::{Key, Position};

use crate::controller::Request;

/// Everything up to `position` is done, but for what is parked, and what a sweep will find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub position: Position,
    pub parked: Vec<Parked>,
    /// Control planes in which more happened than could be kept: everything in them is to be looked at.
    pub sweep: Vec<CompactString>,
}

/// A key that waits: it failed, or asked to be looked at again later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub controller: CompactString,
    pub request: Request,
    /// When it is to be looked at, in seconds since 1970.
    pub due: i64,
}

/// Parked keys that are listed. With more than these the position stays before them instead, so that they are found
/// again by what happened: slower, but of bounded size.
pub(crate) const LISTED: usize = 4_096;

#[derive(Serialize, Deserialize)]
struct Written {
    position: u64,
    /// (controller, control plane, kind, namespace, name, due)
    parked: Vec<(CompactString, CompactString, CompactString, CompactString, CompactString, i64)>,
    #[serde(default)]
    sweep: Vec<CompactString>,
}

impl Cursor {
    pub fn to_bytes(&self) -> Vec<u8> {
        let row = |parked: &Parked| {
            let Parked { controller, request: Request { control_plane, key }, due } = parked.clone();
            (controller, control_plane, key.kind, key.namespace, key.name, due)
        };
        let written = Written {
            position: self.position.0,
            parked: self.parked.iter().map(row).collect(),
            sweep: self.sweep.clone(),
        };
        // Numbers and texts always serialize.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// None if these bytes are no cursor (of this version): everything is swept then.
    pub fn from_bytes(bytes: &[u8]) -> Option<Cursor> {
        let written: Written = serde_json::from_slice(bytes).ok()?;
        let parked = |(controller, control_plane, kind, namespace, name, due)| Parked {
            controller,
            request: Request { control_plane, key: Key { kind, namespace, name } },
            due,
        };
        Some(Cursor {
            position: Position(written.position),
            parked: written.parked.into_iter().map(parked).collect(),
            sweep: written.sweep,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let request = Request { control_plane: "a".into(), key: Key::new("pods", "ns", "name") };
        let parked = vec![Parked { controller: "c".into(), request, due: 12 }];
        let cursor = Cursor { position: Position(7), parked, sweep: vec!["b".into()] };
        assert_eq!(Cursor::from_bytes(&cursor.to_bytes()), Some(cursor));
        assert_eq!(Cursor::from_bytes(b"{}"), None);
        assert_eq!(Cursor::from_bytes(b""), None);
    }
}
