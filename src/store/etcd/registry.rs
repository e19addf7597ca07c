//! [`Registry`] for [`EtcdStore`].

use std::{collections::HashSet, hash::Hash};

use async_trait::async_trait;
use futures::future::join_all;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, TaskId};

use super::EtcdStore;
use crate::store::{
    Change, ChangeStream, CommandRecord, Count, Error, Exported, Filter, Limits, NodeCommand,
    NodeRecord, Page, Registry, Send, Submit, Submitted, TaskRecord,
    examine::{Examination, Finding},
};

/// Carries out items at once, but those with one name one after the other.
pub(super) async fn in_order<I, K: Hash + Eq, F: Future>(
    items: Vec<I>,
    name: impl Fn(&I) -> K,
    run: impl Fn(I) -> F,
) -> Vec<F::Output> {
    let mut answers = Vec::with_capacity(items.len());
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() {
        let mut names = HashSet::new();
        let mut group = Vec::new();
        while let Some(item) = items.next_if(|item| !names.contains(&name(item))) {
            names.insert(name(&item));
            group.push(item);
        }
        answers.extend(join_all(group.into_iter().map(&run)).await);
    }
    answers
}

#[async_trait]
impl Registry for EtcdStore {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.0.identity().await
    }

    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let run = |submit| self.0.submit(submit);
        in_order(tasks, |submit| submit.task.id.clone(), run).await
    }

    async fn send(&self, commands: Vec<Send>) -> Vec<Result<u64, Error>> {
        let run = |send| self.0.send(send);
        in_order(commands, |send| send.task.clone(), run).await
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.0.command(id).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.0.commands(task).await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        self.0.get(id).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        self.0.list(filter, page).await
    }

    async fn counts(&self) -> Result<Vec<Count>, Error> {
        self.0.counts().await
    }

    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let run = |id| async move { self.0.delete(&id).await };
        in_order(ids, TaskId::clone, run).await
    }

    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let run = |id| async move { self.0.retry(&id).await };
        in_order(ids, TaskId::clone, run).await
    }

    async fn purge(&self, states: &[Code], before: Timestamp, limit: u32) -> Result<u64, Error> {
        self.0.purge(states, before, limit).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.0.nodes_of().await
    }

    async fn send_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error> {
        self.0.send_node(node, command).await
    }

    async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        self.0.node_outcome(order).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.0.history(id, limit).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.0.changes(after).await
    }

    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.0.ids().await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        self.0.export(ids).await
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        self.0.import(tasks).await
    }

    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        self.0.examine(how).await
    }
}
