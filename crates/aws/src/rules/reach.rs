//! What the rules of a kind can lead to: every call that they write out, every operation that they name.

use std::collections::BTreeSet;

use super::vocabulary::{Call, Kind, TagsRule};

impl Kind {
    /// Every call that is written out in full.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        let parts = self.parts.values().flat_map(|part| {
            let part = &part.value;
            part.get.iter().chain([&part.put]).chain(&part.delete)
        });
        let collections = self.collections.values().flat_map(|told| {
            let told = &told.value;
            let reading = told.list.iter().chain(&told.each).chain(&told.ask);
            reading.chain([&told.add]).chain(&told.remove).chain(&told.change)
        });
        let tags = match &self.tags {
            TagsRule::Told(tags) => Some(tags.get.iter().chain(&tags.add).chain(&tags.remove)),
            TagsRule::Kept(_) => None,
        };
        let versions = self.versions.iter().flat_map(|versions| {
            [&versions.list, &versions.create, &versions.delete].into_iter().chain(&versions.get)
        });
        let before = self.delete.iter().flat_map(|delete| &delete.before);
        let own = self.read.iter().chain(&self.find).chain(&self.listing).chain(before);
        let looks = self.looks.iter().filter_map(|look| look.read.as_ref());
        own.chain(looks).chain(parts).chain(collections).chain(tags.into_iter().flatten()).chain(versions)
    }

    /// Every operation that objects of the kind can need.
    pub fn reached(&self) -> BTreeSet<&str> {
        let roles = self.operations.iter().map(|(_, operation)| operation);
        let variants = self.create.iter().filter_map(|variant| variant.call.as_ref());
        let steps = self.update.iter().filter_map(|step| step.call.as_ref());
        let deleting = self.delete.iter().filter_map(|delete| delete.call.as_ref());
        let calls = self.calls().map(|call| &call.call);
        let all = roles.chain(variants).chain(steps).chain(deleting).chain(calls);
        all.map(|operation| operation.value.as_str()).collect()
    }
}
