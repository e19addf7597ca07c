//! Decides whether a transaction of several operations and guards can be applied, and what has to be
//! written.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{
    Invalid, Json, StateKind, Task, TaskId, TaskState, message::SendCommand, size::Size,
};

pub(crate) use super::facts::{Bounds, Facts, Present};
use super::{
    command, delete,
    guard::holds,
    reschedule,
    retry::{self, Record},
    size,
    stand_ins::StandIns,
    submit::{self, Taken, Verdict},
    unique, waits,
};
use crate::store::{
    ChangeKind, Done, Error, Operation, Part, Reason, Refusal, Refusals, Reschedule, RetryTask,
    Submit, Submitted, Transaction,
};

/// The minimum time for which a store remembers an applied transaction.
pub(crate) const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// Returns the time before which applied transactions are forgotten. `latest` is the latest time that a
/// record can have without a wrong clock.
pub(crate) fn forgotten_before(latest: Timestamp) -> Option<Timestamp> {
    latest.checked_sub(REMEMBERED).ok()
}

/// The write for one operation.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<'a> {
    /// No write: the result is known.
    Known(Done),
    /// A new task. Its id is free, or becomes free: the ended task with this id is deleted, and the
    /// new one continues its fences.
    Submit {
        /// The task.
        task: &'a Task,
        /// Whether an ended task has the id.
        replaces: bool,
    },
    /// A new command for a live task.
    Send(&'a SendCommand),
    /// Deletes the task.
    Delete(&'a TaskId),
    /// Gives the task this state.
    Retry {
        /// The request.
        retry: &'a RetryTask,
        /// Its new state.
        state: TaskState,
    },
    /// The unclaimed task gets this state and what the request changes beside it.
    Reschedule {
        /// The request.
        change: &'a Reschedule,
        /// The line of the history.
        what: ChangeKind,
        /// The new state.
        state: TaskState,
    },
}

/// Checks the form of a transaction: its size, and that each task and each command occurs once.
///
/// # Errors
///
/// [`Error::Invalid`] (field `operations`).
pub(crate) fn check(
    transaction: &Transaction,
    store: &str,
    max_operations: usize,
) -> Result<(), Error> {
    let wrong = |reason: String| Err(Invalid::new("operations", reason).into());
    let operations = transaction.operations();
    if operations.is_empty() && transaction.guards().is_empty() {
        return wrong("are empty; give at least one operation or guard".to_owned());
    }
    let has = operations.len() + transaction.holding_guards().count();
    if has > max_operations {
        return wrong(format!(
            "are {has} with the guards; the {store} store takes at most {max_operations} in one \
             transaction; split it"
        ));
    }
    size::check_operations(operations.iter().map(Operation::bytes).sum())?;
    let (mut tasks, mut commands) = (HashSet::new(), HashSet::new());
    for operation in operations {
        let task = operation.task();
        if !tasks.insert(task) {
            return wrong(format!(
                "name task '{task}' twice; give each task at most one operation in a transaction"
            ));
        }
        if let Operation::Send(send) = operation
            && !commands.insert(&send.id)
        {
            return wrong(format!(
                "give two commands the id '{}'; give each command an id of its own",
                send.id
            ));
        }
    }
    check_circle(operations)
}

/// Refuses submits of tasks that wait for each other in a circle.
///
/// # Errors
///
/// [`Error::Invalid`] (field `after`).
pub(super) fn check_circle(operations: &[Operation]) -> Result<(), Error> {
    waits::check_circle(operations.iter().filter_map(|operation| match operation {
        Operation::Submit(submit) => Some(&submit.task),
        _ => None,
    }))
}

/// Returns what has to be written: one step for each operation, in order. The form of the transaction was
/// checked before. Afterwards `facts` also contains the submitted tasks with unique keys.
///
/// # Errors
///
/// [`Error::Refused`] with every refused guard and operation; then nothing is written. For a single submit:
/// the error of the operation.
pub(crate) fn decide<'a>(
    transaction: &'a Transaction,
    facts: &mut Facts,
    bounds: Bounds,
) -> Result<Vec<Step<'a>>, Error> {
    let mut refused = Vec::new();
    for (index, guard) in transaction.guards().iter().enumerate() {
        if let Err(reason) = holds(guard, facts.tasks.get(&guard.task)) {
            refused.push(Refusal {
                part: Part::Guard(index),
                task: guard.task.clone(),
                reason,
            });
        }
    }
    let mut steps = Vec::with_capacity(transaction.operations().len());
    let mut submits = StandIns::default();
    for (index, operation) in transaction.operations().iter().enumerate() {
        match step(operation, facts, bounds) {
            Ok(step) => {
                note(Part::Operation(index), operation, &step, &mut submits);
                if let Step::Submit { task, .. } = &step
                    && task.unique.is_some()
                {
                    let present = Present::submitted(task, bounds.now);
                    facts.tasks.insert(task.id.clone(), present);
                    unique::take(task, facts, bounds.now);
                }
                steps.push(step);
            }
            Err(Refused::Error(error)) if transaction.is_submit_alone() => return Err(error),
            Err(reason) => refused.push(Refusal {
                part: Part::Operation(index),
                task: operation.task().clone(),
                reason: reason.into_reason()?,
            }),
        }
    }
    refused.extend(submits.refusals());
    match Refusals::error(refused) {
        None => Ok(steps),
        Some(error) => Err(error),
    }
}

/// Notes a submit and its result.
pub(super) fn note<'a>(
    part: Part,
    operation: &'a Operation,
    step: &Step<'a>,
    submits: &mut StandIns<'a>,
) {
    match step {
        Step::Submit { task, .. } => submits.submitted(part, task),
        Step::Known(Done::Submitted(Submitted::Other { task, .. })) => {
            submits.stands_in(operation.task(), task);
        }
        _ => {}
    }
}

