//! [`Registry`] for [`EtcdStore`].

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, TaskId};

use super::{store::EtcdStore, write::in_order};
use crate::store::{
    Change, ChangeStream, CommandRecord, Count, Error, Exported, Filter, Limits, NodeCommand,
    NodeRecord, Page, Registry, Send, Submit, Submitted, TaskRecord,
    examine::{Examination, Finding},
};

#[async_trait]
impl Registry for EtcdStore {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.0.queries.identity().await
    }

    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let run = |submit| self.0.submits.submit(submit);
        in_order(tasks, |submit| submit.task.id.clone(), run).await
    }

    async fn send(&self, commands: Vec<Send>) -> Vec<Result<u64, Error>> {
        let run = |send| self.0.commands.send(send);
        in_order(commands, |send| send.task.clone(), run).await
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.0.commands.command(id).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.0.commands.commands(task).await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        self.0.queries.get(id).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        self.0.queries.list(filter, page).await
    }

    async fn counts(&self) -> Result<Vec<Count>, Error> {
        self.0.queries.counts().await
    }

    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let run = |id| async move { self.0.deletes.delete(&id).await };
        in_order(ids, TaskId::clone, run).await
    }

    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let run = |id| async move { self.0.retries.retry(&id).await };
        in_order(ids, TaskId::clone, run).await
    }

    async fn purge(&self, states: &[Code], before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.0.purges.purge(states, before, limit).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.0.peers.nodes().await
    }

    async fn send_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error> {
        self.0.node_commands.send_node(node, command).await
    }

    async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        self.0.node_commands.node_outcome(order).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.0.queries.history(id, limit).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.0.feed.changes(after).await
    }

    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.0.queries.ids().await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        self.0.queries.export(ids).await
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        self.0.imports.import(tasks).await
    }

    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        self.0.doctor.examine(how).await
    }
}
