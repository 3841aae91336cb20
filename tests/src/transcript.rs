//! What a person types and what they see, as a file that is also the test.
//!
//! ```text
//! # What this shows.
//! $ kubectl create -f - <<EOF
//! > apiVersion: v1
//! > EOF
//! configmap/a created
//! $ kubectl get cm nosuch
//! Error from server (NotFound): configmaps "nosuch" not found
//! ? 1
//! ```
//!
//! A line with `$ ` is a command for the shell, continued by lines with `> `. What follows is what it prints, both
//! of its streams together, compared as [`patterns`](crate::patterns) says; `? N` is its exit code where it is not
//! zero. `# ` is a comment. A line may say which kubectl it is for: `[1.27+] `, `[-1.26] ` or `[1.28-1.30] ` in front; before a
//! command this goes for the whole step. `[~] ` in front of a command repeats it until it prints what is expected:
//! for what comes to be soon.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kubectl::{Kubectl, Version};
use crate::patterns;
use crate::server::Server;

/// What is to come soon has come within this.
const SOON: Duration = Duration::from_secs(20);

pub struct Transcript {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    line: usize,
    versions: Versions,
    soon: bool,
    command: String,
    printed: Vec<(Versions, String)>,
    code: i32,
}

/// The versions of kubectl a line is for.
#[derive(Clone, Copy, Debug)]
struct Versions {
    from: Version,
    to: Version,
}

impl Versions {
    const ALL: Versions = Versions { from: Version { minor: 0 }, to: Version { minor: u32::MAX } };

    fn contains(&self, version: Version) -> bool {
        self.from <= version && version <= self.to
    }

    /// `[1.27+] rest`, `[-1.26] rest`, `[1.27-1.29] rest` or `[1.27] rest`.
    fn strip(line: &str) -> (Versions, &str) {
        let marked = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        let parsed = marked.and_then(|(range, rest)| Some((Versions::parse(range)?, rest)));
        parsed.unwrap_or((Versions::ALL, line))
    }

    fn parse(range: &str) -> Option<Versions> {
        let all = Versions::ALL;
        if let Some(from) = range.strip_suffix('+') {
            return Some(Versions { from: Version::parse(from)?, to: all.to });
        }
        match range.split_once('-') {
            Some(("", to)) => Some(Versions { from: all.from, to: Version::parse(to)? }),
            Some((from, to)) => Some(Versions { from: Version::parse(from)?, to: Version::parse(to)? }),
            None => Version::parse(range).map(|only| Versions { from: only, to: only }),
        }
    }
}

impl Transcript {
    /// Says where it does not understand.
    pub fn parse(text: &str) -> Result<Transcript, String> {
        let mut steps: Vec<Step> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line_number = number + 1;
            if line == "#" || line.starts_with("# ") {
                continue;
            }
            let (versions, rest) = Versions::strip(line);
            let (soon, rest) = match rest.strip_prefix("[~] ") {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            if let Some(command) = rest.strip_prefix("$ ") {
                let command = command.to_owned();
                steps.push(Step { line: line_number, versions, soon, command, printed: Vec::new(), code: 0 });
                continue;
            }
            let step = steps.last_mut().filter(|_| !soon);
            let step = match step {
                Some(step) => step,
                None if line.trim().is_empty() => continue,
                None => {
                    return Err(format!("line {line_number}: there is no command that prints this: {line}"));
                }
            };
            if let Some(more) = line.strip_prefix("> ").or((line == ">").then_some("")) {
                step.command.push('\n');
                step.command.push_str(more);
            } else if let Some(code) = line.strip_prefix("? ") {
                step.code =
                    code.trim().parse().map_err(|_| format!("line {line_number}: no exit code: {line}"))?;
            } else {
                step.printed.push((versions, rest.to_owned()));
            }
        }
        Ok(Transcript { steps })
    }

    /// Says which steps went another way, and how. It goes on after a failed one: what follows tells more.
    pub fn run(&self, server: &Server, kubectl: &Kubectl) -> Result<(), String> {
        let bin = server.dir().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(&kubectl.path, bin.join("kubectl")).unwrap();
        let steps = self.steps.iter().filter(|step| step.versions.contains(kubectl.version));
        let failures: Vec<_> =
            steps.filter_map(|step| step.run(server, &bin, kubectl.version).err()).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }
}

impl Step {
    fn run(&self, server: &Server, bin: &Path, version: Version) -> Result<(), String> {
        let lines = self.printed.iter().filter(|(versions, _)| versions.contains(version));
        let expected: Vec<String> = lines.map(|(_, line)| line.clone()).collect();
        let began = Instant::now();
        loop {
            let (printed, code) = self.shell(server, bin);
            let actual: Vec<String> = printed.lines().map(str::to_owned).collect();
            if code == self.code && patterns::matches(&expected, &actual) {
                return Ok(());
            }
            if !self.soon || began.elapsed() > SOON {
                let (expected, actual) = (expected.join("\n"), actual.join("\n"));
                return Err(format!(
                    "line {}: $ {}\n--- expected, exit code {}\n{expected}\n--- printed, exit code {code}\n{actual}\n---",
                    self.line, self.command, self.code
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn shell(&self, server: &Server, bin: &Path) -> (String, i32) {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{}", self.command)])
            .current_dir(server.dir())
            .stdin(Stdio::null())
            .env("HOME", server.dir())
            .env("TERM", "dumb")
            .env("KUBECONFIG", server.kubeconfig())
            .env("PATH", format!("{}:{path}", bin.display()))
            .output()
            .unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap_or(-1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_for_versions() {
        let check = |range: &str, version: &str, expected: bool| {
            let versions = Versions::parse(range).unwrap();
            assert_eq!(versions.contains(Version::parse(version).unwrap()), expected, "{range} {version}");
        };
        check("1.27+", "1.27", true);
        check("1.27+", "1.26", false);
        check("-1.26", "1.26", true);
        check("-1.26", "1.27", false);
        check("1.28-1.30", "1.30", true);
        check("1.28-1.30", "1.31", false);
        check("1.28", "1.28", true);
        assert!(Versions::parse("AGE").is_none());
        assert!(Versions::parse("~").is_none());
    }

    #[test]
    fn a_transcript_is_read() {
        let text = "# why\n\n$ a <<EOF\n> b\n> EOF\n[1.27+] c\n? 2\n\n[-1.26] [~] $ d\n";
        let Transcript { steps } = Transcript::parse(text).unwrap();
        assert_eq!(steps.len(), 2);
        assert_eq!((steps[0].command.as_str(), steps[0].code), ("a <<EOF\nb\nEOF", 2));
        assert_eq!(steps[0].printed[0].1, "c");
        assert!(steps[1].soon && !steps[1].versions.contains(Version { minor: 27 }));
        assert!(Transcript::parse("nobody said this").is_err());
    }
}
