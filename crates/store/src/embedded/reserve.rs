//! Room on the disk that is kept for deletions.
//!
//! A deletion needs room as well: the log grows first. When the disk is full, a file that was kept for that is given
//! up, and until there is room again the store takes nothing but what makes it smaller.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

pub(super) const FILE: &str = "reserve";

/// The disk will be full soon when it has less than so many times the reserve.
const SHORT: u64 = 8;

pub(super) struct Reserve {
    directory: PathBuf,
    bytes: u64,
    file: Option<File>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is none: what does not fit is refused by the disk.
    Without,
    Held,
    /// Only what makes the store smaller is to be written.
    GivenUp,
}

impl Reserve {
    /// Takes the room, if there is some. No bytes are no reserve.
    pub(super) fn open(directory: &Path, bytes: u64) -> Reserve {
        let mut reserve =
            Reserve { directory: directory.to_owned(), bytes, file: None, state: State::Without };
        if bytes > 0 {
            let path = directory.join(FILE);
            let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            reserve.file = opened.ok();
            // An earlier process may have given it up. Without a reserve the disk could be filled to the last byte.
            let least = bytes + bytes / 8;
            if reserve.allocate(least).unwrap_or(false) {
                reserve.state = State::Held;
            } else if reserve.file.is_some() && fs4::available_space(directory).is_ok_and(|room| room < least)
            {
                reserve.state = State::GivenUp;
            }
        }
        reserve
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.state == State::GivenUp
    }

    /// Whether the disk will be full soon: then the log is kept short, since what it holds needs its room once more in
    /// the database before it can begin anew.
    pub(super) fn is_short(&self) -> bool {
        self.bytes > 0
            && (self.is_given_up()
                || fs4::available_space(&self.directory).is_ok_and(|room| room < SHORT * self.bytes))
    }

    /// Gives the room to others. Returns whether there was any to give.
    pub(super) fn give_up(&mut self) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| self.state == State::Held) else { return false };
        self.state = State::GivenUp;
        file.set_len(0).is_ok()
    }

    /// Takes the room once there is twice as much. Returns whether it is taken.
    pub(super) fn take(&mut self) -> bool {
        if self.state != State::Held && self.allocate(2 * self.bytes).unwrap_or(false) {
            self.state = State::Held;
        }
        self.state == State::Held
    }

    /// Takes the room if at least so much is free.
    fn allocate(&self, least: u64) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        if file.metadata()?.len() == self.bytes {
            return Ok(true);
        }
        if fs4::available_space(&self.directory)? < least {
            return Ok(false);
        }
        let allocated = fs4::FileExt::allocate(file, self.bytes);
        if allocated.is_err() {
            file.set_len(0)?;
        }
        Ok(allocated.is_ok())
    }
}
