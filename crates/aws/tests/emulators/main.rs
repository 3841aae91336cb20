//! Kinds against an emulator: each is made, read, changed, found again by its identity, and deleted.
//!
//! The calls are those that the rules plan; no engine is involved. The emulator is moto (`moto_server` in the PATH,
//! or what `HANGAR_MOTO_SERVER` names; `cargo xtask test` installs it). Without one nothing is tried.

mod emulator;
mod reading;
mod stories;
mod story;

use aws::kinds::{KindFacts, Level};
use libtest_mimic::{Arguments, Trial};

use crate::story::Story;

fn main() {
    let arguments = Arguments::from_args();
    let Some(emulator) = emulator::Emulator::start() else {
        eprintln!("no moto_server is installed: nothing is tried");
        libtest_mimic::run(&arguments, Vec::new()).exit();
    };
    let url = emulator.url().to_owned();
    let trials = stories::all().into_iter().map(|story| {
        let url = url.clone();
        Trial::test(story.name(), move || story.run(&url).map_err(Into::into))
    });
    let listed =
        Trial::test("every kind that is told as full has a story", || every_full_kind().map_err(Into::into));
    let conclusion = libtest_mimic::run(&arguments, trials.chain([listed]).collect());
    drop(emulator);
    conclusion.exit();
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
