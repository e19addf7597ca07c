//! [`Scheduler`]: the handler of the kind `schedule`.

use std::time::Duration;

use futures::future::try_join_all;
use jiff::Timestamp;
use tracing::{info, warn};
use windlass_statemachine::{
    IfExists, Invalid, Message, Retry, StateKind, Task, TaskId, TaskState, message::SubmitTask,
};

use super::{
    budget::Budget,
    data::{Counts, Data, RefusedTime},
    left_out::Why,
    passed::{Passed, skip_passed},
    run::{ScheduledFor, run_id},
    spec::Schedule,
    step::{Next, Planner, RunState, Step, Taken},
    times::Times,
};
use crate::{
    KindConfig, StatefulHandler, TaskContext, async_trait,
    store::{Error, Store},
    telemetry,
};

/// The kind of schedules.
pub const KIND: &str = windlass_statemachine::Kind::SCHEDULE;

/// How many schedules a node decides at once.
const SLOTS: u32 = 64;

/// The handler of the kind `schedule`. Each [`Runner`](crate::Runner) has it by default
/// ([`Builder::without_schedules`](crate::runner::Builder::without_schedules)), as does each simulation of
/// the feature `testing`.
///
/// A schedule with an invalid spec fails with the name of the field; other schedules are not affected.
/// While the store does not respond, the schedule is released and tried again.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler {
    store: Store,
}

impl Scheduler {
    /// Returns a handler that reads earlier runs from this store and uses the store's clock.
    pub(crate) fn new(store: &Store) -> Self {
        let store = store.clone();
        Self { store }
    }

    /// Returns the settings with which a node runs schedules.
    pub(crate) fn config() -> KindConfig {
        let cap = Duration::from_secs(300);
        KindConfig::default()
            .apart()
            .slots(SLOTS)
            .retry(Retry::exponential(u32::MAX, cap))
    }

    async fn decide(&self, task: &TaskContext) -> Result<Message, Error> {
        let stored = task.data()?;
        let mut data: Data = stored.unwrap_or_else(|| first_data(&task.task().props));
        let spec = spec_of(&data, &task.task().props)?;
        let times = Times::new(task.id().as_str(), &spec)?;
        let now = self.store.clock().now();
        let resumed = task.resumed_at().or(data.resumed).or(Some(0));
        if resumed != data.resumed {
            let catches_up = std::mem::take(&mut data.catches_up);
            // All commands that end a pause have the same effect.
            match catches_up {
                true => {
                    data.missed_to = resumed.and_then(|at| Timestamp::from_microsecond(at).ok());
                }
                false if data.resumed.is_some() => {
                    skip_passed(&mut data, &times, now, Passed::Due);
                }
                false => {}
            }
            data.resumed = resumed;
        }
        let before = data.counts;
        let room =
            Budget::of(&self.store.registry().limits()).after(task.attempt().saturating_sub(1));
        let step = decide(&self.store, &times, (data, now), room).await?;
        log(task.id(), &before, &step.data);
        Ok(message(step))
    }
}

/// Counts the times that were decided, and logs the times that submit no run.
fn log(schedule: &TaskId, before: &Counts, data: &Data) {
    let after = &data.counts;
    for (outcome, before, after) in [
        ("fired", before.fired, after.fired),
        ("missed", before.missed, after.missed),
        ("skipped", before.skipped, after.skipped),
        ("overlapped", before.overlapped, after.overlapped),
        ("refused", before.refused, after.refused),
    ] {
        telemetry::schedule_times(outcome, after.saturating_sub(before));
    }
    let last = |why: Why| {
        let entry = data.left_out.iter().rev().find(|entry| entry.why == why);
        entry.map(|entry| entry.last.to_string())
    };
    if after.missed > before.missed {
        let (times, last) = (after.missed - before.missed, last(Why::Missed));
        warn!(%schedule, times, last, "times were missed: no node decided them while they were due");
    }
    if after.overlapped > before.overlapped {
        let (times, last) = (after.overlapped - before.overlapped, last(Why::Overlapped));
        info!(%schedule, times, last, "times submitted no run: an earlier run was live, or a later time replaced them");
    }
    if after.refused > before.refused {
        let reason = data.refused.as_ref().map(|refused| refused.reason.as_str());
        let (times, last) = (after.refused - before.refused, last(Why::Refused));
        warn!(%schedule, times, last, reason, "times submitted no run: another task has the id");
    }
}

/// Returns what a schedule with this data does at a moment, in a write with this room.
///
/// # Errors
///
/// [`Error::Invalid`] when the template yields no valid run, and the errors of the store.
pub(crate) async fn decide(
    store: &Store,
    times: &Times,
    (data, now): (Data, Timestamp),
    room: Budget,
) -> Result<Step, Error> {
    let planner = Planner::new(times, data, now);
    let taken = taken(store, times, &planner.wanted()).await?;
    let planner = planner.with_taken(taken);
    let states = states(store, times, planner.followed()).await?;
    Ok(planner.step(&states, room)?)
}

