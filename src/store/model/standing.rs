//! [`Standing`]: how a task stands, in the words of its operators.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use windlass_statemachine::{StateKind, TaskStatus, state::Pause};

use super::record::TaskRecord;

/// A state as lists show it: those of the machine, where a runnable task is either running or queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shown {
    /// A runnable task that a node has claimed: its handler runs.
    Running,
    /// A runnable task that no node has claimed: it waits for one. A sleeping task whose time has come is not queued: it
    /// stays sleeping, and is [late](Standing::late), until a node claims it.
    Queued,
    /// A task in another state of the machine.
    State(StateKind),
    /// The record of the task cannot be read.
    Quarantined,
}

impl Shown {
    /// Returns how a record is shown.
    pub fn of(record: &TaskRecord) -> Self {
        match (&record.state, &record.node) {
            (Err(_), _) => Self::Quarantined,
            (Ok(state), node) => match (state.code(), node) {
                (StateKind::Runnable, Some(_)) => Self::Running,
                (StateKind::Runnable, None) => Self::Queued,
                (code, _) => Self::State(code),
            },
        }
    }

    /// Returns the name: `running`, `queued`, `quarantined`, or that of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Queued => "queued",
            Self::State(code) => code.as_str(),
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a task stands, in the words of its operators. Lists, pages and JSON show it; stores know only the states.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use jiff::SignedDuration;
/// use windlass::{Client, NewTask, store::{Shown, Standing, Store}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// client.submit(NewTask::new("report").id("a")).await?;
/// let record = client.get("a").await?;
/// let standing = Standing::of(&record, client.now() + SignedDuration::from_secs(90));
/// assert_eq!(standing.shown, Shown::Queued);
/// assert!(standing.late.unwrap() >= Duration::from_secs(90));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing<'a> {
    /// The state, as lists show it.
    pub shown: Shown,
    /// Since when. Of a running task: since when this run goes on, not since when the task is runnable. Of a queued one:
    /// since when it waits for a node. `None` for a quarantined task.
    pub since: Option<Timestamp>,
    /// How long a task without a claim is past its due time: a queued task, one in `fault`, or a sleeping one whose time
    /// has come. `None` for a task that is not late.
    pub late: Option<Duration>,
    /// Who paused a paused task; `None` also when the program that paused it did not record it.
    pub paused_by: Option<&'a Pause>,
}

impl<'a> Standing<'a> {
    /// Returns how a task stands at `now`.
    pub fn of(record: &'a TaskRecord, now: Timestamp) -> Self {
        let shown = Shown::of(record);
        let state = record.state.as_ref().ok();
        let since = state.map(|state| match shown {
            Shown::Running | Shown::Queued => state.ready().unwrap_or(state.since),
            _ => state.since,
        });
        let ready = state
            .filter(|_| record.node.is_none())
            .and_then(|state| state.ready());
        let late = ready.and_then(|ready| Duration::try_from(now.duration_since(ready)).ok());
        let paused = state.filter(|state| state.status == TaskStatus::Paused);
        Self {
            shown,
            since,
            late: late.filter(|late| !late.is_zero()),
            paused_by: paused.and_then(|state| state.paused.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Fence, Message, Task, TaskState, transition};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn record(state: TaskState, is_claimed: bool) -> TaskRecord {
        let task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        let mut record = TaskRecord::new(task, Ok(state), 1, at(0));
        record.node = is_claimed.then(|| "n".parse().unwrap());
        record
    }

    fn standing(state: &TaskState, is_claimed: bool, now: i64) -> (&'static str, i64, Option<u64>) {
        let record = record(state.clone(), is_claimed);
        let standing = Standing::of(&record, at(now));
        let since = standing.since.unwrap().as_second();
        let late = standing.late.map(|late| late.as_secs());
        (standing.shown.as_str(), since, late)
    }

    #[test]
    fn a_runnable_task_is_queued_until_a_node_claims_it_and_running_since_then() {
        let state = TaskState::new(at(10));
        assert_eq!(standing(&state, false, 10), ("queued", 10, None));
        assert_eq!(standing(&state, false, 70), ("queued", 10, Some(60)));
        // The clock of another machine may be ahead.
        assert_eq!(standing(&state, false, 5), ("queued", 10, None));
        let claimed = state.claimed(Fence(1), None, at(100));
        assert_eq!(standing(&claimed, true, 130), ("running", 100, None));
    }

    /// A task that ran for days is not days late when its node releases it.
    #[test]
    fn a_released_task_is_late_since_its_release() {
        let claimed = TaskState::new(at(10)).claimed(Fence(1), None, at(20));
        let released = transition(&claimed, &Message::release(), at(500)).unwrap();
        assert_eq!(standing(&released, false, 530), ("queued", 500, Some(30)));
        // The node that ran it has left, or was lost.
        let left = claimed.clone().unclaimed(at(25));
        assert_eq!(standing(&left, false, 30), ("queued", 25, Some(5)));
        assert_eq!(left.version, claimed.version);
        let asleep = TaskState::submitted(Some(at(100)), at(0)).unclaimed(at(25));
        assert_eq!(standing(&asleep, false, 103), ("sleeping", 0, Some(3)));
        // A store that does not write the loss of a claim has only the time of the claim.
        assert_eq!(standing(&claimed, false, 30), ("queued", 20, Some(10)));
        let again = transition(&claimed, &Message::run(), at(60)).unwrap();
        assert_eq!(standing(&again, true, 90), ("running", 60, None));
    }

    #[test]
    fn a_sleeping_task_is_late_when_its_time_has_come() {
        let state = TaskState::submitted(Some(at(100)), at(0));
        assert_eq!(standing(&state, false, 99), ("sleeping", 0, None));
        assert_eq!(standing(&state, false, 103), ("sleeping", 0, Some(3)));
        // Its node waits for the time.
        assert_eq!(standing(&state, true, 103), ("sleeping", 0, None));
        for message in [
            Message::<windlass_statemachine::Untyped>::pause(),
            Message::complete(),
        ] {
            let state = transition(&state, &message, at(50)).unwrap();
            assert_eq!(standing(&state, false, 999).2, None);
        }
    }

    #[test]
    fn only_a_paused_task_names_who_paused_it() {
        let paused = transition(&TaskState::new(at(0)), &Message::pause(), at(1)).unwrap();
        let by = |state| {
            Standing::of(&record(state, false), at(9))
                .paused_by
                .cloned()
        };
        assert_eq!(by(paused.clone()), Some(Pause::by_handler()));
        let resumed = transition(&paused, &Message::run(), at(2)).unwrap();
        assert_eq!(by(resumed), None);
        let mut older = paused;
        older.paused = None;
        assert_eq!(by(older), None);
    }

    #[test]
    fn a_task_that_cannot_be_read_is_quarantined() {
        let mut record = record(TaskState::new(at(0)), false);
        record.state = Err(crate::store::Error::corrupt_task(
            &record.task.id,
            "no JSON",
        ));
        let standing = Standing::of(&record, at(9));
        assert_eq!(standing.shown.to_string(), "quarantined");
        assert_eq!((standing.since, standing.late), (None, None));
    }
}
