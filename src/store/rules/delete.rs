//! Which tasks are deleted.

use windlass_statemachine::Delete;

use crate::store::Error;

/// Who may run the handler of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Whether a live lease has claimed it.
    pub(crate) is_claimed: bool,
    /// Whether the lease of its last claim has ended without a release, and no claim has followed: what the node was running
    /// may still run.
    pub(crate) is_lost: bool,
}

/// Checks whether a task that exists may be deleted.
///
/// # Errors
///
/// [`Error::Claimed`] for a task that a node has claimed or whose node was lost, unless the operation is forced.
pub(crate) fn check(delete: &Delete, held: Held) -> Result<(), Error> {
    match (held.is_claimed || held.is_lost) && !delete.force {
        true => Err(Error::Claimed(delete.task.clone())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_task_is_deleted_by_force_only() {
        let delete = Delete::new("a".parse().unwrap());
        let held = |is_claimed, is_lost| Held {
            is_claimed,
            is_lost,
        };
        assert!(check(&delete, held(false, false)).is_ok());
        assert!(check(&delete, held(false, true)).is_err());
        let refused = check(&delete, held(true, false)).unwrap_err().to_string();
        assert!(
            refused.starts_with("task 'a' is claimed by a node"),
            "{refused}"
        );
        assert!(check(&delete.forced(), held(true, true)).is_ok());
    }
}
