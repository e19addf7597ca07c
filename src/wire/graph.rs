//! [`GraphForm`]: the tasks that wait for each other, as clients read them.

use serde::Serialize;
use windlass_statemachine::TaskId;

use crate::client::{Around, Graph};

/// The tasks that wait for each other.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, client::Graph, store::Store, wire::GraphForm};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let id = client.submit(NewTask::new("mail").id("b").after(["a"])).await?.into_id();
/// let graph = Graph::read_above(&client, (&id, 100), |_| true).await?;
/// let form = serde_json::to_value(GraphForm::new(&graph, &graph.around(&id, 100)))?;
/// assert_eq!(form["edges"][0]["waits_for"], "a");
/// assert_eq!(form["tasks"][1]["state"], "unknown");
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Graph"))]
#[non_exhaustive]
pub struct GraphForm<'a> {
    /// The tasks.
    pub tasks: Vec<NodeForm<'a>>,
    /// Which of them waits for which.
    pub edges: Vec<EdgeForm<'a>>,
    /// Whether there are more tasks than the limit, or more than five times as many waits.
    pub is_cut: bool,
}

/// A task of a graph.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Node"))]
#[non_exhaustive]
pub struct NodeForm<'a> {
    /// The task.
    pub id: &'a TaskId,
    /// Its state, or `unknown`.
    pub state: &'a str,
    /// The state as lists show it: `running` or `queued` for a runnable task, otherwise `state`.
    pub shown: &'a str,
}

/// A wait.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Edge"))]
#[non_exhaustive]
pub struct EdgeForm<'a> {
    /// The task that waits.
    pub task: &'a TaskId,
    /// The task that it waits for.
    pub waits_for: &'a TaskId,
}

impl<'a> GraphForm<'a> {
    /// Returns the form of a part of a graph.
    pub fn new(graph: &'a Graph, around: &'a Around) -> Self {
        let tasks = around.tasks.iter();
        let tasks = tasks.map(|id| NodeForm {
            id,
            state: graph.state(id),
            shown: graph.shown(id),
        });
        let between = graph.between(around).into_iter();
        let between = between.map(|(task, waits_for)| EdgeForm { task, waits_for });
        Self {
            tasks: tasks.collect(),
            edges: between.collect(),
            is_cut: around.is_cut,
        }
    }
}
