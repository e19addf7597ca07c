//! [`Step`]: what a store writes for one operation, and why an operation is refused.

use std::borrow::Cow;

use windlass_statemachine::{
    Delete, Invalid, Json, Kind, Limit, StateKind, Task, TaskState, message::SendCommand,
    size::Size,
};

use super::{
    command, delete,
    facts::{Bounds, Facts, Present},
    reschedule,
    retry::{self, Record},
    size,
    submit::{self, Taken, Verdict},
    unique::{self, Held},
};
use crate::store::{
    ChangeKind, Done, Error, Operation, Reason, Reschedule, RetryTask, Submit, Submitted,
};

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
    Delete(&'a Delete),
    /// Gives the task this state.
    Retry {
        /// The request.
        retry: &'a RetryTask,
        /// Its new state.
        state: TaskState,
        /// Its new limits, if keys of them contain values of the new props.
        limits: Option<Vec<Limit>>,
    },
    /// The unclaimed task gets this state and what the request changes beside it.
    Reschedule {
        /// The request.
        change: Cow<'a, Reschedule>,
        /// The line of the history.
        what: ChangeKind,
        /// The new state.
        state: TaskState,
        /// The result: of a reschedule, or of a submit that replaces the props of a waiting task.
        done: Done,
    },
}

/// Why an operation is refused: by a rule of transactions, or by a rule of the operation.
pub(crate) enum Refused {
    Reason(Reason),
    Error(Error),
    /// In a transaction for this reason, alone with this error, which says more.
    Both(Reason, Error),
}

impl Refused {
    pub(super) fn into_reason(self) -> Result<Reason, Error> {
        match self {
            Self::Reason(reason) | Self::Both(reason, _) => Ok(reason),
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
            let present = present.ok_or_else(|| Error::no_task(&delete.task))?;
            let held = delete::Held {
                is_claimed: present.is_claimed,
                is_lost: present.is_lost,
            };
            delete::check(delete, held)?;
            Ok(Step::Delete(delete))
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
    submit::check(submit, bounds.max_bytes)?;
    let new = |replaces| match unique::decide(submit, facts, bounds.now)? {
        Some(Held::Accepted(other)) => Ok(Step::Known(Done::Submitted(other))),
        Some(Held::Updated(present)) => updated(submit, present, bounds),
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
        is_waiting: present.is_waiting(),
    };
    match submit::decide(submit, taken)? {
        Verdict::Existing(code) => Ok(Step::Known(Done::Submitted(Submitted::Existing(code)))),
        Verdict::Replace => new(true),
        Verdict::Update => updated(submit, present, bounds),
    }
}

/// Returns the step that gives a waiting task the props and the time of a submit.
fn updated<'a>(submit: &Submit, present: &Present, bounds: Bounds) -> Result<Step<'a>, Refused> {
    let new = &submit.task;
    let task = present.task.as_ref();
    let task = &task.map_err(|wrong| Reason::Unreadable(wrong.clone()))?.id;
    let due = new.start_at.unwrap_or(bounds.now);
    let change = Reschedule::new(task.clone())
        .props(new.props.clone())
        .due(due);
    let submitted = |state: &TaskState| {
        let (state, task) = (state.code(), task.clone());
        Done::Submitted(match task == new.id {
            true => Submitted::Existing(state),
            false => Submitted::Other { task, state },
        })
    };
    changed(Cow::Owned(change), present, bounds, submitted)
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
    let present = present.ok_or_else(|| Error::no_task(&send.task))?;
    if present.has_ended {
        return Err(Error::finished(&send.task).into());
    }
    command::check(&send.command, present.props, bounds.max_bytes, bounds.now)?;
    Ok(Step::Send(send))
}

fn retried<'a>(
    retry: &'a RetryTask,
    present: Option<&Present>,
    bounds: Bounds,
) -> Result<Step<'a>, Refused> {
    let present = present.ok_or_else(|| Error::no_task(&retry.task))?;
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
    let refused = |error| match present.readable() {
        Ok(state) => {
            let required = vec![StateKind::Completed, StateKind::Failed, StateKind::Killed];
            let is = state.code();
            Refused::Both(Reason::State { is, required }, error)
        }
        Err(_) if present.is_claimed => Refused::Both(Reason::Claimed, error),
        Err(_) => error.into(),
    };
    let mut state = retry::state(record, bounds.now).map_err(refused)?;
    reschedule::check_depths(&retry.data, &retry.props)?;
    reschedule::put_data(&mut state, retry.data.as_ref(), bounds.now);
    check_edited((&retry.data, &retry.props), &state, present, bounds)?;
    let task = present.task.as_ref().ok();
    let limits = task.map_or(Ok(None), |task| {
        reschedule::limits_of(task, retry.props.as_ref())
    });
    Ok(Step::Retry {
        retry,
        state,
        limits: limits.map_err(Error::from)?,
    })
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
    let done = |state: &TaskState| Done::Rescheduled(state.code());
    changed(Cow::Borrowed(change), present, bounds, done)
}

