//! `windlass node`: commands to nodes.

use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use windlass::{
    Client, NodeName, TaskId,
    statemachine::Backoff,
    store::{Error, NodeCommand, NodeCommandId},
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    waiting::{Deadline, WaitArgs},
};

/// The command to a node.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass node freeze build-1
  windlass node drain build-1 --wait --timeout 1m
  windlass node stop-task build-1 report-7")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Ask,
}

/// Examples of `stop-task`.
const STOP_TASK: &str = "\
Examples:
  windlass node stop-task build-1 report-7
  windlass node stop-task build-1 report-7 --wait --timeout 1m

The task is not ended: another node continues it. `windlass kill ID` ends a task, `windlass pause ID` keeps it from running.";

#[derive(Debug, Subcommand)]
enum Ask {
    /// Stop claiming and balancing; running tasks continue
    #[command(
        after_help = "Examples:\n  windlass node freeze build-1\n  windlass node freeze build-1 --wait"
    )]
    Freeze(Which),
    /// Claim again, after a freeze or a drain
    #[command(after_help = "Examples:\n  windlass node unfreeze build-1 --wait")]
    Unfreeze(Which),
    /// Stop claiming and release every task; the node stays
    #[command(after_help = "Examples:\n  windlass node drain build-1 --wait --timeout 1m")]
    Drain(Which),
    /// Run the balancer now
    #[command(after_help = "Examples:\n  windlass node balance build-1 --wait")]
    Balance(Which),
    /// Stop the handler of one task and release the task; the node does not claim it for 30 seconds, so that another node can
    #[command(after_help = STOP_TASK)]
    StopTask(WhichTask),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The node
    #[arg(value_name = "NODE")]
    node: NodeName,
    #[command(flatten)]
    wait: WaitArgs,
}

#[derive(Debug, clap::Args)]
struct WhichTask {
    /// The node
    #[arg(value_name = "NODE")]
    node: NodeName,
    /// The task
    #[arg(value_name = "ID")]
    task: TaskId,
    #[command(flatten)]
    wait: WaitArgs,
}

/// A command that was sent to a node.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Sent<'a> {
    /// The node.
    node: &'a NodeName,
    /// The name of the command.
    action: &'static str,
    /// Its number.
    order: NodeCommandId,
    /// The answer of the node, with `--wait`.
    answer: Option<&'a str>,
}

/// Sends the command.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let (name, which, command) = match args.command {
        Ask::Freeze(which) => ("freeze", which, NodeCommand::Freeze),
        Ask::Unfreeze(which) => ("unfreeze", which, NodeCommand::Unfreeze),
        Ask::Drain(which) => ("drain", which, NodeCommand::Drain),
        Ask::Balance(which) => ("balance", which, NodeCommand::Balance),
        Ask::StopTask(WhichTask { node, task, wait }) => (
            "stop-task",
            Which { node, wait },
            NodeCommand::StopTask { task },
        ),
    };
    let Which { node, wait } = which;
    let client = global.existing().await?;
    let out = global.out();
    let has_task = match &command {
        NodeCommand::StopTask { task } if !wait.wait => has(&client, &out, (&node, task)).await,
        _ => true,
    };
    let order = client.command_node(&node, command).await?;
    let answer = if wait.wait {
        let what = format!("node '{node}' has not answered {name}");
        Some(
            Deadline::after(wait.timeout)
                .within(&what, answer(&client, order))
                .await?,
        )
    } else {
        None
    };
    let is_done = answer.as_deref().is_none_or(|answer| is_done(name, answer));
    if out.is_json() {
        out.json(&Sent {
            node: &node,
            action: name,
            order,
            answer: answer.as_deref(),
        })?;
    } else {
        let then = match (name, answer.as_deref()) {
            ("stop-task", None) if has_task => {
                "; once the task is released, this node does not claim it for 30 s"
            }
            ("stop-task", Some("released")) => "; this node does not claim the task for 30 s",
            _ => "",
        };
        let answer = answer.unwrap_or_else(|| "sent".into());
        out.line(format!("{node}: {name}: {answer}{then}"))?;
    }
    Ok(if is_done { Exit::Ok } else { Exit::No })
}

/// Returns whether the node which is asked to release a task has claimed it, as far as is known. Notes otherwise that the
/// command has no effect.
async fn has(client: &Client, out: &Output, (node, task): (&NodeName, &TaskId)) -> bool {
    let why = match client.get(task).await {
        Err(Error::NotFound { .. }) => format!("there is no task '{task}'"),
        Ok(record) if record.node.as_ref() != Some(node) => match record.node {
            Some(other) => format!("task '{task}' is claimed by node '{other}'"),
            None => format!("no node has claimed task '{task}'"),
        },
        // The command itself reports a store that does not respond.
        _ => return true,
    };
    out.note(format!(
        "note: {why}; node '{node}' has nothing to release, and the command has no effect"
    ));
    false
}

/// Returns whether an answer reports success. Releasing a task that the node did not have is not a
/// success, nor is a cancelled drain.
fn is_done(name: &str, answer: &str) -> bool {
    match name {
        "stop-task" => answer == "released",
        "drain" => answer == "drained",
        _ => true,
    }
}

/// Waits for the node's answer by polling: nodes are few and answer quickly.
async fn answer(client: &Client, order: NodeCommandId) -> Result<String, Failure> {
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(250));
    loop {
        if let Some(answer) = client.node_outcome(order).await? {
            return Ok(answer);
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_to_nothing_is_not_done() {
        assert!(is_done("drain", "drained") && is_done("stop-task", "released"));
        assert!(!is_done("drain", "unfrozen before it was empty"));
        assert!(!is_done("stop-task", "the task is not on this node"));
        assert!(is_done("balance", "balanced: 0 tasks released"));
    }
}
