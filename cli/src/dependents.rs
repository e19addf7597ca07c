//! Tasks that failed because tasks that they wait for did not complete (`after_ok`), directly or
//! indirectly.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, stream};
use windlass::{
    Client, StateKind, TaskId, WaitOutcome, Waits,
    store::{Error, Filter, TaskRecord},
};

use crate::exit::Failure;

/// How many tasks are read at a time.
const READS: usize = 32;

/// Tasks, and those that failed because of them.
#[derive(Debug)]
pub(crate) struct Dependents {
    /// The named tasks to retry.
    pub(crate) roots: Vec<TaskId>,
    /// The named tasks that are live or have completed: they need no retry.
    pub(crate) settled: Vec<(TaskId, StateKind)>,
    /// All tasks to retry: each waits only for tasks of earlier waves. A task that is retried before its predecessor
    /// would fail again.
    pub(crate) waves: Vec<Vec<TaskId>>,
    /// The tasks that failed because of others, in the same order.
    pub(crate) others: Vec<TaskRecord>,
}

/// Returns these tasks, and those that failed only because they wait for one of them, or for one that failed for
/// that reason. Leaves out a task whose other predecessors did not complete, because it would fail again.
///
/// The search also passes through tasks that are live or have completed: on etcd the retries are several writes, and a
/// repeated command has to find what an interrupted one did not retry.
///
/// Reads every failed task of the store, because a task does not know which others wait for it, and the other tasks
/// that these wait for.
pub(crate) async fn dependents(client: &Client, named: &[TaskId]) -> Result<Dependents, Failure> {
    let mut graph = Graph::default();
    let filter = Filter::new().states([StateKind::Failed]);
    let mut pages = client.every(&filter);
    while let Some(records) = pages.next().await? {
        records.into_iter().for_each(|record| graph.add(record));
    }
    let (mut unread, named) = (named.to_vec(), named);
    while !unread.is_empty() {
        let reads = unread.drain(..).map(|id| async move {
            let read = client.get(&id).await;
            (id, read)
        });
        let read: Vec<_> = stream::iter(reads).buffered(READS).collect().await;
        for (id, record) in read {
            match record {
                Ok(record) => graph.add_settled(&record),
                Err(Error::NotFound { .. } | Error::Corrupt { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            graph.read.insert(id);
        }
        unread = graph.unread();
    }
    Ok(graph.dependents(named))
}

/// The tasks that failed because of others, and the graph around them.
#[derive(Debug, Default)]
struct Graph {
    records: HashMap<TaskId, TaskRecord>,
    /// The tasks because of which each of them failed.
    unmet: HashMap<TaskId, Vec<TaskId>>,
    /// The tasks that were read and are live or have completed.
    settled: HashMap<TaskId, StateKind>,
    /// The tasks that failed because of each task, in submit order; and those that are settled and wait or waited for
    /// that task to complete.
    waiters: HashMap<TaskId, Vec<TaskId>>,
    /// The tasks whose state is known: failed or read.
    read: HashSet<TaskId>,
    /// The tasks that others wait for, and whose state is not known yet.
    next: Vec<TaskId>,
    /// The tasks that run again.
    chosen: HashSet<TaskId>,
}

impl Graph {
    /// Adds a failed task.
    fn add(&mut self, record: TaskRecord) {
        let id = record.task.id.clone();
        self.read.insert(id.clone());
        let state = record.state.as_ref().ok();
        let waits = state.and_then(|state| state.waits.as_deref());
        let Some(waits) = waits.filter(|waits| Waits::unmet(waits).is_some()) else {
            return;
        };
        let unmet = waits.waited().into_iter();
        let unmet = unmet.filter(|one| one.outcome != WaitOutcome::Completed);
        let unmet: Vec<TaskId> = unmet.map(|one| one.task).collect();
        self.link(&unmet, &id);
        self.unmet.insert(id.clone(), unmet);
        self.records.insert(id, record);
    }

    /// Adds a task that others wait for, if it is live or has completed.
    fn add_settled(&mut self, record: &TaskRecord) {
        let Ok(state) = &record.state else { return };
        let code = state.code();
        if code.is_terminal() && code != StateKind::Completed {
            return;
        }
        let id = &record.task.id;
        self.settled.insert(id.clone(), code);
        let waits = state.waits.as_deref().or(record.task.waits.as_deref());
        if let Some(waits) = waits.filter(|waits| waits.ok) {
            self.link(&waits.tasks, id);
        }
    }

    /// Notes that the search goes from these tasks to another one.
    fn link(&mut self, tasks: &[TaskId], to: &TaskId) {
        for task in tasks {
            self.waiters
                .entry(task.clone())
                .or_default()
                .push(to.clone());
            self.next.push(task.clone());
        }
    }

    /// Returns the tasks that others wait for and whose state is not known, each once.
    fn unread(&mut self) -> Vec<TaskId> {
        let mut seen = HashSet::new();
        let mut unread = std::mem::take(&mut self.next);
        unread.retain(|id| !self.read.contains(id) && seen.insert(id.clone()));
        unread
    }

    /// Chooses the named tasks that are not settled, and the tasks that the search reaches from a named task and that
    /// failed only because of chosen or settled ones.
    fn choose(&mut self, named: &[TaskId]) {
        let mut reached: HashSet<TaskId> = named.iter().cloned().collect();
        let roots = named.iter().filter(|id| !self.settled.contains_key(*id));
        self.chosen.extend(roots.cloned());
        let mut next = named.to_vec();
        while let Some(id) = next.pop() {
            for waiter in self.waiters.get(&id).into_iter().flatten() {
                let is_settled = self.settled.contains_key(waiter);
                if !is_settled && !self.is_free(waiter) || !reached.insert(waiter.clone()) {
                    continue;
                }
                if !is_settled {
                    self.chosen.insert(waiter.clone());
                }
                next.push(waiter.clone());
            }
        }
    }

    /// Returns whether a task failed only because of chosen or settled tasks.
    fn is_free(&self, id: &TaskId) -> bool {
        let mut unmet = self.unmet.get(id).into_iter().flatten();
        unmet.all(|id| self.chosen.contains(id) || self.settled.contains_key(id))
    }

    /// Returns the tasks to retry for the named ones, in waves: each failed because of tasks of earlier
    /// waves.
    fn dependents(mut self, named: &[TaskId]) -> Dependents {
        self.choose(named);
        let mut before: HashMap<TaskId, usize> = HashMap::new();
        for id in &self.chosen {
            let unmet = self.unmet.get(id).into_iter().flatten();
            let count = unmet.filter(|id| self.chosen.contains(*id)).count();
            before.insert(id.clone(), count);
        }
        let free = before.iter().filter(|(_, count)| **count == 0);
        let mut wave: Vec<TaskId> = free.map(|(id, _)| id.clone()).collect();
        let mut waves = Vec::new();
        while !before.is_empty() {
            if wave.is_empty() {
                // A circle, which an operator has created from tasks that ended.
                wave.extend(before.keys().cloned());
            }
            wave.sort_by_key(|id| self.records.get(id).map(|record| record.order));
            let mut next = Vec::new();
            for id in &wave {
                before.remove(id);
                for waiter in self.waiters.get(id).into_iter().flatten() {
                    if let Some(count) = before.get_mut(waiter) {
                        *count -= 1;
                        if *count == 0 {
                            next.push(waiter.clone());
                        }
                    }
                }
            }
            waves.push(std::mem::replace(&mut wave, next));
        }
        let others = waves.iter().flatten().filter(|id| !named.contains(id));
        let others: Vec<TaskRecord> = others.filter_map(|id| self.records.remove(id)).collect();
        let (settled, roots): (Vec<_>, Vec<_>) =
            (named.iter().cloned()).partition(|id| self.settled.contains_key(id));
        let settled = settled.into_iter();
        let settled = settled.filter_map(|id| self.settled.remove_entry(&id));
        Dependents {
            roots,
            settled: settled.collect(),
            waves,
            others,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass::{NewTask, TaskState, TaskStatus, jiff::Timestamp};

    use super::*;

    fn id(name: &str) -> TaskId {
        name.parse().unwrap()
    }

    /// Returns a task that failed because of these, and waited for a task that completed too.
    fn failed(order: u64, name: &str, because: &[&str]) -> TaskRecord {
        let now = Timestamp::UNIX_EPOCH;
        let names = because.iter().copied().chain(["fine"]);
        let task = NewTask::new("k").id(name).after_ok(names);
        let task = task.build().unwrap().task;
        let waits = task.waits.clone().unwrap();
        let mut outcomes = vec![WaitOutcome::Failed; because.len()];
        outcomes.push(WaitOutcome::Completed);
        let mut state = TaskState::new(now)
            .waiting(*waits)
            .with_outcomes(outcomes, now);
        state.status = TaskStatus::Failed;
        TaskRecord::new(task, Ok(state), order, now)
    }

    fn names(waves: &[Vec<TaskId>]) -> Vec<Vec<&str>> {
        let names = waves.iter().map(|wave| wave.iter().map(TaskId::as_str));
        names.map(Iterator::collect).collect()
    }

    /// Returns a live task that waits for these.
    fn live(name: &str, tasks: &[&str]) -> TaskRecord {
        let mut record = failed(1, name, tasks);
        let waits = record.task.waits.clone().unwrap();
        record.state = Ok(TaskState::new(Timestamp::UNIX_EPOCH).waiting(*waits));
        record
    }

    /// Returns a task that completed after these.
    fn completed(name: &str, tasks: &[&str]) -> TaskRecord {
        let mut record = failed(1, name, tasks);
        let state = record.state.as_mut().unwrap();
        state.status = TaskStatus::Completed { result: None };
        record
    }

    fn failed_ones() -> [TaskRecord; 6] {
        [
            failed(2, "b", &["a"]),
            failed(3, "c", &["a"]),
            failed(4, "d", &["b", "c"]),
            failed(5, "e", &["d", "other"]),
            failed(6, "f", &["e"]),
            failed(7, "g", &["elsewhere"]),
        ]
    }

    fn graph() -> Graph {
        let mut graph = Graph::default();
        failed_ones().into_iter().for_each(|one| graph.add(one));
        graph
    }

    #[test]
    fn tasks_come_after_all_that_they_wait_for() {
        let found = graph().dependents(&[id("a")]);
        assert_eq!((found.roots, found.settled), (vec![id("a")], vec![]));
        let expected = [vec!["a"], vec!["b", "c"], vec!["d"]];
        assert_eq!(names(&found.waves), expected);
        let others = found.others.iter().map(|record| record.task.id.as_str());
        assert_eq!(others.collect::<Vec<_>>(), ["b", "c", "d"]);
    }

    #[test]
    fn a_task_whose_other_predecessors_are_settled_runs_again() {
        let mut graph = graph();
        graph.add_settled(&completed("other", &[]));
        let waves = graph.dependents(&[id("a")]).waves;
        let expected = [vec!["a"], vec!["b", "c"], vec!["d"], vec!["e"], vec!["f"]];
        assert_eq!(names(&waves), expected);
    }

    #[test]
    fn the_named_tasks_have_waves_too() {
        let found = graph().dependents(&[id("b"), id("a")]);
        assert_eq!(names(&found.waves), [vec!["a"], vec!["b", "c"], vec!["d"]]);
        assert_eq!(found.others.len(), 2);
    }

    #[test]
    fn a_circle_ends() {
        let mut graph = Graph::default();
        graph.add(failed(1, "a", &["b"]));
        graph.add(failed(2, "b", &["a"]));
        let waves = graph.dependents(&[id("a")]).waves;
        assert_eq!(names(&waves), [vec!["a", "b"]]);
    }

    /// Regression: the search ended at a task that an interrupted command had retried.
    #[test]
    fn the_walk_goes_through_live_and_completed_tasks() {
        for (settle, expected) in [
            (&["a"][..], vec![vec!["b", "c"], vec!["d"]]),
            (&["a", "b"], vec![vec!["c"], vec!["d"]]),
            (&["a", "b", "c"], vec![vec!["d"]]),
            (&["a", "b", "c", "d"], vec![]),
            (&["a", "b", "c", "d", "other"], vec![vec!["e"], vec!["f"]]),
        ] {
            for of in [live, completed] {
                let mut graph = Graph::default();
                for record in failed_ones() {
                    if !settle.contains(&record.task.id.as_str()) {
                        graph.add(record);
                    }
                }
                for name in settle {
                    let before: &[&str] = match *name {
                        "b" | "c" => &["a"],
                        "d" => &["b", "c"],
                        _ => &[],
                    };
                    graph.add_settled(&of(name, before));
                }
                let found = graph.dependents(&[id("a")]);
                assert_eq!(names(&found.waves), expected, "{settle:?}");
                assert_eq!(found.roots, []);
                assert_eq!(found.settled[0].0, id("a"));
            }
        }
    }

    #[test]
    fn the_walk_ends_at_a_task_that_failed_or_was_killed() {
        let mut graph = Graph::default();
        graph.add(failed(3, "c", &["b"]));
        let mut killed = completed("b", &["a"]);
        killed.state.as_mut().unwrap().status = TaskStatus::Killed;
        graph.add_settled(&killed);
        graph.add_settled(&completed("a", &[]));
        assert_eq!(graph.dependents(&[id("a")]).waves.len(), 0);
    }
}
