//! Decides whether a commit is applied: the writers of one claim write one after the other.
//!
//! Several processes may write under one claim (two servers that act for one worker), and one process may
//! repeat a write whose answer was lost. A commit names the version that it follows and has its own id,
//! so a store can distinguish these cases without a record of earlier writes.

use windlass_statemachine::{CommitId, TaskId, TaskState, machine::Write};

use crate::store::Error;

/// What a store does with a commit of the live claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Apply it: it follows the stored state.
    Apply,
    /// Succeed without a change: the stored state is already the commit's own.
    Applied,
    /// Change nothing and return [`Error::Superseded`]: another write of the claim was applied first.
    Superseded,
}

/// The commit that wrote a stored state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) version: u64,
    pub(crate) commit: Option<CommitId>,
}

impl Stored {
    pub(crate) fn of(state: &TaskState) -> Self {
        Self {
            version: state.version,
            commit: state.commit,
        }
    }
}

/// The place of a commit among the writes of its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The version that the commit follows.
    pub(crate) follows: u64,
    pub(crate) id: Option<CommitId>,
}

impl Place {
    pub(crate) fn of(write: &Write) -> Self {
        Self {
            follows: write.follows,
            id: write.state.commit,
        }
    }

    /// Decides on a commit. The caller has already compared the claim.
    pub(crate) fn decide(self, stored: Stored) -> Decision {
        if stored.commit.is_some() && stored.commit == self.id {
            Decision::Applied
        } else if stored.version == self.follows {
            Decision::Apply
        } else {
            Decision::Superseded
        }
    }

    /// Returns whether a commit of this task was applied before. `false`: it has to be applied.
    ///
    /// # Errors
    ///
    /// [`Error::Superseded`].
    pub(crate) fn is_applied(self, task: &TaskId, stored: Stored) -> Result<bool, Error> {
        match self.decide(stored) {
            Decision::Apply => Ok(false),
            Decision::Applied => Ok(true),
            Decision::Superseded => Err(Error::Superseded {
                task: task.clone(),
                follows: self.follows,
                stored: stored.version,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(follows: u64, id: u64) -> Place {
        let id = Some(CommitId(id));
        Place { follows, id }
    }

    fn stored(version: u64, id: Option<u64>) -> Stored {
        let commit = id.map(CommitId);
        Stored { version, commit }
    }

    #[test]
    fn a_commit_follows_one_version_and_is_known_by_its_id() {
        use Decision::{Applied, Apply, Superseded};
        let of_another_claim = stored(3, None);
        for (is, follows, id, expected) in [
            (of_another_claim, 3, 7, Apply),
            (stored(3, Some(6)), 3, 7, Apply),
            (stored(4, Some(7)), 3, 7, Applied),
            // Another writer has written the next version.
            (stored(4, Some(6)), 3, 7, Superseded),
            (stored(4, None), 3, 7, Superseded),
            // A write that arrives after a newer one.
            (stored(9, Some(6)), 3, 7, Superseded),
            // A write that follows a version which the store does not have.
            (stored(2, Some(6)), 3, 7, Superseded),
        ] {
            assert_eq!(place(follows, id).decide(is), expected, "{is:?}");
        }
    }

    #[test]
    fn a_write_without_an_id_is_never_known() {
        let anonymous = Place {
            id: None,
            ..place(3, 7)
        };
        assert_eq!(anonymous.decide(stored(4, None)), Decision::Superseded);
    }

    #[test]
    fn the_error_names_both_versions() {
        let task: TaskId = "t".parse().unwrap();
        let error = place(3, 7).is_applied(&task, stored(5, None)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a write of task 't' follows version 3, and version 5 is stored: another writer of the claim was \
             first, and nothing was changed; read the state and decide again"
        );
        assert!(!error.is_retryable());
    }
}
