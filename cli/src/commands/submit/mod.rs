//! `windlass submit`: one task, or many as JSON lines.

mod args;
pub(crate) mod lines;
pub(crate) mod tip;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use windlass::{
    Client, Json, Kind, StateKind, Task, TaskId,
    client::{Done, SameRequest, ToCheck, Waiting},
    store::{Error, IfExists, Submit, TaskRecord},
};

pub(crate) use self::args::Args;
use crate::{
    exit::{Exit, Failure, named_option},
    global::Global,
    input,
    kept::Kept,
    line,
    missed::missed,
    output::Output,
    text::one_line,
    waiting::{Deadline, ended, note_unhandled, reported},
};

/// Returns the failure of a submit. For an id or a unique key that another task has, it says how that task differs, or
/// why it is not replaced.
async fn taken(client: &Client, submit: &Submit, error: Error) -> Failure {
    let task = &submit.task;
    let holder = match &error {
        // The text has it.
        Error::AlreadyExists {
            difference: Some(_),
            ..
        }
        | Error::AlreadyFinished {
            difference: Some(_),
            ..
        } => return error.into(),
        Error::AlreadyExists { .. } | Error::AlreadyFinished { .. } => task.id.clone(),
        Error::NotUnique { task, .. } => task.clone(),
        _ => return error.into(),
    };
    let is_key = matches!(error, Error::NotUnique { .. });
    let Ok(record) = client.get(&holder).await else {
        return error.into();
    };
    if submit.if_exists == IfExists::ReplaceWaiting {
        let why = not_replaced(&record, task);
        return Failure::No(format!("task '{holder}' is not replaced: {why}"));
    }
    if is_key && submit.if_exists != IfExists::Same {
        return error.into();
    }
    let failure = Failure::from(error);
    let other = record.task;
    let differs = other.difference(task);
    let differs = differs.unwrap_or_else(|| "its kind and props are the same".to_owned());
    match failure {
        Failure::No(text) => Failure::No(format!("{text}; {differs}")),
        failure => failure,
    }
}

/// Returns why a submit with `--replace-waiting` does not change this task.
fn not_replaced(record: &TaskRecord, new: &Task) -> String {
    let (task, id) = (&record.task, &record.task.id);
    let code = record.state.as_ref().ok().map(windlass::TaskState::code);
    let again = format!("submit again when it has ended (`windlass wait {id}`)");
    if task.kind.as_str() == Kind::SCHEDULE {
        return format!("it is a schedule; use `windlass schedule update {id}`");
    }
    if task.kind != new.kind {
        return format!("its kind is '{}', not '{}'", task.kind, new.kind);
    }
    match (&record.node, code) {
        (Some(node), _) => format!("node '{node}' has claimed it; {again}"),
        (None, Some(StateKind::Paused)) => {
            format!(
                "it is paused; resume it (`windlass resume {id}`), or submit again when it has ended"
            )
        }
        (None, Some(StateKind::Fault)) => {
            format!("its last attempt failed, and another follows; {again}")
        }
        (None, None) => "its record cannot be read; see `windlass get`".to_owned(),
        (None, Some(_)) => format!("it waits for other tasks; {again}"),
    }
}

/// The result of a submit.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Submitted<'a> {
    /// The task.
    id: &'a TaskId,
    /// `new`, `existing` for a task that existed already, or `replaced` for one that waited and has the new props
    /// and time (`--replace-waiting`).
    submitted: &'static str,
    /// Its state: that of an existing task, or with `--wait` its final state.
    state: Option<StateKind>,
    /// Its result, with `--wait`: any JSON.
    result: Option<&'a Json>,
    /// Why it did not complete, with `--wait`.
    error: Option<&'a str>,
}

