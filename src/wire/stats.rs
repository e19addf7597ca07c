//! [`StatsForm`]: the numbers of a namespace's tasks, as clients read them.

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::Kind;

use crate::{
    client::{HeldBack, KindStats, Stats, WaitReason},
    store::{LimitUse, TaskCount},
};

/// How many tasks there are, and which limits they use.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, store::Store, wire::StatsForm};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// client.submit(NewTask::new("report")).await?;
/// let stats = client.stats().await?;
/// let form = StatsForm::new(&stats, |of, reason| format!("list {} --waits {}", of.kind, reason.kind()));
/// assert_eq!((form.tasks, form.kinds[0].available), (1, 1));
/// assert_eq!(form.kinds[0].held_back[0].remedy, "list report --waits no_node");
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Stats"))]
#[non_exhaustive]
pub struct StatsForm<'a> {
    /// The number of tasks.
    pub tasks: u64,
    /// How many of them are claimed.
    pub claimed: u64,
    /// The numbers by kind and state.
    pub counts: &'a [TaskCount],
    /// What can run, and what holds the rest back, by kind.
    pub kinds: Vec<KindForm<'a>>,
    /// The limits that tasks use at present.
    pub limits: &'a [LimitUse],
    /// The time for which the counts hold.
    pub at: Timestamp,
}

/// How many tasks of a kind there are. Each task counts in exactly one of the fields; `held_back` adds why tasks of
/// `available` and `waiting` are not run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "OfKind"))]
#[non_exhaustive]
pub struct KindForm<'a> {
    /// The kind.
    pub kind: &'a Kind,
    /// Tasks that are due, and that no node has claimed.
    pub available: u64,
    /// Tasks that sleep until a later time.
    pub future: u64,
    /// Tasks that wait for other tasks.
    pub waiting: u64,
    /// Tasks that wait for a signal that their handler has declared.
    pub awaiting_signal: u64,
    /// Tasks that are paused for another reason.
    pub paused: u64,
    /// Tasks that a node has claimed.
    pub claimed: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// Tasks whose record cannot be read.
    pub quarantined: u64,
    /// Since when the first available task could be claimed: its due time, or the end of its last claim.
    pub oldest_due: Option<Timestamp>,
    /// The age of `oldest_due`, in whole seconds.
    pub oldest_due_age_seconds: Option<i64>,
    /// Whether an older task may be available: SQLite reads the first 2,000 live tasks in submit order.
    pub oldest_at_least: bool,
    /// Why tasks are not run, the reason with the most tasks first.
    pub held_back: Vec<HeldForm>,
}

/// Tasks of a kind that are not run for the same reason.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Held"))]
#[non_exhaustive]
pub struct HeldForm {
    /// The name of the reason.
    pub reason: &'static str,
    /// The number of tasks.
    pub tasks: u64,
    /// Whether there may be more: only a part of the tasks was read.
    pub at_least: bool,
    /// The reason in words.
    pub text: String,
    /// The command or the request that shows or resolves it.
    pub remedy: String,
}

impl<'a> StatsForm<'a> {
    /// Returns the form of the numbers. `remedy` says in the program's own terms what shows or resolves a reason.
    pub fn new(stats: &'a Stats, remedy: impl Fn(&KindStats, &WaitReason) -> String) -> Self {
        let kinds = stats.kinds.iter();
        Self {
            tasks: stats.counts.iter().map(|count| count.tasks).sum(),
            claimed: stats.counts.iter().map(|count| count.claimed).sum(),
            counts: &stats.counts,
            kinds: kinds
                .map(|of| KindForm::new(of, stats.at, &remedy))
                .collect(),
            limits: &stats.limits,
            at: stats.at,
        }
    }
}

impl<'a> KindForm<'a> {
    fn new(
        of: &'a KindStats,
        now: Timestamp,
        remedy: &impl Fn(&KindStats, &WaitReason) -> String,
    ) -> Self {
        let held = |held: &HeldBack| HeldForm {
            reason: held.reason.kind().as_str(),
            tasks: held.tasks,
            at_least: held.at_least,
            text: held.reason.to_string(),
            remedy: remedy(of, &held.reason),
        };
        Self {
            kind: &of.kind,
            available: of.available,
            future: of.future,
            waiting: of.waiting,
            awaiting_signal: of.awaiting_signal,
            paused: of.paused,
            claimed: of.claimed,
            ended: of.ended,
            quarantined: of.quarantined,
            oldest_due: of.oldest_due,
            oldest_due_age_seconds: of
                .oldest_due
                .map(|due| now.duration_since(due).as_secs().max(0)),
            oldest_at_least: of.oldest_at_least,
            held_back: of.held_back.iter().map(held).collect(),
        }
    }
}
