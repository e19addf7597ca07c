//! `windlass submit`: one task, or many as JSON lines.

mod args;
mod lines;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;
use windlass::{
    StateKind,
    client::{Done, Waiting},
};

pub(crate) use self::args::Args;
use crate::{
    exit::{Exit, Failure},
    global::Global,
    input,
    line::TaskLine,
    text::one_line,
    waiting::{Deadline, ended, note_unhandled, reported},
};

/// Submits the tasks.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    // Invalid options are reported before a store is opened.
    if args.lines.as_deref() == Some("-") && args.props.as_deref() == Some("-") {
        let text = "--lines and --props cannot both read standard input; put one into a file";
        return Err(Failure::Usage(text.into()));
    }
    let task = args.task(Timestamp::now())?;
    if let Some(path) = &args.lines {
        let lines = input::lines("lines", path)?;
        return lines::execute(lines, &task, &args, global).await;
    }
    let out = global.out();
    let submit = args.submit(task.into_task(&TaskLine::default())?, &out)?;
    let (id, kind) = (submit.task.id.clone(), submit.task.kind.clone());
    let client = global.lasting().await?;
    let answer = client.submit(submit).await?;
    if !out.is_json() {
        out.line(&id)?;
    }
    let is_over = answer.existing().is_some_and(StateKind::is_terminal);
    if !is_over {
        note_unhandled(
            &client,
            &out,
            &BTreeSet::from([kind]),
            ("queued", "it runs"),
        )
        .await;
    }
    let done = if args.wait.wait {
        let report = |waiting: Waiting| {
            if let Some(text) = reported(&waiting) {
                out.note(text);
            }
        };
        let deadline = Deadline::after(args.wait.timeout);
        Some(ended(&client, &id, deadline, report).await?)
    } else {
        None
    };
    if out.is_json() {
        let existing = answer.existing();
        let submitted = if answer.is_new() { "new" } else { "existing" };
        out.json(&json!({
            "id": id,
            "submitted": submitted,
            "state": done.as_ref().map(Done::code).or(existing),
            "result": done.as_ref().and_then(Done::result_json),
            "error": done.as_ref().filter(|d| !d.is_completed()).and_then(Done::error),
        }))?;
    } else if let Some(done) = &done {
        match (
            done.result_json(),
            done.error().filter(|_| !done.is_completed()),
        ) {
            (Some(result), _) => out.line(format!("{}: {result}", done.code()))?,
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
