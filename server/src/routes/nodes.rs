//! The nodes that run tasks, and commands to them.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use serde::Serialize;
use windlass::{
    NodeName,
    store::{NodeCommand, NodeCommandId, NodeRecord},
};

use super::{json, json_with};
use crate::{
    access::{Admin, Reader, name},
    app::App,
    node_history::Recent,
    params::{Form, Formed, Params},
    problem::Problem,
};

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct NodesForm {
    /// The live nodes and remote workers.
    nodes: Vec<NodeRecord>,
    /// The nodes that joined more than once within the last hour, then those that are gone, as this server has seen it since it
    /// began; each the last change first. Absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recent: Vec<Recent>,
}

/// Returns the live nodes.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    by: Reader,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    by.check_unscoped()?;
    let nodes = by.client().nodes().await?;
    app.node_history.look(&nodes, app.client.now());
    let hiding = by.hiding().await?;
    let nodes = nodes.into_iter().map(|node| hiding.node(node));
    json(&NodesForm {
        nodes: nodes.collect(),
        recent: app.node_history.recent(),
    })
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct SentForm<'a> {
    node: &'a NodeName,
    /// The number of the command.
    order: NodeCommandId,
}

impl Formed for NodeCommand {
    const LIKE: &str = r#"{"command":"freeze"}"#;
}

/// Sends a command to a node: `{"command":"freeze"}`; `unfreeze`, `balance`, `drain`, `stop-task` with `task`.
pub(super) async fn send(
    by: Admin,
    Path(node): Path<String>,
    Form(command): Form<NodeCommand>,
) -> Result<Response, Problem> {
    let node: NodeName = name(&node)?;
    let order = by.client().command_node(node.clone(), command).await?;
    json_with(StatusCode::ACCEPTED, &SentForm { node: &node, order })
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AnswerForm {
    /// The answer of the node; `null` while it has not answered.
    answer: Option<String>,
}

/// Returns a node's answer to a command.
pub(super) async fn answer(
    by: Admin,
    Path(order): Path<u64>,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let answer = by.client().node_outcome(NodeCommandId(order)).await?;
    json(&AnswerForm { answer })
}
