//! Kinds against emulators: each is made, read, changed, found again by its identity, and deleted.
//!
//! The calls are those that the rules plan; no engine is involved. The emulators are moto and ministack
//! (`moto_server` and `ministack` in the PATH, or what `HANGAR_MOTO_SERVER` and `HANGAR_MINISTACK` name;
//! `cargo xtask test` installs them). A chapter whose emulator is not there is ignored.

mod emulator;
mod reading;
mod stories;
mod story;

use aws::kinds::{KindFacts, Level};
use libtest_mimic::{Arguments, Trial};

use crate::emulator::Emulator;
use crate::stories::{CHAPTERS, Chapter};
use crate::story::Story;

fn main() {
    let arguments = Arguments::from_args();
    let chapters = CHAPTERS.iter().map(|chapter| {
        let told = Trial::test(chapter.name, || tell(chapter).map_err(Into::into));
        told.with_ignored_flag(chapter.by.file().is_none())
    });
    let listed = Trial::test("full kinds have stories", || every_full_kind().map_err(Into::into));
    libtest_mimic::run(&arguments, chapters.chain([listed]).collect()).exit();
}

/// Tells all stories of a chapter to one emulator.
fn tell(chapter: &Chapter) -> Result<(), String> {
    let emulator = Emulator::start(chapter.by)?;
    let mut faults = Vec::new();
    for story in (chapter.stories)() {
        if let Err(fault) = story.run(emulator.url()) {
            faults.push(format!("{}: {fault}", story.name()));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Rules must not promise what nobody tries: a story that the emulator cannot tell to its end proves nothing.
fn every_full_kind() -> Result<(), String> {
    let stories = stories::all();
    let tried = |kind: &KindFacts| {
        let own = |story: &&Story| (story.service, story.kind) == (kind.service, kind.kind);
        stories.iter().filter(own).any(|story| story.wrong.is_none())
    };
    let wrong: Vec<String> = aws::kinds::all()
        .iter()
        .filter(|kind| (kind.level() == Level::Full) != tried(kind))
        .map(|kind| format!("{kind:?} is {:?}, and is tried: {}", kind.level(), tried(kind)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
