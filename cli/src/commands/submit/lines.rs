//! `windlass submit --lines`: tasks as JSON lines.

use std::{collections::BTreeSet, io::BufRead};

use futures::StreamExt;
use serde::Serialize;
use windlass::{
    Client, Invalid, Kind, TaskId,
    client::Waiting,
    statemachine::wire::TaskForm,
    store::{Limits, Submit},
};

use super::{args::Args, missing};
use crate::{
    bulk::CHUNK,
    exit::{Exit, Failure},
    global::Global,
    input::next_line,
    kept::Kept,
    line,
    missed::{self, missed},
    order::Order,
    output::Output,
    select::count,
    waiting::{Deadline, ended, note_unhandled, reported},
};

/// The outcome of the lines.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// How many tasks are new.
    submitted: usize,
    /// How many tasks existed already; with `--replace-waiting`, how many waited and have the new props and time.
    existing: usize,
    /// The lines that were not submitted.
    failed: Vec<Bad>,
    /// The tasks of the other lines, in their order.
    ids: Vec<TaskId>,
    /// How many of the tasks have completed, with `--wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<usize>,
    #[serde(skip)]
    kinds: BTreeSet<Kind>,
    /// How many of the new tasks have missed a deadline.
    #[serde(skip)]
    missed: usize,
    /// Whether the existing tasks waited, and have the props and times of their lines (`--replace-waiting`).
    #[serde(skip)]
    replaces: bool,
    /// Whether the tasks that the lines wait for need not exist (`--allow-missing`).
    #[serde(skip)]
    allow_missing: bool,
    /// What the replaced tasks keep.
    #[serde(skip)]
    kept: Kept,
    /// Whether a task starts later, or waits for others.
    #[serde(skip)]
    is_later: bool,
    #[serde(skip)]
    exits: BTreeSet<u8>,
}

/// A line that was not submitted.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Bad {
    /// The number of the line, from 1.
    line: u64,
    /// Why.
    error: String,
}

impl Report {
    fn fail(&mut self, out: &Output, line: u64, failure: &Failure) {
        let error = failure.to_string();
        out.complain(format!("line {line}: {error}"));
        self.failed.push(Bad { line, error });
        self.exits.insert(failure.exit().code());
    }

    /// Fails the lines whose tasks wait for a task that does not exist, and takes them out.
    async fn refuse_missing(
        &mut self,
        client: &Client,
        out: &Output,
        batch: &mut Vec<(u64, Submit)>,
    ) -> Result<(), Failure> {
        let submits = batch.iter().map(|(_, submit)| submit);
        let missing = missing(client, submits, self.allow_missing).await?;
        let lines = std::mem::take(batch).into_iter();
        for (line, missing) in lines.zip(missing) {
            match missing {
                Some(failure) => self.fail(out, line.0, &failure),
                None => batch.push(line),
            }
        }
        Ok(())
    }

