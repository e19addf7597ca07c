//! `windlass list`: the matching tasks.

use std::{collections::BTreeSet, io::IsTerminal, time::Duration};

use futures::StreamExt;
use windlass::{
    Client, Invalid, TaskId,
    store::{Cursor, Error, Filter, Order, Query, TaskRecord, WaitKind},
};

use super::graph;
use crate::{
    exit::{Exit, Failure},
    filters::FilterArgs,
    global::Global,
    output::Output,
    parse, view,
};

/// Which tasks, and how many.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass list
  windlass list --claimed
  windlass list --state failed,fault --kind report
  windlass list --label team=billing --error timeout -o json | jq -r .id
  windlass list --sort ended --limit 20
  windlass list --sort late --kind report
  windlass list --state queued --watch")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,

    /// Show at most N tasks: 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse::from_zero::<u32>)]
    limit: u32,

    /// Only tasks that are due and not run, for this reason: 'no_node' (no node has the kind), 'data_version' (no node reads
    /// their data), 'labels' (no node takes their labels), 'not_claiming' (the nodes are frozen or draining), 'fault' (the
    /// machines of the nodes), 'full' (no free slot), 'tasks' (they wait for other tasks), 'signal' (for a signal that their handler has declared), 'limit' (no free slot of a
    /// limit), 'lost' (their node has died) or 'copied' (the store was copied into another one). 'windlass stats' counts
    /// them. Every live task that matches the filters is read
    #[arg(long, value_name = "REASON", value_parser = reason, conflicts_with = "watch", help_heading = "Filters")]
    waits: Option<WaitKind>,

    /// Order the tasks by 'submitted', 'due' (sleeping tasks, by their wake-up), 'late' (tasks that wait for a node after
    /// their time has come, the latest first), 'ended' (ended tasks) or 'id'. Default:
    /// 'submitted'; 'id' on etcd, which reads every task for any other order. Ids that windlass makes are in the order of
    /// their submits
    #[arg(long, value_name = "ORDER", value_parser = order)]
    sort: Option<Order>,

    /// Reverse the order: show the oldest first, with '--sort due' the last wake-up, or with '--sort late' the last one too. By
    /// default the newest, the earliest wake-up or the latest task is first
    #[arg(long)]
    reverse: bool,

    /// Show the next page of a list: repeat its options with the cursor from the last line on standard error, which is
    /// printed if there are more tasks
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    cursor: Option<Cursor>,

    /// Keep running, and show tasks again when they change
    #[arg(long, conflicts_with_all = ["sort", "reverse", "cursor"])]
    watch: bool,

    /// Show ids and states as a tree: below each task, the tasks that wait for it. Beyond level 40 the indent no
    /// longer grows, and the level is printed before the id
    #[arg(long, conflicts_with_all = ["watch", "sort", "reverse", "cursor"])]
    tree: bool,
}

/// The largest number of tasks of one list.
const MOST: u32 = 1_000_000;
/// The largest page that is requested from a store. A store on etcd reads all tasks for each page of most orders, so few
/// large pages cost less than many small ones.
const PAGE: u32 = 10_000;

/// Reads an order.
fn order(text: &str) -> Result<Order, String> {
    text.parse().map_err(|e: Invalid| e.reason().to_owned())
}

/// Reads a reason.
fn reason(text: &str) -> Result<WaitKind, String> {
    text.parse().map_err(|e: Invalid| e.reason().to_owned())
}

/// Reads a cursor.
fn cursor(text: &str) -> Result<Cursor, String> {
    text.parse().map_err(|e: Invalid| e.reason().to_owned())
}

