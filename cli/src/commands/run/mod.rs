//! `windlass run`: works through a list of tasks, and goes on where it was when it is started again.
//!
//! | module | what |
//! |---|---|
//! | `source` | where the lines come from, how often they can be read |
//! | `entry` | what task a line is |
//! | `named` | which tasks the node may claim |
//! | `script` | where a line stands in a script for sh |
//! | `batch` | submitting them, and following what becomes of them |
//! | `report` | progress, failures, the summary |
//! | `printing` | what the commands print |

mod batch;
mod entry;
mod named;
mod printing;
mod report;
mod script;
mod source;

use std::{path::PathBuf, time::Duration};

use clap::builder::NonEmptyStringValueParser;
use tokio::sync::mpsc::unbounded_channel;
use windlass::Retry;

use self::{
    batch::Batch,
    entry::Maker,
    named::Named,
    printing::{Printing, Settings},
    report::Report,
    source::{Checked, Source},
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

Started again, with the same input (and in the same folder), it goes on where it was: what has
completed is not run again, and what has failed only with --retry-failed. A task's identity is its
id, or else its batch, its command and its line: equal lines are one task (to run one twice, give
the lines ids or numbers). It does not matter where in the input a line stands. A line that was
taken out of the input is not run, even if its task was submitted before; such tasks are counted at
the end, with the commands that run or delete them. A worker on the
same store that prunes finished tasks ends what is remembered of them after its --retention.

It ends with 0 if every line's task completed, with 1 otherwise, and with 130 when it is
interrupted: ctrl-c, SIGTERM, SIGHUP or SIGQUIT releases the running tasks, a second signal kills
their commands. If it is killed, its supervisor ends the commands.";

/// What follows a failed attempt of a command unless the options or its line say otherwise.
const DEFAULT_RETRY: Retry = Retry::Abandoned;

/// What `run` takes.
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

    /// How many run at once [default: one for each core]
    #[arg(short, long, value_name = "N", default_value_t = default_slots(), hide_default_value = true)]
    jobs: u32,

    /// The name under which the tasks are found again, also as their label 'batch' [default: made of
    /// the file and the command]
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

    /// How long an attempt may take
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = attempt_timeout)]
    timeout: Option<Duration>,

    /// Run those again that failed or were killed in an earlier run
    #[arg(long)]
    retry_failed: bool,

    /// Stop at the first failure
    #[arg(long)]
    fail_fast: bool,

    /// Leave out lines that are wrong, and begin before the input has ended
    #[arg(long)]
    keep_going: bool,

    /// Print the whole output of each task when it has ended, standard output and standard error; also
    /// of those that had completed before
    #[arg(long)]
    print_output: bool,

    /// Print lines as they come instead, each with the task's id in front
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

/// Works through the list.
///
/// # Errors
///
/// What kept it from starting, or the store's.
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
    // Its tasks carry their policy; this is for those of an earlier version.
    let policy = args.retry.clone().unwrap_or(DEFAULT_RETRY);
    let (started, starts) = unbounded_channel();
    let settings = Settings {
        logs: folders.logs().clone(),
        prefix: args.prefix,
        trim: args.node.log_limit().is_none(),
    };
    // What is printed when the task has ended is kept until then.
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
    let report = Report::new(global, maker.batch(), checked.lines, |bar| {
        if !args.print_output {
            return Ok(None);
        }
        match Printing::start(settings, global.out(), bar, starts) {
            Ok(printing) => Ok(Some(printing)),
            Err(e) => Err(Failure::Store(format!("could not start a thread: {e}"))),
        }
    })?;
    let named = Named::default();
    let mut batch = Batch::new(
        client.clone(),
        report,
        named.clone(),
        maker.batch(),
        args.retry_failed,
        args.fail_fast,
    );
    batch.look_for_earlier().await?;
    let runner = args
        .node
        .builder(global, &client, &folders, logs, policy)
        .slots(args.jobs)
        // What has completed is remembered: that is what another run skips.
        .retention(None)
        .select("batch", maker.batch())
        .balancer(named)
        .start()
        .await
        .map_err(|e| not_started(e, "--jobs"))?;
    let lines = source.stream(maker)?;
    let mut ended = Ok(());
    global.link.report(&runner);
    let mut stops = global.link.stops().map_err(signals)?;
    let ran = runner
        .run_until_stopped(async { ended = batch.work(lines).await }, &mut stops)
        .await;
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
    // After the output is printed: the store in memory ends with its logs.
    folders.settle().await;
    exit
}
