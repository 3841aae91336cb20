//! Which store a process keeps control planes in, by what it was told: the only place that knows the engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use store::Store;

use crate::files;

/// A store, as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Embedded(PathBuf),
}

/// What a store is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `embedded`, `embedded:DIR`, or the address of a server. It may hold a password.
    pub address: Option<auth::Secret<String>>,
    /// The part of it that is this process's alone: a directory, a schema of PostgreSQL, a prefix of etcd.
    pub room: Option<String>,
}

const KNOWN: &str = "use embedded or embedded:DIR";

impl Wanted {
    pub fn new(address: Option<String>, room: Option<String>) -> Self {
        Wanted { address: address.map(auth::Secret::new), room }
    }

    /// Where that is. Nothing is opened yet.
    pub fn place(&self, data_dir: &Path) -> anyhow::Result<Place> {
        let address = self.address.as_ref().map_or("embedded", |address| address.expose().as_str());
        let inside = |dir: PathBuf| match &self.room {
            Some(room) => dir.join(room),
            None => dir,
        };
        match address.split_once(':') {
            None if address == "embedded" => Ok(Place::Embedded(inside(data_dir.join("store")))),
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Place::Embedded(inside(dir.into()))),
            // What comes after the name may be a password.
            Some((scheme, rest)) if rest.starts_with("//") => {
                bail!("--store {scheme}: this version has no store of that kind: {KNOWN}")
            }
            _ => bail!("--store {address:?} is not known: {KNOWN}"),
        }
    }
}

/// Opens a store and makes it if it is not there.
pub async fn open(place: &Place) -> anyhow::Result<Arc<dyn Store>> {
    match place {
        Place::Embedded(dir) => {
            files::private_dir(dir)?;
            Ok(Arc::new(store::embedded::Embedded::open(dir, store::embedded::Options::default())?))
        }
    }
}

/// Control planes looked at together.
const PAGE: usize = 100;

/// Takes every control plane out of a part of a shared store.
pub async fn empty(wanted: &Wanted) -> anyhow::Result<()> {
    let store = open(&wanted.place(Path::new("."))?).await?;
    loop {
        let page = store.tenants(None, PAGE).await?;
        if page.is_empty() {
            break;
        }
        for tenant in page {
            match store.delete_tenant(tenant.id).await {
                Ok(()) | Err(store::StoreError::NoTenant) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    store.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let check = |address: Option<&str>, expected: Result<&str, &str>| {
            let wanted = Wanted::new(address.map(str::to_owned), None);
            let place = wanted.place(Path::new("/data")).map_err(|error| error.to_string());
            let expected = expected.map(|dir| Place::Embedded(dir.into())).map_err(str::to_owned);
            assert_eq!(place, expected, "{address:?}");
        };
        let own = Wanted::new(Some("embedded:/x".to_owned()), Some("a".to_owned()));
        assert_eq!(own.place(Path::new("/data")).unwrap(), Place::Embedded("/x/a".into()));
        check(None, Ok("/data/store"));
        check(Some("embedded"), Ok("/data/store"));
        check(Some("embedded:/x/y"), Ok("/x/y"));
        check(Some("embedded:"), Err("--store \"embedded:\" is not known: use embedded or embedded:DIR"));
        check(Some("elsewhere"), Err("--store \"elsewhere\" is not known: use embedded or embedded:DIR"));
        check(
            Some("mysql://me:secret@there"),
            Err("--store mysql: this version has no store of that kind: use embedded or embedded:DIR"),
        );
    }
}
