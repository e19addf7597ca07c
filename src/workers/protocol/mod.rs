//! The JSON forms of the protocol between remote workers and servers, version 1.
//!
//! Lengths of time are in milliseconds. The clock of a worker counts nowhere. Fields that are not known are ignored.

/// Shows a form without its secret.
macro_rules! without_secret {
    ($($form:ident),*) => {$(
        impl std::fmt::Debug for $form {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($form)).finish_non_exhaustive()
            }
        }
    )*};
}

mod report;
mod waited;

pub use self::{
    report::{Item, ItemResult, Line, Reply, ReportItems, Reported, ResultCode, What},
    waited::{ReadWaited, WaitedResult, WaitedResults},
};

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use windlass_statemachine::{
    Command, ErrorEntry, Fence, Json, Kind, Meta, NodeName, TaskId, task::Labels, waits::Waited,
};

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// The name of a [feature](Registered::features): the server takes the request [`ReadWaited`].
pub const READS_WAITED: &str = "waited";

/// Reads a field that may be left out: `null` is its default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn or_one<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_else(one))
}

fn or_first<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_else(first))
}

fn or_grace<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_else(grace))
}

fn one() -> u32 {
    1
}

fn first() -> Vec<u32> {
    vec![VERSION]
}

fn grace() -> u64 {
    30_000
}

/// A worker registers. The same name and secret again, while the lease is live, return the same lease.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Register {
    /// The versions of the protocol that the worker speaks; 1 by default.
    #[serde(default = "first", deserialize_with = "or_first")]
    pub protocol: Vec<u32>,
    /// The name of the worker, which no other live node or worker has.
    pub name: NodeName,
    /// A text of 16 to 200 characters that the worker makes at random, once for its process. Every request has it.
    #[cfg_attr(feature = "schema", schemars(length(min = 16, max = 200)))]
    pub secret: String,
    /// The kinds for which the worker has handlers: 1 to 100.
    #[cfg_attr(feature = "schema", schemars(extend("minProperties" = 1, "maxProperties" = 100)))]
    pub kinds: BTreeMap<Kind, Offer>,
    /// Labels that a task must all have for the worker to take it; none by default.
    #[serde(default, deserialize_with = "or_default")]
    pub labels: Labels,
    /// How long after the last renewal the lease ends: 15,000 to 300,000; 45,000 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 15_000, max = 300_000)))]
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// The client library with its version, for operators.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(feature = "schema", schemars(length(max = 200)))]
    pub sdk: String,
    /// The name of the machine, for operators.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(feature = "schema", schemars(length(max = 200)))]
    pub host: String,
    /// The process id, for operators.
    #[serde(default, deserialize_with = "or_default")]
    pub pid: u32,
}

/// What a worker offers for one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "KindOffer"))]
#[non_exhaustive]
pub struct Offer {
    /// The most handlers of the kind that run at once. All kinds together have at most 1,000.
    #[cfg_attr(feature = "schema", schemars(range(max = 1_000)))]
    pub slots: u32,
    /// The version of the data that the handler reads and writes; 1 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    #[serde(default = "one", deserialize_with = "or_one")]
    pub reads: u32,
    /// How long a handler may take to return after a stop; 30,000 by default. The worker then aborts it.
    #[cfg_attr(feature = "schema", schemars(range(max = 86_400_000)))]
    #[serde(default = "grace", deserialize_with = "or_grace")]
    pub grace_ms: u64,
    /// Whether the handler takes signals; `false` by default: then each signal is rejected.
    #[serde(default, deserialize_with = "or_default")]
    pub signals: bool,
}

impl Offer {
    /// Returns an offer of this many slots, with a grace of 30 s, without signals.
    pub fn new(slots: u32) -> Self {
        Self {
            slots,
            reads: one(),
            grace_ms: grace(),
            signals: false,
        }
    }
}

/// The answer to [`Register`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Registered {
    /// The name by which the paths of further requests call the worker.
    pub worker: NodeName,
    /// The version of the protocol that is spoken: the greatest that both know.
    pub protocol: u32,
    /// What else the server can do: `waited`, to return the results of the tasks that a run has waited for.
    pub features: Vec<String>,
    /// How long after the last renewal the lease ends, in milliseconds.
    pub ttl_ms: u64,
    /// The most that an exchange may wait, in milliseconds: a quarter of `ttl_ms`.
    pub wait_ms: u64,
    /// The number of the last request that the store knows: further requests have greater numbers. 0 for a new lease.
    pub seq: u64,
    /// The time of the server, for operators.
    pub now: Timestamp,
    /// Addresses of the servers of the namespace. Any of them takes the next request.
    pub servers: Vec<String>,
}

/// A worker renews its lease, says what it runs, and asks for work.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Exchange {
    /// The secret of the worker.
    pub secret: String,
    /// The number of the request, greater than that of every earlier exchange and report.
    pub seq: u64,
    /// Every request up to this number was answered, or its answer is not awaited any more.
    #[serde(default, deserialize_with = "or_default")]
    pub settled: u64,
    /// Every claim that the worker has: all of them, each time.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(feature = "schema", schemars(length(max = 2_000)))]
    pub held: Vec<Held>,
    /// Kinds for which no tasks are wanted now.
    #[serde(default, deserialize_with = "or_default")]
    pub pause_kinds: Vec<Kind>,
    /// How long the server may wait for something to answer, at most a quarter of the TTL; 0 by default. Use 0 after a
    /// failure.
    #[serde(default, deserialize_with = "or_default")]
    pub wait_ms: u64,
}

