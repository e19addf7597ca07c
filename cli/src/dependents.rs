//! The tasks that failed because tasks before them did not complete (`after_ok`), down the graph.

use std::collections::{BTreeSet, HashMap, HashSet};

use windlass::{
    Client, StateKind, TaskId, WaitOutcome, Waits,
    store::{Error, Filter, TaskRecord},
};

use crate::{exit::Failure, select::LARGEST};

/// Tasks, and those that failed because of them.
#[derive(Debug)]
pub(crate) struct Dependents {
    /// All of them: each waits for tasks of earlier waves. A task that is retried before its predecessor fails again.
    pub(crate) waves: Vec<Vec<TaskId>>,
    /// Those that failed because of others, in the same order.
    pub(crate) others: Vec<TaskRecord>,
}

/// Returns these tasks and those that failed only because they wait for one of them, or for one that failed for that reason.
/// A task whose other predecessors did not complete would fail again, and is left out.
///
/// Reads every failed task of the store: a task does not know which others wait for it.
pub(crate) async fn dependents(client: &Client, roots: &[TaskId]) -> Result<Dependents, Failure> {
    let mut graph = Graph::default();
    let filter = Filter {
        states: vec![StateKind::Failed],
        ..Filter::default()
    };
    let mut page = LARGEST;
    loop {
        let records = client.list(&filter, page).await?;
        let Some(last) = records.last() else { break };
        page.after = last.order;
        records.into_iter().for_each(|record| graph.add(record));
    }
    graph.choose(roots.to_vec());
    let mut settled: HashMap<TaskId, bool> = HashMap::new();
    loop {
        let mut free = Vec::new();
        for (id, others) in graph.held_back() {
            let mut is_free = true;
            for other in others {
                let is_settled = match settled.get(&other) {
                    Some(known) => *known,
                    None => {
                        let found = is_settled(client, &other).await?;
                        settled.insert(other, found);
                        found
                    }
                };
                is_free &= is_settled;
            }
            if is_free {
                free.push(id);
            }
        }
        if free.is_empty() {
            return Ok(graph.waves(roots));
        }
        graph.choose(free);
    }
}

