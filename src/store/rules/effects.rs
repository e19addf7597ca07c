//! Decides whether the effects of a message can be applied, and what has to be written. Each effect is
//! decided like an operation of a transaction. The rules here concern several effects of one message.

use std::collections::{HashMap, HashSet};

use windlass_statemachine::{Invalid, TaskId};

use super::{
    dependencies,
    guard::holds,
    stand_ins::StandIns,
    steps::{Refused, Step, check_alone, check_schedule, step, took},
    transaction::{Bounds, Facts, Present, check_circle, note},
    unique,
};
use crate::store::{Error, Operation, Part, Reason, Refusal, Refusals, Transaction};

/// Checks the number of a message's effects, and that its submitted tasks do not wait for each other
/// in a circle.
///
/// # Errors
///
/// [`Error::Invalid`] (field `effects`, `after`).
pub(crate) fn check(
    effects: &Transaction,
    store: &str,
    max_operations: usize,
) -> Result<(), Error> {
    let has = effects.operations().len() + effects.guards().len();
    if has <= max_operations {
        return check_circle(effects.operations());
    }
    let reason = format!(
        "are {has} with the guards; the {store} store takes at most {max_operations} in one message; \
         spread them over several messages"
    );
    Err(Invalid::new("effects", reason).into())
}

/// Returns what has to be written for the effects of a message of task `own`: one step for each operation,
/// in order. The step of a command that an earlier effect or call has already sent writes nothing. `facts`
/// must contain `own` as the message leaves it. Afterwards it also contains the submitted tasks.
///
/// # Errors
///
/// [`Error::Refused`] with every refused effect; then nothing is written.
pub(crate) fn decide<'a>(
    effects: &'a Transaction,
    own: &TaskId,
    facts: &mut Facts,
    bounds: Bounds,
) -> Result<Vec<Step<'a>>, Error> {
    check_own_circle(effects, own, facts)?;
    let mut refused = Vec::new();
    for (index, guard) in effects.guards().iter().enumerate() {
        let held = match guard.task == *own {
            true => Err(Reason::Own),
            false => holds(guard, facts.tasks.get(&guard.task)),
        };
        if let Err(reason) = held {
            refused.push(Refusal {
                part: Part::Effect {
                    field: "require",
                    index,
                },
                task: guard.task.clone(),
                reason,
            });
        }
    }
    let mut earlier = Earlier {
        own,
        named: HashSet::new(),
        replaced: HashSet::new(),
    };
    let mut counts: HashMap<&'static str, usize> = HashMap::new();
    let mut steps = Vec::with_capacity(effects.operations().len());
    let mut submits = StandIns::default();
    for operation in effects.operations() {
        let field = field(operation);
        let count = counts.entry(field).or_default();
        let part = Part::Effect {
            field,
            index: *count,
        };
        *count += 1;
        let allowed = earlier.allow(operation, facts);
        let stepped = allowed.and_then(|()| step(operation, facts, bounds));
        let stepped = stepped.and_then(|step| {
            earlier.allow_step(&step, operation, effects)?;
            check_schedule(operation, facts)?;
            Ok(step)
        });
        match stepped {
            Ok(step) => {
                note(part, operation, &step, &mut submits);
                earlier.took(&step, facts, bounds);
                steps.push(step);
            }
            Err(reason) => refused.push(Refusal {
                part,
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

/// Refuses submits of tasks that wait for the message's own task, if that task waits for them.
fn check_own_circle(effects: &Transaction, own: &TaskId, facts: &Facts) -> Result<(), Error> {
    let state = facts.tasks.get(own).and_then(|own| own.state.as_ref().ok());
    let Some(state) = state.filter(|state| state.is_waiting()) else {
        return Ok(());
    };
    let waits = state.waits.as_deref().map(|waits| (own, waits));
    let submits = effects.operations().iter();
    let submits = submits.filter_map(|operation| match operation {
        Operation::Submit(submit) => Some(&submit.task),
        _ => None,
    });
    dependencies::check_circle_with_submitter(waits, submits)
}

/// Returns the field of the effects that contains an operation.
fn field(operation: &Operation) -> &'static str {
    match operation {
        Operation::Submit(_) => "submit",
        Operation::Send(_) => "send",
        Operation::Delete(_) => "delete",
        Operation::Retry(_) => "retry",
        Operation::Reschedule(_) => "reschedule",
    }
}

/// The effects that precede an effect.
struct Earlier<'a> {
    own: &'a TaskId,
    /// The tasks that they name.
    named: HashSet<&'a TaskId>,
    /// The tasks that they put in the place of ended ones.
    replaced: HashSet<&'a TaskId>,
}

impl<'a> Earlier<'a> {
    /// Refuses an effect that is not allowed after the earlier ones.
    fn allow(&mut self, operation: &'a Operation, facts: &Facts) -> Result<(), Refused> {
        let task = operation.task();
        let is_new = self.named.insert(task);
        match operation {
            Operation::Send(send) => {
                // The commands of the replaced task are deleted with it.
                let known = facts.commands.get(&send.id);
                if known.is_some() && self.replaced.contains(task) {
                    return Err(Error::other_command(&send.id, task).into());
                }
                Ok(())
            }
            _ if task == self.own => Err(Reason::Own.into()),
            Operation::Submit(_) => Ok(()),
            _ if is_new => Ok(()),
            _ => {
                let reason = "name the task twice; give a task one of delete, retry and reschedule, and no \
                              submit and no command beside it";
                Err(Reason::Invalid(Invalid::new("effects", reason)).into())
            }
        }
    }

    /// Refuses a submit that would change the message's own task, or one that another effect names.
    fn allow_step(
        &self,
        step: &Step<'_>,
        operation: &Operation,
        effects: &Transaction,
    ) -> Result<(), Refused> {
        match step {
            Step::Reschedule { change, .. } if change.task == *self.own => Err(Reason::Own.into()),
            step => check_alone(step, operation, effects.operations()),
        }
    }

    /// Adds a step to the facts, so that later effects can name its task and its command.
    fn took(&mut self, step: &Step<'a>, facts: &mut Facts, bounds: Bounds) {
        match step {
            Step::Submit { task, replaces } => {
                if *replaces {
                    self.replaced.insert(&task.id);
                }
                let present = Present::submitted(task, bounds.now);
                facts.tasks.insert(task.id.clone(), present);
                unique::take(task, facts, bounds.now);
            }
            Step::Send(send) => {
                // Readers of the step ignore the order.
                let known = (send.task.clone(), 0);
                facts.commands.insert(send.id.clone(), known);
            }
            step => took(step, facts),
        }
    }
}

#[cfg(test)]
#[path = "effects_tests.rs"]
mod tests;
