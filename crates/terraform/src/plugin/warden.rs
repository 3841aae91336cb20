//! Ends plugins when we can no longer: a shell that knows their process groups, and whose input is ours alone.
//!
//! When this process is killed, whatever holds the other end of that input closes, and the shell kills what it knows.
//! The kernel could do it itself (`PR_SET_PDEATHSIG`), but only if asked between fork and exec, which is not safe here.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};

use parking_lot::Mutex;

/// Lines of `+ GROUP` and `- GROUP`; at the end, all that were not taken back are killed.
const SCRIPT: &str = r#"
all=
while read -r sign group; do
  rest=
  for one in $all; do [ "$one" = "$group" ] || rest="$rest $one"; done
  all=$rest
  [ "$sign" = + ] && all="$all $group"
done
for one in $all; do kill -KILL "-$one"; done
"#;

#[derive(Default)]
pub struct Warden {
    /// Made with the first plugin. None inside if there is no shell: plugins then end with us only in good order.
    input: Mutex<Option<Option<ChildStdin>>>,
}

impl Warden {
    pub fn watch(&self, group: Option<u32>) {
        self.tell('+', group);
    }

    pub fn forget(&self, group: Option<u32>) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, group: Option<u32>) {
        let Some(group) = group else { return };
        let mut input = self.input.lock();
        let input = input.get_or_insert_with(start);
        // A line is shorter than what a pipe takes at once; one that nobody reads has no reader any more.
        if let Some(pipe) = input
            && let Err(error) = writeln!(pipe, "{sign} {group}")
        {
            tracing::warn!(%error, "plugins will outlive a crash: their warden is gone");
            *input = None;
        }
    }
}

fn start() -> Option<ChildStdin> {
    let shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Signals that are meant for us and ours must not reach it first.
        .process_group(0)
        .spawn();
    match shell {
        Ok(mut shell) => {
            let input = shell.stdin.take();
            // It ends after us, or when its input closes; then somebody has to take note.
            std::thread::spawn(move || shell.wait());
            input
        }
        Err(error) => {
            tracing::warn!(%error, "plugins will outlive a crash: there is no shell to watch them");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sleeper() -> std::process::Child {
        Command::new("/bin/sleep").arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn what_is_watched_ends_with_the_warden() {
        let (mut watched, mut forgotten) = (sleeper(), sleeper());
        let warden = Warden::default();
        warden.watch(Some(watched.id()));
        warden.watch(Some(forgotten.id()));
        warden.forget(Some(forgotten.id()));
        assert!(watched.try_wait().unwrap().is_none());
        drop(warden);
        assert!(!watched.wait().unwrap().success());
        std::thread::sleep(Duration::from_millis(100));
        assert!(forgotten.try_wait().unwrap().is_none());
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }
}
