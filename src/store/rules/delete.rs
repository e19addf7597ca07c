//! Which tasks are deleted.

use windlass_statemachine::Delete;

use crate::store::Error;

/// Checks whether a task that exists may be deleted.
///
/// # Errors
///
/// [`Error::Claimed`] for a task that a node has claimed, unless the operation is forced.
pub(crate) fn check(delete: &Delete, is_claimed: bool) -> Result<(), Error> {
    match is_claimed && !delete.force {
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
        assert!(check(&delete, false).is_ok());
        let refused = check(&delete, true).unwrap_err().to_string();
        assert!(
            refused.starts_with("task 'a' is claimed by a node"),
            "{refused}"
        );
        assert!(check(&delete.forced(), true).is_ok());
    }
}
