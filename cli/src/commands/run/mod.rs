//! `windlass run`: runs a list of tasks, and continues where it stopped when it is started again.
//!
//! | module | what |
//! |---|---|
//! | `source` | where the lines come from, how often they can be read |
//! | `entry` | what task a line is |
//! | `inputs` | the files that a task reads, and whether they changed |
//! | `names` | names that the same call has again |
//! | `named` | which tasks the node may claim |
//! | `script` | where a line stands in a script for sh |
//! | `batch` | following the tasks to their end |
//! | `submitting` | submitting them, and what of an earlier run is run again |
//! | `report`, `tally` | progress, failures, the summary |
//! | `screen` | lines and the bar on standard error; an outage of the store |
//! | `stopping` | what is waited for after a signal |
//! | `printing` | what the commands print |

mod batch;
mod entry;
mod inputs;
mod named;
mod names;
mod printing;
mod report;
mod screen;
mod script;
mod source;
mod stopping;
mod submitting;
mod tally;

use std::{path::PathBuf, time::Duration};

use clap::builder::NonEmptyStringValueParser;
use futures::StreamExt;
use tokio::sync::mpsc::unbounded_channel;
use windlass::Retry;

use self::{
    batch::Batch,
    entry::Maker,
    named::Named,
    printing::{Printing, Settings},
    report::Report,
    screen::Screen,
    source::{Checked, Source},
    stopping::Stopping,
};
use super::worker::{NodeArgs, STORE_WAIT, default_slots, folders, not_started, signals};
use crate::{
    args,
    env_args::EnvArgs,
    exec,
    exit::{Exit, Failure},
    global::Global,
    logs::{self, Limit},
};

const EXAMPLES: &str = "\
Examples:
  find . -type f | windlass run --each 'sha256sum {}' --print-output
  windlass run --each 'convert {} {}.png' -j 8 --timeout 5m --retry 3 images.txt
  windlass run --each 'gzip -k {} && echo done' --shell files.txt
  windlass run tasks.jsonl

A line of tasks.jsonl is a task, with the fields of one or with those of a command:
  {\"id\":\"backup-7\",\"kind\":\"exec\",\"props\":{\"command\":\"tar\",\"args\":[\"czf\",\"h.tgz\",\"home\"]}}
  {\"command\":\"tar\",\"args\":[\"czf\",\"h.tgz\",\"home\"],\"timeout\":\"1h\",\"labels\":{\"team\":\"a\"}}

A line never becomes a part of a script: with --shell, {} within quotes, backquotes or a
here-document is an error that says what to write instead. Most commands take a line that begins
with '-' for an option: write 'rm -- {}'. A command that itself executes its argument (eval, ssh)
executes the line.

Started again with the same input in the same folder, a run continues where it stopped. Completed
tasks are not run again; failed ones only with --retry-failed. The summary says how many results are
from an earlier run, and when they ended; -v says so for each line. --again runs all lines again whose
tasks have ended. To repeat an interrupted --again, use --again once more.

As with make, a task runs again when one of its files changed since it ended: the files of --inputs,
of the field \"inputs\" of a task (\"inputs\":[\"a.csv\"]), or the file that the line names. A file has
changed if it was modified after the task ended, or if its time or size differs from those at the
submit. A file that is modified while its task waits or runs has not changed: the command read the
new content, or wrote it. A missing file has not changed either.

The identity of a task is its id, or else its batch, command and line: equal lines are one task (to
run a line twice, give the lines ids or numbers). The position in the input does not matter. A line
that was removed from the input does not run, even if its task was submitted before; the summary
counts such tasks and names the commands that run or delete them. A worker on the same store that
deletes finished tasks after its --retention also deletes what a later run would skip.

With -0 a line is a name that need not be UTF-8 text.

Exit codes: 0 if the task of every line completed, 1 if not; 4 when the store cannot be used or the
output cannot be written (the tasks run all the same, and `windlass logs` prints their output; a
closed pipe is no error); 130 when interrupted. ctrl-c, SIGTERM, SIGHUP or SIGQUIT releases the
running tasks; a second signal kills their commands. If the run is killed, its supervisor ends
the commands.";

/// What follows a failed attempt of a command unless the options or its line say otherwise.
const DEFAULT_RETRY: Retry = Retry::Abandoned;

/// The most commands that a node runs at once.
const MOST_JOBS: u32 = 1_000_000;

fn jobs(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(jobs @ 1..=MOST_JOBS) => Ok(jobs),
        _ => Err(format!("{text} is not from 1 to {MOST_JOBS}")),
    }
}

/// The options of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file of lines, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Run this command for each line: {} is the line, or it is added at the end
    #[arg(long, value_name = "COMMAND")]
    each: Option<String>,

    /// Run the command of --each with sh, which gets the line as "$1"; {} outside of quotes is "$1"
    #[arg(long, requires = "each")]
    shell: bool,

    /// The lines of --each end with NUL instead of a line break
    #[arg(short = '0', long, requires = "each")]
    null: bool,

    /// How many commands run at once, from 1 [default: one per core]
    #[arg(short, long, value_name = "N", default_value_t = default_slots(), hide_default_value = true,
        value_parser = jobs)]
    jobs: u32,

    /// The name of the batch: a later run with this name continues it; also the tasks' label
    /// 'batch' [default: made of the file and the command]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    batch: Option<String>,

    /// What follows a failed attempt: a number of attempts, 'exponential' (8 attempts), 'strikes',
    /// 'never', 'abandoned' or JSON. It is submitted with the tasks, for a worker that runs them
    /// too [default: abandoned: a command that fails has failed; one whose worker died is run
    /// again]
    #[arg(long, value_name = "POLICY", value_parser = exec::read_retry)]
    retry: Option<Retry>,

    #[command(flatten)]
    env: EnvArgs,

    /// The time limit of one attempt
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = attempt_timeout)]
    timeout: Option<Duration>,

    /// Run tasks again that failed or were killed in an earlier run
    #[arg(long)]
    retry_failed: bool,

    /// Run all lines again whose tasks ended in an earlier run. Unfinished tasks of an earlier run
    /// continue
    #[arg(long)]
    again: bool,

    /// A file that the command reads; {} is the line. A task whose file changed since it ended runs
    /// again. Without this option, a line that is the name of a file is its own input; --inputs ''
    /// turns that off
    #[arg(long, value_name = "FILE", requires = "each")]
    inputs: Vec<String>,

    /// Stop at the first failure
    #[arg(long)]
    fail_fast: bool,

    /// Skip invalid lines, and begin before the input has ended
    #[arg(long)]
    keep_going: bool,

    /// Print the whole output (standard output and standard error) of each task when it has ended,
    /// also of tasks that had completed before
    #[arg(long)]
    print_output: bool,

    /// Print lines as they come, each with the task's id in front
    #[arg(long, requires = "print_output")]
    prefix: bool,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

