//! The JSON records of a task: the forms of Metafora, with more fields.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    Author, Invalid, Json, Kind, NodeName, Retry, StateKind, Task, TaskId, TaskState, TaskStatus,
    Terms,
    state::{Deadlines, FIRST_DATA_VERSION},
    task::Labels,
};

use super::{
    fences::Fences,
    foreign::endless_sleep,
    json::{extended, is_false, is_nought, is_zero, parse, write},
    kv::KeyValue,
    numbers::number,
    slots::Slot,
};
use crate::store::{Error, rules::kept_time::kept};

fn first() -> u32 {
    FIRST_DATA_VERSION
}

fn is_first(version: &u32) -> bool {
    *version == FIRST_DATA_VERSION
}

/// A task without id and props: `/NS/tasks/ID`; with props: `/NS/finished/ID`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) kind: Kind,
    /// The earliest start of the task; for a task that waits for others, the deadline of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_nought")]
    pub(crate) priority: i32,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(crate) labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<Retry>,
    /// Whether it was submitted to wait for other tasks, which its state names.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) waits: bool,
    /// Whether it was submitted paused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) paused: bool,
    /// The rarely used fields: limits, deadlines, the unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) terms: Option<Box<Terms>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) submitted_at: Option<Timestamp>,
    /// The place of its submit in the numbers of the revision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) place: u32,
    /// Its submit order, if a write other than the submit made the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<u64>,
    /// The version of the data in its state, which nodes need for every task that they may claim.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub(crate) data_version: u32,
    /// The props, if the task has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) props: Option<Json>,
    /// Who submitted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<Author>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<StateKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<Timestamp>,
}

impl Envelope {
    pub(crate) fn new(task: &Task, submitted_at: Timestamp, place: u32) -> Self {
        Self {
            kind: task.kind.clone(),
            start_at: match &task.waits {
                Some(waits) => Some(waits.until()),
                None => task.start_at,
            },
            priority: task.priority,
            labels: task.labels.clone(),
            retry: task.retry.clone(),
            waits: task.waits.is_some(),
            paused: task.paused,
            terms: task.terms().map(Box::new),
            submitted_at: Some(kept(submitted_at)),
            place,
            order: None,
            data_version: FIRST_DATA_VERSION,
            props: None,
            by: None,
            state: None,
            ended_at: None,
        }
    }

    /// Returns the time until which the task waits for others, according to its submit; `None` if
    /// it does not wait.
    pub(crate) fn waited_until(&self) -> Option<Timestamp> {
        self.start_at.filter(|_| self.waits)
    }

    /// Converts the envelope into that of a task that was submitted to wait until this time.
    pub(crate) fn waits_until(self, until: Timestamp) -> Self {
        Self {
            start_at: Some(until),
            waits: true,
            ..self
        }
    }

    /// Returns the envelope of a live task of this order that differs from the one its submit
    /// wrote.
    pub(crate) fn live(self, order: u64, state: &TaskState) -> Self {
        Self {
            order: Some(order),
            data_version: state.data_version,
            state: None,
            ended_at: None,
            ..self
        }
    }

    /// Reads an envelope. A Metafora client leaves it empty; the task then has the kind `default`.
    pub(crate) fn read(kv: &KeyValue) -> Result<Self, String> {
        if kv.value().is_empty() {
            return Self::foreign();
        }
        parse(kv)
    }

    /// Returns the stand-in for an envelope that cannot be read.
    pub(crate) fn foreign() -> Result<Self, String> {
        let kind: Kind = "default".parse().map_err(|e: Invalid| e.to_string())?;
        let any: TaskId = "x".parse().map_err(|e: Invalid| e.to_string())?;
        let mut envelope = Self::new(&Task::new(any, kind), Timestamp::UNIX_EPOCH, 0);
        envelope.submitted_at = None;
        Ok(envelope)
    }

    /// Converts the envelope into the record of an ended task with this order.
    pub(crate) fn ended(self, order: u64, props: Json, code: StateKind, at: Timestamp) -> Self {
        Self {
            order: Some(order),
            props: Some(props).filter(|props| !props.is_null()),
            state: Some(code),
            ended_at: Some(at),
            ..self
        }
    }

    pub(crate) fn order(&self, kv: &KeyValue) -> u64 {
        self.order
            .unwrap_or_else(|| number(kv.create_revision(), self.place))
    }

    /// Returns whether a submit was the last to write this key, for a task that is due at once.
    pub(crate) fn is_as_submitted(&self, kv: &KeyValue) -> bool {
        kv.create_revision() == kv.mod_revision()
            && self.order.is_none()
            && self.start_at.is_none()
            && !self.paused
            // A client of Metafora gives no time.
            && self.submitted_at.is_some()
    }

