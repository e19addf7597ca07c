//! The runs of a schedule: their ids and labels, and how a handler reads them.

use jiff::Timestamp;
use windlass_statemachine::{Invalid, Task, TaskId, task::Labels};

use super::times::Times;
use crate::TaskContext;

/// The label of a run that names its schedule.
pub const LABEL: &str = "schedule";

/// The label of a run whose due time is not its nominal time.
const DUE: &str = "schedule-due";

/// The label of a run that is late, with the value `true`.
const LATE: &str = "schedule-late";

/// The label of a run that an operator requested: `trigger` or `backfill`.
const BY: &str = "schedule-by";

/// The labels that a template may not set.
pub(crate) const RESERVED: [&str; 4] = [LABEL, DUE, LATE, BY];

/// Why a run was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum By {
    /// Its time came.
    Time,
    /// An operator called [`Schedules::trigger`](super::Schedules::trigger).
    Trigger,
    /// An operator called [`Schedules::backfill`](super::Schedules::backfill).
    Backfill,
}

/// The nominal time for which a run was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduledFor {
    /// The id of the schedule.
    pub schedule: TaskId,
    /// The nominal time.
    pub nominal: Timestamp,
    /// When the run was due.
    pub due: Timestamp,
    /// Whether the run was submitted more than a minute after `due`.
    pub is_late: bool,
    /// Why the run was submitted.
    pub by: By,
}

impl ScheduledFor {
    /// Returns the nominal time for which a task was submitted; `None` when the task is not a run
    /// of a schedule.
    pub fn of(task: &Task) -> Option<Self> {
        let (schedule, nominal) = task.id.as_str().rsplit_once('@')?;
        if task.labels.get(LABEL)? != schedule {
            return None;
        }
        let nominal = nominal.parse().ok()?;
        let due = match task.labels.get(DUE) {
            Some(due) => due.parse().ok()?,
            None => nominal,
        };
        Some(Self {
            schedule: schedule.parse().ok()?,
            nominal,
            due,
            is_late: task.labels.contains_key(LATE),
            by: match task.labels.get(BY).map(String::as_str) {
                Some("trigger") => By::Trigger,
                Some("backfill") => By::Backfill,
                _ => By::Time,
            },
        })
    }
}

impl TaskContext {
    /// Returns the nominal time for which a schedule submitted the task; `None` for other tasks.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Message, TaskContext};
    ///
    /// async fn report(task: TaskContext) -> Message {
    ///     let day = task.scheduled_for().map(|time| time.nominal);
    ///     Message::complete_with(day)
    /// }
    /// # fn is_handler(_: impl windlass::StatefulHandler) {}
    /// # is_handler(report);
    /// ```
    pub fn scheduled_for(&self) -> Option<ScheduledFor> {
        ScheduledFor::of(self.task())
    }
}

/// Returns the id of the run of a nominal time.
pub(crate) fn run_id(schedule: &str, nominal: Timestamp) -> Result<TaskId, Invalid> {
    TaskId::new(format!("{schedule}@{nominal}"))
}

impl Times {
    /// Sets the deadlines of a run. Their durations count from `from`.
    pub(crate) fn set_deadlines(&self, run: &mut Task, from: Timestamp) {
        (run.start_by, run.end_by) = self.within().deadlines(from);
    }

    /// Returns the run of a nominal time. Its deadlines count from that time. The deadlines of a requested run
    /// count from the request; the caller sets them.
    pub(crate) fn run(&self, nominal: Timestamp, is_late: bool, by: By) -> Result<Task, Invalid> {
        let mut labels = Labels::from([(LABEL.to_owned(), self.id().to_owned())]);
        let due = match by {
            By::Time | By::Backfill => self.due(nominal),
            By::Trigger => nominal,
        };
        if due != nominal {
            labels.insert(DUE.to_owned(), due.to_string());
        }
        if is_late {
            labels.insert(LATE.to_owned(), "true".to_owned());
        }
        let is_requested = by != By::Time;
        let by = match by {
            By::Time => None,
            By::Trigger => Some("trigger"),
            By::Backfill => Some("backfill"),
        };
        labels.extend(by.map(|by| (BY.to_owned(), by.to_owned())));
        let id = run_id(self.id(), nominal)?;
        let mut run = self.spec().run.task(id, labels)?;
        if !is_requested {
            self.set_deadlines(&mut run, nominal);
        }
        Ok(run)
    }
}
