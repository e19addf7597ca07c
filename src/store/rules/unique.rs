//! What a submit does when another task has its unique key.

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Task, Unique};

use super::{
    facts::{Facts, Holder},
    submit::{self, Taken, Verdict},
};
use crate::store::{Error, Submit, Submitted};

/// Returns until when a task that is submitted at this time has its key.
pub(crate) fn until(unique: &Unique, submitted_at: Timestamp) -> Timestamp {
    let within = SignedDuration::try_from(unique.within()).unwrap_or(SignedDuration::MAX);
    submitted_at
        .saturating_add(within)
        .unwrap_or(Timestamp::MAX)
}

/// Returns the result of a submit whose unique key another task has; `None` when the key is free, or the new
/// task takes it from an ended one. The rule is that of a task with the same id.
///
/// # Errors
///
/// [`Error::NotUnique`]; [`Error::Corrupt`] for the same or a skipped task whose state cannot be read.
pub(super) fn decide(
    submit: &Submit,
    facts: &Facts,
    now: Timestamp,
) -> Result<Option<Submitted>, Error> {
    let Some(unique) = &submit.task.unique else {
        return Ok(None);
    };
    let holder = facts.keys.get(unique.key());
    // The id alone decides about the task's own predecessor.
    let holder = holder.filter(|holder| holder.until > now && holder.task != submit.task.id);
    let Some(Holder { task, until }) = holder else {
        return Ok(None);
    };
    let Some(present) = facts.tasks.get(task) else {
        return Ok(None);
    };
    let state = present.state.as_ref();
    let wrong = present.quarantine.as_ref();
    let wrong = wrong.or(state.err()).or(present.task.as_ref().err());
    let code = match (wrong, state) {
        (None, Ok(state)) => Ok(state.code()),
        (Some(reason), _) | (None, Err(reason)) => Err(Error::corrupt_task(task, reason)),
    };
    let taken = Taken {
        has_ended: present.has_ended,
        task: present.task.as_deref().ok(),
        code,
    };
    match submit::decide(submit, taken) {
        Ok(Verdict::Existing(state)) => Ok(Some(Submitted::Other {
            task: task.clone(),
            state,
        })),
        Ok(Verdict::Replace) => Ok(None),
        Err(Error::AlreadyExists { .. } | Error::AlreadyFinished(_)) => Err(Error::NotUnique {
            key: unique.key().to_owned(),
            task: task.clone(),
            until: *until,
        }),
        Err(error) => Err(error),
    }
}

/// Adds the unique key of a submitted task to the facts: the operations after it see the key as taken.
pub(super) fn take(task: &Task, facts: &mut Facts, now: Timestamp) {
    if let Some(unique) = &task.unique {
        let holder = Holder {
            task: task.id.clone(),
            until: until(unique, now),
        };
        facts.keys.insert(unique.key().to_owned(), holder);
    }
}

#[cfg(test)]
#[path = "unique_tests.rs"]
mod tests;
