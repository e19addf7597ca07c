//! `windlass watch`: prints changes as they happen.

use std::{collections::HashMap, time::Duration};

use futures::StreamExt;
use serde::Serialize;
use windlass::{
    Client, Command, FailedAttempt, StateKind, TaskId,
    store::{Change, ChangeKind, ChangeStream, Error, Filter, Query},
};

use crate::{
    exit::{Exit, Failure},
    filters::{KindFilter, kind_filter},
    global::Global,
    parse::{self, duration},
    remedy::last_error,
    text::one_line,
    view::change_text,
    waiting::Deadline,
};

/// Which changes to print.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass watch
  windlass watch --kind report
  windlass watch --kind 'inbox/*'
  windlass watch report-7 --until-ended --timeout 10m
  windlass watch --after 1200 -o json | jq 'select(.what == \"moved\")'")]
pub(crate) struct Args {
    /// Only this task
    #[arg(value_name = "ID")]
    id: Option<TaskId>,

    /// Only tasks of this kind; 'inbox/*' for every kind that begins with inbox/. Tasks that were deleted before the watch
    /// could read their kind are left out
    #[arg(long, value_name = "KIND", value_parser = kind_filter, conflicts_with = "id")]
    kind: Option<KindFilter>,

    /// Begin after the change with this number, instead of now
    #[arg(long, value_name = "SEQ", value_parser = parse::from_zero::<u64>)]
    after: Option<u64>,

    /// End after N changes
    #[arg(long, value_name = "N", value_parser = parse::from_one::<u64>)]
    limit: Option<u64>,

    /// End when the task has ended: exit code 0 if it completed, 1 if not
    #[arg(long, requires = "id")]
    until_ended: bool,

    /// End after this time (30s, 5m, …) with exit code 5
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

/// Prints the changes.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let deadline = Deadline::after(args.timeout);
    deadline
        .within("the watch ended", follow(&args, global, &client))
        .await
}

async fn follow(args: &Args, global: &Global, client: &Client) -> Result<Exit, Failure> {
    let out = global.out();
    let mut after = args.after;
    let mut left = args.limit;
    let mut changes = changes_of(args, client, after).await?;
    // The number of the change that ended the task, if its history is printed up to it.
    let mut ended_by = 0;
    if let Some(id) = &args.id {
        // The stream has already started, so the end is seen either here or there.
        let record = client.get(id).await?;
        let code = record.state.as_ref().map(windlass::TaskState::code);
        if args.until_ended && code.as_ref().map_or(true, |c| c.is_terminal()) {
            ended_by = last_end(client, id).await?;
            if after.is_none_or(|after| after >= ended_by) {
                return Ok(ended(code.ok()));
            }
        }
    }
    loop {
        match changes.next().await {
            Some(Ok(batch)) => {
                let is_shown =
                    |change: &&Change| args.id.as_ref().is_none_or(|id| *id == change.task);
                let versions = versions(client, batch.iter().filter(is_shown)).await;
                for change in &batch {
                    after = Some(change.seq);
                    if !is_shown(&change) {
                        continue;
                    }
                    let version = versions.get(&change.task).copied();
                    if out.is_json() {
                        let error = error_of(client, change).await;
                        out.json(&Line {
                            change,
                            error,
                            version,
                        })?;
                    } else {
                        let more = match command_of(client, change).await {
                            None => error_of(client, change).await,
                            command => command,
                        };
                        let more = more.map_or(String::new(), |e| format!(": {}", one_line(&e)));
                        let version =
                            version.map_or(String::new(), |v| format!(", now version {v}"));
                        out.line(format!("{}{version}{more}", change_text(change, true)))?;
                    }
                    left = left.map(|n| n - 1);
                    let may_end = args.until_ended && change.seq >= ended_by;
                    if let Some(exit) = end(change).filter(|_| may_end) {
                        return Ok(exit);
                    }
                    if left == Some(0) {
                        return Ok(Exit::Ok);
                    }
                }
            }
            Some(Err(e @ Error::Invalid(_))) => return Err(e.into()),
            Some(Err(_)) | None => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                changes = changes_of(args, client, after).await?;
            }
        }
    }
}

