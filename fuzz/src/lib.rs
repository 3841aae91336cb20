//! A fuzz target for every parser of foreign bytes.
//!
//! A target is a function of bytes that must not panic, hang or break the promise it checks. [`TARGETS`] is the table
//! of them, each with a few inputs to begin from. They run in three ways: under libFuzzer (`cargo fuzz run NAME`,
//! which needs nightly), as an ordinary test on stable that mutates the seeds for a second each (`cargo nextest run -p fuzz`),
//! and over files (`cargo run --bin NAME FILE...`), to look at a crash again.
//!
//! Inputs of several parts are separated by the byte 0xFF, which no text contains.

mod bodies;
mod credentials;
mod doors;
mod kinds;
mod mutate;
mod ownership;
mod patches;
mod requests;
mod schema;
mod storage;
#[cfg(test)]
mod tests;

/// A parser, and inputs that get it going.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: &'static [&'static [u8]],
}

macro_rules! targets {
    ($($module:ident :: $name:ident),* $(,)?) => {
        pub const TARGETS: &[Target] = &[$(
            Target { name: stringify!($name), run: $module::$name, seeds: $module::seeds::$name },
        )*];
    };
}

targets![
    bodies::json,
    bodies::yaml,
    bodies::protobuf,
    requests::label_selector,
    requests::field_selector,
    requests::quantity,
    requests::query,
    requests::accept,
    requests::json_path,
    requests::route,
    requests::impersonation,
    doors::destination,
    patches::json_patch,
    patches::merge_patch,
    patches::strategic_patch,
    schema::definition,
    schema::structural,
    schema::expression,
    ownership::fields,
    ownership::server_side_apply,
    kinds::builtin,
    credentials::certificate,
    credentials::certificate_request,
    credentials::token,
    credentials::bootstrap_token,
    storage::export,
    storage::raw,
    storage::stored,
    storage::audit_policy,
];

/// The target of a name.
///
/// # Panics
///
/// If there is none: a binary was added without its row in [`TARGETS`].
pub fn target(name: &str) -> &'static Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("there is no target {name:?}"))
}

/// Runs a target over the files named on the command line.
pub fn replay(name: &str) {
    let target = target(name);
    for path in std::env::args_os().skip(1) {
        let path = std::path::PathBuf::from(path);
        match std::fs::read(&path) {
            Ok(bytes) => (target.run)(&bytes),
            Err(error) => eprintln!("{}: {error}", path.display()),
        }
    }
}

/// The whole program of a fuzz target.
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| ($crate::target($name).run)(data));

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay($name);
        }
    };
}

/// The parts of an input; missing ones are empty.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut parts = data.splitn(N, |byte| *byte == 0xFF);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

fn value(data: &[u8]) -> Option<serde_json::Value> {
    objects::decode::json(data).ok().map(|decoded| decoded.value)
}
