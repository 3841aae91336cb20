//! When: a revision, a time, or how long ago.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use jiff::Timestamp;

use super::duration;
use crate::api::Api;

/// A point in the history of a control plane, as people say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Revision(u64),
    Time(Timestamp),
    /// Seconds before now.
    Ago(u64),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(revision) = text.parse() {
            return Ok(Moment::Revision(revision));
        }
        if let Some(ago) = text.strip_prefix('-') {
            return duration(ago).map(|ago| Moment::Ago(ago.as_secs()));
        }
        let time: Result<Timestamp, _> = text.parse();
        time.map(Moment::Time).map_err(|_| {
            format!("{text:?} is neither a revision, nor a time like 2026-01-31T12:00:00Z, nor one like -5m")
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Revision(revision) => write!(f, "revision {revision}"),
            Moment::Time(time) => time.fmt(f),
            Moment::Ago(seconds) => write!(f, "{seconds}s ago"),
        }
    }
}

impl Moment {
    /// By the clock; none for a revision.
    pub fn time(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Moment::Revision(_) => None,
            Moment::Time(time) => Some(time),
            // Longer ago than there is time is at its beginning.
            Moment::Ago(seconds) => {
                let ago = std::time::Duration::from_secs(seconds);
                Some(now.checked_sub(ago).unwrap_or(Timestamp::MIN))
            }
        }
    }

    /// The revision that was current then, which the server knows.
    pub async fn revision(self, api: &Api, root: &str, control_plane: &str) -> anyhow::Result<u64> {
        let looking = || format!("error looking for what was at {self}");
        let told = "the server did not say which revision that is";
        if let Some(time) = self.time(Timestamp::now()) {
            let found = api.get_path(&format!("{root}/{control_plane}/revision?at={time}")).await;
            return found.with_context(looking)?["revision"].as_u64().context(told);
        }
        let Moment::Revision(asked) = self else { bail!(told) };
        let usage = api.get_path(&format!("{root}/{control_plane}/usage")).await.with_context(looking)?;
        let current = usage["revision"].as_u64().context(told)?;
        if asked > current {
            bail!(
                "revision {asked} of control plane {control_plane:?} is in the future: the current one is {current}"
            );
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said() {
        let check = |text: &str, expected: Option<Moment>| assert_eq!(text.parse().ok(), expected, "{text}");
        check("17", Some(Moment::Revision(17)));
        check("-5m", Some(Moment::Ago(300)));
        check("-90", Some(Moment::Ago(90)));
        check("1970-01-01T00:01:00Z", Some(Moment::Time(Timestamp::from_second(60).unwrap())));
        check("1970-01-01T01:01:00+01:00", Some(Moment::Time(Timestamp::from_second(60).unwrap())));
        check("yesterday", None);
        check("", None);
        check("-", None);
        let now = Timestamp::from_second(1_000).unwrap();
        assert_eq!(Moment::Ago(100).time(now), Timestamp::from_second(900).ok());
        assert_eq!(Moment::Ago(u64::MAX).time(now), Some(Timestamp::MIN));
        assert_eq!(Moment::Revision(1).time(now), None);
    }
}
