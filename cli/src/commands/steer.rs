//! `pause`, `resume`, `sleep`, `release`, `checkpoint`, `complete`, `kill`: commands to tasks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use windlass::{
    Client, Command, Invalid, Kind, Note, StateKind, TaskId,
    statemachine::{state::Skipped, time::LAST},
    store::{Filter, Query, TaskRecord},
};

use crate::{
    bulk::{Item, Report},
    exit::{Exit, Failure},
    global::Global,
    hint::Hint,
    input,
    output::Output,
    parse::{duration, note, time},
    select::{Choice, Remark, SelectArgs, Wanted, is_live},
    waiting::{Deadline, WaitArgs, nodes_for_a_note, note_unhandled},
};

/// Examples of `pause`.
pub(crate) const PAUSE: &str = "\
Examples:
  windlass pause report-7
  windlass pause report-7 --note 'the database moves'
  windlass pause report-7 --wait --timeout 30s
  windlass pause --kind report --label team=billing --dry-run";
/// Examples of `resume`.
pub(crate) const RESUME: &str = "\
Examples:
  windlass resume report-7
  windlass resume --state paused --kind report --yes";
/// Examples of `sleep`.
pub(crate) const SLEEP: &str = "\
Examples:
  windlass sleep poll-3 --for 2h
  windlass sleep poll-3 --until 2030-01-02T03:04:05Z --wait";
/// Examples of `release`.
pub(crate) const RELEASE: &str = "\
Examples:
  windlass release report-7
  windlass release --node build-1 --yes";
/// Examples of `checkpoint`.
pub(crate) const CHECKPOINT: &str = "\
Examples:
  windlass checkpoint report-7 --wait";
/// Examples of `complete`.
pub(crate) const COMPLETE: &str = "\
Examples:
  windlass complete report-7 --result '{\"rows\": 12}'
  windlass complete report-7 --result @result.json --wait";
/// Examples of `kill`.
pub(crate) const KILL: &str = "\
Examples:
  windlass kill report-7 --wait
  windlass kill --state runnable --prefix report- --dry-run
  windlass kill --error 'no such host' --yes";

/// The tasks, and whether to wait.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    note: NoteArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Why a command is sent.
#[derive(Debug, clap::Args)]
pub(crate) struct NoteArgs {
    /// Why: one line of up to 500 bytes. It stays with the command; 'list', 'get' and the history show it
    #[arg(long, value_name = "TEXT", value_parser = note)]
    pub(crate) note: Option<Note>,
}

/// The tasks, and until when.
#[derive(Debug, clap::Args)]
pub(crate) struct SleepArgs {
    #[command(flatten)]
    tasks: Args,
    #[command(flatten)]
    when: When,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct When {
    /// Sleep until this time (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone)
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,

    /// Sleep for this long from now: 90s, 15m, 1h30m, 7d
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    span: Option<Duration>,
}

/// The tasks, and with which result.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    tasks: Args,
    /// The result: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
}

/// Sends sleep.
pub(crate) async fn sleep(args: SleepArgs, global: &Global) -> Result<Exit, Failure> {
    let until = match (args.when.until, args.when.span) {
        (Some(until), _) => until,
        (None, Some(Duration::ZERO)) => {
            let reason = "is too short; give a longer one, or run the tasks now with `resume`";
            return Err(Invalid::new("--for", reason).into());
        }
        (None, span) => after(Timestamp::now(), span.unwrap_or_default(), "--for")?,
    };
    execute(Command::Sleep { until }, args.tasks, global).await
}

/// Returns the sum of a time and a duration.
pub(crate) fn after(
    now: Timestamp,
    wait: Duration,
    field: &'static str,
) -> Result<Timestamp, Invalid> {
    SignedDuration::try_from(wait)
        .ok()
        .and_then(|wait| now.checked_add(wait).ok())
        .ok_or_else(|| Invalid::new(field, format!("ends beyond {LAST}; give a shorter time")))
}

/// Sends complete.
pub(crate) async fn complete(args: CompleteArgs, global: &Global) -> Result<Exit, Failure> {
    let result = args
        .result
        .as_deref()
        .map(|r| input::json("result", r))
        .transpose()?;
    execute(Command::Complete { result }, args.tasks, global).await
}

