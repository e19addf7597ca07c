//! `windlass logs`: the output of a task.
//!
//! The whole output is in files of the machine that ran the command ([`crate::logs`]). The store
//! keeps the end of it for other machines ([`stored`]).

mod follow;
mod printer;
mod select;
mod stored;

use std::io::ErrorKind;

use clap::ValueEnum;
use windlass::{StateKind, TaskId, store::TaskRecord};

use self::{
    follow::Follow,
    printer::{Options, Printer},
    select::Wanted,
    stored::Stored,
};
use crate::{
    exec,
    exit::{Exit, Failure},
    global::Global,
    logs::{Bytes, Logs, Run, Stream},
    output::Output,
};

const EXAMPLES: &str = "\
Examples:
  windlass logs build-12
  windlass logs build-12 --follow --timestamps
  windlass logs build-12 --attempt 1 --stream stderr
  windlass logs build-12 -o json | jq -r .stderr

Standard output goes to standard output and standard error to standard error, byte for byte, in the
order in which the worker read them. A line on standard error says how many bytes are missing, and
where: what --log-limit of the worker has dropped, or what a full disk did not take.

The whole output is on the machine that ran the command. On another one the last of it is printed
that the store keeps, and a note says so.";

/// The task, and which part of its output.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: TaskId,

    /// Keep printing until the task has ended, its next attempts included
    #[arg(short, long)]
    follow: bool,

    /// The attempt to print, from 1 [default: the last one with output]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,

    /// The incarnation to print: how often `retry` had restarted the task, from 0 [default: the
    /// last]
    #[arg(long, value_name = "N")]
    incarnation: Option<u32>,

    /// Print only this stream
    #[arg(long, value_enum, value_name = "STREAM")]
    stream: Option<Which>,

    /// Begin each line with the time at which the worker read it
    #[arg(long)]
    timestamps: bool,
}

/// A stream of a command.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Which {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Prints it.
///
/// # Errors
///
/// When there is no such task or attempt, or the store cannot be read.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let record = client.get(&args.id).await?;
    let logs = Logs::of_store(&global.store_url()?, &client).await?;
    let logs = logs.filter(|logs| may_read(logs, &record, &out));
    let wanted = Wanted {
        incarnation: args.incarnation,
        attempt: args.attempt,
    };
    let options = Options {
        only: args.stream.map(|stream| match stream {
            Which::Stdout => Stream::Stdout,
            Which::Stderr => Stream::Stderr,
        }),
        timestamps: args.timestamps,
        follow: args.follow,
    };
    let printer = Printer::new(out.clone(), args.id.clone(), &options);
    let source = Source { logs, wanted };
    if args.follow {
        Follow::new(client, source, printer, out)
            .run(record)
            .await?;
    } else {
        source.print(printer, &out, &record)?;
    }
    Ok(Exit::Ok)
}

/// Whether this user may read the logs of a task. If not, the end of the output is in the store.
fn may_read(logs: &Logs, record: &TaskRecord, out: &Output) -> bool {
    let denied = logs
        .runs(&record.task.id, record.order)
        .is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    if denied {
        out.note("note: the files with the whole output belong to another user");
    }
    !denied
}

/// Where the output of a task is, and which part to print.
struct Source {
    logs: Option<Logs>,
    wanted: Wanted,
}

impl Source {
    /// The runs of a task that have a log on this machine.
    fn local(&self, record: &TaskRecord) -> Result<Vec<Run>, Failure> {
        let Some(logs) = &self.logs else {
            return Ok(Vec::new());
        };
        logs.runs(&record.task.id, record.order)
            .map_err(|e| Failure::Store(format!("could not read the logs of the task: {e}")))
    }

    /// The runs of the wanted attempt that have output here or in the store.
    fn chosen(&self, local: &[Run], stored: Option<&Stored>) -> Vec<Run> {
        let mut all = local.to_vec();
        all.extend(elsewhere(local, stored));
        self.wanted.choose(all)
    }

