//! The states of a pass, and what follows from what was found. Pure: the acting is in `pass`.

use crate::policies::Adoption;

/// Where a pass over one object is. Each state is one thing done, in the order in which they are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// What the user asks for is read from the object and its namespace. Ends here if paused, if the object is
    /// not ours, or if it goes and leaves its resource behind.
    Judge,
    /// Account, region and credentials, or a configured provider, are found.
    Connect,
    /// References and secrets become values; the driver has its last word on what is desired.
    Resolve,
    /// An intent is open: the driver finds out what became of it, before anything else is done.
    Recover,
    /// The resource is looked at.
    Observe,
    /// What follows from it is decided; see [`decide`].
    Decide,
    /// The resource is there, but was not made here: object and resource are joined.
    Adopt {
        then_update: bool,
    },
    /// The object has lost what says that its resource is looked after; the finalizer is written again.
    Reclaim,
    /// The changes that would make the resource as desired are planned, and what may be done of them is sorted out.
    Plan,
    /// An intent is written on the object, together with the finalizer, under an optimistic lock.
    Intend,
    /// The resource is made, and what names it is recorded before anything else.
    Create,
    /// What was made is looked at. Until it is seen, the intent stays open.
    Confirm,
    /// The intent is closed; what is left of a replacement is deleted.
    Close,
    /// The changes of the plan are made.
    Update,
    /// What was changed is looked at: what still differs was written in vain.
    Verify,
    /// The old one of a replacement goes before the new one is made.
    Depose,
    /// Fields that the user left to the cloud get their values.
    LateInitialize,
    /// Changes that a deletion needs, such as an end of deletion protection, are made.
    BeforeDelete,
    /// The resource is deleted.
    Delete,
    /// The finalizer is taken away; the object goes if it is to go.
    Release,
    /// The verdict is told in the status, and the next look is chosen.
    Tell,
    End,
}

/// What a pass knows when it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Situation {
    pub deleting: bool,
    /// Has our finalizer.
    pub managed: bool,
    /// The driver knows that what is there was made for this object.
    pub ours: bool,
    pub read_only: bool,
    /// Was taken over once.
    pub adopted: bool,
    pub adoption: Option<Adoption>,
    pub present: bool,
    /// The object was applied as it is, and what happens to the resource since then is not to be corrected.
    pub drift_stays: bool,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Go(State),
    /// Only the status is refreshed.
    Refresh,
    /// It should be there and is not, and is not made from here.
    NotFound(&'static str),
    /// It is there and belongs to somebody else.
    Taken,
    /// It is gone, and that is only reported.
    ReportGone,
}

pub(crate) const ADOPTED_NOT_FOUND: &str = "adopted resource not found";
pub(crate) const READ_ONLY_NOT_FOUND: &str = "read-only resource not found";

pub(crate) fn decide(s: &Situation) -> Decision {
    use Decision::{Go, NotFound, Refresh, ReportGone, Taken};
    match (s.deleting, s.present) {
        (true, true) => Go(State::BeforeDelete),
        (true, false) => Go(State::Release),
        (false, false) if s.read_only => NotFound(READ_ONLY_NOT_FOUND),
        (false, true) if s.read_only => Refresh,
        (false, false) if s.adopted || s.adoption == Some(Adoption::Adopt) => NotFound(ADOPTED_NOT_FOUND),
        (false, false) if s.managed && s.drift_stays => ReportGone,
        (false, false) => Go(State::Plan),
        (false, true) => match s.adoption {
            Some(Adoption::Adopt) => Go(State::Adopt { then_update: false }),
            Some(Adoption::AdoptOrCreate) => Go(State::Adopt { then_update: true }),
            None if s.managed => Go(State::Plan),
            None if s.ours => Go(State::Reclaim),
            None => Taken,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Situation = Situation {
        deleting: false,
        managed: false,
        ours: false,
        read_only: false,
        adopted: false,
        adoption: None,
        present: false,
        drift_stays: false,
    };

    #[test]
    fn what_follows() {
        use Decision::{Go, NotFound, Refresh, ReportGone, Taken};
        let adopt = Some(Adoption::Adopt);
        let either = Some(Adoption::AdoptOrCreate);
        for (situation, expected) in [
            (PLAIN, Go(State::Plan)),
            (Situation { present: true, ..PLAIN }, Taken),
            (Situation { present: true, managed: true, ..PLAIN }, Go(State::Plan)),
            (Situation { present: true, ours: true, ..PLAIN }, Go(State::Reclaim)),
            (Situation { managed: true, ..PLAIN }, Go(State::Plan)),
            (Situation { managed: true, drift_stays: true, ..PLAIN }, ReportGone),
            (Situation { adoption: adopt, ..PLAIN }, NotFound(ADOPTED_NOT_FOUND)),
            (Situation { adopted: true, managed: true, ..PLAIN }, NotFound(ADOPTED_NOT_FOUND)),
            (Situation { adoption: adopt, present: true, ..PLAIN }, Go(State::Adopt { then_update: false })),
            (Situation { adoption: either, present: true, ..PLAIN }, Go(State::Adopt { then_update: true })),
            (Situation { adoption: either, ..PLAIN }, Go(State::Plan)),
            (Situation { read_only: true, ..PLAIN }, NotFound(READ_ONLY_NOT_FOUND)),
            (Situation { read_only: true, present: true, ..PLAIN }, Refresh),
            (Situation { deleting: true, managed: true, present: true, ..PLAIN }, Go(State::BeforeDelete)),
            (Situation { deleting: true, managed: true, ..PLAIN }, Go(State::Release)),
        ] {
            assert_eq!(decide(&situation), expected, "{situation:?}");
        }
    }
}
