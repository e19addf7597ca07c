//! What a submit does when another task has its unique key.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Task, Unique, terms::MAX_UNIQUE};

use super::{
    facts::{Facts, Holder, Present},
    submit::{self, Taken, Verdict},
};
use crate::store::{Error, Submit, Submitted, retention::TOLERANCE};

/// Returns the time until which a task that is submitted at this time has its key.
pub(crate) fn until(unique: &Unique, submitted_at: Timestamp) -> Timestamp {
    let within = SignedDuration::try_from(unique.within()).unwrap_or(SignedDuration::MAX);
    submitted_at
        .saturating_add(within)
        .unwrap_or(Timestamp::MAX)
}

/// Returns whether a task that had its key until this time still has it. A key is never held for much longer than its
/// period, whatever is stored: a later time comes from a clock that was ahead when the task was submitted. Such a
/// time is trusted up to the period plus [`TOLERANCE`] from now, so that a submit by a clock that is slightly behind
/// finds the key taken.
fn is_held(until: Timestamp, within: Duration, now: Timestamp) -> bool {
    let within = SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX);
    let longest = within.saturating_add(within.max(TOLERANCE));
    (SignedDuration::ZERO..=longest).contains(&until.duration_since(now)) && until > now
}

/// What a submit does with the other task that has its unique key.
#[derive(Debug)]
pub(super) enum Held<'a> {
    /// Accepts it: this is the result.
    Accepted(Submitted),
    /// Replaces its props and its time.
    Updated(&'a Present),
}

/// Returns what a submit does when another task has its unique key; `None` when the key is free, or when
/// the new task takes it from an ended one. The rule is the same as for a task with the same id.
///
/// # Errors
///
/// [`Error::NotUnique`]; [`Error::Corrupt`] when the other task would be accepted, but its state
/// cannot be read.
pub(super) fn decide<'a>(
    submit: &Submit,
    facts: &'a Facts,
    now: Timestamp,
) -> Result<Option<Held<'a>>, Error> {
    let Some(unique) = &submit.task.unique else {
        return Ok(None);
    };
    let holder = facts.keys.get(unique.key());
    // For an existing task with the same id, only the rule of the id counts.
    let holder = holder.filter(|holder| holder.task != submit.task.id);
    let Some(Holder { task, until }) = holder else {
        return Ok(None);
    };
    let Some(present) = facts.tasks.get(task) else {
        return Ok(None);
    };
    // For a task that cannot be read, the longest possible period.
    let own = present
        .task
        .as_ref()
        .ok()
        .and_then(|task| task.unique.as_ref());
    if !is_held(*until, own.map_or(MAX_UNIQUE, Unique::within), now) {
        return Ok(None);
    }
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
        is_waiting: present.is_waiting(),
    };
    match submit::decide_kept(submit, taken) {
        Ok(Verdict::Existing(state)) => Ok(Some(Held::Accepted(Submitted::Other {
            task: task.clone(),
            state,
        }))),
        Ok(Verdict::Update) => Ok(Some(Held::Updated(present))),
        Ok(Verdict::Replace) => Ok(None),
        Err(Error::AlreadyExists { .. } | Error::AlreadyFinished { .. }) => Err(Error::NotUnique {
            key: unique.key().to_owned(),
            task: task.clone(),
            until: *until,
        }),
        Err(error) => Err(error),
    }
}

/// Adds the unique key of a submitted task to the facts, so that the following operations see it as
/// taken.
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