    /// Submits the lines that were read. Each has its own result.
    async fn flush(
        &mut self,
        client: &Client,
        out: &Output,
        batch: &mut Vec<(u64, Submit)>,
    ) -> Result<(), Failure> {
        self.refuse_missing(client, out, batch).await?;
        let now = client.store().clock().now();
        let lines: Vec<(u64, Kind, bool)> = batch
            .iter()
            .map(|(line, s)| (*line, s.task.kind.clone(), missed(&s.task, now).is_some()))
            .collect();
        let mut tasks = batch.iter().map(|(_, submit)| &submit.task);
        self.is_later |= tasks.any(|task| task.waits.is_some() || task.start_at > Some(now));
        let submits: Vec<Submit> = batch.drain(..).map(|(_, submit)| submit).collect();
        let replacing = match self.replaces {
            true => submits.clone(),
            false => Vec::new(),
        };
        let mut replacing = replacing.into_iter();
        for ((line, kind, is_late), answer) in
            lines.into_iter().zip(client.submit_many(submits).await)
        {
            let submit = replacing.next();
            match answer {
                Ok(submitted) => {
                    match submitted.is_new() {
                        true => {
                            self.submitted += 1;
                            self.missed += usize::from(is_late);
                        }
                        false => self.existing += 1,
                    }
                    if let Some(submit) = submit.filter(|_| !submitted.is_new()) {
                        self.kept.add(client, &submit, submitted.id()).await;
                    }
                    self.ids.push(submitted.into_id());
                    self.kinds.insert(kind);
                }
                Err(e) => {
                    let failure = Failure::from(e);
                    self.fail(out, line, &failure);
                    if failure.exit() == Exit::Store {
                        // The store is gone: the next lines would fail too.
                        return Err(Failure::Store("the rest was not submitted".into()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Submits the lines. Ends at the first invalid line unless `--keep-going`: the lines before it
/// have been submitted, and none after it.
pub(crate) async fn execute(
    mut lines: Box<dyn BufRead>,
    default: &TaskForm,
    args: &Args,
    global: &Global,
) -> Result<Exit, Failure> {
    let client = global.lasting().await?;
    let out = global.out();
    let limit = client.store().registry().limits().max_bytes;
    let mut report = Report {
        replaces: args.replace_waiting,
        allow_missing: args.allow_missing,
        ..Report::default()
    };
    let mut batch = Vec::with_capacity(CHUNK);
    let (mut number, mut bytes) = (0, 0);
    let mut order = Order::default();
    let mut stopped = false;
    let spinner = out.count_up("submitted");
    loop {
        let line = next_line(&mut *lines)
            .map_err(|e| Failure::Usage(format!("lines: line {}: {e}", number + 1)))?;
        let Some(line) = line else { break };
        number += 1;
        let read = line.and_then(|text| {
            if text.trim().is_empty() {
                return Ok(None);
            }
            let line = line::parse(&text)?;
            let has_id = line.id.is_some();
            let submit = args.submit(line::new_task(line.or(default))?, &out)?;
            order.check(number, &submit.task, has_id)?;
            submit.task.check(limit)?;
            Ok::<_, Invalid>(Some(submit))
        });
        match read {
            Ok(None) => {}
            Ok(Some(submit)) => {
                bytes += submit.task.props.len();
                batch.push((number, submit));
            }
            Err(e) => {
                report.flush(&client, &out, &mut batch).await?;
                report.fail(&out, number, &e.into());
                if !args.keep_going {
                    stopped = true;
                    break;
                }
            }
        }
        if batch.len() == CHUNK || bytes >= Limits::WRITE_BYTES {
            spinner.inc(batch.len() as u64);
            bytes = 0;
            report.flush(&client, &out, &mut batch).await?;
        }
    }
    report.flush(&client, &out, &mut batch).await?;
    spinner.finish_and_clear();
    if stopped {
        out.note("nothing after that line was submitted; --keep-going continues");
    }
    let notes = [missed::note(report.missed), report.kept.note()];
    notes.into_iter().flatten().for_each(|note| out.note(note));
    let all_fail = report.missed > 0 && report.missed == report.submitted + report.existing;
    let then = match (all_fail, report.is_later) {
        (true, _) => "they fail when one starts",
        (false, false) => "they run when one starts",
        (false, true) => {
            "they run once one has started: those with a later start or a wait after it"
        }
    };
    note_unhandled(&client, &out, &report.kinds, ("queued", then)).await;
    if args.wait.wait {
        wait(
            &client,
            &out,
            &mut report,
            Deadline::after(args.wait.timeout),
        )
        .await;
    }
    print(&out, &report)?;
    Ok(match (report.exits.len(), report.exits.first()) {
        (0, _) => Exit::Ok,
        // An invalid line that ended the command is bad input; otherwise some lines of many failed.
        (1, Some(code)) if stopped || report.ids.is_empty() => Exit::from_code(*code),
        _ => Exit::No,
    })
}

async fn wait(client: &Client, out: &Output, report: &mut Report, deadline: Deadline) {
    let bar = &out.progress(report.ids.len() as u64, "ended");
    let mut completed = 0;
    let mut answers = futures::stream::iter(report.ids.clone())
        .map(|id| async move {
            let report = |waiting: Waiting| match reported(&waiting) {
                // With many tasks only failures are printed, not waits for a slot.
                Some(text) if matches!(waiting, Waiting::Failed(_)) => {
                    bar.suspend(|| out.note(format!("{id}: {text}")));
                }
                _ => {}
            };
            let ended = ended(client, &id, deadline, report).await;
            (ended, id)
        })
        .buffer_unordered(64);
    while let Some((answer, id)) = answers.next().await {
        bar.inc(1);
        match answer {
            Ok(done) if done.is_completed() => completed += 1,
            Ok(done) => {
                let why = done.error().map_or(String::new(), |e| format!(": {e}"));
                out.complain(format!("{id}: {}{why}", done.code()));
                report.exits.insert(Exit::No.code());
            }
            Err(failure) => {
                out.complain(&failure);
                report.exits.insert(failure.exit().code());
            }
        }
    }
    bar.finish_and_clear();
    report.completed = Some(completed);
}

fn print(out: &Output, report: &Report) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(report);
    }
    let existing = match report.replaces {
        true => "replaced",
        false => "were there already",
    };
    let mut text = format!("{} submitted", count(report.submitted));
    for (n, what) in [
        (Some(report.existing).filter(|n| *n > 0), existing),
        (
            Some(report.failed.len()).filter(|n| *n > 0),
            "not submitted",
        ),
        (report.completed, "completed"),
    ] {
        if let Some(n) = n {
            text.push_str(&format!(", {n} {what}"));
        }
    }
    out.line(text)
}