/// Why an operation is refused: by a rule of transactions, or by a rule of the operation.
pub(super) enum Refused {
    Reason(Reason),
    Error(Error),
}

impl Refused {
    pub(super) fn into_reason(self) -> Result<Reason, Error> {
        match self {
            Self::Reason(reason) => Ok(reason),
            Self::Error(error) => Reason::of(error),
        }
    }
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Self {
        Self::Reason(reason)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Returns the step of one operation.
pub(super) fn step<'a>(
    operation: &'a Operation,
    facts: &Facts,
    bounds: Bounds,
) -> Result<Step<'a>, Refused> {
    let present = facts.tasks.get(operation.task());
    match operation {
        Operation::Submit(submit) => submitted(submit, present, facts, bounds),
        Operation::Send(send) => sent(send, present, facts, bounds),
        Operation::Delete(delete) => {
            let present = present.ok_or(Reason::Missing)?;
            delete::check(delete, present.is_claimed)?;
            Ok(Step::Delete(&delete.task))
        }
        Operation::Retry(retry) => retried(retry, present, bounds),
        Operation::Reschedule(change) => rescheduled(change, present, bounds),
    }
}

fn submitted<'a>(
    submit: &'a Submit,
    present: Option<&Present>,
    facts: &Facts,
    bounds: Bounds,
) -> Result<Step<'a>, Refused> {
    let task = &submit.task;
    size::check_task(task, bounds.max_bytes)?;
    let new = |replaces| match unique::decide(submit, facts, bounds.now)? {
        Some(other) => Ok(Step::Known(Done::Submitted(other))),
        None => Ok(Step::Submit { task, replaces }),
    };
    let Some(present) = present else {
        return new(false);
    };
    let code = match present.readable() {
        Ok(state) => Ok(state.code()),
        Err(Reason::Unreadable(reason)) => Err(Error::corrupt_task(&task.id, reason)),
        Err(reason) => return Err(reason.into()),
    };
    let taken = Taken {
        has_ended: present.has_ended,
        task: present.task.as_deref().ok(),
        code,
    };
    match submit::decide(submit, taken)? {
        Verdict::Existing(code) => Ok(Step::Known(Done::Submitted(Submitted::Existing(code)))),
        Verdict::Replace => new(true),
    }
}

fn sent<'a>(
    send: &'a SendCommand,
    present: Option<&Present>,
    facts: &Facts,
    bounds: Bounds,
) -> Result<Step<'a>, Refused> {
    match facts.commands.get(&send.id) {
        Some((task, order)) if *task == send.task => return Ok(Step::Known(Done::Sent(*order))),
        Some((task, _)) => return Err(Error::other_command(&send.id, task).into()),
        None => {}
    }
    let present = present.ok_or(Reason::Missing)?;
    if present.has_ended {
        return Err(Reason::Finished.into());
    }
    command::check(&send.command, present.props, bounds.max_bytes, bounds.now)?;
    Ok(Step::Send(send))
}

fn retried<'a>(
    retry: &'a RetryTask,
    present: Option<&Present>,
    bounds: Bounds,
) -> Result<Step<'a>, Refused> {
    let present = present.ok_or(Reason::Missing)?;
    if let Ok(state) = present.readable()
        && !state.code().is_terminal()
    {
        let required = vec![StateKind::Completed, StateKind::Failed, StateKind::Killed];
        let is = state.code();
        return Err(Reason::State { is, required }.into());
    }
    if present.is_claimed && present.readable().is_err() {
        return Err(Reason::Claimed.into());
    }
    let start_at = present.task.as_ref().ok().and_then(|task| task.start_at);
    let record = Record {
        id: &retry.task,
        state: present.state.clone(),
        envelope: present.task.as_ref().err().cloned(),
        start_at,
        is_quarantined: present.quarantine.is_some(),
        is_claimed: present.is_claimed,
        last: present.last,
    };
    let mut state = retry::state(record, bounds.now)?;
    reschedule::check_depths(&retry.data, &retry.props)?;
    if let Some(data) = &retry.data {
        state.data = Some(data.clone());
    }
    check_edited((&retry.data, &retry.props), &state, present, bounds)?;
    Ok(Step::Retry { retry, state })
}

/// Checks the size of a task whose data or props were edited.
fn check_edited(
    (data, props): (&Option<Json>, &Option<Json>),
    state: &TaskState,
    present: &Present,
    bounds: Bounds,
) -> Result<(), Error> {
    if data.is_none() && props.is_none() {
        return Ok(());
    }
    let bytes = props.as_ref().map_or(present.props, Json::len);
    if props.is_some() && bytes > bounds.max_bytes {
        return Err(Error::too_large("props", bytes, bounds.max_bytes));
    }
    size::check(Size::of(state), bytes, bounds.max_bytes)
}

fn rescheduled<'a>(
    change: &'a Reschedule,
    present: Option<&Present>,
    bounds: Bounds,
) -> Result<Step<'a>, Refused> {
    reschedule::check(change)?;
    let present = present.ok_or(Reason::Missing)?;
    if present.has_ended {
        return Err(Reason::Finished.into());
    }
    let state = present.readable()?.clone();
    if present.is_claimed {
        return Err(Reason::Claimed.into());
    }
    let task = present
        .task
        .as_ref()
        .map_err(|wrong| Reason::Unreadable(wrong.clone()))?;
    let (what, state) = reschedule::decide(change, task, state, bounds.now)?;
    check_edited((&change.data, &change.props), &state, present, bounds)?;
    Ok(Step::Reschedule {
        change,
        what,
        state,
    })
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
