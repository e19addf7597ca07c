//! `windlass delete`: deletes tasks with their state and history.

use crate::{
    bulk::Report,
    exit::{Exit, Failure},
    global::Global,
    select::{Choice, SelectArgs},
};

/// Which tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass delete report-7
  windlass delete report-7 --force
  windlass delete --kind scratch --dry-run
  windlass delete --label run=2026-11-21 --yes")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,

    /// Also delete tasks that a node has claimed: their handlers are stopped, and what they return is lost
    #[arg(long)]
    force: bool,
}

/// Deletes them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let out = global.out();
    let ids = match args
        .select
        .choose(&client, &out, "delete", |_| true)
        .await?
    {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let bar = out.progress(ids.len() as u64, "delete");
    Report::run("delete", ids, &bar, |ids| async {
        let answers = match args.force {
            true => client.force_delete_many(ids).await,
            false => client.delete_many(ids).await,
        };
        answers.into_iter().map(|a| a.map(|()| None)).collect()
    })
    .await
    .print(&out, "deleted")
}
