//! `windlass apply`: several changes as one transaction.

mod line;
mod wrong;

use std::{collections::HashMap, io::Read};

use jiff::Timestamp;
use serde::Serialize;
use windlass::{
    Client, Invalid, TaskId, TransactionId,
    client::TransactionBuilder,
    store::{
        Applied, Done, Error, Guard, IfExists, Limits, Line, Operation, Part, Submit, Submitted,
    },
    wire::RefusalForm,
};

use self::wrong::Wrong;
#[cfg(test)]
pub(crate) use self::wrong::WrongForm;
use crate::{
    changed_props,
    exit::{Exit, Failure},
    global::Global,
    input::{lines, next_line},
    kept::Kept,
    missed::{self, missed},
    output::Output,
    select::count,
    text::counted,
};

/// The transaction.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line of FILE is an operation or a guard:
  {\"op\":\"submit\",\"id\":\"a\",\"kind\":\"report\",\"props\":{},\"if_exists\":\"refuse\"}
  {\"op\":\"send\",\"task\":\"b\",\"command\":\"sleep\",\"until\":\"in 1h\"}
  {\"op\":\"delete\",\"task\":\"c\",\"force\":true}
  {\"op\":\"retry\",\"task\":\"d\",\"props\":{\"month\":5}}
  {\"op\":\"reschedule\",\"task\":\"e\",\"due\":\"in 5m\",\"priority\":3}
  {\"op\":\"reschedule\",\"task\":\"e\",\"kind\":\"inbox/err\",\"props\":{},\"data\":7}
  {\"op\":\"reschedule\",\"task\":\"e\",\"limits\":[{\"key\":\"api\",\"at_once\":3}]}
  {\"op\":\"require\",\"task\":\"f\",\"exists\":true,\"state\":\"paused\",\"unclaimed\":true}
Guards are exists, state, version, fence, order, kind, unclaimed, data and no_data. if_exists is
refuse, same, replace-finished, replace-waiting or skip.

Examples:
  windlass apply changes.jsonl --dry-run
  windlass apply changes.jsonl --id deploy-7
  generate-changes | windlass apply -")]
pub(crate) struct Args {
    /// A file of JSON lines, or - for standard input: all of them are applied, or none
    #[arg(value_name = "FILE")]
    file: String,

    /// Set the id of the transaction: repeating it within an hour has no further effect; a UUID by
    /// default
    #[arg(long, value_name = "ID")]
    id: Option<TransactionId>,

    /// Check every line against the store and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// How many wrong or refused lines are printed. Further refused lines are only counted.
const SHOWN: usize = 20;

/// The lines of a file, and the line of each part.
#[derive(Default)]
struct Lines {
    operations: Vec<(u64, Operation)>,
    guards: Vec<(u64, Guard)>,
    /// The line with the operation of each task.
    first: HashMap<TaskId, u64>,
}

impl Lines {
    /// Reads a file. Reports the first 20 wrong lines, and counts the others.
    fn read(path: &str, now: Timestamp, out: &Output) -> Result<Self, Failure> {
        let most = Limits::WRITE_BYTES as u64;
        let mut from = lines("FILE", path)?.take(most + 1);
        let mut read = Self::default();
        let mut wrong = Wrong::default();
        for number in 1.. {
            let about = |failure: Failure| failure.about(&format!("line {number}"));
            let line = next_line(&mut from).map_err(|e| about(Failure::file(path, &e)))?;
            if from.limit() == 0 {
                return Err(Failure::Usage(format!(
                    "FILE: {path} has more than {most} bytes, the most of one transaction; nothing was changed; \
                     divide it into several transactions"
                )));
            }
            let Some(line) = line else { break };
            let added = match line {
                Ok(text) if text.trim().is_empty() => continue,
                Ok(text) => read.add(number, line::parse(&text, now)),
                Err(error) => Err(error),
            };
            if let Err(error) = added {
                wrong.add(out, number, error);
            }
        }
        wrong.end(out)?;
        Ok(read)
    }

    /// Refuses the ids of commands that were sent with another content: the store would keep the first ones.
    async fn check_commands(&self, client: &Client, out: &Output) -> Result<(), Failure> {
        let mut named = Wrong::default();
        for (line, operation) in &self.operations {
            if let Operation::Send(send) = operation {
                match client.check_sent(send).await {
                    Ok(()) => {}
                    Err(Error::Invalid(wrong)) => named.add(out, *line, wrong),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        named.end(out)
    }

    /// Refuses props that a task cannot have: those of a line may be for a task that exists.
    async fn check_props(&self, client: &Client, out: &Output) -> Result<(), Failure> {
        let operations = self.operations.iter().map(|(_, operation)| operation);
        let wrong = changed_props::wrong(client, operations).await;
        let mut named = Wrong::default();
        for (at, error) in wrong {
            let line = self.line(Part::Operation(at));
            named.add(out, line, error);
        }
        named.end(out)
    }

    fn add(&mut self, number: u64, line: Result<Line, Invalid>) -> Result<(), Invalid> {
        match line? {
            Line::Operation(operation) => {
                let task = operation.task().clone();
                if let Some(first) = self.first.insert(task, number) {
                    let task = operation.task();
                    let reason = format!(
                        "'{task}' has an operation in line {first} already; give each task at most one in a \
                         transaction"
                    );
                    return Err(Invalid::new("task", reason));
                }
                self.operations.push((number, operation));
            }
            Line::Guards(guards) => {
                let guards = guards.into_iter().map(|guard| (number, guard));
                self.guards.extend(guards);
            }
        }
        Ok(())
    }

    fn transaction(&self, client: &Client, id: Option<TransactionId>) -> TransactionBuilder {
        let mut transaction = client.transaction();
        if let Some(id) = id {
            transaction = transaction.id(id);
        }
        for (_, Guard { task, require }) in &self.guards {
            transaction = transaction.require(task, require.clone());
        }
        let operations = self.operations.iter().cloned();
        operations.fold(transaction, |transaction, (_, operation)| {
            transaction.with(operation)
        })
    }

    /// Returns how many of the new tasks have missed a deadline.
    fn missed(&self, applied: &Applied, now: Timestamp) -> usize {
        let operations = self.operations.iter().zip(applied.done());
        let is_missed = |((_, operation), done): &(&(u64, Operation), &Done)| match operation {
            Operation::Submit(submit) => {
                matches!(done, Done::Submitted(Submitted::New))
                    && missed(&submit.task, now).is_some()
            }
            _ => false,
        };
        operations.filter(is_missed).count()
    }

    /// Returns the line of a part.
    fn line(&self, part: Part) -> u64 {
        let line = match part {
            Part::Guard(index) => self.guards.get(index).map(|(line, _)| *line),
            Part::Operation(index) => self.operations.get(index).map(|(line, _)| *line),
            // An effect has no line in the input.
            _ => None,
        };
        line.unwrap_or_default()
    }

    /// Prints each refusal with its line, and returns the failure of the command.
    fn refused(&self, out: &Output, error: Error) -> Failure {
        let Error::Refused(refusals) = error else {
            return error.into();
        };
        let failure = Failure::No("the transaction was refused; nothing was changed".to_owned());
        if out.is_json() {
            let refused = refusals.iter().map(|refusal| RefusedLine {
                line: self.line(refusal.part),
                refusal: refusal.into(),
            });
            let refused = RefusedForm {
                refused: refused.collect(),
            };
            return out.json(&refused).err().unwrap_or(failure);
        }
        // Several guards of one line may be refused for the same reason.
        let mut texts: Vec<String> = refusals
            .iter()
            .map(|refusal| format!("line {}: {refusal}", self.line(refusal.part)))
            .collect();
        texts.dedup();
        texts.iter().take(SHOWN).for_each(|text| out.complain(text));
        let more = texts.len().saturating_sub(SHOWN);
        if more > 0 {
            out.complain(format!("and {}", counted(more as u64, "more refused line")));
        }
        failure
    }
}

/// Why a transaction was refused. Nothing was changed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RefusedForm<'a> {
    /// Every refused guard and operation.
    refused: Vec<RefusedLine<'a>>,
}

/// A refused guard or operation.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RefusedLine<'a> {
    /// The number of the line, from 1.
    line: u64,
    /// What was refused, and why.
    #[serde(flatten)]
    refusal: RefusalForm<'a>,
}

/// A transaction that was checked with `--dry-run`, and would be applied.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Checked {
    /// The number of operations.
    operations: usize,
    /// `true`.
    dry_run: bool,
}

/// The result of a transaction.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AppliedForm<'a> {
    /// The id of the transaction.
    transaction: Option<&'a TransactionId>,
    /// The result of each operation, in the order of the lines.
    operations: Vec<DoneLine<'a>>,
}

/// The result of an operation.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DoneLine<'a> {
    /// The number of the line, from 1.
    line: u64,
    /// The task.
    task: &'a TaskId,
    /// The result.
    done: &'a Done,
    /// `true` for a submit that gave a waiting task its props and its start (`replace-waiting`): the task of the result,
    /// or else this task.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replaced: bool,
}

/// Applies the file, or checks it.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    // Invalid lines are reported before a store is opened.
    let out = global.out();
    let lines = Lines::read(&args.file, Timestamp::now(), &out)?;
    let client = match args.dry_run {
        true => global.existing().await?,
        false => global.lasting().await?,
    };
    lines.check_props(&client, &out).await?;
    lines.check_commands(&client, &out).await?;
    let transaction = lines.transaction(&client, args.id);
    let operations = lines.operations.len();
    if args.dry_run {
        let checked = transaction.check().await;
        checked.map_err(|error| lines.refused(&out, error))?;
        let text = format!(
            "apply: {} and {} hold; nothing was changed (dry run)",
            counted(operations as u64, "operation"),
            counted(lines.guards.len() as u64, "guard"),
        );
        match out.is_json() {
            true => out.json(&Checked {
                operations,
                dry_run: true,
            })?,
            false => out.line(text)?,
        }
        return Ok(Exit::Ok);
    }
    let applied = transaction.commit().await;
    let applied = applied.map_err(|error| lines.refused(&out, error))?;
    let id = transaction.transaction_id();
    let mut kept = Kept::default();
    for ((_, operation), done) in lines.operations.iter().zip(applied.done()) {
        if let Some((submit, task)) = replaced(operation, done) {
            kept.add(&client, submit, task).await;
        }
    }
    let missed = missed::note(lines.missed(&applied, Timestamp::now()));
    let notes = [missed, kept.note()];
    notes.into_iter().flatten().for_each(|note| out.note(note));
    if out.is_json() {
        let done = lines.operations.iter().zip(applied.done());
        let done = done.map(|((line, operation), done)| DoneLine {
            line: *line,
            task: operation.task(),
            done,
            replaced: replaced(operation, done).is_some(),
        });
        out.json(&AppliedForm {
            transaction: id,
            operations: done.collect(),
        })?;
    } else {
        out.line(summary(&lines.operations, &applied))?;
    }
    Ok(Exit::Ok)
}

/// Returns the submit that gave a waiting task its props and its start, with that task.
fn replaced<'a>(operation: &'a Operation, done: &'a Done) -> Option<(&'a Submit, &'a TaskId)> {
    let Operation::Submit(submit) = operation else {
        return None;
    };
    let task = match done {
        Done::Submitted(Submitted::Existing(_)) => &submit.task.id,
        Done::Submitted(Submitted::Other { task, .. }) => task,
        _ => return None,
    };
    (submit.if_exists == IfExists::ReplaceWaiting).then_some((submit, task))
}

/// Returns the results in one line: `2 tasks submitted, 1 task deleted`.
fn summary(operations: &[(u64, Operation)], applied: &Applied) -> String {
    let words = |((_, operation), done): (&(u64, Operation), &Done)| match done {
        Done::Submitted(Submitted::New) => "submitted",
        Done::Submitted(_) if replaced(operation, done).is_some() => "replaced",
        Done::Submitted(Submitted::Existing(_) | Submitted::Other { .. }) => "there already",
        Done::Sent(_) => "commanded",
        Done::Deleted => "deleted",
        Done::Retried => "retried",
        Done::Rescheduled(_) => "rescheduled",
        _ => "changed",
    };
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for word in operations.iter().zip(applied.done()).map(words) {
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, number)) => *number += 1,
            None => counts.push((word, 1)),
        }
    }
    if counts.is_empty() {
        return "every guard holds".to_owned();
    }
    let parts = counts
        .iter()
        .map(|(word, n)| format!("{} {word}", count(*n)));
    parts.collect::<Vec<_>>().join(", ")
}