/// Returns the step that changes a task without a claim.
fn changed<'a>(
    mut change: Cow<'a, Reschedule>,
    present: &Present,
    bounds: Bounds,
    done: impl FnOnce(&TaskState) -> Done,
) -> Result<Step<'a>, Refused> {
    if present.has_ended {
        return Err(Reason::finished().into());
    }
    let state = present.readable()?.clone();
    if present.is_claimed {
        return Err(Reason::Claimed.into());
    }
    let task = present
        .task
        .as_ref()
        .map_err(|wrong| Reason::Unreadable(wrong.clone()))?;
    let (what, state) = reschedule::decide(&change, task, state, bounds.now)?;
    check_edited((&change.data, &change.props), &state, present, bounds)?;
    if change.limits.is_none()
        && let Some(limits) =
            reschedule::limits_of(task, change.props.as_ref()).map_err(Error::from)?
    {
        change.to_mut().limits = Some(limits);
    }
    let done = done(&state);
    Ok(Step::Reschedule {
        change,
        what,
        state,
        done,
    })
}

/// Refuses another time, other limits, other data and other props of a schedule: its handler reads what only the
/// operations of schedules write.
pub(super) fn check_schedule(operation: &Operation, facts: &Facts) -> Result<(), Refused> {
    let field = match operation {
        Operation::Reschedule(change) if change.due.is_some() => "due",
        Operation::Reschedule(Reschedule {
            limits: Some(_), ..
        }) => "limits",
        Operation::Reschedule(Reschedule { data: Some(_), .. })
        | Operation::Retry(RetryTask { data: Some(_), .. }) => "data",
        Operation::Reschedule(Reschedule { props: Some(_), .. })
        | Operation::Retry(RetryTask { props: Some(_), .. }) => "props",
        _ => return Ok(()),
    };
    let present = facts.tasks.get(operation.task());
    let task = present.and_then(|present| present.task.as_deref().ok());
    if task.is_none_or(|task| task.kind.as_str() != Kind::SCHEDULE) {
        return Ok(());
    }
    let id = operation.task();
    let reason = format!(
        "is that of schedule '{id}', which only the operations of schedules change; update the schedule instead (`windlass \
         schedule update {id}`, or PATCH /v1/schedules/{id})"
    );
    Err(Reason::Invalid(Invalid::new(field, reason)).into())
}

/// Refuses a submit that would change a waiting task which another operation of the same write names.
pub(super) fn check_alone(
    step: &Step<'_>,
    operation: &Operation,
    operations: &[Operation],
) -> Result<(), Refused> {
    let Step::Reschedule { change, .. } = step else {
        return Ok(());
    };
    let target = &change.task;
    if target == operation.task() || operations.iter().all(|one| one.task() != target) {
        return Ok(());
    }
    let reason = format!(
        "replace the props of task '{target}', which another of them names; give each task at most one"
    );
    Err(Reason::Invalid(Invalid::new("operations", reason)).into())
}

/// Notes that a step changes a waiting task: no later submit of the same write changes it again.
pub(super) fn took(step: &Step<'_>, facts: &mut Facts) {
    if let Step::Reschedule {
        change,
        done: Done::Submitted(_),
        ..
    } = step
        && let Some(present) = facts.tasks.get_mut(&change.task)
    {
        present.is_claimed = true;
    }
}
