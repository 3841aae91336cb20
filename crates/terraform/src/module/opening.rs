//! What is ephemeral of one resource of a module, opened for those who look after it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use objects::{Value as Json, meta};
use provision::{Failure, Reader, WeakEngine};

use super::children;
use super::files::Archives;
use super::kinds::MODULES;
use super::pass::Stop;
use super::providing::made_name;
use super::view::{Child, View};
use crate::driver::{Opened, Opener, Terraform};

/// What it needs may be there by then.
const WAITING: Duration = Duration::from_secs(30);

/// Looks at the module of an object anew whenever something of it is needed.
pub(super) struct Opening {
    pub engine: WeakEngine<Terraform>,
    pub archives: Arc<Archives>,
    pub directory: Option<PathBuf>,
}

#[async_trait]
impl Opener for Opening {
    async fn open(&self, reader: &Reader<'_>, object: &Json) -> Result<Opened, Failure> {
        let gone = || Failure::recoverable("what is ephemeral of it cannot be opened: its module is gone");
        let engine = self.engine.upgrade().ok_or_else(gone)?;
        let name = children::module(object).ok_or_else(gone)?;
        let module = reader.peek(MODULES, meta::namespace(object), name).await?.ok_or_else(gone)?;
        let place = (&engine, &*self.archives, self.directory.as_deref());
        let view = View::new(place, reader, module);
        Box::pin(view.opened(object)).await.map_err(Stop::told)
    }
}

impl View<'_> {
    async fn opened(&self, object: &Json) -> Result<Opened, Stop> {
        let ground = self.ground().await?;
        let found = self.find(&ground).await?;
        let course = self.open(&ground, found.said, &found.course.settled).await?;
        let opens = children::opens(object);
        let missing = || {
            let message = format!("what is ephemeral of it is not open: {}", course.why());
            match course.failed {
                Some(_) => Failure::recoverable(message),
                None => Failure::waiting(WAITING, message),
            }
        };
        let mut opened = Opened::default();
        if opens.arguments && !meta::is_deleting(object) {
            // It may have moved to another address.
            let own = |(_, child): &(&String, &Child)| meta::name(&child.object) == meta::name(object);
            let address =
                ground.children.iter().find(own).map_or(children::address(object), |(address, _)| address);
            let wanted = course.wanted.iter().find(|wanted| wanted.address == address);
            opened.arguments = wanted.ok_or_else(missing)?.secret.clone();
        }
        if opens.provider {
            let secret = object.pointer("/spec/providerRef/name").and_then(Json::as_str).unwrap_or_default();
            let own = |(name, _): &(&String, &Json)| made_name(&self.object, name) == secret;
            opened.provider = Some(course.providers.iter().find(own).ok_or_else(missing)?.1.clone());
        }
        opened.held = std::mem::take(&mut *self.held.lock());
        Ok(opened)
    }
}
