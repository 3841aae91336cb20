//! What keeps the store from being written: told once when it begins and once when it ends.

use parking_lot::Mutex;

#[derive(Default)]
pub(super) struct Trouble(Mutex<Option<String>>);

impl Trouble {
    pub(super) fn began(&self, why: &str) {
        let mut told = self.0.lock();
        if told.is_none() {
            tracing::error!(why, "nothing can be written to the store");
        }
        *told = Some(why.to_owned());
    }

    pub(super) fn ended(&self) {
        if self.0.lock().take().is_some() {
            tracing::info!("the store can be written again");
        }
    }

    pub(super) fn why(&self) -> Option<String> {
        self.0.lock().clone()
    }
}