/// Submits the tasks.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    // Invalid options are reported before a store is opened.
    if args.lines.as_deref() == Some("-") && args.props.as_deref() == Some("-") {
        let text = "--lines and --props cannot both read standard input; put one into a file";
        return Err(Failure::Usage(text.into()));
    }
    if args.replace_waiting && args.lines.is_none() && args.id.is_none() && args.unique.is_none() {
        let text = "--replace-waiting needs --id or --unique: a new task has an id of its own, and replaces none";
        return Err(Failure::Usage(text.into()));
    }
    let task = args.task(Timestamp::now())?;
    if let Some(path) = &args.lines {
        let lines = input::lines("lines", path)?;
        return lines::execute(lines, &task, &args, global).await;
    }
    let out = global.out();
    let submit = args.submit(line::new_task(task)?, &out)?;
    let (id, kind) = (submit.task.id.clone(), submit.task.kind.clone());
    let client = global.lasting().await?;
    if let Some(failure) = missing(&client, [&submit], args.allow_missing)
        .await?
        .pop()
        .flatten()
    {
        return Err(failure);
    }
    let answer = match client.submit(submit.clone()).await {
        Ok(answer) => answer,
        Err(error) => return Err(taken(&client, &submit, error).await),
    };
    // Another task may have the unique key.
    let other = answer.id();
    if *other != id {
        let what = match args.replace_waiting {
            true => "waits with the unique key, and has the new props and time now",
            false => "has the unique key already; no task was submitted",
        };
        out.note(format!("note: task '{other}' {what}"));
    } else if args.replace_waiting && !answer.is_new() {
        out.note(format!(
            "note: task '{other}' waited already, and has the new props and time now"
        ));
    }
    if args.replace_waiting && !answer.is_new() {
        let mut kept = Kept::default();
        kept.add(&client, &submit, other).await;
        kept.note().into_iter().for_each(|note| out.note(note));
    }
    let id = other.clone();
    if !out.is_json() {
        out.line(&id)?;
    }
    if answer.is_new() {
        note_unknown(&client, &out, &submit.task).await?;
    }
    let is_over = answer.existing().is_some_and(StateKind::is_terminal);
    if submit.task.paused && answer.is_new() {
        out.note(format!(
            "note: the task is paused; `{}` starts it",
            global.hint().on_task("resume", &id)
        ));
    } else if !is_over {
        let kinds = BTreeSet::from([kind.clone()]);
        let missed = missed(&submit.task, client.store().clock().now());
        if let Some(missed) = &missed {
            out.note(format!("note: the task {missed}; it fails without a run"));
        }
        let then = if missed.is_some() {
            "it fails when one starts"
        } else {
            starts(&submit.task, client.store().clock().now())
        };
        let waits = note_unhandled(&client, &out, &kinds, ("queued", then)).await;
        if waits
            && submit.task.props.is_null()
            && let Some(tip) = tip::for_kind(kind.as_str())
        {
            let delete = global.hint().on_task("delete", &id);
            out.note(format!("tip: {tip}; {delete} removes this task"));
        }
    }
    let done = if args.wait.wait {
        let report = |waiting: Waiting| {
            if let Some(text) = reported(&waiting) {
                out.note(text);
            }
        };
        let deadline = Deadline::after(args.wait.timeout);
        let ended = ended(&client, &id, deadline, report).await;
        Some(ended.map_err(|failure| goes_on(failure, &id, global))?)
    } else {
        None
    };
    if out.is_json() {
        let existing = answer.existing();
        let submitted = match (answer.is_new(), args.replace_waiting) {
            (true, _) => "new",
            (false, true) => "replaced",
            (false, false) => "existing",
        };
        out.json(&Submitted {
            id: &id,
            submitted,
            state: done.as_ref().map(Done::code).or(existing),
            result: done.as_ref().and_then(Done::result_json),
            error: done
                .as_ref()
                .filter(|d| !d.is_completed())
                .and_then(Done::error),
        })?;
    } else if let Some(done) = &done {
        match (
            done.result_json(),
            done.error().filter(|_| !done.is_completed()),
        ) {
            (Some(result), _) => out.line(format!(
                "{}: {}",
                done.code(),
                one_line(&result.to_string())
            ))?,
            (None, Some(error)) => {
                out.line(format!("{}: {}", done.code(), one_line(error)))?;
            }
            (None, None) => out.line(done.code())?,
        }
    }
    Ok(if done.is_none_or(|d| d.is_completed()) {
        Exit::Ok
    } else {
        Exit::No
    })
}

/// Returns for each submit the failure for a task that it waits for and that does not exist.
async fn missing<'a>(
    client: &Client,
    submits: impl IntoIterator<Item = &'a Submit>,
    allow_missing: bool,
) -> Result<Vec<Option<Failure>>, Failure> {
    let submits = submits.into_iter().map(|submit| ToCheck {
        submit,
        allow_missing,
    });
    let submits: Vec<_> = submits.collect();
    let waits = submits.iter().any(|one| one.submit.task.waits.is_some());
    if allow_missing || !waits {
        return Ok(submits.iter().map(|_| None).collect());
    }
    let missing = client
        .missing_awaited(&submits, SameRequest::Earlier)
        .await?;
    let failure = |(id, one): (Option<TaskId>, &ToCheck<'_>)| {
        let waits = one.submit.task.waits.as_ref();
        let field = match waits.is_some_and(|waits| waits.ok) {
            true => "after_ok",
            false => "after",
        };
        let named = named_option(field);
        Some(Failure::NotFound(format!(
            "{named}: task '{}' does not exist; check the id (`windlass list` shows the tasks), or give --allow-missing: a \
             missing task counts as ended",
            id?
        )))
    };
    Ok(missing.into_iter().zip(&submits).map(failure).collect())
}

/// Says when a task runs whose kind no node handles yet.
fn starts(task: &Task, now: Timestamp) -> &'static str {
    match (&task.waits, task.start_at.is_some_and(|at| at > now)) {
        (None, false) => "it runs when one starts",
        (None, true) => "it runs at its time, once one has started",
        (Some(_), _) => "it runs after the tasks that it waits for, once one has started",
    }
}

/// Adds to a timeout of the wait how to end the task.
fn goes_on(failure: Failure, id: &TaskId, global: &Global) -> Failure {
    match failure {
        Failure::Timeout(text) => {
            let kill = global.hint().on_task("kill", id);
            Failure::Timeout(format!("{text}; it continues; end it with: {kill}"))
        }
        failure => failure,
    }
}

/// Notes the first missing task that a new task waits for, and a wait that is already over because of its deadline.
async fn note_unknown(client: &Client, out: &Output, task: &Task) -> Result<(), Failure> {
    let Some(waits) = task.waits.as_deref() else {
        return Ok(());
    };
    let follows = match waits.ok {
        true => "this task fails (--after-ok)",
        false => "it counts as ended",
    };
    let now = client.store().clock().now();
    if let Some(deadline) = waits.deadline.filter(|at| *at <= now) {
        out.note(format!(
            "note: --after-deadline, {deadline}, has passed; this task does not wait for the others"
        ));
    }
    for id in &waits.tasks {
        if let Err(Error::NotFound { .. }) = client.get(id).await {
            out.note(format!(
                "note: task '{id}', which this one waits for, does not exist: {follows}"
            ));
            return Ok(());
        }
    }
    Ok(())
}
