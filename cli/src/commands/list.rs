//! `windlass list`: the matching tasks.

use std::{collections::BTreeSet, io::IsTerminal, time::Duration};

use futures::StreamExt;
use windlass::{
    Client, Invalid, TaskId,
    store::{Error, Filter, Page, TaskRecord},
};

use super::graph;
use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    parse,
    select::FilterArgs,
    view,
};

/// Which tasks, and how many.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass list
  windlass list --claimed
  windlass list --state failed,fault --kind report
  windlass list --label team=billing --error timeout -o json | jq -r .id
  windlass list --state runnable --watch")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,

    /// Show at most N tasks: 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse::from_zero::<u32>)]
    limit: u32,

    /// Only tasks submitted after the task with this order; the end of a page names the next
    #[arg(long, value_name = "ORDER", default_value_t = 0, value_parser = parse::from_zero::<u64>)]
    after: u64,

    /// Keep running, and show tasks again when they change
    #[arg(long)]
    watch: bool,

    /// Show ids and states as a tree: below each task those that wait for it. From level 41 on the indent stays, and
    /// the level stands before the id
    #[arg(long, conflicts_with = "watch")]
    tree: bool,
}

/// The largest number of tasks of one list.
const MOST: u32 = 1_000_000;
/// The largest page that is requested from a store, less one. A store on etcd reads all tasks for
/// each page, so few large pages cost less than many small ones.
const PAGE: u32 = 9_999;

/// Lists them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    if !(1..=MOST).contains(&args.limit) {
        let reason = format!("{} is not from 1 to {MOST}", args.limit);
        return Err(Invalid::new("limit", reason).into());
    }
    let client = global.reading().await?;
    let out = global.out();
    let filter = args.filter.filter();
    if args.watch {
        return watch(&client, &out, &filter, args.limit).await;
    }
    let mut page = Page {
        after: args.after,
        limit: 0,
    };
    let mut left = args.limit;
    let mut shown = 0;
    // A table needs all its rows for the layout; JSON lines are printed at once.
    let mut rows = Vec::new();
    loop {
        // One more than wanted shows whether there are more.
        page.limit = left.min(PAGE) + 1;
        let mut records = client.list(&filter, page).await?;
        let more = records.len() > page.limit as usize - 1;
        records.truncate(page.limit as usize - 1);
        let Some(last) = records.last() else { break };
        page.after = last.order;
        left -= u32::try_from(records.len()).unwrap_or(left);
        shown += records.len();
        if out.is_json() {
            view::records_of(&client, &out, &records, false).await?;
        } else {
            rows.append(&mut records);
        }
        if !more {
            break;
        }
        if left == 0 {
            out.note(format!(
                "there are more: --after {} shows the next",
                page.after
            ));
            break;
        }
    }
    if args.tree && !rows.is_empty() {
        graph::forest(&rows, &out)?;
    } else {
        view::records_of(&client, &out, &rows, false).await?;
    }
    if shown == 0 {
        let is_all = filter.is_all() && args.after == 0;
        out.note(if is_all {
            "there are no tasks"
        } else {
            "there are no such tasks"
        });
    }
    Ok(Exit::Ok)
}

/// A terminal shows the table again; elsewhere each changed task is printed again.
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
        let page = Page {
            after: 0,
            limit: limit.min(PAGE),
        };
        view::records_of(client, out, &client.list(filter, page).await?, redraw).await?;
        while let Some(Ok(batch)) = changes.next().await {
            let ids: BTreeSet<TaskId> = batch.into_iter().map(|c| c.task).collect();
            if redraw {
                // The table is drawn at most a few times a second.
                tokio::time::sleep(Duration::from_millis(200)).await;
                view::records_of(client, out, &client.list(filter, page).await?, true).await?;
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
