//! `windlass get`: all details of one task.

use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use windlass::{
    Client, Command, TaskId, TaskState,
    client::WaitReason,
    jiff::Timestamp,
    store::{Change, CommandRecord, Error, Shown, Standing, TaskRecord},
    wire::RecordForm,
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    parse,
    text::one_line,
    view::{age, change_text, claimed_at, due, late_text, progress_text, state_name, text},
};

/// Which task.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass get report-7
  windlass get report-7 --history=50
  windlass get report-7 -o json | jq .result")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: TaskId,

    /// Show its last N changes too
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "100",
        value_parser = parse::from_zero::<u32>)]
    history: Option<u32>,
}

/// A task with its commands, and with its history if requested.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Full<'a> {
    #[serde(flatten)]
    task: RecordForm<'a>,
    /// When its node has claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_at: Option<Timestamp>,
    /// Why it does not run although it could.
    waits: Option<String>,
    /// The deadline that has passed, until a node of its kind fails it.
    missed: Option<String>,
    /// The tasks that it waits for, with their states now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for_now: Vec<Other>,
    /// Its commands, in order.
    commands: &'a [CommandRecord],
    /// Its last changes, oldest first, with `--history`.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<&'a [Change]>,
}

/// Shows it.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let record = client.get(&args.id).await?;
    let commands = client.commands(&args.id).await?;
    let now = client.store().clock().now();
    let others = others(&client, &record).await?;
    let nodes = client.nodes().await?;
    let one = std::slice::from_ref(&record);
    let waits = client.wait_reasons(one, &nodes).await?.pop().flatten();
    let history = match args.history {
        Some(limit) => Some(client.history(&args.id, limit).await?),
        None => None,
    };
    let claimed_at = claimed_at(&client, &record).await?;
    if out.is_json() {
        out.json(&Full {
            task: RecordForm::at(&record, now),
            claimed_at,
            waits: waits.map(|w| w.to_string()),
            missed: missed(&record, now),
            waits_for_now: others,
            commands: &commands,
            history: history.as_deref(),
        })?;
        return Ok(Exit::Ok);
    }
    show(&out, &record, (waits.as_ref(), claimed_at), now)?;
    show_others(&out, &record, &others)?;
    show_commands(&out, &commands)?;
    if let Some(history) = history {
        out.line("\nhistory")?;
        for change in &history {
            out.line(format!("  {}", change_text(change, false)))?;
        }
    }
    Ok(Exit::Ok)
}

fn show(
    out: &Output,
    record: &TaskRecord,
    (waits, claimed_at): (Option<&WaitReason>, Option<Timestamp>),
    now: Timestamp,
) -> Result<(), Failure> {
    let view = RecordForm::at(record, now);
    let standing = Standing::of(record, now);
    let mut lines: Vec<(&str, String)> = vec![
        ("id", record.task.id.to_string()),
        ("kind", record.task.kind.to_string()),
        ("state", state_text(&standing, now)),
    ];
    let mut some = |name, value: Option<String>| lines.extend(value.map(|v| (name, v)));
    some("quarantined", view.quarantined.clone());
    some(
        "wakes",
        view.until.map(|u| format!("{u} ({})", due(u, now))),
    );
    let claimed = claimed_at.map(|at| format!(", for {}", age(at, now)));
    let claimed = claimed.unwrap_or_default();
    some("node", view.node.map(|node| format!("{node}{claimed}")));
    some("waits", waits.map(ToString::to_string));
    some("progress", view.progress.map(progress_text));
    let left = view
        .attempts_left
        .map_or(String::new(), |n| format!(" ({n} left)"));
    let failed = format!(
        "{} failed in a row{left}, {} claim{}",
        view.attempts,
        view.claims,
        if view.claims == 1 { "" } else { "s" }
    );
    some("attempts", Some(failed));
    some(
        "incarnation",
        (view.incarnation > 0).then(|| view.incarnation.to_string()),
    );
    some("fence", Some(view.fence.to_string()));
    some("version", view.version.map(|version| version.to_string()));
    some(
        "submitted",
        Some(format!(
            "{} ({} ago)",
            view.submitted_at,
            age(view.submitted_at, now)
        )),
    );
    // A reschedule and a submit that replaces a waiting task give another time, which `until` has.
    let is_changed = record.state.as_ref().is_ok_and(|s| s.reschedules > 0);
    let start = view.start_at.map(|at| match is_changed {
        true if view.until != Some(at) => format!("{at} (by its submit, changed since)"),
        _ => at.to_string(),
    });
    some("start at", start);
    some(
        "priority",
        (view.priority != 0).then(|| view.priority.to_string()),
    );
    let labels: Vec<_> = view
        .labels
        .iter()
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    some("labels", (!labels.is_empty()).then(|| labels.join(", ")));
    some(
        "retry",
        view.retry.and_then(|r| serde_json::to_string(r).ok()),
    );
    some("start by", view.start_by.map(|at| at.to_string()));
    some("end by", view.end_by.map(|at| at.to_string()));
    some(
        "missed",
        missed(record, now).map(|text| format!("{text}; a node of its kind fails it")),
    );
    some(
        "unique",
        view.unique
            .and_then(|unique| serde_json::to_string(unique).ok()),
    );
    let limits = serde_json::to_string(view.limits).ok();
    some("limits", limits.filter(|_| !view.limits.is_empty()));
    let meta: Vec<_> = view.meta.iter().map(|(n, v)| format!("{n}={v}")).collect();
    some("meta", (!meta.is_empty()).then(|| meta.join(", ")));
    some(
        "props",
        (!view.props.is_null()).then(|| view.props.to_string()),
    );
    some(
        "data",
        view.data
            .filter(|data| !data.is_null())
            .map(ToString::to_string),
    );
    some("result", view.result.map(ToString::to_string));
    some(
        "commands",
        (view.commands_waiting > 0).then(|| format!("{} wait", view.commands_waiting)),
    );
    for (name, value) in lines {
        out.line(format!("{name:<12} {}", one_line(&value)))?;
    }
    if !view.errors.is_empty() {
        out.line(format!("\nerrors ({} in all)", view.errors_total))?;
        for entry in view.errors {
            out.line(format!("  {}  {}", entry.timestamp, one_line(&entry.error)))?;
        }
    }
    Ok(())
}

