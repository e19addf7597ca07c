//! The data of a namespace, and what keeps its indexes and its history in step.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use tokio::sync::watch;
use windlass_statemachine::{Code, CommandId, Fence, NodeName, QueuedCommand, State, Task, TaskId};

use super::{leases::LeaseRow, watch::Watcher};
use crate::store::{Change, CommandRecord, Error, Limits, NodeCommand, TaskView, What};

/// A state as it is kept: text that was damaged stays text until it is read.
pub(super) enum Saved {
    State(Box<State>),
    Text(String),
}

impl Saved {
    /// The state, or why it cannot be read.
    pub(super) fn read(&self) -> Result<State, String> {
        match self {
            Self::State(state) => Ok(State::clone(state)),
            Self::Text(text) => serde_json::from_str(text).map_err(|e| e.to_string()),
        }
    }
}

impl From<State> for Saved {
    fn from(state: State) -> Self {
        Self::State(Box::new(state))
    }
}

/// The live claim of a task.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) lease: u64,
    pub(super) fence: Fence,
    /// The claim before was lost, and the owner has not written since.
    pub(super) abandoned: bool,
}

/// A task with all that belongs to it.
pub(super) struct Row {
    pub(super) task: Arc<Task>,
    pub(super) saved: Saved,
    /// The version of the last write, which outlives a state that cannot be read.
    pub(super) version: u64,
    /// In which state it has ended, and when, which outlive that state too.
    pub(super) ended: Option<(Code, Timestamp)>,
    /// Why it was set aside, if it was.
    pub(super) set_aside: Option<String>,
    pub(super) order: u64,
    pub(super) submitted_at: Timestamp,
    pub(super) owner: Option<Owner>,
    /// Of the last claim.
    pub(super) fence: Fence,
    /// The node that lost the last claim.
    pub(super) abandoned: Option<NodeName>,
    pub(super) commands: BTreeMap<u64, CommandRecord>,
    /// Those that have no outcome.
    pub(super) waiting: BTreeSet<u64>,
    /// The places of its changes.
    pub(super) history: VecDeque<u64>,
}

impl Row {
    /// Whether it has ended, also when its state cannot be read any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The state, or the reason why there is none to be had.
    pub(super) fn state(&self) -> Result<State, Error> {
        let reason = match &self.set_aside {
            Some(reason) => reason.clone(),
            None => match self.saved.read() {
                Ok(state) => return Ok(state),
                Err(reason) => reason,
            },
        };
        Err(Error::corrupt_task(&self.task.id, reason))
    }

    pub(super) fn waiting_commands(&self) -> Vec<QueuedCommand> {
        let records = self.waiting.iter().filter_map(|o| self.commands.get(o));
        records
            .map(|r| QueuedCommand {
                order: r.order,
                id: r.id.clone(),
                command: r.command.clone(),
            })
            .collect()
    }

    /// How nodes see it; `None` for one that is not live, or cannot be read.
    pub(super) fn view(&self) -> Option<TaskView> {
        let Saved::State(state) = &self.saved else {
            return None;
        };
        if self.set_aside.is_some() || state.code().is_terminal() {
            return None;
        }
        let task = &self.task;
        Some(TaskView {
            id: task.id.clone(),
            kind: task.kind.clone(),
            labels: (!task.labels.is_empty()).then(|| Arc::new(task.labels.clone())),
            priority: task.priority,
            order: self.order,
            due: state.due(),
            sleeping: state.code() == Code::Sleeping,
            claimed_by: self.owner.map(|o| o.lease),
            commanded: !self.waiting.is_empty(),
        })
    }
}

/// A command that was sent to a node.
pub(super) struct NodeCommandRow {
    pub(super) lease: u64,
    pub(super) command: NodeCommand,
    pub(super) outcome: Option<String>,
}

