//! Every transcript with every kubectl, and with the newest one on every store, each a case of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::path::{Path, PathBuf};

use end_to_end::{Engine, Kubectl, Server, Transcript, Version};
use libtest_mimic::{Arguments, Trial};

/// The versions that users have. Where one is missing, this is said, and the others are enough.
const EXPECTED: [u32; 8] = [20, 27, 28, 29, 30, 31, 32, 33];

fn main() {
    let arguments = Arguments::from_args();
    let kubectls = Kubectl::all();
    assert!(!kubectls.is_empty(), "there is no kubectl: run `cargo xtask test --tools-only`");
    let missing = EXPECTED.map(|minor| Version { minor });
    for version in missing.iter().filter(|version| kubectls.iter().all(|found| found.version != **version)) {
        eprintln!("kubectl {version} is not here: its cases are skipped");
    }
    let mut trials = Vec::new();
    for path in transcripts() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for engine in [Engine::Embedded, Engine::Postgres, Engine::Etcd] {
            // What the versions differ in is what they ask, which is answered alike from every store.
            let newest = kubectls.len() - 1;
            let asking = if engine == Engine::Embedded { &kubectls[..] } else { &kubectls[newest..] };
            for kubectl in asking.iter().cloned() {
                let path = path.clone();
                let case = match engine {
                    Engine::Embedded => format!("{name}::{}", kubectl.version),
                    other => format!("{name}::{}::{other:?}", kubectl.version),
                };
                trials.push(Trial::test(case, move || follow(engine, &path, &kubectl)));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn follow(engine: Engine, path: &Path, kubectl: &Kubectl) -> Result<(), libtest_mimic::Failed> {
    let transcript = Transcript::parse(&std::fs::read_to_string(path)?)?;
    let server = Server::start_on(engine);
    let followed = transcript.run(&server, kubectl);
    followed.map_err(|why| format!("{}: {why}\nthe server's log:\n{}", path.display(), server.log()).into())
}

fn transcripts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut found: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    found.sort();
    found
}
