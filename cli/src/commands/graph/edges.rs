//! [`Edges`]: which task waits for which.

use std::collections::{BTreeSet, HashMap, VecDeque};

use windlass::{
    Client, TaskId,
    store::{Filter, Page, TaskRecord},
};

use crate::{exit::Failure, view::state_name};

/// How many tasks one call reads.
const PAGE: u32 = 1000;

/// The tasks that wait or have waited for others, and their states.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// The tasks that each task waits for.
    waits: HashMap<TaskId, Vec<TaskId>>,
    /// The tasks that wait for each task, in submit order.
    waiters: HashMap<TaskId, Vec<TaskId>>,
    states: HashMap<TaskId, &'static str>,
}

/// A part of the graph.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// The tasks, the nearest first.
    pub(super) tasks: Vec<TaskId>,
    /// Whether there are more than the limit.
    pub(super) is_cut: bool,
}

impl Edges {
    /// Reads every task of the store, because a task does not know which others wait for it.
    pub(super) async fn read(client: &Client) -> Result<Self, Failure> {
        let (mut edges, mut after) = (Self::default(), 0);
        loop {
            let page = Page::new(PAGE).after(after);
            let records = client.list(&Filter::default(), page).await?;
            let Some(last) = records.last() else {
                return Ok(edges);
            };
            after = last.order;
            records.iter().for_each(|record| edges.add(record));
        }
    }

    /// Returns the edges between these tasks.
    pub(super) fn of(records: &[TaskRecord]) -> Self {
        let mut edges = Self::default();
        records.iter().for_each(|record| edges.add(record));
        edges
    }

    fn add(&mut self, record: &TaskRecord) {
        let id = &record.task.id;
        self.states.insert(id.clone(), state_name(record));
        let waits = record.state.as_ref().ok().and_then(|s| s.waits.as_deref());
        for other in waits.iter().flat_map(|waits| &waits.tasks) {
            self.edge(id, other);
        }
    }

    /// Adds that a task waits for another.
    pub(super) fn edge(&mut self, id: &TaskId, other: &TaskId) {
        let waiters = self.waiters.entry(other.clone()).or_default();
        waiters.push(id.clone());
        let waits = self.waits.entry(id.clone()).or_default();
        waits.push(other.clone());
    }

    pub(super) fn waits(&self, id: &TaskId) -> &[TaskId] {
        self.waits.get(id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn waiters(&self, id: &TaskId) -> &[TaskId] {
        self.waiters.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns the state of a task; `unknown` if it does not exist.
    pub(super) fn state(&self, id: &TaskId) -> &'static str {
        self.states.get(id).copied().unwrap_or("unknown")
    }

    /// Returns the tasks that a task waits for, directly or indirectly, and those that wait for it.
    pub(super) fn around(&self, id: &TaskId, limit: usize) -> Around {
        let mut around = Around::default();
        let mut seen: BTreeSet<TaskId> = BTreeSet::from([id.clone()]);
        around.tasks.push(id.clone());
        for is_up in [true, false] {
            let mut next: VecDeque<TaskId> = VecDeque::from([id.clone()]);
            while let Some(at) = next.pop_front() {
                let others = match is_up {
                    true => self.waits(&at),
                    false => self.waiters(&at),
                };
                for other in others {
                    if !seen.insert(other.clone()) {
                        continue;
                    }
                    if around.tasks.len() == limit {
                        around.is_cut = true;
                        return around;
                    }
                    around.tasks.push(other.clone());
                    next.push_back(other.clone());
                }
            }
        }
        around
    }
}