/// Returns the changes of the namespace, or of one kind.
async fn changes_of(
    args: &Args,
    client: &Client,
    after: Option<u64>,
) -> Result<ChangeStream, Error> {
    match &args.kind {
        Some(KindFilter::Is(kind)) => client.changes_of_kind(kind.clone(), after).await,
        Some(KindFilter::Begins(prefix)) => client.changes_of_kinds(prefix, after).await,
        None => client.changes(after).await,
    }
}

/// A change of a task.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Line<'a> {
    #[serde(flatten)]
    change: &'a Change,
    /// The error of a failed attempt, of a `moved` by `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The version of the task when the line was printed, for a guard. Absent when the task was deleted, or its state
    /// cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

/// How many tasks are read at once.
const READ: usize = 500;

/// Returns the present versions of the tasks of these changes.
async fn versions<'a>(
    client: &Client,
    changes: impl Iterator<Item = &'a Change>,
) -> HashMap<TaskId, u64> {
    let mut ids: Vec<TaskId> = changes.map(|change| change.task.clone()).collect();
    ids.sort();
    ids.dedup();
    let mut versions = HashMap::new();
    for ids in ids.chunks(READ) {
        let mut filter = Filter::new();
        filter.ids = ids.to_vec();
        let query = Query::new(filter).without_props().limit(READ as u32);
        // Without them the changes are printed all the same.
        let tasks = client.page(&query, None).await.map(|page| page.tasks);
        for record in tasks.unwrap_or_default() {
            if let Ok(state) = record.state {
                versions.insert(record.task.id, state.version);
            }
        }
    }
    versions
}

/// Returns the number of the last change that ended a task; 0 when its history does not have it.
async fn last_end(client: &Client, id: &TaskId) -> Result<u64, Error> {
    let history = client.store().registry().history(id, HISTORY).await?;
    let last = history.iter().rev().find(|change| end(change).is_some());
    Ok(last.map_or(0, |change| change.seq))
}

/// Only a few changes follow the end of a task: commands that are rejected.
const HISTORY: u32 = 64;

/// Returns the name of a command that was sent, with its note; the change itself contains only its number.
async fn command_of(client: &Client, change: &Change) -> Option<String> {
    let ChangeKind::Commanded { command: order } = change.what else {
        return None;
    };
    let sent = client.commands(&change.task).await.ok()?;
    let sent = sent.into_iter().find(|sent| sent.order == order)?;
    let name = match &sent.command {
        Command::Signal(signal) => format!("signal '{}'", signal.name()),
        command => command.kind().to_string(),
    };
    Some(match &sent.note {
        Some(note) => format!("{name} ({note})"),
        None => name,
    })
}

/// Returns the error text of a failed attempt; the change itself contains only states.
async fn error_of(client: &Client, change: &Change) -> Option<String> {
    if !matches!(
        &change.what,
        ChangeKind::Moved {
            to: StateKind::Fault | StateKind::Failed,
            ..
        }
    ) {
        return None;
    }
    let record = client.get(&change.task).await.ok()?;
    let state = record.state.ok()?;
    // `None` if the task has continued in the meantime.
    let state = Some(state).filter(|state| state.since <= change.at)?;
    match change.what {
        ChangeKind::Moved {
            to: StateKind::Failed,
            ..
        } => last_error(&state),
        _ => Some(FailedAttempt::last_of(&state)?.to_string()),
    }
}

/// Returns how the task ended with this change, if it did.
fn end(change: &Change) -> Option<Exit> {
    match &change.what {
        ChangeKind::Moved { to, .. } if to.is_terminal() => Some(ended(Some(*to))),
        ChangeKind::Deleted | ChangeKind::Quarantined => Some(Exit::No),
        _ => None,
    }
}

fn ended(code: Option<StateKind>) -> Exit {
    if code == Some(StateKind::Completed) {
        Exit::Ok
    } else {
        Exit::No
    }
}
