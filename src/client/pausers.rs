//! [`Pausers`]: who paused the tasks of a kind.

use std::collections::BTreeMap;

use windlass_statemachine::{Kind, StateKind};

use super::{Client, Stats};
use crate::store::{Error, Filter, Order, Query, TaskRecord};

/// The most paused tasks that are read.
const TASKS: u32 = 1000;

/// Who paused the tasks of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pausers {
    /// The kind of the tasks.
    pub kind: Kind,
    /// The authors of the pauses, those of most tasks first, each with the number of its tasks. `its handler` is the author of
    /// the pauses by a handler.
    pub by: Vec<(String, u64)>,
}

impl Client {
    /// Returns who paused the tasks that are counted as paused ([`KindStats::paused`](super::KindStats::paused)), by kind.
    /// Reads the last 1,000 paused tasks, of all kinds together. A kind whose pauses have no known author is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Command, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("report")).await?;
    /// assert!(client.pausers(&client.stats().await?).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn pausers(&self, stats: &Stats) -> Result<Vec<Pausers>, Error> {
        if stats.kinds.iter().all(|of| of.paused == 0) {
            return Ok(Vec::new());
        }
        let filter = Filter::new().states([StateKind::Paused]);
        let query = Query::new(filter).order(Order::Submitted).limit(TASKS);
        let page = self.page(&query.without_props(), None).await?;
        let mut kinds = BTreeMap::<&Kind, Vec<&TaskRecord>>::new();
        for record in &page.tasks {
            kinds.entry(&record.task.kind).or_default().push(record);
        }
        let found = kinds.into_iter().map(|(kind, records)| Pausers {
            kind: kind.clone(),
            by: authors(&records),
        });
        Ok(found.filter(|one| !one.by.is_empty()).collect())
    }
}

/// Returns the authors of the pauses, without those of tasks that wait for a signal.
fn authors(records: &[&TaskRecord]) -> Vec<(String, u64)> {
    let mut all = BTreeMap::<String, u64>::new();
    let states = records
        .iter()
        .filter_map(|record| record.state.as_ref().ok());
    for state in states.filter(|state| state.awaits_signal().is_none()) {
        if let Some(pause) = &state.paused {
            let mut pause = pause.clone();
            pause.note = None;
            let who = match (&pause.by, pause.command) {
                // The number of a command says nothing in a group.
                (None, Some(_)) => continue,
                _ => pause.to_string(),
            };
            *all.entry(who).or_default() += 1;
        }
    }
    let mut all: Vec<(String, u64)> = all.into_iter().collect();
    all.sort_by_key(|(_, tasks)| std::cmp::Reverse(*tasks));
    all
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Author, CommandId, QueuedCommand, Task, TaskState, state::Pause};

    use super::*;

    #[test]
    fn authors_are_counted_without_their_notes() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let sent = |by: Option<&str>| {
            let id = CommandId::new("c").unwrap();
            let sent = QueuedCommand::new(id, 7, windlass_statemachine::Command::Pause);
            let sent = match by {
                Some(by) => sent.by(Author::new(by).unwrap()),
                None => sent,
            };
            Pause::of(&sent.note(Some("n".parse().unwrap())))
        };
        let pauses = [
            sent(Some("zoe")),
            sent(Some("ann")),
            sent(Some("zoe")),
            Pause::by_handler(),
            sent(None),
        ];
        let records = pauses.into_iter().enumerate().map(|(n, pause)| {
            let task = Task::new(format!("t{n}").parse().unwrap(), "k".parse().unwrap());
            let mut state = TaskState::new(now);
            state.paused = Some(Box::new(pause));
            TaskRecord::new(task, Ok(state), n as u64, now)
        });
        let records: Vec<TaskRecord> = records.collect();
        let records: Vec<&TaskRecord> = records.iter().collect();
        let expected = [("zoe", 2), ("ann", 1), ("its handler", 1)];
        assert_eq!(
            authors(&records),
            expected.map(|(by, n)| (by.to_owned(), n))
        );
    }
}