/// Sends a command to the matching tasks.
pub(crate) async fn execute(
    command: Command,
    args: Args,
    global: &Global,
) -> Result<Exit, Failure> {
    let client = global.existing().await?.with_note(args.note.note);
    let out = global.out();
    let action = command.kind().as_str();
    command.check(client.store().clock().now())?;
    let wanted = Wanted {
        takes: is_live,
        remark: remark(&command),
    };
    let choice = (args.select).choose_wanted(&client, &out, action, wanted);
    let ids = match choice.await? {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let mut skips = BTreeMap::new();
    if wanted.remark.is_some() && !args.select.ids().is_empty() {
        skips = note_skipped(&client, (&out, &global.hint()), &command, &ids).await;
    }
    let bar = out.progress(ids.len() as u64, action);
    let mut report = Report::run(action, ids, &bar, |ids| {
        let (client, command) = (&client, command.clone());
        async move {
            match client.command_many(&ids, command).await {
                Ok(answers) => answers.into_iter().map(|a| a.map(Some)).collect(),
                Err(e) => ids.iter().map(|_| Err(e.clone())).collect(),
            }
        }
    })
    .await;
    for task in report.tasks.iter_mut().filter(|t| t.error.is_none()) {
        task.skips = skips.remove(&task.id);
    }
    note_waiting(&client, &out, &report).await;
    if args.wait.wait {
        settle(&client, &out, &mut report.tasks, args.wait.timeout, action).await;
    }
    report.print(&out, &format!("{action} sent"))
}

/// How many named tasks are read at once for notes about them.
const READ: usize = 1000;

/// Returns what is noted of the tasks of a filter before a command: that a run skips what they wait for.
fn remark(command: &Command) -> Option<Remark> {
    let text = match command {
        Command::Pause => {
            "sleep until a time, or wait for tasks or a signal: a resume will run them at once"
        }
        Command::Run => {
            "slept until a time, or wait for tasks or a signal: the resume runs them at once"
        }
        _ => return None,
    };
    let concerns = match command {
        Command::Pause => |record: &TaskRecord, now| record.skipped(now).is_some(),
        _ => |record: &TaskRecord, now| is_noted(record, now),
    };
    Some(Remark { concerns, text })
}

/// Returns whether a resume skips more than the sleep that it is to end.
fn is_noted(record: &TaskRecord, now: Timestamp) -> bool {
    let sleeps = matches!(&record.state, Ok(state) if state.code() == StateKind::Sleeping);
    match record.skipped(now) {
        Some(Skipped::Time(_)) => !sleeps,
        skipped => skipped.is_some(),
    }
}

/// Notes what a run of the named tasks skips: now, or when a resume follows this pause. Returns it for each task.
async fn note_skipped(
    client: &Client,
    (out, hint): (&Output, &Hint),
    command: &Command,
    ids: &[TaskId],
) -> BTreeMap<TaskId, String> {
    let mut skips = BTreeMap::new();
    for some in ids.chunks(READ) {
        let filter = Filter::new().ids(some.iter().cloned());
        let query = Query::new(filter).limit(READ as u32).without_props();
        let Ok(page) = client.page(&query, None).await else {
            out.note("note: what a resume skips could not be read");
            return skips;
        };
        let now = client.now();
        let is_pause = *command == Command::Pause;
        for record in &page.tasks {
            let id = &record.task.id;
            let skipped = record.skipped(now);
            let Some(skipped) = skipped.filter(|_| is_pause || is_noted(record, now)) else {
                continue;
            };
            out.note(match is_pause {
                true => format!(
                    "note: task '{id}': a resume will run it at once and skip {skipped}{}",
                    sleep_again(hint, id, skipped)
                ),
                false => format!("note: task '{id}' runs at once and skips {skipped}"),
            });
            skips.insert(id.clone(), skipped.to_string());
        }
    }
    skips
}

/// Returns how a paused task sleeps again; empty for one that did not sleep until a time.
fn sleep_again(hint: &Hint, id: &TaskId, skipped: Skipped<'_>) -> String {
    sleep_line(hint, id, skipped).map_or_else(String::new, |line| {
        format!("; `{line}` lets it sleep again")
    })
}

/// Returns the command that lets a paused task sleep again until its time.
pub(crate) fn sleep_line(hint: &Hint, id: &TaskId, skipped: Skipped<'_>) -> Option<String> {
    match skipped {
        Skipped::Time(until) => Some(hint.on_task(&format!("sleep --until {until}"), id)),
        _ => None,
    }
}

/// Notes the kinds for which no live node applies commands.
async fn note_waiting(client: &Client, out: &Output, report: &Report) {
    let (action, tasks) = (report.action, &report.tasks);
    let Some(nodes) = nodes_for_a_note(client).await else {
        return;
    };
    if nodes.iter().any(|n| n.spec.kinds.is_none()) {
        return;
    }
    let mut kinds: BTreeSet<Kind> = BTreeSet::new();
    // A few tasks are enough for the note; reading a million would take too long.
    for task in tasks.iter().filter(|t| t.error.is_none()).take(100) {
        if let Ok(record) = client.get(&task.id).await
            && record.commands > 0
        {
            kinds.insert(record.task.kind);
        }
    }
    let waits = format!("the {action} waits");
    note_unhandled(
        client,
        out,
        &kinds,
        (&waits, "it takes effect when one starts"),
    )
    .await;
}

/// Waits for the outcomes.
async fn settle(
    client: &Client,
    out: &Output,
    tasks: &mut [Item],
    timeout: Option<Duration>,
    action: &str,
) {
    let bar = out.progress(tasks.len() as u64, "waiting");
    let deadline = Deadline::after(timeout);
    futures::stream::iter(tasks.iter_mut())
        .for_each_concurrent(64, |task| {
            let bar = bar.clone();
            async move {
                if let Some(id) = task.command_id.clone() {
                    let what = format!("{action} is sent, and has no outcome yet");
                    let wait = async { Ok(client.wait_outcome(&id).await?) };
                    match deadline.within(&what, wait).await {
                        Ok(outcome) => task.settle(outcome),
                        Err(failure) => {
                            task.error = Some(failure.to_string());
                            task.exit = failure.exit();
                        }
                    }
                }
                bar.inc(1);
            }
        })
        .await;
    bar.finish_and_clear();
}