fn attempt_timeout(text: &str) -> Result<Duration, String> {
    match args::duration(text)? {
        Duration::ZERO => Err(format!(
            "'{text}' is no time; give a longer one, or leave it out for no limit"
        )),
        timeout => Ok(timeout),
    }
}

/// Runs the list.
///
/// # Errors
///
/// The reason why the run could not start, or the store's error.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    if args.print_output && args.node.log_limit() == Some(Limit::None) {
        let text = "--print-output: prints from the files that --log-limit 0 turns off; leave one of them out";
        return Err(Failure::Usage(text.into()));
    }
    if args.prefix && global.out().is_json() {
        let text = "--prefix: prints lines; leave it out with -o json";
        return Err(Failure::Usage(text.into()));
    }
    if !args.shell
        && let Some(c) = args.each.as_deref().and_then(exec::operators::within)
    {
        global.out().note(format!(
            "note: '{c}' in --each goes to the command as it is: no shell reads it without --shell"
        ));
    }
    let maker = Maker::new(&args)?;
    let mut source = Source::open(&args.file, if args.null { 0 } else { b'\n' })?;
    let checked = if args.keep_going {
        Checked::default()
    } else {
        source.keep()?;
        source.check(&maker, &global.out())?
    };
    let client = global.client_within(STORE_WAIT).await?;
    let folders = folders(global, &client, args.node.grace).await?;
    // The tasks carry their policy; this one is for tasks of an earlier version.
    let policy = args.retry.clone().unwrap_or(DEFAULT_RETRY);
    let (started, starts) = unbounded_channel();
    let settings = Settings {
        logs: folders.logs().clone(),
        prefix: args.prefix,
        trim: args.node.log_limit().is_none(),
    };
    // Logs are kept until the output of the ended task is printed.
    let usual = if args.print_output {
        Limit::All
    } else {
        Limit::Bytes(logs::LIMIT)
    };
    let logs = folders
        .logs()
        .clone()
        .limit(args.node.log_limit().unwrap_or(usual))
        .report_to(started);
    let url = global.store_url()?;
    let screen = Screen::new(global, &url, checked.lines);
    let printing = match args.print_output {
        true => Some(
            Printing::start(settings, global.out(), screen.bar().cloned(), starts)
                .map_err(|e| Failure::Store(format!("could not start a thread: {e}")))?,
        ),
        false => None,
    };
    let report = Report::new(
        global,
        screen.clone(),
        maker.batch(),
        checked.lines,
        printing,
    );
    let named = Named::default();
    let mut batch = Batch::new(
        client.clone(),
        report,
        named.clone(),
        maker.batch(),
        batch::Settings {
            again: args.again,
            retry_failed: args.retry_failed,
            fail_fast: args.fail_fast,
            jobs: usize::try_from(args.jobs).unwrap_or(usize::MAX),
        },
    );
    batch.introduce(&url).await;
    batch.look_for_earlier().await?;
    let runner = args
        .node
        .builder(global, &client, &folders, logs, policy)
        .slots(args.jobs)
        // Completed tasks are kept: a later run skips them.
        .retention(None)
        .select("batch", maker.batch())
        .balancer(named)
        .start()
        .await
        .map_err(|e| not_started(e, "--jobs"))?;
    let lines = source.stream(maker)?;
    let mut ended = Ok(());
    global.link.report(&runner);
    let (received, receives) = unbounded_channel();
    let stops = global.link.stops().map_err(signals)?;
    let mut stops = stops.inspect(|name| {
        // The receiver ends with the node.
        let _ = received.send(*name);
    });
    let stopping = Stopping {
        client,
        screen,
        node: runner.node().clone(),
        grace: args.node.grace,
        lease: args.node.lease_ttl,
    };
    let renewals = runner.lease_deadlines();
    let ran = tokio::select! {
        ran = runner.run_until_stopped(async { ended = batch.work(lines).await }, &mut stops) => ran,
        () = stopping.speak(receives, renewals) => Ok(None),
    };
    let exit = match ran
        .map_err(Failure::from)
        .and_then(|signal| ended.map(|()| signal))
    {
        Ok(signal) => batch.conclude(signal.is_some(), &mut stops).await,
        Err(failure) => {
            batch.finish_printing(&mut stops).await;
            Err(failure)
        }
    };
    // Only after the output is printed: the store in memory ends with its logs.
    folders.settle().await;
    exit
}