/// A namespace.
pub(super) struct World {
    pub(super) limits: Limits,
    pub(super) tasks: HashMap<TaskId, Row>,
    pub(super) by_order: BTreeMap<u64, TaskId>,
    /// The tasks that have ended: since when, and their order.
    pub(super) ended: BTreeSet<(Timestamp, u64)>,
    /// Where each known command is.
    pub(super) commands: HashMap<CommandId, (TaskId, u64)>,
    pub(super) leases: BTreeMap<u64, LeaseRow>,
    pub(super) node_commands: BTreeMap<u64, NodeCommandRow>,
    pub(super) watchers: HashMap<u64, Watcher>,
    /// The history, without gaps. Fences and the orders of tasks and commands are places in it.
    pub(super) log: VecDeque<Change>,
    /// The place of the oldest change that is kept (or of the next, if none is).
    pub(super) first_seq: u64,
    /// Tells the place of the newest change.
    pub(super) latest: watch::Sender<u64>,
    /// The last number given to a lease, a watcher or a node command.
    last_number: u64,
    /// What is added to the place of a claim to make its fence: tasks of other stores may have had
    /// greater fences than there are places here.
    fence_floor: u64,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            tasks: HashMap::new(),
            by_order: BTreeMap::new(),
            ended: BTreeSet::new(),
            commands: HashMap::new(),
            leases: BTreeMap::new(),
            node_commands: BTreeMap::new(),
            watchers: HashMap::new(),
            log: VecDeque::new(),
            first_seq: 1,
            latest: watch::Sender::new(0),
            last_number: 0,
            fence_floor: 0,
        }
    }

    /// The fence of a claim that is recorded next: greater than every earlier one, also of tasks that
    /// are gone.
    pub(super) fn next_fence(&self) -> Fence {
        Fence(self.next_seq().saturating_add(self.fence_floor))
    }

    /// Makes every fence from now on greater than this one.
    pub(super) fn raise_fences(&mut self, fence: Fence) {
        if fence >= self.next_fence() {
            self.fence_floor = fence.0;
        }
    }

    /// A number that was never given before.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The place of the next change.
    pub(super) fn next_seq(&self) -> u64 {
        self.first_seq + self.log.len() as u64
    }

    /// Adds a change to the history and answers its place.
    pub(super) fn record(&mut self, task: &TaskId, what: What, at: Timestamp) -> u64 {
        let seq = self.next_seq();
        if let Some(row) = self.tasks.get_mut(task) {
            while row.history.front().is_some_and(|s| *s < self.first_seq) {
                row.history.pop_front();
            }
            row.history.push_back(seq);
        }
        let task = task.clone();
        self.log.push_back(Change {
            seq,
            at,
            task,
            what,
        });
        self.latest.send_replace(seq);
        seq
    }

    /// Puts a state in the place of the task's, with the index of those that have ended.
    pub(super) fn set_state(&mut self, id: &TaskId, state: State) {
        let Some(row) = self.tasks.get_mut(id) else {
            return;
        };
        if let Some((_, since)) = row.ended.take() {
            self.ended.remove(&(since, row.order));
        }
        if state.code().is_terminal() {
            self.ended.insert((state.since, row.order));
            row.ended = Some((state.code(), state.since));
        }
        row.version = state.version;
        row.saved = state.into();
    }

    /// Ends the claim of a task, if it has one, and answers what it was.
    pub(super) fn unclaim(&mut self, id: &TaskId) -> Option<Owner> {
        // Told before and after: a watch may have interest only because its lease had the claim.
        self.touch(id);
        let owner = self.tasks.get_mut(id)?.owner.take()?;
        if let Some(lease) = self.leases.get_mut(&owner.lease) {
            lease.claims.remove(id);
        }
        Some(owner)
    }

    /// Makes sure that the state of a task can be read: what is text is parsed, and a task whose
    /// text is no state is set aside.
    pub(super) fn read_state(&mut self, id: &TaskId, now: Timestamp) -> Result<(), Error> {
        let Some(row) = self.tasks.get_mut(id) else {
            return Err(Error::no_task(id));
        };
        let Saved::Text(_) = &row.saved else {
            return Ok(());
        };
        match row.saved.read() {
            Ok(state) => {
                self.set_state(id, state);
                self.touch(id);
                Ok(())
            }
            Err(reason) => {
                let error = Error::corrupt_task(id, reason.clone());
                if row.set_aside.is_none() && row.ended.is_none() {
                    row.set_aside = Some(reason);
                    row.abandoned = None;
                    self.unclaim(id);
                    self.record(id, What::Quarantined, now);
                    self.touch(id);
                }
                Err(error)
            }
        }
    }

    /// Removes a task with all that belongs to it.
    pub(super) fn remove(&mut self, id: &TaskId) -> Option<Row> {
        self.unclaim(id);
        let row = self.tasks.remove(id)?;
        self.by_order.remove(&row.order);
        if let Some((_, since)) = row.ended {
            self.ended.remove(&(since, row.order));
        }
        for command in row.commands.values() {
            self.commands.remove(&command.id);
        }
        Some(row)
    }

    pub(super) fn damage(&mut self, id: &TaskId, text: &str) -> Result<(), Error> {
        let row = self.tasks.get_mut(id).ok_or_else(|| Error::no_task(id))?;
        row.saved = Saved::Text(text.to_owned());
        Ok(())
    }
}
