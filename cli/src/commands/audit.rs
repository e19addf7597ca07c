//! `windlass audit`: shows the history of the namespace.

use windlass::{
    Author, TaskId,
    store::{AuditAction, AuditEntry, NodeCommand},
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    parse,
    view::text,
};

/// How many lines to show.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The audit has the deletions, purges and commands to nodes of the last 90 days. Deletions by the retention of a worker
are not recorded. copy and export do not include the audit. Changes of a task that still exists are in its own history:
windlass get ID --history.

Examples:
  windlass audit
  windlass audit --limit 1000 -o json | jq 'select(.by == \"alice\")'")]
pub(crate) struct Args {
    /// Show only the deletions of this task
    #[arg(value_name = "ID")]
    id: Option<TaskId>,

    /// Show only what this author did
    #[arg(long, value_name = "AUTHOR")]
    by: Option<Author>,

    /// Show at most the last N lines
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = parse::from_one::<u32>)]
    limit: u32,
}

impl Args {
    fn selects(&self, line: &AuditEntry) -> bool {
        let is_of =
            |id: &TaskId| matches!(&line.what, AuditAction::Deleted { task, .. } if task == id);
        self.id.as_ref().is_none_or(is_of)
            && self
                .by
                .as_ref()
                .is_none_or(|by| line.by.as_ref() == Some(by))
    }
}

/// Prints the newest lines, oldest first.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let mut lines = client.audit(u32::MAX).await?;
    lines.retain(|line| args.selects(line));
    let over = lines.len().saturating_sub(args.limit as usize);
    lines.drain(..over);
    if out.is_json() {
        for line in &lines {
            out.json(line)?;
        }
        return Ok(Exit::Ok);
    }
    if lines.is_empty() {
        out.note("no such deletion, purge or command to a node within 90 days");
    }
    let by = |line: &AuditEntry| line.by.as_ref().map_or("", |by| by.as_str()).to_owned();
    let rows = lines.iter().map(|line| {
        vec![
            text(format!("{:.3}", line.at)),
            text(by(line)),
            text(action(&line.what)),
        ]
    });
    out.narrow_table(&["AT", "BY", "ACTION"], &[], rows.collect())?;
    Ok(Exit::Ok)
}

/// Describes an action.
fn action(what: &AuditAction) -> String {
    match what {
        AuditAction::Deleted {
            task,
            kind: Some(kind),
        } => format!("deleted task {task} (kind {kind})"),
        AuditAction::Deleted { task, kind: None } => format!("deleted task {task}"),
        AuditAction::Purged {
            states,
            before,
            tasks,
        } => {
            let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
            let noun = if *tasks == 1 { "task" } else { "tasks" };
            format!(
                "purged {tasks} {noun} that ended before {before} ({})",
                states.join(", ")
            )
        }
        AuditAction::NodeCommanded { node, send } => {
            let command = match send {
                NodeCommand::Freeze => "freeze".to_owned(),
                NodeCommand::Unfreeze => "unfreeze".to_owned(),
                NodeCommand::Balance => "balance".to_owned(),
                NodeCommand::Drain => "drain".to_owned(),
                NodeCommand::StopTask { task } => format!("stop-task {task}"),
                // A newer library may have more commands than this program knows.
                other => format!("{other:?}"),
            };
            format!("sent {command} to node {node}")
        }
        AuditAction::ValueSet { name } => format!("set the value {name}"),
        AuditAction::ValueDeleted { name } => format!("deleted the value {name}"),
        // A newer library may have more actions than this program knows.
        other => format!("{other:?}"),
    }
}
