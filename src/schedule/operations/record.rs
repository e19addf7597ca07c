//! [`ScheduleRecord`]: a schedule, as read from the store.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Invalid, Json, StateKind, TaskId, task::Labels};

use crate::{
    schedule::{
        Counts, LeftOut, RefusedTime, Time,
        data::Data,
        handler::{first_data, spec_of},
        run::run_id,
        spec::Schedule,
        times::Times,
    },
    store::TaskRecord,
};

/// How long after its due time a node submits a run at most, if it is not late.
const IN_TIME: Duration = Duration::from_secs(3);

/// A schedule, as it was read from the store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// The id of the schedule and of its task.
    pub id: TaskId,
    /// The state of the task; `None` when its record cannot be read.
    pub state: Option<StateKind>,
    /// The labels of the task. Those of the runs are in the spec.
    pub labels: Labels,
    /// The present spec, or the reason why it cannot be read.
    pub spec: Result<Schedule, Invalid>,
    /// The present spec as it is stored, even if it cannot be read.
    pub stored: Json,
    /// How the times of the schedule were decided so far.
    pub counts: Counts,
    /// The last nominal time that was decided. `None` after an update, and after a resume that skipped times, until
    /// the next time is decided. An update of a paused schedule keeps it if the new spec has the same times.
    pub last: Option<Timestamp>,
    /// The next time that will submit a run, if the schedule is live and not paused.
    pub next: Option<Time>,
    /// The nominal times of the runs that were live when the schedule last checked.
    pub runs: Vec<Timestamp>,
    /// Future times that submit no run.
    pub skipped: Vec<Timestamp>,
    /// Why the schedule is paused.
    pub note: Option<String>,
    /// How many commands (such as a pause) wait for a node that runs schedules.
    pub commands: u64,
    /// The last time that submitted no run because another task has its id.
    pub refused: Option<RefusedTime>,
    /// The nominal time of the last run, including runs that an operator requested. `None` before the first
    /// run.
    pub last_run: Option<Timestamp>,
    /// The last times that submitted no run, oldest first: at most 10 entries.
    pub left_out: Vec<LeftOut>,
    /// The time up to which the schedule has decided, if that is more than a minute in the future: a clock that was
    /// ahead has decided it. The schedule continues from the present when a node handles it next, which happens when a
    /// node notices that its clock was set back, and on [`Schedules::resume`](crate::schedule::Schedules::resume).
    pub ahead: Option<Timestamp>,
}

impl ScheduleRecord {
    /// Returns the id of the last run. That task may have been deleted.
    pub fn last_run_id(&self) -> Option<TaskId> {
        let nominal = self.last_run?;
        run_id(self.id.as_str(), nominal).ok()
    }

    /// Returns how long its next time has passed without a run, at this time of the store's clock. `None` if no time has
    /// passed, or less than 3 seconds ago: a node submits the run earlier.
    pub fn late(&self, now: Timestamp) -> Option<Duration> {
        let passed = now.duration_since(self.next.as_ref()?.due);
        Duration::try_from(passed)
            .ok()
            .filter(|late| *late > IN_TIME)
    }
}

impl ScheduleRecord {
    /// Reads a record, and computes the next time. That may take long, and is no work for a task of the runtime.
    pub(super) fn of(record: TaskRecord, now: Timestamp) -> Self {
        let state = record.state.ok();
        let code = state.as_ref().map(|state| state.code());
        let paused = state.as_ref().and_then(|state| state.paused.clone());
        let data = state.and_then(|state| state.data);
        let data = data_of(data.as_ref(), &record.task.props);
        let data = data.unwrap_or_default();
        let spec = spec_of(&data, &record.task.props);
        let stored = match &data.spec {
            Some(spec) => Json::new("schedule", spec).unwrap_or_else(|_| Json::null()),
            None => stored_props(&spec, &record.task.props),
        };
        let is_waiting = code.is_some_and(|code| !code.is_terminal() && code != StateKind::Paused);
        let times = spec.as_ref().ok().filter(|_| is_waiting);
        let times = times.and_then(|spec| Times::new(record.task.id.as_str(), spec).ok());
        let next = times.and_then(|times| {
            let nominal = data.coming(&times, now, 1).pop()?;
            Some(times.time(nominal))
        });
        let read = spec.as_ref().ok();
        let ahead = read.and_then(|spec| data.ahead(spec, now));
        Self {
            id: record.task.id,
            labels: record.task.labels,
            state: code,
            spec,
            stored,
            counts: data.counts,
            // Without its local time, `last` is only the position to which an update or a resume
            // has moved.
            last: data.last.filter(|_| data.local.is_some()),
            ahead,
            next,
            runs: data.runs,
            skipped: data.skip,
            commands: record.commands,
            note: match paused {
                // The note of the last pause, by whatever command. One that is queued has its note in the data, like a
                // pause by the handler.
                Some(paused) if paused.command.is_some() && record.commands == 0 => {
                    paused.note.map(|note| note.to_string())
                }
                _ => data.note.filter(|_| code == Some(StateKind::Paused)),
            },
            refused: data.refused,
            last_run: data.last_run,
            left_out: data.left_out,
        }
    }
}

/// Reads the data of a schedule. A schedule that has decided no time yet starts with the data that
/// its props bring.
pub(super) fn data_of(json: Option<&Json>, props: &Json) -> Result<Data, Invalid> {
    json.map_or_else(|| Ok(first_data(props)), |json| json.get("data"))
}

/// Returns the props without the data of the ended schedule that this one replaced.
fn stored_props(spec: &Result<Schedule, Invalid>, props: &Json) -> Json {
    let read = Schedule::from_json(props).is_ok_and(|spec| spec.earlier.is_some());
    let without = spec.as_ref().ok().filter(|_| read);
    let without = without.and_then(|spec| Json::new("schedule", spec).ok());
    without.unwrap_or_else(|| props.clone())
}
