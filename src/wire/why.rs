//! [`WhyForm`] and [`TaskWhyForm`]: why tasks are not run, as clients read it.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{
    Kind, TaskState, TaskStatus,
    state::{Pause, Skipped},
};

use crate::{
    client::{NotRun, Pausers, Stats, WaitReason},
    store::{Error, RefusedRows, Standing, TaskRecord},
};

/// Which tasks are not run, and why.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, store::Store, wire::WhyForm};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// client.submit(NewTask::new("report").paused()).await?;
/// let stats = client.stats().await?;
/// let form = WhyForm::new(&stats, client.write_error().await, |one| format!("list --kind {} --state paused", one.of.kind));
/// assert_eq!((form.waiting[0].tasks, form.waiting[0].reason), (1, "paused"));
/// assert_eq!(form.waiting[0].remedy, "list --kind report --state paused");
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Waiting"))]
#[non_exhaustive]
pub struct WhyForm<'a> {
    /// Why the store takes no writes, so that no task makes progress ([`Client::write_error`](crate::Client::write_error));
    /// absent where nothing shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_writes: Option<String>,
    /// The rows of the inbox that were refused: the tasks and commands that they were to make do not exist. Absent without
    /// such a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_rows: Option<RefusedRowsForm>,
    /// The reasons, the one with the most tasks first.
    pub waiting: Vec<WaitingForm<'a>>,
    /// The time for which the numbers hold.
    pub at: Timestamp,
}

/// Tasks of a kind that are not run for the same reason.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "WaitingFor"))]
#[non_exhaustive]
pub struct WaitingForm<'a> {
    /// The kind of the tasks.
    pub kind: &'a Kind,
    /// The name of the reason: one of `windlass list --waits`, `paused` or `quarantined`.
    pub reason: &'static str,
    /// The number of tasks.
    pub tasks: u64,
    /// Whether there may be more: only a part of the tasks was read.
    pub at_least: bool,
    /// The reason in words.
    pub text: String,
    /// Who paused the tasks, those who paused the most first; absent for other reasons, and where no author is known. Only
    /// the last 1,000 paused tasks are read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paused_by: Vec<String>,
    /// The command or the request that shows or resolves it.
    pub remedy: String,
}

/// The rows of the inbox that were refused.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RefusedRows"))]
#[non_exhaustive]
pub struct RefusedRowsForm {
    /// The number of rows.
    pub rows: u64,
    /// Whether there may be more: only a part of the inbox was read.
    pub at_least: bool,
    /// What was refused, in words.
    pub text: String,
    /// The command or the request that shows the rows with the reasons.
    pub remedy: String,
}

impl<'a> WhyForm<'a> {
    /// Returns the form of the numbers. `remedy` says in the program's own terms what shows or resolves a cause.
    /// `no_writes` is why the store takes no writes.
    pub fn new(
        stats: &'a Stats,
        no_writes: Option<Error>,
        remedy: impl Fn(&NotRun<'_>) -> String,
    ) -> Self {
        let form = |one: NotRun<'a>| WaitingForm {
            kind: &one.of.kind,
            reason: one.cause.as_str(),
            tasks: one.tasks,
            at_least: one.at_least,
            text: one.cause.text(),
            paused_by: Vec::new(),
            remedy: remedy(&one),
        };
        Self {
            no_writes: no_writes.map(|error| error.to_string()),
            refused_rows: None,
            waiting: stats.not_run().into_iter().map(form).collect(),
            at: stats.at,
        }
    }

    /// Adds who paused tasks ([`Client::pausers`](crate::Client::pausers)).
    #[must_use]
    pub fn with_pausers(mut self, pausers: Vec<Pausers>) -> Self {
        for Pausers { kind, by } in pausers {
            let is_it = |one: &&mut WaitingForm<'_>| *one.kind == kind && one.reason == "paused";
            let Some(one) = self.waiting.iter_mut().find(is_it) else {
                continue;
            };
            let of_each = |(who, tasks): &(String, u64)| match one.tasks {
                1 => who.clone(),
                _ => format!("{who} ({tasks})"),
            };
            let all: Vec<String> = by.iter().map(of_each).collect();
            one.text = format!("{}; paused by {}", one.text, all.join(", "));
            one.paused_by = by.into_iter().map(|(who, _)| who).collect();
        }
        self
    }

    /// Adds the refused rows of the inbox. `remedy` shows them in the program's own terms.
    #[must_use]
    pub fn with_refused(mut self, rows: &RefusedRows, remedy: impl Into<String>) -> Self {
        self.refused_rows = rows.text().map(|text| RefusedRowsForm {
            rows: rows.rows,
            at_least: rows.at_least,
            text,
            remedy: remedy.into(),
        });
        self
    }
}

/// Why a task is not run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "TaskWhy"))]
#[non_exhaustive]
pub struct TaskWhyForm {
    /// Why the store takes no writes, so that no task makes progress ([`Client::write_error`](crate::Client::write_error));
    /// absent where nothing shows it, and for a token with a scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_writes: Option<String>,
    /// The name of the reason; `null` for a task that is not due, runs, has ended, or will be claimed.
    pub reason: Option<&'static str>,
    /// The reason in words, or what the task does. `null` for a token with a scope that has a reason: it sees neither the
    /// list of the nodes nor other tasks (its tasks name the nodes that had them).
    pub text: Option<String>,
}