    /// Prints the output so far.
    fn print(&self, mut to: Printer, out: &Output, record: &TaskRecord) -> Result<(), Failure> {
        let local = self.local(record)?;
        let stored = Stored::of(record);
        let chosen = self.chosen(&local, stored.as_ref());
        let named = self.wanted.attempt.is_some() || self.wanted.incarnation.is_some();
        for run in &chosen {
            to.begin(Some(*run))?;
            match (&self.logs, &stored) {
                (Some(logs), _) if local.contains(run) => {
                    let mut reader = logs.reader(&record.task.id, record.order, *run);
                    reader.finish(&mut |event| to.event(event))?;
                }
                (_, Some(stored)) => {
                    note_stored(out, stored);
                    print_stored(&mut to, stored, None)?;
                }
                _ => {}
            }
        }
        if chosen.is_empty() {
            match stored.filter(|stored| stored.run.is_none() && !named) {
                Some(stored) => {
                    if stored.truncated {
                        out.note("note: the store keeps only the end of the output");
                    }
                    print_stored(&mut to, &stored, None)?;
                }
                None if named => return Err(no_such(record, &local)),
                None => out.note(format!(
                    "task '{0}' keeps no output; `windlass get {0}` shows what there is",
                    record.task.id
                )),
            }
        }
        to.finish(state(record))
    }
}

fn state(record: &TaskRecord) -> Option<StateKind> {
    record.state.as_ref().map(windlass::TaskState::code).ok()
}

/// The run in the store, if it has output and no log on this machine.
fn elsewhere(local: &[Run], stored: Option<&Stored>) -> Option<Run> {
    let stored = stored?;
    let run = stored.run?;
    let printed = Stream::ALL.iter().any(|s| stored.total(*s) > 0);
    (printed && !local.contains(&run)).then_some(run)
}

/// Notes that the output is from the store, and how much of it is kept.
fn note_stored(out: &Output, stored: &Stored) {
    let attempt = stored.run.map_or(0, |run| run.attempt);
    let parts: Vec<String> = Stream::ALL
        .into_iter()
        .filter(|stream| stored.since(None, *stream).0 > 0)
        .map(|stream| {
            let (kept, total) = (stored.text(stream).len(), stored.total(stream));
            format!("the last {kept} of {total} bytes of {}", stream.name())
        })
        .collect();
    let kept = match parts.is_empty() {
        true => "all of it".to_owned(),
        false => parts.join(" and "),
    };
    out.note(format_args!(
        "note: this machine has no log of attempt {attempt}; the store keeps {kept}"
    ));
}

/// Prints the output that the store got since `before`.
fn print_stored(to: &mut Printer, stored: &Stored, before: Option<&Stored>) -> Result<(), Failure> {
    for stream in Stream::ALL {
        let (missing, text) = stored.since(before, stream);
        to.gap(Bytes::of(stream, missing))?;
        to.piece(
            stream,
            jiff::Timestamp::now().as_millisecond(),
            text.as_bytes(),
        )?;
    }
    Ok(())
}

/// The named attempt has no output.
fn no_such(record: &TaskRecord, local: &[Run]) -> Failure {
    let id = &record.task.id;
    let mut here: Vec<String> = local
        .iter()
        .map(|run| format!("{} of incarnation {}", run.attempt, run.incarnation))
        .collect();
    here.dedup();
    let here = match here.is_empty() {
        true => "none".to_owned(),
        false => here.join(", "),
    };
    let kind = &record.task.kind;
    let why = match kind.as_str() == exec::KIND {
        true => "the store keeps only the last attempt",
        false => "only tasks of the kind 'exec' have logs",
    };
    Failure::NotFound(format!(
        "task '{id}' has no output of that attempt; attempts with a log on this machine: {here}; {why}"
    ))
}
