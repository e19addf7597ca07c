//! Commands to nodes, and their answers.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{
    NodeName,
    store::{Error, Filter, NodeCommand, NodeCommandId, NodeRecord, Page},
};

use crate::{
    BoxError,
    traffic::{AGAIN, Traffic},
};

/// A command that the store has acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// The node.
    pub node: NodeName,
    /// The lease that the node had shortly before.
    pub lease: u64,
    /// The number of the command.
    pub order: NodeCommandId,
    /// What was asked.
    pub command: NodeCommand,
    /// How it ended, as far as it is known.
    pub end: End,
}

/// How a command to a node ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The node has not answered, and lives.
    Waits,
    /// The node has answered this.
    Answered(String),
    /// The command is gone, and the lease of the node too.
    Gone,
    /// The command is gone, and the lease of the node lives.
    Forgotten,
}

impl Traffic {
    /// Freezes, drains and balances nodes, and takes tasks from them, until a time.
    ///
    /// # Errors
    ///
    /// When the store refuses it.
    pub async fn command_nodes(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(300..2000))).await;
            let nodes = match self.client().nodes().await {
                Ok(nodes) => nodes,
                Err(e) if e.is_retryable() => continue,
                Err(e) => return Err(e.into()),
            };
            if nodes.is_empty() {
                continue;
            }
            let node = &nodes[rng.usize(0..nodes.len())];
            let command = match rng.u32(0..5) {
                0 => NodeCommand::Drain,
                1 => NodeCommand::Freeze,
                2 => NodeCommand::Balance,
                _ => match self.one_of(node, &mut rng).await {
                    Some(command) => command,
                    None => continue,
                },
            };
            let lasts = matches!(command, NodeCommand::Drain | NodeCommand::Freeze);
            // A node that has ended in the meantime needs no command; nodes that are still frozen
            // at the end are unfrozen then.
            if self.order(node, command).await? && lasts {
                sleep(Duration::from_millis(rng.u64(100..800))).await;
                self.order(node, NodeCommand::Unfreeze).await?;
            }
        }
        Ok(())
    }

    /// The command to stop one of the tasks of a node.
    async fn one_of(&self, node: &NodeRecord, rng: &mut Rng) -> Option<NodeCommand> {
        let filter = Filter::new().node(node.spec.name.clone());
        let held = self.client().list(&filter, Page::default()).await.ok()?;
        let task = held.get(rng.usize(0..held.len().max(1)))?;
        let task = task.task.id.clone();
        Some(NodeCommand::StopTask { task })
    }

    /// Sends a command to a node and remembers it; returns whether it was acknowledged.
    ///
    /// # Errors
    ///
    /// When the store refuses it for another reason than the end of the node.
    pub async fn order(&self, node: &NodeRecord, command: NodeCommand) -> Result<bool, BoxError> {
        let sent = self.client().command_node(&node.spec.name, command.clone());
        match sent.await {
            Ok(order) => {
                self.lock().node_commands.push(Ordered {
                    node: node.spec.name.clone(),
                    lease: node.lease,
                    order,
                    command,
                    end: End::Waits,
                });
                Ok(true)
            }
            Err(Error::NotFound { .. }) => Ok(false),
            Err(e) if e.is_retryable() => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads the answers of all commands to nodes, and waits for those that are missing until
    /// `within` is over.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn hear_nodes(&self, within: Duration) -> Result<(), BoxError> {
        let deadline = Instant::now() + within;
        loop {
            let mut sent = self.promised().node_commands;
            let mut waits = 0;
            for command in sent.iter_mut().filter(|c| c.end == End::Waits) {
                command.end = self.end_of(command).await?;
                waits += usize::from(command.end == End::Waits);
            }
            self.lock().node_commands = sent;
            if waits == 0 || Instant::now() > deadline {
                return Ok(());
            }
            sleep(AGAIN).await;
        }
    }

    async fn end_of(&self, command: &Ordered) -> Result<End, BoxError> {
        match self.client().node_outcome(command.order).await {
            Ok(Some(answer)) => Ok(End::Answered(answer)),
            Ok(None) => Ok(End::Waits),
            Err(Error::NotFound { .. }) => {
                // The lease may have ended and the node joined again before the command was sent:
                // a lease that still lives is the one that the command was sent to.
                let nodes = match self.client().nodes().await {
                    Ok(nodes) => nodes,
                    Err(e) if e.is_retryable() => return Ok(End::Waits),
                    Err(e) => return Err(e.into()),
                };
                let lives = nodes.iter().any(|node| node.lease == command.lease);
                Ok(if lives { End::Forgotten } else { End::Gone })
            }
            Err(e) if e.is_retryable() => Ok(End::Waits),
            Err(e) => Err(e.into()),
        }
    }
}
