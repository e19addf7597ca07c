//! [`Registry`] for [`EtcdStore`].

use std::{collections::HashSet, hash::Hash};

use async_trait::async_trait;
use futures::future::join_all;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, TaskId};

use super::{EtcdStore, Inner};
use crate::store::{
    Applied, Change, ChangeStream, CommandRecord, Count, Doctor, Error, Exported, Filter, Limits,
    NodeCommand, NodeRecord, Operation, Page, Registry, TaskRecord, Transaction, Transfer,
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
    fn name(&self) -> &str {
        "etcd"
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }

    fn doctor(&self) -> Option<&dyn Doctor> {
        Some(self)
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.0.identity().await
    }

    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        let operations = transactions.into_iter().map(Transaction::into_operation);
        let run = |operation| self.0.apply(operation);
        let name = |operation: &Operation| operation.task().clone();
        in_order(operations.collect(), name, run).await
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
}

#[async_trait]
impl Transfer for EtcdStore {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.0.ids().await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        self.0.export(ids).await
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        self.0.import(tasks).await
    }
}

#[async_trait]
impl Doctor for EtcdStore {
    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        self.0.examine(how).await
    }
}

impl Inner {
    /// Applies one operation. The futures of the rare ones are in boxes: a submit is not larger for
    /// them.
    async fn apply(&self, operation: Operation) -> Result<Applied, Error> {
        match operation {
            Operation::Submit(submit) => self.submit(submit).await.map(Applied::Submitted),
            Operation::Send(send) => self.send(send).await.map(Applied::Sent),
            Operation::Delete(id) => {
                Box::pin(self.delete(&id)).await?;
                Ok(Applied::Deleted)
            }
            Operation::Retry(id) => {
                Box::pin(self.retry(&id)).await?;
                Ok(Applied::Retried)
            }
        }
    }
}
