//! `windlass bulk`: one action on many tasks, by a task that does it in the background.

use serde::Serialize;
use windlass::{Client, Kind, TaskId};
use windlass_server::{
    Scope,
    bulk::{self, BulkAction, BulkFilter},
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    select::{SelectArgs, count, read},
    waiting::note_unhandled,
};

/// What to do, and to which tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A node of `windlass worker` or `windlass serve` runs the operation. Its task can be paused, resumed and killed, and goes on
after a crash; each task is changed once. It leaves alone what was submitted after the count. Its result has the counts, its log
each task that was not changed, with the reason.

Examples:
  windlass bulk retry --state failed --kind report --dry-run
  windlass bulk pause --kind 'inbox/*' --yes
  windlass list --kind bulk
  windlass get bulk-1764255600000000-4711-0f1e2d3c4b5a6978
  windlass logs bulk-1764255600000000-4711-0f1e2d3c4b5a6978")]
pub(crate) struct Args {
    /// What to do to each task: pause, resume, release, complete, kill, retry or delete
    #[arg(value_name = "ACTION", value_parser = clap::builder::PossibleValuesParser::new(BulkAction::ALL.map(BulkAction::as_str)))]
    action: String,

    #[command(flatten)]
    select: SelectArgs,
}

/// What was counted, and the task of the operation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Started {
    /// The number of tasks that match.
    tasks: u64,
    /// How many of them sleep or wait, or did when they were paused: a resume runs these at once. Absent without such a task,
    /// and for other actions than pause and resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipping: Option<u64>,
    /// The task of the operation; absent after a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<TaskId>,
}

/// Counts the tasks, and starts the operation.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let (out, hint) = (global.out(), global.hint());
    let actions = BulkAction::ALL.into_iter();
    let action = actions
        .clone()
        .find(|action| action.as_str() == args.action);
    let action =
        action.ok_or_else(|| Failure::Usage(format!("ACTION: '{}' is not one", args.action)))?;
    let filter = BulkFilter::of(&args.select.selecting(action.as_str())?)?;
    let scope = Scope::default();
    let counted = bulk::dry_run(&client, &filter, action, &scope).await?;
    let number = count(usize::try_from(counted.tasks).unwrap_or(usize::MAX));
    let left_out = left_out(&client, &out, (action, args.select.ids()), counted.tasks).await;
    if counted.skipping > 0 {
        out.note(format!(
            "note: {} of them sleep until a time, or wait for tasks or a signal, or did so when they were paused; a resume runs them at once",
            counted.skipping
        ));
    }
    let start = !args.select.is_dry_run() && counted.tasks > 0;
    if start && !args.select.is_confirmed(action.as_str(), &number)? {
        out.note("nothing was changed");
        return Ok(Exit::No);
    }
    let id = match start {
        true => Some(begun(&client, (filter, action), &counted).await?),
        false => None,
    };
    if out.is_json() {
        out.json(&Started {
            tasks: counted.tasks,
            skipping: Some(counted.skipping).filter(|tasks| *tasks > 0),
            id,
        })?;
        return Ok(left_out);
    }
    match id {
        Some(id) => {
            out.line(&id)?;
            out.note(format!(
                "{}: {number}; {} shows how far it is",
                action.as_str(),
                hint.on_task("get", &id)
            ));
            let kinds = [Kind::new(bulk::KIND)?].into();
            let then = "it begins when `windlass worker` or `windlass serve` runs";
            note_unhandled(&client, &out, &kinds, ("the operation waits", then)).await;
        }
        None => out.note(format!(
            "{}: {number} selected; nothing was changed",
            action.as_str()
        )),
    }
    Ok(left_out)
}

/// Reports which of the named tasks are not among the counted ones: those that are not there, and those in a state to which the
/// action does not apply. Returns how the program ends.
async fn left_out(
    client: &Client,
    out: &Output,
    (action, ids): (BulkAction, Vec<TaskId>),
    counted: u64,
) -> Exit {
    if ids.len() as u64 <= counted {
        return Exit::Ok;
    }
    let (records, exit) = read(client, ids).await;
    let states = action.states();
    for record in &records {
        let state = record.state.as_ref().ok().map(|state| state.code());
        if let Some(state) = state.filter(|state| !states.is_empty() && !states.contains(state)) {
            let (id, action) = (&record.task.id, action.as_str());
            out.note(format!(
                "note: '{id}' is {state}, and {action} leaves it alone"
            ));
        }
    }
    match exit {
        Exit::Ok | Exit::NotFound if counted > 0 || !records.is_empty() => Exit::No,
        exit => exit,
    }
}

async fn begun(
    client: &Client,
    what: (BulkFilter, BulkAction),
    counted: &bulk::Count,
) -> Result<TaskId, Failure> {
    let of = (counted.tasks, counted.key.as_str());
    Ok(bulk::start(client, what, of, (&Scope::default(), None)).await?)
}
