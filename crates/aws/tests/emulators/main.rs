//! Every kind that is called full, by the engine, in a control plane, against emulators: made, changed, put right when
//! others changed it, let go, adopted, deleted; at rest it causes no write. And a few kinds of all protocols with the
//! process dying, the network breaking and the service failing at every single call. All other kinds are tried out: made, at
//! rest without a write, and deleted; those that moto falls short of, by ministack too.
//!
//! Where an emulator lacks something or does it wrong, `data/emulators.txt` says so, and the test fails if it does not.
//!
//! The emulators are moto and ministack (`moto_server` and `ministack` in the PATH, or what `HANGAR_MOTO_SERVER` and
//! `HANGAR_MINISTACK` name; `cargo xtask test` installs them). Trials whose emulator is not there are ignored.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod calamities;
mod stories;
mod story;
mod trials;
#[path = "../support/world.rs"]
#[allow(dead_code, reason = "other tests ask for other things")]
mod world;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ::emulators::{Emulator, Program};
use aws::kinds::trials::{MINISTACK, MOTO, shortfall};
use aws::kinds::{KindFacts, Level};
use futures::{FutureExt, StreamExt};
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

use crate::calamities::Calamity;
use crate::stories::{CHAPTERS, Chapter};
use crate::story::{Progress, Story};
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
    let others = [("other kinds", Program::Moto), ("other kinds elsewhere", Program::Ministack)];
    let tried = others.into_iter().map(|(name, by)| {
        let tried = Trial::test(name, move || try_all(by).map_err(Into::into));
        tried.with_ignored_flag(by.file().is_none())
    });
    let listed = Trial::test("full kinds have stories", || every_full_kind().map_err(Into::into));
    libtest_mimic::run(&arguments, chapters.chain(calamities).chain(tried).chain([listed]).collect()).exit();
}

/// As `data/emulators.txt` has it.
fn name(program: Program) -> &'static str {
    match program {
        Program::Moto => MOTO,
        Program::Ministack => MINISTACK,
    }
}

/// Runs something that panics when it fails.
async fn attempt(what: impl Future<Output = ()>) -> Result<(), String> {
    let ended = AssertUnwindSafe(what).catch_unwind().await;
    ended.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// What is wrong with how a story ended, where the table of shortfalls has a say in it.
fn unexpected(by: Program, story: &Story, progress: &Progress, ended: Result<(), String>) -> Option<String> {
    let known = shortfall(name(by), story.facts());
    let step = progress.step();
    match (ended, known) {
        (Ok(()), None) => None,
        (Ok(()), Some(row)) => Some(format!("{}: nothing is wrong any more: {row:?}", story.name())),
        (Err(_), Some(row)) if row.step == step => None,
        (Err(fault), _) => Some(format!("{} {} {step} {fault}", name(by), story.name())),
    }
}

/// Where nothing good is expected.
const LITTLE: Duration = Duration::from_secs(6);

fn tuning(by: Program, story: &Story) -> Tuning {
    match shortfall(name(by), story.facts()) {
        Some(_) => Tuning { patience: LITTLE, hopeful: false, ..Tuning::default() },
        None => Tuning::default(),
    }
}

/// Tells all stories of a chapter to one emulator, each in a control plane of its own.
fn tell(chapter: &Chapter) -> Result<(), String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let emulator = Arc::new(Emulator::start(chapter.by)?);
    let mut faults = Vec::new();
    for story in (chapter.stories)().into_iter().filter(is_asked_for) {
        let progress = Progress::default();
        let ended = runtime.block_on(attempt(async {
            let world = World::at(emulator.clone(), &story.kinds(), tuning(chapter.by, &story)).await;
            story.tell(&world, &progress).await;
            world.stop().await;
        }));
        faults.extend(unexpected(chapter.by, &story, &progress, ended));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Whether a story is one of those that are to be told, where that is said.
fn is_asked_for(story: &Story) -> bool {
    let only = std::env::var("HANGAR_STORY").ok();
    only.is_none_or(|only| story.kind == only || story.name() == only || story.service == only)
}

/// For what has no steps that take their time.
const ENOUGH: Duration = Duration::from_secs(20);

/// Kinds that are tried out at once.
const AT_ONCE: usize = 8;

/// Tries out all kinds that have no story: on moto, and where that falls short on ministack.
fn try_all(by: Program) -> Result<(), String> {
    let is_left = |story: &Story| by == Program::Moto || shortfall(MOTO, story.facts()).is_some();
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let emulator = Arc::new(Emulator::start(by)?);
    let stories = trials::all().into_iter().filter(is_asked_for).filter(is_left);
    let tried = stories.map(|story| {
        let emulator = emulator.clone();
        async move {
            let progress = Progress::default();
            let ended = attempt(async {
                let usual = tuning(by, &story);
                let tuning = Tuning { hopeful: false, patience: usual.patience.min(ENOUGH), ..usual };
                let world = World::at(emulator, &story.kinds(), tuning).await;
                world.create_secret().await;
                story.try_out(&world, &progress).await;
                world.stop().await;
            })
            .await;
            let fault = unexpected(by, &story, &progress, ended);
            // Told at once: all of it takes a while.
            fault.inspect(|fault| eprintln!("{fault}"))
        }
    });
    let faults: Vec<String> = runtime.block_on(async {
        let ended = futures::stream::iter(tried.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        ended.filter_map(std::future::ready).collect().await
    });
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn strike(calamity: &Calamity) -> Result<(), String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let emulator = Arc::new(Emulator::start(Program::Moto)?);
    runtime.block_on(attempt(async {
        let world = World::at(emulator, &calamity.story.kinds(), calamity.tuning()).await;
        calamity.strike(&world).await;
        world.stop().await;
    }))
}

/// Rules must not promise what nobody tries.
fn every_full_kind() -> Result<(), String> {
    let whole = |chapter: &&Chapter, kind: &KindFacts| {
        let told = |story: &Story| (story.service, story.kind) == (kind.service, kind.kind);
        shortfall(name(chapter.by), kind).is_none() && (chapter.stories)().iter().any(told)
    };
    let tried = |kind: &KindFacts| CHAPTERS.iter().any(|chapter| whole(&chapter, kind));
    let wrong: Vec<String> = aws::kinds::all()
        .iter()
        .filter(|kind| (kind.level() == Level::Full) != tried(kind))
        .map(|kind| format!("{kind:?} is {:?}, and is tried: {}", kind.level(), tried(kind)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
