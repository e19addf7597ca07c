//! `windlass logs`: the output of a task.
//!
//! The lines that a handler logs are in the store ([`lines`]). A command writes more:
//! the whole output is in files on the machine that ran the command ([`crate::logs`]). The store
//! keeps the end of it for other machines ([`stored`]).

mod follow;
mod lines;
pub(crate) mod printer;
mod select;
mod source;
mod stored;

use std::io::ErrorKind;

use clap::ValueEnum;
use windlass::{TaskId, store::TaskRecord};

use self::{
    follow::Follow,
    lines::HandlerLines,
    printer::{Only, Options, Printer},
    select::Wanted,
    source::Source,
};
use crate::{
    exit::{Exit, Failure},
    global::Global,
    logs::{Logs, Stream},
    output::Output,
    parse,
};

const EXAMPLES: &str = "\
Examples:
  windlass logs build-12
  windlass logs build-12 --follow --timestamps
  windlass logs build-12 --attempt 1 --stream stderr
  windlass logs build-12 -o json | jq -r .stderr

For the kind `exec`, the output is that of the command. For other kinds, it is the lines that the handler has logged
(`TaskContext::log`), which go to standard output. A worker writes them at most one second after they were logged.

Standard output goes to standard output and standard error to standard error, byte for byte, in the
order in which the worker read them. A line on standard error reports missing bytes at
their place: bytes that the --log-limit of the worker has dropped, or that a full disk did not take.

The whole output is on the machine that ran the command. On other machines the command prints only
the end of the output, which the store keeps, and a note says so.";

/// The task, and which part of its output.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: TaskId,

    /// Keep printing until the task has ended, including further attempts
    #[arg(short, long)]
    follow: bool,

    /// Print this attempt, from 1 [default: the last one with output]
    #[arg(long, value_name = "N", value_parser = parse::from_one::<u32>)]
    attempt: Option<u32>,

    /// Print this incarnation: how often `retry` had restarted the task, from 0 [default: the last]
    #[arg(long, value_name = "N", value_parser = parse::from_zero::<u32>)]
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
    /// The lines that the handler has logged.
    Log,
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
            Which::Stdout => Only::Stream(Stream::Stdout),
            Which::Stderr => Only::Stream(Stream::Stderr),
            Which::Log => Only::Lines,
        }),
        timestamps: args.timestamps,
        follow: args.follow,
    };
    let mut lines = HandlerLines::new(client.clone(), args.id.clone(), wanted);
    let mut printer = Printer::new(out.clone(), args.id.clone(), &options);
    let source = Source {
        logs,
        wanted,
        hint: global.hint(),
    };
    if args.follow {
        Follow::new(client, (source, lines), printer, out)
            .run(record)
            .await?;
    } else {
        let has_lines = printer.logged(&lines.read().await?)?;
        source.print(printer, &out, &record, has_lines)?;
    }
    Ok(Exit::Ok)
}

/// Returns whether this user may read the logs of a task. If not, the end of the output is in the
/// store.
fn may_read(logs: &Logs, record: &TaskRecord, out: &Output) -> bool {
    let denied = logs
        .runs(&record.task.id, record.order)
        .is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    if denied {
        out.note("note: the files with the whole output belong to another user");
    }
    !denied
}
