//! `windlass retry`: restarts ended tasks.

use crate::{
    bulk::Report,
    dependents::{Dependents, dependents},
    exit::{Exit, Failure},
    global::Global,
    select::{Choice, SelectArgs, is_ended},
};

/// Which tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass retry report-7
  windlass retry fetch-7 --with-dependents --dry-run
  windlass retry --state failed --kind report --dry-run
  windlass retry --state failed --error 'connection refused' --yes
  windlass retry --quarantined --yes")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,

    /// Also retry the tasks that failed only because they wait for one of these (after_ok), directly or
    /// indirectly. A named task that is live or has completed is not retried itself, so that an interrupted
    /// command can be repeated. Asks for confirmation, as with filters
    #[arg(long)]
    with_dependents: bool,
}

/// Restarts them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let out = global.out();
    let (choice, waves) = if args.with_dependents {
        if !args
            .select
            .has_ids_alone()
            .is_ok_and(|()| !args.select.ids().is_empty())
        {
            return Err(Failure::Usage(
                "--with-dependents takes the ids of tasks, and no filters; `windlass list` with the filters shows the ids"
                    .into(),
            ));
        }
        let found = dependents(&client, &args.select.ids()).await?;
        let Dependents {
            roots,
            settled,
            waves,
            others,
        } = found;
        for (id, state) in settled {
            out.note(format!(
                "note: task '{id}' is {state}, and is not retried; tasks that failed because of it are"
            ));
        }
        let choice = (args.select).choose_with(&client, &out, "retry", (roots, others));
        (choice.await?, Some(waves))
    } else {
        let choice = args.select.choose(&client, &out, "retry", is_ended);
        (choice.await?, None)
    };
    let ids = match choice {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let mut tasks = Vec::new();
    for wave in waves.unwrap_or_else(|| vec![ids]) {
        let bar = out.progress(wave.len() as u64, "retry");
        let report = Report::run("retry", wave, &bar, |ids| async {
            let answers = client.retry_many(ids).await;
            answers.into_iter().map(|a| a.map(|()| None)).collect()
        });
        tasks.extend(report.await.tasks);
    }
    Report::new("retry", tasks).print(&out, "started again")
}
