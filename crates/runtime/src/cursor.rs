//! How far a set of controllers has come, as it is kept over a restart.

use objects::CompactString;
use serde::{Deserialize, Serialize};
use store::{Key, Position, Revision};

use crate::controller::Request;

/// Everything up to `position` is done, but for what is parked, and what a sweep will find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub position: Position,
    pub parked: Vec<Parked>,
    /// What is still to be looked at although it did not change since.
    pub pending: Vec<Pending>,
}

/// Everything, everything in one control plane, or changes of it that there was no room for: as far as it has not been
/// looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// None is all of them.
    pub control_plane: Option<CompactString>,
    /// None is all that any controller looks at.
    pub kinds: Option<Vec<CompactString>>,
    /// The only controller that is told; none is all of them.
    pub controller: Option<CompactString>,
    /// Changes after the first revision, up to the second. None is everything that is there.
    pub changes: Option<(Revision, Revision)>,
    /// The last object that has been looked at, with its control plane.
    pub after: Option<(CompactString, Key)>,
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
    /// Control planes of which everything is to be looked at, as versions before `pending` wrote it.
    #[serde(default, skip_serializing)]
    sweep: Vec<CompactString>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<WrittenPending>,
}

#[derive(Serialize, Deserialize)]
struct WrittenPending {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control_plane: Option<CompactString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<CompactString>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    controller: Option<CompactString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changes: Option<(u64, u64)>,
    /// (control plane, kind, namespace, name)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<(CompactString, CompactString, CompactString, CompactString)>,
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
            sweep: Vec::new(),
            pending: self.pending.iter().cloned().map(written_pending).collect(),
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
        let swept = |plane| Pending { control_plane: Some(plane), ..Pending::default() };
        let pending = written.pending.into_iter().map(pending);
        Some(Cursor {
            position: Position(written.position),
            parked: written.parked.into_iter().map(parked).collect(),
            pending: written.sweep.into_iter().map(swept).chain(pending).collect(),
        })
    }
}

fn written_pending(pending: Pending) -> WrittenPending {
    let Pending { control_plane, kinds, controller, changes, after } = pending;
    let changes = changes.map(|(after, to)| (after.0, to.0));
    let after = after.map(|(plane, key)| (plane, key.kind, key.namespace, key.name));
    WrittenPending { control_plane, kinds, controller, changes, after }
}

fn pending(written: WrittenPending) -> Pending {
    let WrittenPending { control_plane, kinds, controller, changes, after } = written;
    let changes = changes.map(|(after, to)| (Revision(after), Revision(to)));
    let after = after.map(|(plane, kind, namespace, name)| (plane, Key { kind, namespace, name }));
    Pending { control_plane, kinds, controller, changes, after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let request = Request { control_plane: "a".into(), key: Key::new("pods", "ns", "name") };
        let parked = vec![Parked { controller: "c".into(), request, due: 12 }];
        let pending = vec![
            Pending::default(),
            Pending { control_plane: Some("b".into()), ..Pending::default() },
            Pending {
                control_plane: Some("b".into()),
                kinds: Some(vec!["pods".into()]),
                controller: Some("c".into()),
                changes: Some((Revision(3), Revision(9))),
                after: Some(("b".into(), Key::new("pods", "", "x"))),
            },
        ];
        let cursor = Cursor { position: Position(7), parked, pending };
        assert_eq!(Cursor::from_bytes(&cursor.to_bytes()), Some(cursor));
        let older = Cursor::from_bytes(br#"{"position":7,"parked":[],"sweep":["b"]}"#).unwrap();
        assert_eq!(older.pending[0].control_plane.as_deref(), Some("b"));
        assert_eq!(Cursor::from_bytes(b"{}"), None);
        assert_eq!(Cursor::from_bytes(b""), None);
    }
}
