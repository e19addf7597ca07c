//! [`Registry`] for [`FaultyStore`].

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, TaskId};

use super::{FaultyStore, Operation};
use crate::store::{
    Change, ChangeStream, CommandRecord, Count, Error, Exported, Filter, Limits, NodeCommand,
    NodeRecord, Page, Registry, Send, Submit, Submitted, TaskRecord,
    examine::{Examination, Finding},
};

#[async_trait]
impl Registry for FaultyStore {
    fn limits(&self) -> Limits {
        self.registry().limits()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.call(Operation::Read, self.registry().identity()).await
    }

    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let items = tasks.len();
        let call = self.registry().submit(tasks);
        self.calls_of(Operation::Submit, items, call).await
    }

    async fn send(&self, commands: Vec<Send>) -> Vec<Result<u64, Error>> {
        let items = commands.len();
        let call = self.registry().send(commands);
        self.calls_of(Operation::Send, items, call).await
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.call(Operation::Read, self.registry().command(id))
            .await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.call(Operation::Read, self.registry().commands(task))
            .await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        self.call(Operation::Read, self.registry().get(id)).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        let call = self.registry().list(filter, page);
        self.call(Operation::Read, call).await
    }

    async fn counts(&self) -> Result<Vec<Count>, Error> {
        self.call(Operation::Read, self.registry().counts()).await
    }

    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let items = ids.len();
        let call = self.registry().delete(ids);
        self.calls_of(Operation::Delete, items, call).await
    }

    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let items = ids.len();
        let call = self.registry().retry(ids);
        self.calls_of(Operation::Retry, items, call).await
    }

    async fn purge(&self, states: &[Code], before: Timestamp, limit: u32) -> Result<u64, Error> {
        let call = self.registry().purge(states, before, limit);
        self.call(Operation::Delete, call).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.call(Operation::Read, self.registry().nodes()).await
    }

    async fn send_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error> {
        let call = self.registry().send_node(node, command);
        self.call(Operation::Send, call).await
    }

    async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        let call = self.registry().node_outcome(order);
        self.call(Operation::Read, call).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        let call = self.registry().history(id, limit);
        self.call(Operation::Read, call).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        let call = self.registry().changes(after);
        self.call(Operation::Read, call).await
    }

    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.call(Operation::Read, self.registry().ids()).await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let call = self.registry().export(ids);
        self.calls_of(Operation::Read, ids.len(), call).await
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let items = tasks.len();
        let call = self.registry().import(tasks);
        self.calls_of(Operation::Submit, items, call).await
    }

    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        self.call(Operation::Read, self.registry().examine(how))
            .await
    }
}
