//! `windlass run`: runs a list of tasks, and continues where it stopped when it is started again.
//!
//! | module | what |
//! |---|---|
//! | `source` | the source of the lines, and how often they can be read |
//! | `entry` | the task of a line |
//! | `input_files` | the files that a task reads, and whether they changed |
//! | `names` | names that are the same when a call is repeated |
//! | `named_tasks` | which tasks the node may claim |
//! | `words` | the words of a command template without a shell |
//! | `script` | the places of a line in a script for sh |
//! | `batch` | following the tasks to their end |
//! | `before` | the lines that later lines may wait for |
//! | `adopting` | lines that an older version stored as tasks of the kind `exec` |
//! | `submitting`, `again` | submitting them, and which tasks of an earlier run run again |
//! | `never` | lines that wait for a task which was never submitted |
//! | `report`, `tally` | progress, failures, the summary |
//! | `screen` | lines and the bar on standard error; an outage of the store |
//! | `stopping` | what is waited for after a signal |
//! | `printing` | what the commands print |

mod adopting;
mod again;
mod args;
mod batch;
mod before;
mod changed;
mod entry;
mod existing;
mod idle;
mod input_files;
mod live;
mod named_tasks;
mod names;
mod never;
pub(crate) mod printing;
pub(crate) mod report;
mod same_work;
mod screen;
mod script;
mod settings;
mod source;
mod stalled;
mod stopping;
mod submitting;
mod tally;
mod words;

use futures::StreamExt;
use tokio::sync::mpsc::unbounded_channel;

pub(crate) use self::{args::Args, entry::BATCH};
use self::{
    batch::Batch,
    entry::Maker,
    named_tasks::{NamedOnly, NamedTasks},
    printing::{Printing, Settings},
    report::Report,
    screen::Screen,
    source::{Checked, Source},
    stopping::Stopping,
};
use super::worker::{STORE_WAIT, folders, not_started, signals};
use crate::{
    exec,
    exit::{Exit, Failure},
    global::Global,
    logs::{self, Limit},
};

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
    never::check_names(&client, (source.name(), &checked), &global.out()).await?;
    let folders = folders(global, &client, args.node.grace).await?;
    // The tasks contain their policy; this one is for other tasks of the batch.
    let policy = args.retry.clone().unwrap_or(args::DEFAULT_RETRY);
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
    let named = NamedTasks::default();
    let mut batch = Batch::new(
        client.clone(),
        report,
        named.clone(),
        maker.batch(),
        settings::Settings {
            again: args.again,
            retry_failed: args.retry_failed,
            fail_fast: args.fail_fast,
            jobs: usize::try_from(args.jobs).unwrap_or(usize::MAX),
        },
    );
    batch.introduce(&url).await;
    batch.look_for_earlier().await?;
    let kinds: &[&str] = match batch.has_lines_of_older_version().await? {
        true => &exec::KINDS,
        false => &[exec::RUN_KIND],
    };
    let runner = args
        .node
        .builder(global, &client, &folders, logs, policy, kinds)
        .slots(args.jobs)
        // Completed tasks are kept: a later run skips them.
        .retention(None)
        // The run claims only the tasks of its lines, and a schedule never ends.
        .without_schedules()
        .select("batch", maker.batch())
        .balancer(NamedOnly {
            named,
            balancer: args.node.balancer.balancer.clone(),
        })
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
        unstored: runner.unstored(),
    };
    let renewals = runner.lease_deadlines();
    let ran = tokio::select! {
        ran = runner.run_until_stopped(async { ended = batch.work(lines).await }, &mut stops) => ran,
        () = stopping.speak(receives, renewals) => Ok(None),
    };
    stopping.conclude();
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
    // Only after the output is printed, because the store in memory ends with its logs.
    folders.settle().await;
    exit
}
