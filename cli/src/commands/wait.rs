//! `windlass wait`: waits until tasks have ended, or until a selection of tasks is empty or idle.

use futures::StreamExt;
use windlass::{
    Client, StateKind, TaskId,
    client::{Done, Waiting},
    store::Filter,
};

use crate::{
    bulk::{Item, Report},
    exit::{Exit, Failure},
    filters::FilterArgs,
    global::Global,
    output::Output,
    parse::duration,
    select::count,
    text::one_line,
    waiting::{Deadline, ended, reported},
};

/// How many tasks are waited for at once.
const AT_ONCE: usize = 64;

/// The tasks to wait for.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With ids, the command ends when each of these tasks has ended; the exit code is 1 unless all of them have completed.
With filters, it ends when no live task matches, however the tasks have ended: `windlass list --state failed` with the
same filters shows those that failed.

Examples:
  windlass wait report-7
  windlass wait a b c --timeout 10m
  windlass wait --kind report
  windlass wait --idle --label team=billing")]
pub(crate) struct Args {
    /// The tasks, by id; or give filters
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Every task of the store
    #[arg(long, help_heading = "Filters")]
    all: bool,

    /// Wait only until no matching task is due or claimed, waits for its next attempt, or has waited for tasks that have
    /// all ended: the others sleep, wait for live tasks or signals, are paused or have ended
    #[arg(long)]
    idle: bool,

    /// Wait for at most this long (30s, 5m, …), then end with exit code 5
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    timeout: Option<std::time::Duration>,
}

/// Waits.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let filter = args.filter.filter()?;
    let is_filtered = !filter.is_all() || args.all;
    match (args.ids.is_empty(), is_filtered) {
        (false, true) => {
            return Err(Failure::Usage(
                "ids and filters do not go together; give one or the other".into(),
            ));
        }
        (false, false) if args.idle => {
            return Err(Failure::Usage(
                "--idle is about a selection of tasks; give filters or --all instead of ids".into(),
            ));
        }
        (true, false) => {
            return Err(Failure::Usage(
                "no task is named; give ids, filters such as --kind, or --all".into(),
            ));
        }
        _ => {}
    }
    if args.filter.has_ended_states() {
        return Err(Failure::Usage(
            "--state: a wait is for live tasks to end; leave out completed, failed and killed"
                .into(),
        ));
    }
    let client = global.reading().await?;
    let deadline = Deadline::after(args.timeout);
    match args.ids.is_empty() {
        false => for_tasks(&client, &global.out(), args.ids, deadline).await,
        true => for_filter(&client, &global.out(), (filter, args.idle), deadline).await,
    }
}

async fn for_tasks(
    client: &Client,
    out: &Output,
    mut ids: Vec<TaskId>,
    deadline: Deadline,
) -> Result<Exit, Failure> {
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    let is_one = ids.len() == 1;
    let items = futures::stream::iter(ids).map(|id| async move {
        let report = |waiting: Waiting| {
            let is_reported = is_one || matches!(waiting, Waiting::Failed(_));
            match reported(&waiting).filter(|_| is_reported) {
                Some(text) if is_one => out.note(text),
                Some(text) => out.note(format!("{id}: {text}")),
                None => {}
            }
        };
        match ended(client, &id, deadline, report).await {
            Ok(done) if done.is_completed() => Item::done(id.clone()),
            Ok(done) => Item::failed(id.clone(), not_completed(&id, &done)),
            Err(failure) => Item::failed(id.clone(), failure),
        }
    });
    let items: Vec<Item> = items.buffered(AT_ONCE).collect().await;
    Report::new("wait", items).print(out, "completed")
}

fn not_completed(id: &TaskId, done: &Done) -> Failure {
    let why = done
        .error()
        .map_or(String::new(), |e| format!(": {}", one_line(e)));
    Failure::No(format!("task '{id}' has ended as {}{why}", done.code()))
}

async fn for_filter(
    client: &Client,
    out: &Output,
    (mut filter, is_idle): (Filter, bool),
    deadline: Deadline,
) -> Result<Exit, Failure> {
    let what = match is_idle {
        true => "a matching task is still busy",
        false => "a matching task still exists",
    };
    // A filter for unreadable tasks has no states.
    if filter.states.is_empty() && !filter.quarantined && !is_idle {
        let live = StateKind::ALL
            .into_iter()
            .filter(|code| !code.is_terminal());
        filter = filter.states(live);
    }
    let wait = async {
        match is_idle {
            true => client.wait_idle(&filter).await?,
            false => client.wait_none(&filter).await?,
        }
        Ok(())
    };
    if let Err(failure) = deadline.within(what, wait).await {
        let Failure::Timeout(text) = failure else {
            return Err(failure);
        };
        let left = client.every(&filter).next().await?;
        let left = left.map_or(0, |page| page.len());
        return Err(Failure::Timeout(format!(
            "{text}; {} or more match",
            count(left)
        )));
    }
    match out.is_json() {
        true => Report::new("wait", Vec::new()).print(out, ""),
        false => {
            out.line(match is_idle {
                true => "no matching task is busy",
                false => "no matching task is left",
            })?;
            Ok(Exit::Ok)
        }
    }
}
