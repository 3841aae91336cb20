//! What strategic merge patches ask of a schema.

use objects::patch::PatchSchema;

use crate::Cursor;

impl PatchSchema for Cursor<'_> {
    fn field(self, name: &str) -> Option<Self> {
        Cursor::field(self, name)
    }

    fn items(self) -> Option<Self> {
        Cursor::items(self)
    }

    fn merge_key(&self) -> Option<&str> {
        self.node().patch_merge_key.as_deref()
    }

    fn strategy(&self) -> Option<&str> {
        self.node().patch_strategy.as_deref()
    }
}