impl TaskWhyForm {
    /// Returns the form for a task, with what [`Client::wait_reasons`](crate::Client::wait_reasons) has returned for it, at
    /// this time. `sees_others`: whether the caller may see nodes and other tasks; `sees_errors`: whether it may see the errors of the
    /// task.
    pub fn new(
        record: &TaskRecord,
        reason: Option<&WaitReason>,
        now: Timestamp,
        (sees_others, sees_errors): (bool, bool),
    ) -> Self {
        Self {
            no_writes: None,
            reason: reason.map(|reason| reason.kind().as_str()),
            text: match reason {
                // What a task has declared itself names no other.
                Some(reason @ WaitReason::Signal(_)) => {
                    Some(match paused_by(record, sees_errors) {
                        // An operator has paused it over its wait.
                        Some(by) if by.command.is_some() => format!("{reason}; paused by {by}"),
                        _ => reason.to_string(),
                    })
                }
                Some(reason) => sees_others.then(|| reason.to_string()),
                None => Some(present(record, now, (sees_others, sees_errors))),
            },
        }
    }
}

/// From how long on a task that a node could claim, and none has claimed, is remarked on.
const LATE: Duration = Duration::from_secs(10);

/// Returns the text for a task that no node has claimed in this time although one has room. The store keeps no record of what
/// a node decides by itself, so the text names what may be the cause.
fn not_claimed(late: Duration) -> String {
    format!(
        "no node has claimed it for {} s although one has room: the balancer of a node may delay claims, and after a stop of \
         the task by its node (`stop-task`) that node does not claim it for 30 s",
        late.as_secs()
    )
}

/// Returns what a task does that nothing holds back.
fn present(record: &TaskRecord, now: Timestamp, (sees_nodes, sees_errors): (bool, bool)) -> String {
    let Ok(state) = &record.state else {
        return "its record cannot be read".to_owned();
    };
    let mut present = doing(state, record, now, (sees_nodes, sees_errors));
    if let Some(late) = Standing::of(record, now).late
        && late >= LATE
    {
        present += &format!("; {}", not_claimed(late));
    }
    match state.errors.last() {
        // A task that fails, and one whose nodes are lost one after the other.
        Some(last) if state.attempts > 0 && !state.code().is_terminal() => {
            let failed = match state.attempts {
                1 => "its last attempt has failed".to_owned(),
                many => format!("its last {many} attempts have failed"),
            };
            let error = last.error.lines().next().filter(|_| sees_errors);
            error.map_or_else(
                || format!("{present}; {failed}"),
                |error| format!("{present}; {failed}: {error}"),
            )
        }
        _ => present,
    }
}

/// Returns who paused a paused task. A note is hidden with the texts of errors.
fn paused_by(record: &TaskRecord, sees_errors: bool) -> Option<Pause> {
    let state = record.state.as_ref().ok()?;
    let paused = state.paused.as_deref().cloned();
    let mut by = paused.filter(|_| state.status == TaskStatus::Paused)?;
    by.note = by.note.filter(|_| sees_errors);
    Some(by)
}

/// Returns who paused a task, and what a resume skips. A note is hidden with the texts of errors.
fn paused(record: &TaskRecord, now: Timestamp, (sees_nodes, sees_errors): (bool, bool)) -> String {
    let mut text = "it is paused until it is resumed".to_owned();
    if let Some(by) = paused_by(record, sees_errors) {
        text += &format!("; paused by {by}");
    }
    match record.skipped(now) {
        None => {}
        Some(Skipped::Tasks(_)) if !sees_nodes => {
            text += "; a resume runs it at once and skips its wait for other tasks";
        }
        Some(skipped) => text += &format!("; a resume runs it at once and skips {skipped}"),
    }
    text
}

fn doing(
    state: &TaskState,
    record: &TaskRecord,
    now: Timestamp,
    (sees_nodes, sees_errors): (bool, bool),
) -> String {
    match (&state.status, &record.node) {
        (_, Some(node)) if sees_nodes => format!("node '{node}' has claimed it"),
        (_, Some(_)) => "a node has claimed it".to_owned(),
        (status, None) if record.commands > 0 && !status.code().is_terminal() => {
            "a command waits in its queue, and a node will claim it".to_owned()
        }
        (TaskStatus::Sleeping { until }, None) if *until <= now => {
            format!("its time, {until:.0}, has come, and a node will claim it")
        }
        // Otherwise the tasks that it waits for are the reason.
        (TaskStatus::Sleeping { .. }, None) if state.is_waiting() => {
            "the tasks that it waits for have ended, and a node will claim it".to_owned()
        }
        (TaskStatus::Sleeping { until }, None) => format!("it sleeps until {until:.0}"),
        (TaskStatus::Paused, None) => paused(record, now, (sees_nodes, sees_errors)),
        (TaskStatus::Runnable | TaskStatus::Fault, None) => {
            "it can run, and a node will claim it".to_owned()
        }
        (status, None) => format!("it has ended: {}", status.code()),
    }
}
