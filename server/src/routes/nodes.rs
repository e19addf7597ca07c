//! The nodes that run tasks, and commands to them.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, Request, State},
    http::StatusCode,
    response::Response,
};
use serde::Serialize;
use windlass::{
    NodeName,
    store::{NodeCommand, NodeCommandId, NodeRecord},
};

use super::{json, json_with, tasks::whole};
use crate::{
    access::{Admin, Reader, name},
    app::App,
    params::{Params, read_form},
    problem::Problem,
};

#[derive(Serialize)]
struct NodesForm {
    nodes: Vec<NodeRecord>,
}

/// Returns the live nodes.
pub(super) async fn list(by: Reader, params: Params) -> Result<Response, Problem> {
    params.end()?;
    by.check_unscoped()?;
    let nodes = by.client().nodes().await?;
    let hiding = by.hiding().await?;
    let nodes = nodes.into_iter().map(|node| hiding.node(node));
    json(&NodesForm {
        nodes: nodes.collect(),
    })
}

#[derive(Serialize)]
struct SentForm<'a> {
    node: &'a NodeName,
    /// The number of the command.
    order: NodeCommandId,
}

/// Sends a command to a node: `{"command":"freeze"}`; `unfreeze`, `balance`, `drain`, `stop-task` with `task`.
pub(super) async fn send(
    State(app): State<Arc<App>>,
    by: Admin,
    Path(node): Path<String>,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let node: NodeName = name(&node)?;
    let body = whole(request, &app).await?;
    let command: NodeCommand = read_form(&body, r#"{"command":"freeze"}"#)?;
    let order = by.client().command_node(node.clone(), command).await?;
    json_with(StatusCode::ACCEPTED, &SentForm { node: &node, order })
}

#[derive(Serialize)]
struct AnswerForm {
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
