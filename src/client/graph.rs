//! [`Graph`]: which task waits for which.

use std::collections::{BTreeSet, HashMap, VecDeque};

use windlass_statemachine::TaskId;

use super::Client;
use crate::store::{Error, Filter, Page, Shown, TaskRecord};

/// How many tasks one call reads.
const PAGE: u32 = 1000;

/// How many waits a part of a graph has for each task of its limit, at most.
const MOST_WAITS: usize = 5;

/// The state of a task that does not exist.
const UNKNOWN: &str = "unknown";

/// The tasks that wait or have waited for others, and their states.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, client::Graph, store::Store};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let a = client.submit(NewTask::new("report").id("a")).await?.into_id();
/// let b = client.submit(NewTask::new("mail").id("b").after(["a"])).await?.into_id();
/// let graph = Graph::read(&client, |_| true).await?;
/// assert_eq!((graph.waits(&b), graph.waiters(&a)), (&[a.clone()][..], &[b.clone()][..]));
/// assert_eq!(graph.around(&b, 100).tasks, [b, a]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The tasks that each task waits for.
    waits: HashMap<TaskId, Vec<TaskId>>,
    /// The tasks that wait for each task, in submit order.
    waiters: HashMap<TaskId, Vec<TaskId>>,
    /// The state of each task, and the word for it that people see.
    states: HashMap<TaskId, (&'static str, Shown)>,
    /// How many waits were added.
    edges: usize,
    /// Whether tasks were not read because the ones before them have too many waits.
    is_cut: bool,
}

/// The part of a graph around one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Around {
    /// The tasks, the nearest first.
    pub tasks: Vec<TaskId>,
    /// Whether there are more than the limit, or more than five times as many waits.
    pub is_cut: bool,
}

impl Graph {
    /// Reads the graph of a store. Reads every task, because a task does not know which others wait for it. Leaves out
    /// the tasks that are not `seen`: they count as tasks that do not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn read(client: &Client, seen: impl Fn(&TaskRecord) -> bool) -> Result<Self, Error> {
        let (mut graph, mut after) = (Self::default(), 0);
        loop {
            let page = Page::new(PAGE).after(after);
            let records = client.list(&Filter::default(), page).await?;
            let Some(last) = records.last() else {
                return Ok(graph);
            };
            after = last.order;
            records
                .iter()
                .filter(|one| seen(one))
                .for_each(|one| graph.add(one));
        }
    }

    /// Reads a task, and the tasks that it waits for, directly or indirectly: at most `limit`, and no more after five times as
    /// many waits. Reads no others, so that the tasks that wait for them are not in the graph. Leaves out the tasks that are not
    /// `seen`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn read_above(
        client: &Client,
        (id, limit): (&TaskId, usize),
        seen: impl Fn(&TaskRecord) -> bool,
    ) -> Result<Self, Error> {
        let mut graph = Self::default();
        let mut next = VecDeque::from([id.clone()]);
        let mut known = BTreeSet::from([id.clone()]);
        let mut left = limit;
        while let Some(id) = next.pop_front() {
            if left == 0 {
                break;
            }
            if graph.edges > limit.saturating_mul(MOST_WAITS) {
                graph.is_cut = true;
                break;
            }
            left -= 1;
            match client.get(&id).await {
                Ok(record) if seen(&record) => graph.add(&record),
                Ok(_) | Err(Error::NotFound { .. } | Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
            let others = graph.waits(&id).iter();
            next.extend(
                others
                    .filter(|other| known.insert((*other).clone()))
                    .cloned(),
            );
        }
        Ok(graph)
    }

    /// Returns the graph of these tasks.
    pub fn of(records: &[TaskRecord]) -> Self {
        let mut graph = Self::default();
        records.iter().for_each(|record| graph.add(record));
        graph
    }

    /// Adds a task with the tasks that it waits for. Does nothing for a task that was added before.
    pub fn add(&mut self, record: &TaskRecord) {
        let id = &record.task.id;
        if self.states.contains_key(id) {
            return;
        }
        let state = record.state.as_ref();
        let name = state.map_or("quarantined", |state| state.code().as_str());
        self.states.insert(id.clone(), (name, Shown::of(record)));
        let waits = state.ok().and_then(|state| state.waits.as_deref());
        for other in waits.iter().flat_map(|waits| &waits.tasks) {
            self.edge(id, other);
        }
    }

    /// Returns how many waits were added.
    pub fn edges(&self) -> usize {
        self.edges
    }

    /// Adds that a task waits for another.
    pub fn edge(&mut self, id: &TaskId, other: &TaskId) {
        self.edges += 1;
        let waiters = self.waiters.entry(other.clone()).or_default();
        waiters.push(id.clone());
        let waits = self.waits.entry(id.clone()).or_default();
        waits.push(other.clone());
    }

    /// Returns the tasks that a task waits for.
    pub fn waits(&self, id: &TaskId) -> &[TaskId] {
        self.waits.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns the tasks that wait for a task, in submit order.
    pub fn waiters(&self, id: &TaskId) -> &[TaskId] {
        self.waiters.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns the state of a task; `unknown` if it does not exist.
    pub fn state(&self, id: &TaskId) -> &'static str {
        self.states.get(id).map_or(UNKNOWN, |(state, _)| state)
    }

    /// Returns the state of a task as lists show it: [`Shown`]; `unknown` if it does not exist.
    pub fn shown(&self, id: &TaskId) -> &'static str {
        let shown = self.states.get(id).map(|(_, shown)| shown.as_str());
        shown.unwrap_or(UNKNOWN)
    }

    /// Returns the tasks that a task waits for, directly or indirectly, and those that wait for it: at most `limit`, and no
    /// more after five times as many waits.
    pub fn around(&self, id: &TaskId, limit: usize) -> Around {
        let mut around = Around {
            is_cut: self.is_cut,
            ..Around::default()
        };
        let mut waits = self.waits(id).len();
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
                    waits += self.waits(other).len();
                    if around.tasks.len() >= limit || waits > limit.saturating_mul(MOST_WAITS) {
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

    /// Returns each wait between tasks of this part: the task that waits, and the other.
    pub fn between<'a>(&'a self, around: &'a Around) -> Vec<(&'a TaskId, &'a TaskId)> {
        let among: BTreeSet<&TaskId> = around.tasks.iter().collect();
        let of = |id: &'a TaskId| self.waits(id).iter().map(move |other| (id, other));
        let all = around.tasks.iter().flat_map(of);
        all.filter(|(_, other)| among.contains(other)).collect()
    }
}