/// Returns the first data of a schedule: new data, or what an ended schedule that it replaces has
/// kept.
pub(crate) fn first_data(props: &windlass_statemachine::Json) -> Data {
    let spec = Schedule::from_json(props).ok();
    let earlier = spec.and_then(|spec| spec.earlier);
    earlier.map_or_else(Data::first, |data| *data)
}

/// Returns the spec of a schedule: that of the last update, or that of the submit.
pub(crate) fn spec_of(
    data: &Data,
    props: &windlass_statemachine::Json,
) -> Result<Schedule, Invalid> {
    match &data.spec {
        Some(spec) => Ok(spec.clone()),
        None => Schedule::from_json(props).map(|spec| Schedule {
            earlier: None,
            ..spec
        }),
    }
}

/// Returns the times whose run has the id of an existing task.
pub(crate) async fn taken(
    store: &Store,
    times: &Times,
    wanted: &[Timestamp],
) -> Result<Taken, Error> {
    let wanted = wanted.iter().map(|nominal| async {
        let id = run_id(times.id(), *nominal)?;
        let reason = match store.registry().get(&id).await {
            Ok(record) => Some(taken_by(times.id(), &record.task)),
            Err(Error::NotFound { .. }) => None,
            Err(error @ Error::Corrupt { .. }) => Some(Some(error.to_string())),
            Err(error) => return Err(error),
        };
        Ok(reason.map(|reason| (*nominal, reason)))
    });
    let mut taken = Taken::default();
    for (nominal, reason) in try_join_all(wanted).await?.into_iter().flatten() {
        match reason {
            Some(reason) => taken.refused.push(RefusedTime { nominal, reason }),
            None => taken.runs.push(nominal),
        }
    }
    Ok(taken)
}

/// Returns why a task with the id of a run is not a run of the schedule; `None` for a run.
pub(crate) fn taken_by(schedule: &str, task: &Task) -> Option<String> {
    let is_run = ScheduledFor::of(task).is_some_and(|run| run.schedule.as_str() == schedule);
    let Task { id, kind, .. } = task;
    (!is_run).then(|| {
        format!(
            "'{id}' is a task of kind '{kind}' that schedule '{schedule}' has not submitted; delete that \
             task, then backfill the time"
        )
    })
}

/// Reads the state of runs.
async fn states(store: &Store, times: &Times, runs: &[Timestamp]) -> Result<Vec<RunState>, Error> {
    let ids: Result<Vec<TaskId>, _> = runs.iter().map(|at| run_id(times.id(), *at)).collect();
    let ids = ids?;
    try_join_all(ids.iter().map(|id| state(store, id))).await
}

async fn state(store: &Store, id: &TaskId) -> Result<RunState, Error> {
    match store.registry().get(id).await {
        // A quarantined run does nothing until an operator retries it.
        Ok(record) => Ok(record
            .state
            .map_or(RunState::Ended, |state| run_state(&state))),
        Err(Error::NotFound { .. }) => Ok(RunState::Ended),
        Err(error) => Err(error),
    }
}

fn run_state(state: &TaskState) -> RunState {
    match state.code() {
        StateKind::Failed => RunState::Failed,
        ended if ended.is_terminal() => RunState::Ended,
        live => RunState::Live {
            is_paused: live == StateKind::Paused,
        },
    }
}

/// Returns the message that carries out a step.
fn message(step: Step) -> Message {
    let counts = step.data.counts;
    let message = match step.next {
        Next::Sleep(due) => Message::sleep_until(due),
        Next::Again => Message::run(),
        Next::Pause => Message::pause(),
        Next::End => Message::complete_with(counts),
    };
    let mut message = message.with_data(&step.data);
    for task in step.submit {
        let mut submit = SubmitTask::from(task);
        submit.if_exists = IfExists::Skip;
        message = message.and_submit(submit);
    }
    for send in step.send {
        message = message.and_send(send.task, send.id, send.command);
    }
    message
}

#[async_trait]
impl StatefulHandler for Scheduler {
    async fn run(&self, task: TaskContext) -> Message {
        match self.decide(&task).await {
            Ok(message) => message,
            Err(Error::Invalid(error)) => Message::fail(format_args!(
                "the schedule is wrong: {error}; an update starts it again"
            )),
            Err(error) if error.is_retryable() => task.node_fault(error),
            Err(error) => Message::error(error),
        }
    }

    /// Returns false: a signal would end a pause, and has no meaning for a schedule.
    fn takes_signals(&self) -> bool {
        false
    }
}
