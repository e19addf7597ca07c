//! The answers of the API about tasks, as the pages read them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass::Waits;

/// A task.
#[derive(Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) shown: String,
    pub(super) shown_since: Option<Timestamp>,
    pub(super) late_seconds: Option<u64>,
    pub(super) paused_by: Option<PausedBy>,
    pub(super) node: Option<String>,
    pub(super) fence: u64,
    pub(super) attempts: u32,
    pub(super) attempts_left: Option<u32>,
    pub(super) commands_waiting: u64,
    pub(super) data: Option<Box<RawValue>>,
    pub(super) data_version: Option<u32>,
    pub(super) earlier_data: Vec<Earlier>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) start_by: Option<Timestamp>,
    pub(super) end_by: Option<Timestamp>,
    pub(super) errors: Vec<ErrorEntry>,
    pub(super) errors_total: u64,
    pub(super) fingerprint: Option<String>,
    pub(super) incarnation: u64,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) limits: Vec<Limit>,
    pub(super) limited_by: Option<LimitedBy>,
    pub(super) priority: i64,
    pub(super) progress: Option<Progress>,
    pub(super) props: Option<Box<RawValue>>,
    pub(super) quarantined: Option<String>,
    pub(super) result: Option<Box<RawValue>>,
    pub(super) submitted_at: Timestamp,
    pub(super) until: Option<Timestamp>,
    pub(super) version: Option<u64>,
    pub(super) waits_for: Option<Waits>,
    pub(super) awaits_signal: Option<Awaited>,
}

/// Who paused the task.
#[derive(Deserialize)]
pub(super) struct PausedBy {
    /// The order of the command; `None` when the handler paused it.
    pub(super) command: Option<u64>,
    pub(super) by: Option<String>,
    pub(super) note: Option<String>,
}

/// When a command reached the owner of the task.
#[derive(Deserialize)]
pub(super) struct Delivery {
    pub(super) order: u64,
    pub(super) at: Timestamp,
}

/// What the data was until it was replaced.
#[derive(Deserialize)]
pub(super) struct Earlier {
    pub(super) until: Timestamp,
    pub(super) bytes: Option<u64>,
    pub(super) data: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct ErrorEntry {
    pub(super) timestamp: Timestamp,
    pub(super) error: String,
    #[serde(default)]
    pub(super) abandoned: bool,
    pub(super) node: Option<String>,
    pub(super) data_version: Option<u32>,
}

#[derive(Deserialize)]
pub(super) struct Limit {
    pub(super) key: String,
    pub(super) at_once: Option<u32>,
    pub(super) starts: Option<u32>,
    pub(super) within: Option<String>,
}

/// The limit that holds a task back.
#[derive(Deserialize)]
pub(super) struct LimitedBy {
    pub(super) limit: Limit,
}

#[derive(Deserialize)]
pub(super) struct Progress {
    pub(super) fraction: Option<f64>,
    #[serde(default)]
    pub(super) text: Option<String>,
}

/// The signal that a task waits for, as its handler has declared it.
#[derive(Deserialize)]
pub(super) struct Awaited {
    pub(super) name: String,
    #[serde(default)]
    pub(super) text: String,
    pub(super) schema: Option<Box<RawValue>>,
}

/// A command that was accepted.
#[derive(Deserialize)]
pub(super) struct Sending {
    pub(super) order: u64,
}

/// A page of tasks.
#[derive(Deserialize)]
pub(super) struct Records {
    pub(super) tasks: Vec<Record>,
    pub(super) next: Option<String>,
    pub(super) previous: Option<String>,
}

/// A command that was sent to a task.
#[derive(Deserialize)]
pub(super) struct Sent {
    pub(super) order: u64,
    pub(super) command: CommandName,
    pub(super) sent_at: Timestamp,
    pub(super) by: Option<String>,
    pub(super) note: Option<String>,
    pub(super) outcome: Option<Outcome>,
}

#[derive(Deserialize)]
pub(super) struct CommandName {
    pub(super) message: String,
    /// Of a signal.
    pub(super) name: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Outcome {
    pub(super) outcome: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) by: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) reply: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct Commands {
    pub(super) commands: Vec<Sent>,
}

/// A line of the history of a task.
#[derive(Deserialize, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Timestamp,
    pub(super) what: String,
    pub(super) by: Option<String>,
    pub(super) note: Option<String>,
    pub(super) node: Option<String>,
    pub(super) fence: Option<u64>,
    pub(super) abandoned: Option<bool>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) state: Option<String>,
    pub(super) message: Option<String>,
    pub(super) command: Option<u64>,
    pub(super) kind: Option<String>,
    pub(super) text: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct History {
    pub(super) changes: Vec<Change>,
}

/// Why a task is not run.
#[derive(Deserialize)]
pub(super) struct Why {
    pub(super) reason: Option<String>,
    pub(super) text: Option<String>,
}

/// The log of a task.
#[derive(Deserialize)]
pub(super) struct Log {
    pub(super) lines: Vec<Line>,
    pub(super) gone: u64,
}

#[derive(Deserialize)]
pub(super) struct Line {
    pub(super) attempt: u32,
    pub(super) at: Timestamp,
    pub(super) text: String,
}

/// The tasks that wait for each other.
#[derive(Deserialize)]
pub(super) struct Graph {
    pub(super) tasks: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    pub(super) is_cut: bool,
}

#[derive(Deserialize)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) shown: String,
}

#[derive(Deserialize)]
pub(super) struct Edge {
    pub(super) task: String,
    pub(super) waits_for: String,
}

impl Record {
    /// Returns whether the task has ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "failed" | "killed")
    }

    pub(super) fn is_quarantined(&self) -> bool {
        self.quarantined.is_some()
    }
}
