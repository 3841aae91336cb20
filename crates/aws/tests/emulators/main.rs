//! Every kind that is called full, by the engine, in a control plane, against emulators: made, changed, put right when
//! others changed it, let go, adopted, deleted; at rest it causes no write. And a few kinds of all protocols with the
//! process dying, the network breaking and the service failing at every single call.
//!
//! The emulators are moto and ministack (`moto_server` and `ministack` in the PATH, or what `HANGAR_MOTO_SERVER` and
//! `HANGAR_MINISTACK` name; `cargo xtask test` installs them). Trials whose emulator is not there are ignored.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod calamities;
mod stories;
mod story;
#[path = "../support/world.rs"]
#[allow(dead_code, reason = "other tests ask for other things")]
mod world;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ::emulators::{Emulator, Program};
use aws::kinds::{KindFacts, Level};
use futures::FutureExt;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

use crate::calamities::Calamity;
use crate::stories::{CHAPTERS, Chapter};
use crate::world::{Tuning, World};

fn main() {
    let arguments = Arguments::from_args();
    let chapters = CHAPTERS.iter().map(|chapter| {
        let told = Trial::test(chapter.name, || tell(chapter).map_err(Into::into));
        told.with_ignored_flag(chapter.by.file().is_none())
    });
    let calamities = calamities::all().into_iter().map(|calamity| {
        let struck = Trial::test(calamity.name(), move || strike(&calamity).map_err(Into::into));
        struck.with_ignored_flag(Program::Moto.file().is_none())
    });
    let listed = Trial::test("full kinds have stories", || every_full_kind().map_err(Into::into));
    libtest_mimic::run(&arguments, chapters.chain(calamities).chain([listed]).collect()).exit();
}

/// Runs something that panics when it fails.
fn attempt(runtime: &Runtime, what: impl Future<Output = ()>) -> Result<(), String> {
    let ended = runtime.block_on(AssertUnwindSafe(what).catch_unwind());
    ended.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// Tells all stories of a chapter to one emulator, each in a control plane of its own.
fn tell(chapter: &Chapter) -> Result<(), String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let emulator = Arc::new(Emulator::start(chapter.by)?);
    let only = std::env::var("HANGAR_STORY").ok();
    let mut faults = Vec::new();
    for story in
        (chapter.stories)().into_iter().filter(|story| only.as_ref().is_none_or(|only| story.kind == only))
    {
        let result = attempt(&runtime, async {
            let world = World::at(emulator.clone(), &story.kinds(), Tuning::default()).await;
            story.tell(&world).await;
            world.stop().await;
        });
        faults.extend(result.err().map(|fault| format!("{}: {fault}", story.name())));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn strike(calamity: &Calamity) -> Result<(), String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let emulator = Arc::new(Emulator::start(Program::Moto)?);
    attempt(&runtime, async {
        let world = World::at(emulator, &calamity.story.kinds(), calamity.tuning()).await;
        calamity.strike(&world).await;
        world.stop().await;
    })
}

/// Rules must not promise what nobody tries.
fn every_full_kind() -> Result<(), String> {
    let stories = stories::all();
    let tried = |kind: &KindFacts| {
        stories.iter().any(|story| (story.service, story.kind) == (kind.service, kind.kind))
    };
    let wrong: Vec<String> = aws::kinds::all()
        .iter()
        .filter(|kind| (kind.level() == Level::Full) != tried(kind))
        .map(|kind| format!("{kind:?} is {:?}, and is tried: {}", kind.level(), tried(kind)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
