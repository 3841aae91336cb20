//! What AWS publishes about its services, as one compact arena per service.
//!
//! [`service`] gives the model of a service by the name ACK uses for it (`sqs`, `cognitoidentityprovider`).
//! Models lie compressed in the binary (`data/models`, made by `cargo xtask generate aws`), are unpacked at
//! their first use and kept: all of them together take a few megabytes. [`Shape`], [`Member`] and
//! [`Operation`] are copyable views into the arena. Members of a structure are sorted by name.
//!
//! Not here: documentation, examples, patterns and limits; AWS checks those itself.

mod arena;
mod operation;
mod read;

use std::io::Read;
use std::sync::OnceLock;

pub use arena::{ErrorFacts, Kind, Location, Member, Service, Shape, TimestampFormat, XmlNamespace};
pub use operation::{Operation, Paginator, Protocol};

/// A model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("there is no AWS service {name:?}; the services are those of ACK's controllers and sts")]
    UnknownService { name: String },
    #[error("the model of {service} cannot be unpacked: {source}")]
    Unpack { service: String, source: std::io::Error },
    #[error("the model of {service} is not JSON: {source}")]
    Syntax { service: String, source: serde_json::Error },
    #[error("the model of {service} has a fault: {fault}")]
    Fault { service: String, fault: String },
}

/// A model as it is published with the binary.
struct Published {
    name: &'static str,
    /// The name for settings, which are read before any model is.
    id: &'static str,
    compressed: &'static [u8],
}

const PUBLISHED: &[Published] = include!("../data/models.rs");

/// The names of all services with a model, sorted.
pub fn services() -> impl Iterator<Item = &'static str> {
    PUBLISHED.iter().map(|published| published.name)
}

/// The service that settings call so: `AWS_ENDPOINT_URL_<ID>`, in capitals and with underscores. No model is read for it.
pub fn by_id(id: &str) -> Option<&'static str> {
    let is_it = |published: &&Published| published.id.replace(' ', "_").eq_ignore_ascii_case(id);
    PUBLISHED.iter().find(is_it).map(|published| published.name)
}

/// One slot per published model, so what is kept is bounded by the table.
static READ: [OnceLock<Service>; PUBLISHED.len()] = [const { OnceLock::new() }; PUBLISHED.len()];

/// The services whose models have been read.
pub fn in_memory() -> impl Iterator<Item = &'static str> {
    let read = PUBLISHED.iter().zip(&READ).filter(|(_, slot)| slot.get().is_some());
    read.map(|(published, _)| published.name)
}

/// The model of a service, read at its first use.
pub fn service(name: &str) -> Result<&'static Service, ModelError> {
    let found = PUBLISHED.iter().zip(&READ).find(|(published, _)| published.name == name);
    let Some((published, slot)) = found else {
        return Err(ModelError::UnknownService { name: name.to_owned() });
    };
    if let Some(ready) = slot.get() {
        return Ok(ready);
    }
    let read = unpack(published)?;
    Ok(slot.get_or_init(|| read))
}

fn unpack(published: &Published) -> Result<Service, ModelError> {
    let service = || published.name.to_owned();
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(published.compressed)
        .read_to_end(&mut text)
        .map_err(|source| ModelError::Unpack { service: service(), source })?;
    let document =
        serde_json::from_slice(&text).map_err(|source| ModelError::Syntax { service: service(), source })?;
    Service::read(published.name, &document)
}

#[cfg(test)]
mod tests;
