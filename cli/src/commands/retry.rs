//! `windlass retry`: restarts ended tasks.

use crate::{
    bulk::Report,
    exit::{Exit, Failure},
    global::Global,
    select::{Choice, SelectArgs, is_ended},
};

/// Which tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass retry report-7
  windlass retry --state failed --kind report --dry-run
  windlass retry --state failed --error 'connection refused' --yes
  windlass retry --quarantined --yes")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,
}

/// Restarts them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let out = global.out();
    let ids = match args.select.choose(&client, &out, "retry", is_ended).await? {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let bar = out.progress(ids.len() as u64, "retry");
    let registry = client.store().registry();
    Report::run("retry", ids, &bar, |ids| async {
        let answers = registry.retry(ids).await;
        answers.into_iter().map(|a| a.map(|()| None)).collect()
    })
    .await
    .print(&out, "started again")
}