/// A claim that a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "HeldRun"))]
#[non_exhaustive]
pub struct Held {
    /// The task.
    pub id: TaskId,
    /// The fence of the claim.
    pub fence: Fence,
    /// The run, as its start had it.
    pub run: u64,
    /// What the worker does with it.
    #[serde(default, deserialize_with = "or_default")]
    pub phase: RunPhase,
    /// The order of the last command that the handler has received; 0 for none.
    #[serde(default, deserialize_with = "or_default")]
    pub took: u64,
}

impl Held {
    /// Returns a run that goes on.
    pub fn new(id: TaskId, fence: Fence, run: u64) -> Self {
        Self {
            id,
            fence,
            run,
            phase: RunPhase::Running,
            took: 0,
        }
    }
}

/// What a worker does with a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunPhase {
    /// The handler runs, or is about to start.
    #[default]
    Running,
    /// The handler was asked to stop.
    Stopping,
    /// The handler has ended, and no server has answered the report of that yet.
    Ended,
}

/// The answer to [`Exchange`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Exchanged {
    /// The number of the last exchange that has renewed the lease. The handlers are to stop at 80 % of the TTL after the
    /// moment when that exchange was sent.
    pub renewed_seq: u64,
    /// Runs to start. A run that the worker has or had is not started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Start>,
    /// Runs that are to end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<Stop>,
    /// Commands and signals that do not end a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signalled>,
    /// Claims that the worker no longer has: abort their handlers, and report nothing more of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// Whether the worker gets no further tasks, because an operator drains it or has frozen it.
    #[serde(default)]
    pub drain: bool,
    /// Addresses of the servers of the namespace, when they may have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}

/// The signal that a task has waited for before a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "AwaitedSignalOfRun"))]
#[non_exhaustive]
pub struct Awaited {
    /// The name of the signal.
    pub name: String,
    /// Whether the deadline of the wait (`until` of the sleep) had passed when the wait ended.
    pub expired: bool,
}

/// A run to start: its name is `id`, `fence` and `run`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RunToStart"))]
#[non_exhaustive]
pub struct Start {
    /// The task.
    pub id: TaskId,
    /// The fence of the claim.
    pub fence: Fence,
    /// The version of the state from which the run starts. A greater one replaces an earlier run of the same claim.
    pub run: u64,
    /// The time when the server sent the run, by the clock by which it judges wake-ups.
    pub now: Timestamp,
    /// The kind of the task.
    pub kind: Kind,
    /// The props of the task: any JSON.
    pub props: Json,
    /// The data that the task has kept: any JSON; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
    /// The version of the data.
    pub data_version: u32,
    /// The labels of the task.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Text that travels with the task, such as `traceparent`.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// The attempt, from 1.
    pub attempt: u32,
    /// How often the task was started again after it had ended.
    pub incarnation: u32,
    /// The number of the next report of this claim.
    pub n: u64,
    /// The commands and signals that the handler has from its start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signalled>,
    /// The outcomes of the tasks that it has waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waited: Vec<Waited>,
    /// The signal that it has waited for, as its handler has declared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_signal: Option<Awaited>,
    /// Whether the deadline of the wait before the run has ended that wait: for a signal, or for tasks of which one has not
    /// ended. Every attempt of the run gets the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_expired: bool,
    /// The last error of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ErrorEntry>,
    /// How long the handler may take to return after a stop, in milliseconds.
    pub grace_ms: u64,
    /// In how many milliseconds the task must have ended; absent without a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
}

/// A run that is to end. The worker counts the grace from when it has received the first stop of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RunToStop"))]
#[non_exhaustive]
pub struct Stop {
    /// The task.
    pub id: TaskId,
    /// The fence of the claim.
    pub fence: Fence,
    /// The run.
    pub run: u64,
    /// Why: `command`, `shutdown`, `drain`, `balance`, `stop-task`, `deadline`; `over` for a run whose end is stored.
    pub reason: String,
    /// The order of the command, for `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The message that carries the command out, for `command`: a handler may return it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// How long the handler may take to return, in milliseconds.
    pub grace_ms: u64,
}

/// A command or a signal for a run that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RunSignal"))]
#[non_exhaustive]
pub struct Signalled {
    /// The task.
    pub id: TaskId,
    /// The fence of the claim.
    pub fence: Fence,
    /// The run.
    pub run: u64,
    /// The place of the command in the queue of the task.
    pub order: u64,
    /// The command.
    pub command: Command,
}

/// A claim that a worker no longer has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LostClaim"))]
#[non_exhaustive]
pub struct Lost {
    /// The task.
    pub id: TaskId,
    /// The fence of the claim that is over.
    pub fence: Fence,
}

/// A worker leaves: its lease ends, and its claims are released.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Leave {
    /// The secret of the worker.
    pub secret: String,
}

without_secret!(Register, Exchange, Leave, ReadWaited);
