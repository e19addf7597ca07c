//! [`Past`]: the greatest revision that this process has seen, and whether the servers have gone back below it.

use std::sync::{
    OnceLock,
    atomic::{AtomicI64, Ordering},
};

use super::fault::Fault;
use crate::store::{Error, etcd::schema::restored};

/// An etcd that was restored to an earlier state: the greatest revision seen before, and a later,
/// smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    /// The greatest revision that this process had seen.
    pub(crate) seen: i64,
    /// The revision of a later answer.
    pub(crate) found: i64,
}

impl Behind {
    pub(crate) fn error(self) -> Error {
        let Self { seen, found } = self;
        restored(format_args!(
            "the etcd was restored to an earlier state: it is at revision {found}, and this process has seen {seen}"
        ))
    }

    pub(crate) fn fault(self) -> Fault {
        Fault::Refused(self.error())
    }
}

/// The revisions in the answers of the servers. Once the servers have gone back to an earlier state, that is
/// final for this process: its fences are revisions, and a fence of an earlier owner could become valid again.
#[derive(Debug, Default)]
pub(crate) struct Past {
    seen: AtomicI64,
    behind: OnceLock<Behind>,
}

impl Past {
    /// Returns the greatest revision seen.
    pub(crate) fn seen(&self) -> i64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Notes the revision of an event.
    pub(crate) fn saw(&self, revision: i64) {
        self.seen.fetch_max(revision, Ordering::Relaxed);
    }

    /// Returns both revisions if the servers have gone back to an earlier state.
    pub(crate) fn behind(&self) -> Option<Behind> {
        self.behind.get().copied()
    }

    /// Notes that the servers have gone back to an earlier state: `found` is less than `seen`.
    pub(crate) fn went_back(&self, seen: i64, found: i64) -> Behind {
        let seen = seen.max(self.seen());
        *self.behind.get_or_init(|| Behind { seen, found })
    }

    /// Compares the revision of a linearizable answer with the greatest that was seen before the call.
    pub(crate) fn answered(&self, before: i64, revision: i64) -> Result<(), Fault> {
        if (1..before).contains(&revision) {
            return Err(self.went_back(before, revision).fault());
        }
        self.saw(revision);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_below_a_revision_that_was_seen_before_the_call_is_final() {
        let past = Past::default();
        assert!(past.answered(0, 10).is_ok());
        past.saw(20);
        let before = past.seen();
        past.saw(30);
        assert!(
            past.answered(before, 20).is_ok(),
            "an answer that was overtaken"
        );
        assert!(past.answered(30, 0).is_ok(), "an answer without a revision");
        assert_eq!(past.behind(), None);
        assert!(past.answered(past.seen(), 29).is_err());
        let behind = Behind {
            seen: 30,
            found: 29,
        };
        assert_eq!(past.behind(), Some(behind));
        assert!(past.answered(30, 7).is_err());
        assert_eq!(past.behind(), Some(behind), "the first one stays");
        assert!(
            matches!(behind.error(), Error::StoreGone { reason, .. } if reason.contains("revision 29"))
        );
    }
}
