//! [`Seen`]: what the page of a task is made of.

use serde::Deserialize;

use super::{
    Failure,
    form::encoded,
    frame::Page,
    record::{Change, Commands, Graph, History, Log, Record, Sent, Why},
};

/// The part of a node that the page of its task shows.
#[derive(Deserialize)]
struct Node {
    name: String,
    lease_left_ms: u64,
}

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

/// What the page shows of a task.
pub(super) struct Seen {
    pub(super) task: Record,
    pub(super) why: Why,
    pub(super) changes: Vec<Change>,
    pub(super) commands: Vec<Sent>,
    pub(super) log: Log,
    pub(super) graph: Option<Graph>,
    pub(super) lease_left_ms: Option<u64>,
    /// Whether there may be older changes.
    pub(super) has_older: bool,
}

pub(super) async fn see(
    page: &Page,
    id: &str,
    (most, tree): (usize, bool),
) -> Result<Seen, Failure> {
    let path = format!("/v1/tasks/{}", encoded(id));
    let task: Record = page.api.get(&path).await?;
    let history: History = page
        .api
        .get(&format!("{path}/history?limit={}", most + 1))
        .await?;
    let commands: Commands = page.api.get(&format!("{path}/commands")).await?;
    let graph = match tree || task.waits_for.is_some() {
        true => Some(
            page.api
                .get(&format!("{path}/graph?limit=100&waiters={tree}"))
                .await?,
        ),
        false => None,
    };
    let lease_left_ms = match &task.node {
        Some(owner) if page.sees_everything() => {
            let nodes: Nodes = page.api.get("/v1/nodes").await?;
            nodes
                .nodes
                .into_iter()
                .find(|node| node.name == *owner)
                .map(|node| node.lease_left_ms)
        }
        _ => None,
    };
    let mut changes = history.changes;
    let has_older = changes.len() > most;
    if has_older {
        changes.remove(0);
    }
    Ok(Seen {
        why: page.api.get(&format!("{path}/why")).await?,
        log: page.api.get(&format!("{path}/log")).await?,
        commands: commands.commands,
        changes,
        graph,
        lease_left_ms,
        has_older,
        task,
    })
}

impl Seen {
    /// Returns whether a signal with this name waits for a run of the task.
    pub(super) fn is_answered(&self, name: &str) -> bool {
        let mut waiting = self.commands.iter().filter(|sent| sent.outcome.is_none());
        waiting.any(|sent| sent.command.name.as_deref() == Some(name))
    }
}