/// Whether a task that did not complete once has completed or is live by now.
async fn is_settled(client: &Client, id: &TaskId) -> Result<bool, Failure> {
    match client.get(id).await {
        Ok(record) => {
            let code = record.state.map(|state| state.code());
            Ok(code.is_ok_and(|code| code == StateKind::Completed || !code.is_terminal()))
        }
        Err(Error::NotFound { .. } | Error::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The tasks that failed because of others.
#[derive(Debug, Default)]
struct Graph {
    records: HashMap<TaskId, TaskRecord>,
    /// The tasks because of which each of them failed.
    unmet: HashMap<TaskId, Vec<TaskId>>,
    /// The tasks that failed because of each task, in submit order.
    waiters: HashMap<TaskId, Vec<TaskId>>,
    /// The tasks that run again.
    chosen: HashSet<TaskId>,
    /// Tasks of which a part of the predecessors runs again, in submit order.
    touched: BTreeSet<(u64, TaskId)>,
}

impl Graph {
    /// Adds a failed task, if it failed because of others.
    fn add(&mut self, record: TaskRecord) {
        let state = record.state.as_ref().ok();
        let waits = state.and_then(|state| state.waits.as_deref());
        let Some(waits) = waits.filter(|waits| Waits::unmet(waits).is_some()) else {
            return;
        };
        let unmet = waits.waited().into_iter();
        let unmet = unmet.filter(|one| one.outcome != WaitOutcome::Completed);
        let unmet: Vec<TaskId> = unmet.map(|one| one.task).collect();
        let id = record.task.id.clone();
        for other in &unmet {
            let waiters = self.waiters.entry(other.clone()).or_default();
            waiters.push(id.clone());
        }
        self.unmet.insert(id.clone(), unmet);
        self.records.insert(id, record);
    }

    /// Chooses these tasks, and those that failed because of chosen ones alone.
    fn choose(&mut self, tasks: Vec<TaskId>) {
        self.chosen.extend(tasks.iter().cloned());
        let mut next = tasks;
        while let Some(id) = next.pop() {
            for waiter in self.waiters.get(&id).cloned().unwrap_or_default() {
                let is_free = self.others(&waiter).is_empty();
                if is_free && self.chosen.insert(waiter.clone()) {
                    next.push(waiter);
                } else if !is_free {
                    let order = self.records.get(&waiter).map_or(0, |record| record.order);
                    self.touched.insert((order, waiter));
                }
            }
        }
        let chosen = &self.chosen;
        self.touched.retain(|(_, id)| !chosen.contains(id));
    }

    /// Returns the tasks because of which a task failed and that are not chosen.
    fn others(&self, id: &TaskId) -> Vec<TaskId> {
        let unmet = self.unmet.get(id).into_iter().flatten();
        let others = unmet.filter(|id| !self.chosen.contains(*id));
        others.cloned().collect()
    }

    /// Returns the tasks of which only a part of the predecessors is chosen, each with the others.
    fn held_back(&self) -> Vec<(TaskId, Vec<TaskId>)> {
        let touched = self.touched.iter();
        let held_back = touched.map(|(_, id)| (id.clone(), self.others(id)));
        held_back.collect()
    }

    /// Returns the chosen tasks in waves: each failed because of tasks of earlier waves.
    fn waves(mut self, roots: &[TaskId]) -> Dependents {
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
                // A circle, which an operator has made of tasks that ended.
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
        let others = waves.iter().flatten().filter(|id| !roots.contains(id));
        let others: Vec<TaskRecord> = others.filter_map(|id| self.records.remove(id)).collect();
        Dependents { waves, others }
    }
}

#[cfg(test)]
mod tests {
    use windlass::{Fence, NewTask, TaskState, TaskStatus, jiff::Timestamp};

    use super::*;

    fn id(name: &str) -> TaskId {
        name.parse().unwrap()
    }

    /// A task that failed because of these, and waited for a task that completed too.
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
        TaskRecord {
            task,
            state: Ok(state),
            order,
            submitted_at: now,
            node: None,
            fence: Fence::default(),
            commands: 0,
            limited_by: None,
        }
    }

    fn names(waves: &[Vec<TaskId>]) -> Vec<Vec<&str>> {
        let names = waves.iter().map(|wave| wave.iter().map(TaskId::as_str));
        names.map(Iterator::collect).collect()
    }

    fn graph() -> Graph {
        let mut graph = Graph::default();
        for record in [
            failed(2, "b", &["a"]),
            failed(3, "c", &["a"]),
            failed(4, "d", &["b", "c"]),
            failed(5, "e", &["d", "other"]),
            failed(6, "f", &["e"]),
            failed(7, "g", &["elsewhere"]),
        ] {
            graph.add(record);
        }
        graph
    }

    #[test]
    fn tasks_come_after_all_that_they_wait_for() {
        let mut graph = graph();
        graph.choose(vec![id("a")]);
        assert_eq!(graph.held_back(), [(id("e"), vec![id("other")])]);
        let found = graph.waves(&[id("a")]);
        let expected = [vec!["a"], vec!["b", "c"], vec!["d"]];
        assert_eq!(names(&found.waves), expected);
        let others = found.others.iter().map(|record| record.task.id.as_str());
        assert_eq!(others.collect::<Vec<_>>(), ["b", "c", "d"]);
    }

    #[test]
    fn a_task_whose_other_predecessors_are_settled_runs_again() {
        let mut graph = graph();
        graph.choose(vec![id("a")]);
        graph.choose(vec![id("e")]);
        assert_eq!(graph.held_back(), []);
        let waves = graph.waves(&[id("a")]).waves;
        let expected = [vec!["a"], vec!["b", "c"], vec!["d"], vec!["e"], vec!["f"]];
        assert_eq!(names(&waves), expected);
    }

    #[test]
    fn the_named_tasks_have_waves_too() {
        let mut graph = graph();
        graph.choose(vec![id("b"), id("a")]);
        let found = graph.waves(&[id("b"), id("a")]);
        assert_eq!(names(&found.waves), [vec!["a"], vec!["b", "c"], vec!["d"]]);
        assert_eq!(found.others.len(), 2);
    }

    #[test]
    fn a_circle_ends() {
        let mut graph = Graph::default();
        graph.add(failed(1, "a", &["b"]));
        graph.add(failed(2, "b", &["a"]));
        graph.choose(vec![id("a")]);
        assert_eq!(names(&graph.waves(&[id("a")]).waves), [vec!["a", "b"]]);
    }
}