/// Lists them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    if !(1..=MOST).contains(&args.limit) {
        let reason = format!("{} is not from 1 to {MOST}", args.limit);
        return Err(Invalid::new("limit", reason).into());
    }
    let filter = args.filter.filter()?;
    if let Some(reason) = args.waits {
        args.filter.check_waits(reason)?;
    }
    let client = global.reading().await?;
    let out = global.out();
    if args.watch {
        return watch(&client, &out, &filter, args.limit).await;
    }
    let order = match &args.cursor {
        Some(cursor) if args.sort.is_none() => cursor.order(),
        _ if args.tree => Order::Submitted,
        _ => args.sort.unwrap_or_else(|| client.order_of_newest()),
    };
    let mut query = Query::new(filter.clone()).order(order);
    query.waits = args.waits;
    query.ascending = query.order.is_ascending() != args.reverse || args.tree;
    let is_first = args.cursor.is_none();
    let mut cursor = args.cursor;
    let mut has_own_ids = false;
    let mut left = args.limit;
    let mut shown = 0;
    // A table needs all its rows for the layout; JSON lines are printed immediately.
    let mut rows = Vec::new();
    loop {
        query.limit = left.min(PAGE);
        let page = client
            .page(&query, cursor.as_ref())
            .await
            .map_err(of_sort)?;
        let mut records = page.tasks;
        left -= u32::try_from(records.len()).unwrap_or(left);
        shown += records.len();
        has_own_ids |= records.iter().any(|record| !is_default(&record.task.id));
        if out.is_json() {
            view::records_of(&client, &out, &records, false).await?;
        } else {
            rows.append(&mut records);
        }
        let Some(next) = page.next else { break };
        if left == 0 {
            let more = match args.tree {
                true => "a greater --limit shows them".to_owned(),
                false => format!("the same command with --cursor {next} shows the next"),
            };
            out.note(format!("there are more tasks: {more}"));
            break;
        }
        cursor = Some(next);
    }
    if args.tree && !rows.is_empty() {
        graph::forest(&rows, &out)?;
    } else {
        view::records_of(&client, &out, &rows, false).await?;
    }
    if shown == 0 {
        let is_all = filter.is_all()
            && args.waits.is_none()
            && is_first
            && matches!(order, Order::Submitted | Order::Id);
        out.note(match order {
            _ if is_all => "there are no tasks",
            Order::Due => {
                "no sleeping task matches; '--sort due' lists only sleeping tasks, by the time at which they wake"
            }
            Order::Late => {
                "no task that waits for a node after its time has come matches; '--sort late' lists only such tasks"
            }
            Order::Ended => {
                "no ended task matches; '--sort ended' lists only ended tasks, by the time of their end"
            }
            _ => "no task matches",
        });
    }
    if has_own_ids && order == Order::Id && args.sort.is_none() && is_first {
        out.note(
            "these tasks are in the order of their ids, and ids of your own say nothing of the time; \
             '--sort submitted' lists the newest submits first, and reads every task",
        );
    }
    Ok(Exit::Ok)
}

/// Names the option in an error about the order.
fn of_sort(error: Error) -> Failure {
    match error {
        Error::Invalid(invalid) if invalid.field() == "order" => {
            Failure::Usage(format!("--sort: {}", invalid.reason()))
        }
        error => error.into(),
    }
}

/// Returns whether windlass could have made the id, which then begins with the time of the submit.
fn is_default(id: &TaskId) -> bool {
    uuid::Uuid::parse_str(id.as_str()).is_ok_and(|uuid| uuid.get_version_num() == 7)
}

/// Prints the tasks again when they change: the whole table on a terminal, otherwise each changed
/// task.
async fn watch(
    client: &Client,
    out: &Output,
    filter: &Filter,
    limit: u32,
) -> Result<Exit, Failure> {
    let redraw = !out.is_json() && std::io::stdout().is_terminal();
    loop {
        let mut changes = client.changes(None).await?;
        // A terminal shows one screen of tasks.
        let query = Query::new(filter.clone())
            .order(client.order_of_newest())
            .limit(limit.min(PAGE));
        let page = client.page(&query, None).await?;
        view::records_of(client, out, &page.tasks, redraw).await?;
        while let Some(Ok(batch)) = changes.next().await {
            let ids: BTreeSet<TaskId> = batch.into_iter().map(|c| c.task).collect();
            if redraw {
                // Draws the table at most a few times a second.
                tokio::time::sleep(Duration::from_millis(200)).await;
                let page = client.page(&query, None).await?;
                view::records_of(client, out, &page.tasks, true).await?;
                continue;
            }
            let mut records: Vec<TaskRecord> = Vec::new();
            for id in ids {
                match client.get(&id).await {
                    Ok(record) if filter.matches(&record) => records.push(record),
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            view::records_of(client, out, &records, false).await?;
        }
        // The stream broke: list again, to include the changes that were missed.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
