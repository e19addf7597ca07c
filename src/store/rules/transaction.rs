//! Decides whether a transaction of several operations and guards can be applied, and what has to be
//! written.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::Invalid;

use super::{
    dependencies,
    guard::holds,
    size,
    stand_ins::StandIns,
    steps::{self, Refused, step},
    unique,
};
pub(crate) use super::{
    facts::{Bounds, Facts, Need, Present},
    steps::Step,
};
use crate::store::{Done, Error, Operation, Part, Refusal, Refusals, Submitted, Transaction};

/// The minimum time for which a store remembers an applied transaction.
pub(crate) const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// Returns the time before which applied transactions are forgotten. `latest` is the latest time that a
/// record can have without a wrong clock.
pub(crate) fn forgotten_before(latest: Timestamp) -> Option<Timestamp> {
    latest.checked_sub(REMEMBERED).ok()
}

/// Checks the form of a transaction: its size, and that each task and each command occurs once. The form of an operation
/// that is [alone](Transaction::alone) is always right.
///
/// # Errors
///
/// [`Error::Invalid`] (field `operations`).
pub(crate) fn check(
    transaction: &Transaction,
    store: &str,
    max_operations: usize,
) -> Result<(), Error> {
    if transaction.alone().is_some() {
        return Ok(());
    }
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
    dependencies::check_circle(operations.iter().filter_map(|operation| match operation {
        Operation::Submit(submit) => Some(&submit.task),
        _ => None,
    }))
}

/// Returns what has to be written for an operation that is [alone](Transaction::alone).
///
/// # Errors
///
/// The error of the operation.
pub(crate) fn decide_alone<'a>(
    operation: &'a Operation,
    facts: &Facts,
    bounds: Bounds,
) -> Result<Step<'a>, Error> {
    step(operation, facts, bounds).map_err(|refused| match refused {
        Refused::Error(error) | Refused::Both(_, error) => error,
        Refused::Reason(reason) => {
            let task = operation.task().clone();
            let refusal = Refusal::new(Part::Operation(0), task, reason);
            Error::Refused(Refusals::new(vec![refusal]).of_single(operation.verb()))
        }
    })
}

/// Returns what has to be written: one step for each operation, in order. The form of the transaction was
/// checked before. Afterwards `facts` also contains the submitted tasks with unique keys.
///
/// # Errors
///
/// [`Error::Refused`] with every refused guard and operation; then nothing is written. For a single submit, and for an
/// operation that is [alone](Transaction::alone): its own error.
pub(crate) fn decide<'a>(
    transaction: &'a Transaction,
    facts: &mut Facts,
    bounds: Bounds,
) -> Result<Vec<Step<'a>>, Error> {
    if let Some(operation) = transaction.alone() {
        return Ok(vec![decide_alone(operation, facts, bounds)?]);
    }
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
        let stepped = step(operation, facts, bounds).and_then(|step| {
            steps::check_alone(&step, operation, transaction.operations())?;
            if !transaction.is_of_schedules() {
                steps::check_schedule(operation, facts)?;
            }
            Ok(step)
        });
        match stepped {
            Ok(step) => {
                note(Part::Operation(index), operation, &step, &mut submits);
                steps::took(&step, facts);
                if let Step::Submit { task, .. } = &step
                    && task.unique.is_some()
                {
                    let present = Present::submitted(task, bounds.now);
                    facts.tasks.insert(task.id.clone(), present);
                    unique::take(task, facts, bounds.now);
                }
                steps.push(step);
            }
            Err(Refused::Error(error)) if transaction.is_single_submit() => return Err(error),
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
        Some(Error::Refused(refusals)) if transaction.is_single() => {
            Err(Error::Refused(refusals.of_single(transaction.verb())))
        }
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
        Step::Known(done) | Step::Reschedule { done, .. } => {
            if let Done::Submitted(Submitted::Other { task, .. }) = done {
                submits.stands_in(operation.task(), task);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
