//! `windlass retry`: restarts ended tasks.

use std::collections::BTreeSet;

use windlass::{
    Client, Kind, StateKind,
    store::{RetryTask, TaskRecord},
};

use crate::{
    bulk::{Item, Report},
    changed_props::check_props,
    dependents::{Dependents, dependents},
    exit::{Exit, Failure},
    global::Global,
    input,
    output::Output,
    select::{Choice, Remark, SelectArgs, Wanted, is_ended},
    waiting::note_unhandled,
};

/// How many of the tasks are read at most for a note about their kinds.
const READ: usize = 100;

/// Which tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass retry report-7
  windlass retry fetch-7 --with-dependents --dry-run
  windlass retry --state failed --kind report --dry-run
  windlass retry --state failed --error 'connection refused' --yes
  windlass retry --quarantined --yes
  windlass retry report-7 --props '{\"month\": 5}'")]
pub(crate) struct Args {
    #[command(flatten)]
    select: SelectArgs,

    /// Also retry the tasks that failed only because they wait for one of these (after_ok), directly or
    /// indirectly. A named task that is live or has completed is not retried itself, so that an interrupted
    /// command can be repeated. Asks for confirmation, as with filters
    #[arg(long)]
    with_dependents: bool,

    /// Start the one named task with this data instead of its own: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    data: Option<String>,

    /// Start the one named task with these props instead of its own: JSON, @FILE, or - for standard input
    #[arg(long = "props", id = "new_props", value_name = "JSON")]
    props: Option<String>,
}

/// Restarts them.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let out = global.out();
    if args.data.is_some() || args.props.is_some() {
        if args.with_dependents {
            return Err(Failure::Usage(
                "--data and --props change one task; retry that one first, and then again with --with-dependents alone: \
                 it starts the tasks that failed because of it"
                    .into(),
            ));
        }
        return edited(args, &client, &out).await;
    }
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
        let choice = args.select.choose_wanted(&client, &out, "retry", ENDED);
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
    let report = Report::new("retry", tasks);
    note_kinds(&client, &out, &report).await;
    report.print(&out, "started again")
}

/// What filters select: a task that was repaired still has its errors, and `--error` selects it.
const ENDED: Wanted = Wanted {
    takes: is_ended,
    remark: Some(Remark {
        concerns: |record: &TaskRecord, _| {
            let state = record.state.as_ref();
            state.is_ok_and(|state| state.code() == StateKind::Completed)
        },
        text: "completed already, and would run again; --state failed leaves them out",
    }),
};

/// Notes the kinds of tasks that were started again which no live node handles.
async fn note_kinds(client: &Client, out: &Output, report: &Report) {
    let mut kinds = BTreeSet::<Kind>::new();
    let done = report.tasks.iter().filter(|one| one.error.is_none());
    for one in done.take(READ) {
        if let Ok(record) = client.get(&one.id).await
            && record.node.is_none()
        {
            kinds.insert(record.task.kind);
        }
    }
    let (lines, others): (BTreeSet<Kind>, _) = kinds
        .into_iter()
        .partition(|kind| kind.as_str() == Kind::RUN_LINE);
    let again = "the same `windlass run` again, in the same folder, runs its lines";
    note_unhandled(client, out, &lines, ("they wait", again)).await;
    let then = "they run when one starts";
    note_unhandled(client, out, &others, ("they wait", then)).await;
}

/// Restarts one task with other data or props.
async fn edited(args: Args, client: &Client, out: &Output) -> Result<Exit, Failure> {
    let json = |field, text: Option<String>| text.map(|text| input::json(field, &text)).transpose();
    let (data, props) = (json("data", args.data)?, json("props", args.props)?);
    let choice = args.select.choose(client, out, "retry", is_ended).await?;
    let ids = match choice {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let [id] = ids.as_slice() else {
        let text = format!(
            "--data and --props are for one task, and {} are selected; name one",
            ids.len()
        );
        return Err(Failure::Usage(text));
    };
    if let (Some(props), Ok(record)) = (&props, client.get(id).await) {
        check_props(&record.task.kind, props)?;
    }
    let mut retry = RetryTask::new(id.clone());
    (retry.data, retry.props) = (data, props);
    let item = match client.retry_with(retry).await {
        Ok(()) => Item::done(id.clone()),
        Err(error) => Item::failed(id.clone(), error),
    };
    Report::one("retry", item).print(out, "started again")
}
