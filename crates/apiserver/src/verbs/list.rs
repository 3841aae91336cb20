//! Many objects: a snapshot, in pages that all belong to the same revision.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use objects::{Reason, Status};
use serde::{Deserialize, Serialize};
use store::{Entry, Key, Revision, StoreError};
use wire::options::{ListOptions, ResourceVersionMatch};

use crate::call::{Call, revision};
use crate::engine::too_large;
use crate::present::{self, List};
use crate::service::{Answer, Failure};
use crate::verbs::selection::Selection;

/// Entries looked at in one go while a selector is searched with.
const SEARCH_PAGE: usize = 1_000;
/// As upstream: how long a list waits for a revision that has not happened yet.
const FRESHNESS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

/// Where a list goes on. Opaque to clients; of no use in another control plane.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: u8,
    /// The control plane it was made in.
    t: u64,
    /// The revision the list is pinned to; none where it may be any.
    r: Option<u64>,
    ns: String,
    n: String,
}

pub async fn list(call: &Call) -> Answer {
    let options = call.list_options()?;
    let selection = Selection::of(call, &options)?;
    let pinned = Pin::of(call, &options).await?;
    let mut list = List::default();
    let mut after = pinned.after;
    let limit = options.limit.map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let page_size = match (limit, selection.is_everything()) {
        (0, _) => 0,
        (limit, true) => limit,
        (limit, false) => limit.max(SEARCH_PAGE),
    };
    let mut at = pinned.at;
    loop {
        let page =
            call.engine.store.range(call.plane.id, &selection.scope, after.as_ref(), at, page_size).await;
        let page = page.map_err(|error| expired_page(call, error, after.as_ref()))?;
        list.revision = page.revision;
        // Every further page belongs to the revision of the first.
        at = Some(page.revision);
        let (count, more) = (page.entries.len(), page.more);
        for (i, entry) in page.entries.into_iter().enumerate() {
            let key = entry.key.clone();
            if selection.matches(call, &entry.key, &entry.value).await? {
                list.entries.push(entry);
            }
            after = Some(key);
            if limit > 0 && list.entries.len() >= limit {
                let rest_of_page = i + 1 < count;
                if rest_of_page || more {
                    let remaining = page.remaining.filter(|_| selection.is_everything());
                    return finish(call, list, after, remaining).await;
                }
            }
        }
        if !more {
            return finish(call, list, None, None).await;
        }
    }
}

async fn finish(call: &Call, mut list: List, after: Option<Key>, remaining: Option<u64>) -> Answer {
    if let Some(after) = after {
        list.continue_token = Some(token(call, Some(list.revision), &after));
        list.remaining = remaining;
    }
    present::list(call, list).await
}

/// Which revision a list is to be read at, and after which key.
struct Pin {
    at: Option<Revision>,
    after: Option<Key>,
}

impl Pin {
    async fn of(call: &Call, options: &ListOptions) -> Result<Pin, Failure> {
        if !options.continue_token.is_empty() {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message).into());
            }
            let place = read_token(call, &options.continue_token)?;
            let after = call.row.key(&place.ns, &place.n);
            return Ok(Pin { at: place.r.map(Revision), after: Some(after) });
        }
        let Some(asked) = revision(&options.resource_version)? else {
            return Ok(Pin { at: None, after: None });
        };
        if asked > 0 {
            wait_until(call, asked).await?;
        }
        let exact = options.resource_version_match == Some(ResourceVersionMatch::Exact);
        Ok(Pin { at: exact.then_some(Revision(asked)), after: None })
    }
}

/// A revision that other replicas may just have written is waited for, but not for long.
pub async fn wait_until(call: &Call, asked: u64) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + FRESHNESS_TIMEOUT;
    loop {
        let current = call.engine.store.revision(call.plane.id).await?;
        if current.0 >= asked {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(too_large(asked, current.0).into());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn token(call: &Call, revision: Option<Revision>, after: &Key) -> String {
    let place = Continue {
        v: 1,
        t: call.plane.id.0,
        r: revision.map(|revision| revision.0),
        ns: after.namespace.to_string(),
        n: after.name.to_string(),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&place).unwrap_or_default())
}

fn read_token(call: &Call, text: &str) -> Result<Continue, Failure> {
    let bad = || Status::bad_request("continue key is not valid");
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
    let place: Continue = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    let nul = place.ns.contains('\0') || place.n.contains('\0');
    if place.v != 1 || place.t != call.plane.id.0 || nul {
        return Err(bad().into());
    }
    Ok(place)
}

/// A page whose revision is gone: the client may start over, or go on with what is there now.
fn expired_page(call: &Call, error: StoreError, after: Option<&Key>) -> Failure {
    match (error, after) {
        (StoreError::Compacted { .. }, Some(after)) => {
            let message = "The provided continue parameter is too old to display a consistent list result. \
                 You can start a new list without the continue parameter, or use the continue token in this \
                 response to retrieve the remainder of the results. Continuing with the provided token results in \
                 an inconsistent list - objects that were created, modified, or deleted between the time the first \
                 chunk was returned and now may show up in the list.";
            let mut status = Status::new(Reason::Expired, message);
            status.continue_token = Some(token(call, None, after));
            status.into()
        }
        (StoreError::Compacted { asked, oldest }, None) => {
            Status::expired(format!("too old resource version: {asked} ({oldest})")).into()
        }
        (error, _) => error.into(),
    }
}

/// Entries of a whole selection, for verbs that act on each.
pub async fn selected(call: &Call, selection: &Selection) -> Result<Vec<Entry>, Failure> {
    let mut found = Vec::new();
    let page = call.engine.store.range(call.plane.id, &selection.scope, None, None, 0).await?;
    for entry in page.entries {
        if selection.matches(call, &entry.key, &entry.value).await? {
            found.push(entry);
        }
    }
    Ok(found)
}
