//! What of an object's resource is ephemeral: not in the object nor in its Secret, but open while it is looked at.
//!
//! Only its module can tell; the driver knows that as one who opens.

use async_trait::async_trait;
use objects::{Value as Json, meta};
use provision::{Failure, Reader, Surroundings};

use super::{Terraform, wanted};
use crate::module::children;
use crate::openings::Held;

/// Who knows what is ephemeral of an object, and opens it.
#[async_trait]
pub trait Opener: Send + Sync {
    async fn open(&self, reader: &Reader<'_>, object: &Json) -> Result<Opened, Failure>;
}

/// What is open of one object.
#[derive(Default)]
pub struct Opened {
    /// All that is secret of the arguments, as a Secret would say it.
    pub arguments: Option<Json>,
    /// What of the provider's configuration its Secret does not say.
    pub provider: Option<Json>,
    /// It stays open for as long as this does.
    pub held: Vec<Held>,
}

impl Opened {
    /// All texts in it, to keep them out of messages.
    pub fn texts(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.arguments.iter().chain(&self.provider).for_each(|json| wanted::texts(json, &mut found));
        found
    }
}

impl Terraform {
    pub(super) async fn opened(&self, around: &Surroundings<'_>) -> Result<Opened, Failure> {
        let opens = children::opens(around.object);
        // Who destroys needs a provider, and no arguments.
        let needed = opens.provider || (opens.arguments && !meta::is_deleting(around.object));
        if !needed {
            return Ok(Opened::default());
        }
        let Some(opener) = self.opener.get() else {
            return Err(Failure::recoverable("nobody opens what is ephemeral of it"));
        };
        opener.open(&around.reader.quiet(), around.object).await
    }
}