    pub(crate) fn submitted_at(&self) -> Timestamp {
        // An earlier version has stored nanoseconds.
        kept(self.submitted_at.unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Returns the state of a task that was never claimed, which no key stores.
    pub(crate) fn first_state(&self) -> TaskState {
        let mut state = TaskState::submitted(self.start_at, self.submitted_at());
        state.deadlines = self.deadlines();
        if self.paused {
            state.status = TaskStatus::Paused;
        }
        state
    }

    /// Returns the deadlines of the task as it was submitted.
    pub(crate) fn deadlines(&self) -> Option<Box<Deadlines>> {
        let terms = self.terms.as_ref()?;
        let (start_by, end_by) = (terms.start_by, terms.end_by);
        let has_one = start_by.is_some() || end_by.is_some();
        has_one.then(|| Box::new(Deadlines { start_by, end_by }))
    }

    pub(crate) fn task(&self, id: &TaskId, props: Json) -> Task {
        let mut task = Task::new(id.clone(), self.kind.clone());
        task.props = props;
        task.start_at = self.start_at.filter(|_| !self.waits);
        task.priority = self.priority;
        task.labels = self.labels.clone();
        task.retry = self.retry.clone();
        if let Some(terms) = &self.terms {
            task.set_terms(Terms::clone(terms));
        }
        task
    }
}

/// The fields that a claim stores in addition to the state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    /// The node that claimed it. If the owner's key is gone, the node was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_by: Option<NodeName>,
    /// Whether the claim itself wrote the state, so that the fence is the revision of this key.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) by_claim: bool,
    /// Whether the previous claim was lost, and the owner has not committed since.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) abandoned: bool,
}

impl Hold {
    pub(crate) fn of(node: &NodeName) -> Self {
        let claimed_by = Some(node.clone());
        Self {
            claimed_by,
            ..Self::default()
        }
    }
}

/// Returns the value of `/NS/state/ID`.
pub(crate) fn write_state(state: &TaskState, hold: &Hold) -> Result<String, Error> {
    let more = write("claim", hold)?;
    Ok(extended(write("state", state)?, &more))
}

pub(crate) fn read_state(kv: &KeyValue, fences: &Fences) -> Result<(TaskState, Hold), String> {
    let mut state: TaskState = parse(kv).or_else(|e| endless_sleep(kv).ok_or(e))?;
    let hold: Hold = parse(kv)?;
    if hold.by_claim {
        state.fence = fences.of(kv.mod_revision());
    }
    Ok((state, hold))
}

/// `/NS/tasks/ID/owner`. Metafora writes only the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) node: NodeName,
    /// The node's lease. The key may be attached to a further lease of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<u64>,
    /// The slots of limits that the claim has taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) slots: Vec<Slot>,
}

/// Returns the lease in an owner's key.
pub(crate) fn lease_of(kv: &KeyValue) -> u64 {
    let reported = parse::<Owner>(kv).ok().and_then(|owner| owner.lease);
    reported.unwrap_or_else(|| u64::try_from(kv.lease()).unwrap_or(0))
}

/// Returns whether a node of Metafora is the owner.
pub(crate) fn is_foreign(kv: &KeyValue) -> bool {
    !parse::<Owner>(kv).is_ok_and(|owner| owner.lease.is_some())
}

/// `/NS/parked/ID`: the part of a task's state that nodes need while the task has no owner, if the task waits, or
/// became claimable after its submit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Parked {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Timestamp>,
    /// Since when a task that does not wait can be claimed, which is its position among the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<Timestamp>,
    /// Why the task is quarantined, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quarantined: Option<String>,
    /// The tasks that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits: Vec<TaskId>,
    /// The next deadline of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<Timestamp>,
}

impl Parked {
    /// Returns the mark of a task without an owner in this state; `None` for a task that has been claimable since
    /// its submit.
    pub(crate) fn of(state: &TaskState, submitted_at: Timestamp) -> Option<Self> {
        let (until, ready) = match state.status {
            TaskStatus::Sleeping { until } => (Some(until), None),
            TaskStatus::Paused => (None, None),
            TaskStatus::Runnable | TaskStatus::Fault if kept(state.since) > kept(submitted_at) => {
                (None, Some(state.since))
            }
            _ => return None,
        };
        let waits = state.waits.as_deref().filter(|_| state.is_waiting());
        Some(Self {
            until,
            ready,
            quarantined: None,
            waits: waits.map_or_else(Vec::new, |waits| waits.tasks.clone()),
            deadline: state.deadline(),
        })
    }
}
