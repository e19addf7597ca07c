//! `windlass signal`: sends a signal to a task; with `--wait`, waits for the reply of its handler.

use jiff::Timestamp;
use windlass::{
    Client, Command, CommandId, Json, Outcome, Signal, StateKind, TaskId, client::Waiting,
    schedule, statemachine::text::escaped, store::TaskRecord,
};

use super::steer::NoteArgs;
use crate::{
    bulk::{Item, Report},
    exit::{Exit, Failure},
    global::Global,
    hint::quoted,
    input,
    output::Output,
    waiting::{Deadline, WaitArgs, note_unhandled, reported},
};

/// The signal, and whether to wait for its reply.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass signal deploy-7 approve
  windlass signal deploy-7 approve --payload '{\"by\": \"ann\"}' --wait --timeout 1h
  windlass signal poll-3 interval --payload 30 --id interval-2026-11-21")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    task: TaskId,

    /// The name of the signal, as the handler knows it
    #[arg(value_name = "NAME")]
    name: String,

    /// The payload: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,

    /// Set the id of the signal: sending it again with the same id is the same signal
    #[arg(long, value_name = "COMMAND_ID")]
    id: Option<CommandId>,

    #[command(flatten)]
    note: NoteArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

/// Sends the signal. With `--wait` it prints the reply, and nothing else.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?.with_note(args.note.note);
    let out = global.out();
    let mut signal = Signal::new(args.name);
    if let Some(text) = &args.payload {
        signal = signal.with_json(input::json("payload", text)?);
    }
    let command = Command::Signal(signal.clone());
    command.check(client.store().clock().now())?;
    let before = client.get(&args.task).await.ok();
    let sent = match args.id {
        Some(id) => {
            let sent = client.command_with_id(&args.task, &id, command).await;
            sent.map(|()| id)
        }
        None => client.command(&args.task, command).await,
    }?;
    let mut item = Item::done(args.task);
    item.command_id = Some(sent.clone());
    if let Some(text) = before.and_then(|before| ended_wait(&before, client.now())) {
        out.note(format!("note: task '{}' {text}", item.id));
    }
    if let Ok(record) = client.get(&item.id).await {
        note(&client, &out, record, &signal).await;
    }
    if args.wait.wait {
        let what = format!(
            "signal '{sent}' to task '{}' is sent, and has no reply yet; the same command with --id {} waits for it again",
            item.id,
            quoted(sent.as_str())
        );
        let wait = async {
            tokio::select! {
                outcome = client.wait_outcome(&sent) => Ok(outcome?),
                never = report_failures(&client, &item.id, &out) => never,
            }
        };
        let deadline = Deadline::after(args.wait.timeout);
        let outcome = deadline.within(&what, wait).await?;
        if let Some(reply) = reply(&outcome).filter(|_| !out.is_json()) {
            out.line(reply)?;
            return Ok(Exit::Ok);
        }
        item.settle(outcome);
    }
    Report::one("signal", item).print(&out, "signal sent")
}

/// Returns what the signal ends besides a wait for a signal: a task that has not asked for one runs at once.
fn ended_wait(record: &TaskRecord, now: Timestamp) -> Option<String> {
    let state = record.state.as_ref().ok()?;
    if state.awaits_signal().is_some() || record.task.kind.as_str() == schedule::KIND {
        return None;
    }
    match (state.code(), record.skipped(now)) {
        (_, Some(skipped)) => Some(format!(
            "has not asked for a signal: this one runs it at once, and skips {skipped}"
        )),
        (StateKind::Paused, None) => Some(
            "is paused and has not asked for a signal: this one runs it, as a resume does"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Notes why a signal waits, or that it will be rejected.
async fn note(client: &Client, out: &Output, record: TaskRecord, sent: &Signal) {
    if record.task.kind.as_str() == schedule::KIND {
        return out.note(format!(
            "note: '{}' is a schedule, and schedules take no signals: a worker rejects it",
            record.task.id
        ));
    }
    let sent = sent.name();
    if let Ok(state) = &record.state
        && let Some(waits) = state.awaits_signal().filter(|waits| waits.name() != sent)
    {
        out.note(format!(
            "note: the task waits for the signal '{}', and not for '{}': it runs again, and may ignore this one",
            escaped(waits.name()),
            escaped(sent)
        ));
    }
    if record.commands > 0 {
        let kinds = [record.task.kind].into();
        let note = ("the signal waits", "the task gets it when one starts");
        note_unhandled(client, out, &kinds, note).await;
    }
}

/// Prints the failed attempts of a task. Never returns: the outcome of the signal ends the wait.
async fn report_failures<T>(client: &Client, id: &TaskId, out: &Output) -> T {
    let report = |waiting: Waiting| {
        if let Some(text) = reported(&waiting).filter(|_| matches!(waiting, Waiting::Failed(_))) {
            out.note(text);
        }
    };
    // An error of the store ends the wait for the outcome too.
    let _ = client.wait_with(id, report).await;
    std::future::pending().await
}

fn reply(outcome: &Outcome) -> Option<&Json> {
    match outcome {
        Outcome::Answered { reply } => Some(reply),
        _ => None,
    }
}
