//! [`Registry`] for [`MemoryStore`].

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, TaskId};

use super::MemoryStore;
use crate::store::{
    Change, ChangeStream, CommandRecord, Count, Error, Exported, Filter, Limits, NodeCommand,
    NodeRecord, Page, Registry, Send, Submit, Submitted, TaskRecord,
};

#[async_trait]
impl Registry for MemoryStore {
    fn limits(&self) -> Limits {
        self.shared.lock().0.limits
    }

    async fn identity(&self) -> Result<String, Error> {
        Ok(self.shared.identity.clone())
    }

    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let (mut world, now) = self.shared.lock();
        let tasks = tasks.into_iter();
        tasks.map(|task| world.submit(task, now)).collect()
    }

    async fn send(&self, commands: Vec<Send>) -> Vec<Result<u64, Error>> {
        let (mut world, now) = self.shared.lock();
        let commands = commands.into_iter();
        commands.map(|command| world.send(command, now)).collect()
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.shared.lock().0.command(id)
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.shared.lock().0.commands_of(task)
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let (world, _) = self.shared.lock();
        Ok(world.record_of(world.row(id)?))
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        self.shared.lock().0.list(filter, page)
    }

    async fn counts(&self) -> Result<Vec<Count>, Error> {
        Ok(self.shared.lock().0.counts())
    }

    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let (mut world, now) = self.shared.lock();
        ids.iter().map(|id| world.delete(id, now)).collect()
    }

    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let (mut world, now) = self.shared.lock();
        ids.iter().map(|id| world.retry(id, now)).collect()
    }

    async fn purge(&self, states: &[Code], before: Timestamp, limit: u32) -> Result<u64, Error> {
        let (mut world, now) = self.shared.lock();
        Ok(world.purge(states, before, limit, now))
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let (world, now) = self.shared.lock();
        Ok(world.nodes(now))
    }

    async fn send_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error> {
        self.shared.lock().0.send_node(node, command)
    }

    async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        self.shared.lock().0.node_outcome(order)
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.shared.lock().0.history(id, limit)
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.shared.changes(after)
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let (world, _) = self.shared.lock();
        ids.iter().map(|id| world.export(id)).collect()
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let (mut world, now) = self.shared.lock();
        let tasks = tasks.into_iter();
        tasks.map(|task| world.import(task, now)).collect()
    }
}