/// Returns the state in words: `queued for 3m 12s, 3m 12s late`, `paused for 2h by alice: the database moves`.
fn state_text(standing: &Standing<'_>, now: Timestamp) -> String {
    let since = standing
        .since
        .map(|since| format!(" for {}", age(since, now)));
    let late = Some(late_text(standing)).filter(|late| !late.is_empty());
    let late = late.map(|late| format!(", {late}"));
    let by = standing.paused_by.map(|paused| format!(" by {paused}"));
    let parts = [since, late, by].map(Option::unwrap_or_default);
    format!("{}{}", standing.shown, parts.concat())
}

/// Returns the deadline that a task has missed, if no node has noticed it yet.
fn missed(record: &TaskRecord, now: Timestamp) -> Option<String> {
    record.state.as_ref().ok()?.missed(now)
}

/// A task that another task waits for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Other {
    /// The task.
    task: TaskId,
    /// Its state, or `unknown`.
    state: &'static str,
    /// The state as lists show it: `running` or `queued` for a runnable task, otherwise `state`.
    shown: &'static str,
}

/// Returns the tasks that a task waits for, or has waited for, with their present states.
async fn others(client: &Client, record: &TaskRecord) -> Result<Vec<Other>, Failure> {
    let waits = record.state.as_ref().ok().and_then(|s| s.waits.as_deref());
    let tasks = waits.map_or_else(Vec::new, |waits| waits.tasks.clone());
    let read = tasks.into_iter().map(|task| async move {
        let (state, shown) = match client.get(&task).await {
            Ok(record) => (state_name(&record), Shown::of(&record).as_str()),
            Err(Error::NotFound { .. }) => ("unknown", "unknown"),
            Err(error) => return Err(Failure::from(error)),
        };
        Ok(Other { task, state, shown })
    });
    let read = futures::stream::iter(read).buffered(32);
    read.try_collect().await
}

fn show_others(out: &Output, record: &TaskRecord, others: &[Other]) -> Result<(), Failure> {
    let Some(waits) = record.state.as_ref().ok().and_then(|s| s.waits.as_deref()) else {
        return Ok(());
    };
    let waited = if record.state.as_ref().is_ok_and(TaskState::is_waiting) {
        "waits for"
    } else {
        "has waited for"
    };
    let ok = if waits.ok {
        ", each of which has to complete"
    } else {
        ""
    };
    let deadline = waits
        .deadline
        .map(|at| format!(", at the latest until {at}"));
    let deadline = deadline.unwrap_or_default();
    let tasks = match others.len() {
        1 => "1 task".to_owned(),
        more => format!("{more} tasks"),
    };
    out.line(format!("\n{waited} {tasks}{ok}{deadline}"))?;
    for (n, other) in others.iter().enumerate() {
        let at_claim = waits
            .outcomes
            .get(n)
            .filter(|outcome| outcome.as_str() != other.state);
        let at_claim = at_claim.map_or(String::new(), |outcome| {
            format!(" ({outcome} at the claim)")
        });
        out.line(format!("  {}  {}{at_claim}", other.task, other.shown))?;
    }
    Ok(())
}

fn show_commands(out: &Output, commands: &[CommandRecord]) -> Result<(), Failure> {
    if commands.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let rows = commands.iter().map(|c| {
        let outcome = c
            .outcome
            .as_ref()
            .map_or("waits".into(), ToString::to_string);
        vec![
            text(c.order),
            text(named(&c.command)),
            text(c.sent_at),
            text(c.by.as_ref().map_or("", |by| by.as_str())),
            text(c.note.as_ref().map_or("", |note| note.as_str())),
            text(outcome),
        ]
    });
    let header = ["ORDER", "COMMAND", "SENT", "BY", "NOTE", "OUTCOME"];
    out.narrow_table(&header, &["SENT", "BY"], rows.collect())
}

/// Returns the name of a command; for a signal, with the name of the signal.
fn named(command: &Command) -> String {
    match command {
        Command::Signal(signal) => format!("signal {}", signal.name()),
        other => other.kind().to_string(),
    }
}
