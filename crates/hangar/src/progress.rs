//! One line per step, as KubeFlex shows them: a wheel that turns, then a tick.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const FRAMES: [&str; 4] = ["◐", "◓", "◑", "◒"];
const FRAME: Duration = Duration::from_millis(100);
const CYAN: &str = "\x1b[36m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";
const CLEAR: &str = "\r\x1b[K";

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Whether the wheel turns.
    chatty: bool,
    terminal: bool,
}

impl Progress {
    pub fn new(chatty: bool) -> Progress {
        Progress { chatty, terminal: std::io::stdout().is_terminal() }
    }

    /// Begins a step. Dropped before it is done, it leaves no line: the error says what there is to say.
    pub fn step(self, message: impl Into<String>) -> Step {
        let message = message.into();
        let wheel = self.terminal.then(|| {
            let (stop, stopped) = channel();
            let (message, chatty) = (message.clone(), self.chatty);
            (stop, std::thread::spawn(move || turn(&message, chatty, &stopped)))
        });
        Step { message, terminal: self.terminal, wheel }
    }

    /// A step that is nothing but its line.
    pub fn note(self, message: impl Into<String>) {
        self.step(message).done();
    }

    pub fn warn(self, message: &str) {
        let (yellow, plain) = if self.terminal { (YELLOW, PLAIN) } else { ("", "") };
        say(&format!("{yellow}{message}{plain}\n"));
    }
}

pub struct Step {
    message: String,
    terminal: bool,
    wheel: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Step {
    pub fn done(mut self) {
        self.stop();
        let (green, plain) = if self.terminal { (GREEN, PLAIN) } else { ("", "") };
        say(&format!("{green}✔ {}{plain}\n", self.message));
    }

    fn stop(&mut self) {
        if let Some((stop, wheel)) = self.wheel.take() {
            drop(stop);
            let _ = wheel.join();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.stop();
    }
}

fn turn(message: &str, chatty: bool, stopped: &Receiver<()>) {
    for frame in FRAMES.iter().cycle() {
        say(&format!("\r{CYAN}{frame} {message}{PLAIN}"));
        let ended = if chatty { stopped.recv_timeout(FRAME) } else { stopped.recv().map_err(Into::into) };
        if ended != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    say(CLEAR);
}

/// What cannot be shown is not worth failing for: `hangar list | head` ends early.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
