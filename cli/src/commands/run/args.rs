//! The options of `windlass run`.

use std::{path::PathBuf, time::Duration};

use clap::builder::NonEmptyStringValueParser;
use windlass::{Limit, Retry, statemachine::wire::read_retry};

use super::super::worker::{NodeArgs, default_slots};
use crate::{env_args::EnvArgs, help, parse};

const EXAMPLES: &str = "\
Examples:
  find . -type f | windlass run --each 'sha256sum {}' --print-output
  windlass run --each 'convert {} {}.png' -j 8 --timeout 5m --retry 3 images.txt
  windlass run --each 'gzip -k {} && echo done' --shell files.txt
  windlass run tasks.jsonl

A line of tasks.jsonl is a task, with the fields of one or with those of a command:
  {\"id\":\"backup-7\",\"kind\":\"exec\",\"props\":{\"command\":\"tar\",\"args\":[\"czf\",\"h.tgz\",\"home\"]}}
  {\"command\":\"tar\",\"args\":[\"czf\",\"h.tgz\",\"home\"],\"timeout\":\"1h\",\"labels\":{\"team\":\"a\"}}
  {\"id\":\"send-7\",\"command\":\"scp\",\"args\":[\"h.tgz\",\"b:\"],\"after_ok\":[\"backup-7\"]}

\"after_ok\" runs a line only if every line that it names has completed; \"after\" runs it when they have
ended, whatever their outcomes are.

A line never becomes part of a script: with --shell, {} within quotes, backquotes or a
here-document is an error that says what to write instead. Most commands treat a line that begins
with '-' as an option: write 'rm -- {}'. A command that itself executes its argument (eval, ssh)
executes the line.

If started again with the same input in the same folder, a run continues where it stopped. Completed
tasks are not run again; failed ones only with --retry-failed. The summary says how many results are
from an earlier run, and when they ended; -v says so for each line. --again also runs the lines again
whose tasks have ended. To repeat an interrupted --again, use --again once more.

As with make, a task runs again when one of its files changed since it ended: the files of --inputs,
of the field \"inputs\" of a task (\"inputs\":[\"a.csv\"]), or the file that the line names. A file has
changed if it was modified after the task ended, or if its time or size differs from those at the
submit. A file that is modified while its task waits or runs has not changed: the command read the
new content, or wrote it. A missing file has not changed either. A task also runs again when one that
it waits for (\"after\", \"after_ok\") runs again, or ended after it.

The identity of a task is its id, or else its batch, command and line: equal lines are one task (to
run a line twice, give the lines ids or numbers). Its labels, priority and retry policy are those of
the first of the equal lines. The position in the input does not matter. A line that was removed from the input
does not run, even if its task was submitted before; the summary counts such tasks and names the
commands that run or delete them.

Lines are tasks of the kind exec/run, which only runs of their batch take: a worker on the same store
runs them only with --take-runs, and then with its own environment and slots. After an interruption,
the same run again continues them; `windlass why ID` names it. A worker that deletes finished tasks
after its --retention also deletes what a later run would skip.

With -0 a line need not be UTF-8 text.

Exit codes: 0 if the task of every line completed, 1 if not; 4 when the store cannot be used or the
output cannot be written (the tasks run all the same, and `windlass logs` prints their output; a
closed pipe is not an error); 130 when interrupted. ctrl-c, SIGTERM, SIGHUP or SIGQUIT releases the
running tasks; a second signal kills their commands. If the run is killed, its supervisor ends
the commands.";

/// The default policy for failed attempts of commands.
pub(super) const DEFAULT_RETRY: Retry = Retry::Abandoned;

/// The options of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file of lines, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(super) file: PathBuf,

    /// Run this command for each line. {} stands for the line; without {}, the line is added at the
    /// end
    #[arg(long, value_name = "COMMAND")]
    pub(super) each: Option<String>,

    /// Run the command of --each with sh. "$1" is the line, and so is {} outside of quotes
    #[arg(long, requires = "each")]
    pub(super) shell: bool,

    /// Read lines for --each that end with NUL instead of a line break
    #[arg(short = '0', long, requires = "each")]
    pub(super) null: bool,

    /// Run at most N commands at once (1 or more) [default: one per core]
    #[arg(short, long, value_name = "N", default_value_t = default_slots(), hide_default_value = true,
        value_parser = parse::slots)]
    pub(super) jobs: u32,

    /// The name of the batch: a later run with this name continues it; also the tasks' label
    /// 'batch' [default: made of the file and the command]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(super) batch: Option<String>,

    #[arg(long, value_name = "POLICY", value_parser = read_retry,
        help = format!("{}. The policy is stored with the tasks, and also applies when a worker runs them [default: abandoned]", help::RETRY))]
    pub(super) retry: Option<Retry>,

    #[command(flatten)]
    pub(super) env: EnvArgs,

    /// Limit the time of each attempt
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = attempt_timeout)]
    pub(super) timeout: Option<Duration>,

    #[arg(long, value_name = "KEY=N", value_parser = parse::at_once,
        help = format!("{}. Applies to lines without limits of their own", help::AT_ONCE))]
    pub(super) at_once: Vec<Limit>,

    #[arg(long, value_name = "KEY=N/DURATION", value_parser = parse::rate,
        help = format!("{}. Applies to lines without limits of their own", help::RATE))]
    pub(super) rate: Vec<Limit>,

    /// Also run tasks that failed or were killed in an earlier run. A task whose options have changed runs as
    /// a new task
    #[arg(long)]
    pub(super) retry_failed: bool,

    /// Run all lines again, even if their tasks ended in an earlier run. Unfinished tasks of an
    /// earlier run continue
    #[arg(long)]
    pub(super) again: bool,

    /// Name a file that the command reads; {} stands for the line. A task whose file has changed
    /// since it ended runs again. By default a line that is the name of a file is its own input;
    /// --inputs '' turns that off
    #[arg(long, value_name = "FILE", requires = "each")]
    pub(super) inputs: Vec<String>,

    /// Stop at the first failure
    #[arg(long)]
    pub(super) fail_fast: bool,

    /// Skip invalid lines, and start before the whole input is read
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Print the whole output (standard output and standard error) of each task when it has ended,
    /// even if it completed in an earlier run
    #[arg(long)]
    pub(super) print_output: bool,

    /// Print lines as they come, each with the task's id in front
    #[arg(long, requires = "print_output")]
    pub(super) prefix: bool,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

fn attempt_timeout(text: &str) -> Result<Duration, String> {
    match parse::duration(text)? {
        Duration::ZERO => Err(format!(
            "'{text}' is too short; give a longer one, or leave it out for no limit"
        )),
        timeout => Ok(timeout),
    }
}
