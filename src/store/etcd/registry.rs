//! [`Registry`] for [`EtcdStore`].

use std::path::Path;

use async_trait::async_trait;
use windlass_statemachine::{Author, CommandId, NodeName, TaskId};

use super::{
    order::in_order,
    store::{Components, EtcdStore},
    tasks::{Exports, audit, values},
};
use crate::store::{
    Applied, AuditEntry, Change, ChangeStream, CommandRecord, Doctor, Error, Exported, FailedTasks,
    Filter, LimitUse, Limits, Moment, NamedValue, NodeCommand, NodeCommandId, NodeRecord,
    Operation, Order, Page, Purge, Registry, SetValue, Span, StoredLog, TaskCount, TaskRecord,
    TaskStats, Transaction, Transfer,
    copy::{Backup, Copied},
    examine::{Examination, Finding},
};

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

    async fn write_error(&self) -> Option<Error> {
        self.0.write_error().await
    }

    async fn identity(&self) -> Result<String, Error> {
        self.0.queries.identity().await
    }

    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        // Waits for the layout before the first submit, so that tasks keep their order. If this fails, each
        // submit returns the error.
        let submits = |op: &Operation| matches!(op, Operation::Submit(_));
        if transactions
            .iter()
            .any(|t| t.operations().iter().any(submits))
        {
            let _ = self.0.queries.reader.layout().await;
        }
        let run = |transaction| self.0.apply(transaction);
        let names = |transaction: &Transaction| {
            let tasks = transaction.tasks().map(|id| (false, id.to_string()));
            let keys = transaction.unique_keys();
            let keys = keys.map(|key| (true, key.to_owned()));
            tasks.chain(keys).collect::<Vec<_>>()
        };
        in_order(transactions, names, run).await
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.0.queries.command(id).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.0.queries.commands(task).await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        self.0.queries.get(id).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        self.0.queries.list(filter, page).await
    }

    fn order_of_newest(&self) -> Order {
        match self.0.queries.index {
            Some(_) => Order::Submitted,
            None => Order::Id,
        }
    }

    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        self.0.queries.span(filter, span).await
    }

    async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        self.0.queries.counts().await
    }

    async fn stats(&self) -> Result<TaskStats, Error> {
        self.0.queries.stats().await
    }

    fn keeps_counts(&self) -> bool {
        self.0.queries.index.is_some()
    }

    async fn failures(&self, limit: usize) -> Result<FailedTasks, Error> {
        self.0.queries.failures(limit).await
    }

    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        self.0.queries.limits_in_use().await
    }

    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error> {
        values::read(&self.0.node_commands.access, folder).await
    }

    async fn set_value(&self, change: &SetValue) -> Result<bool, Error> {
        values::set(&self.0.node_commands.access, change).await
    }

    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        let restored = self.0.leases.no_node_may_join().await?;
        Ok(match restored {
            Some(error) => Some(error),
            None => self.copied().await?.as_ref().map(Copied::refusal),
        })
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, Error> {
        let tasks = self
            .0
            .purges
            .purge(&purge.states, purge.before, purge.limit)
            .await?;
        let access = &self.0.node_commands.access;
        if let Some(entry) = purge.entry(tasks, access.now()) {
            // The tasks are deleted: with a full quota etcd takes deletes, and no line of the history.
            if let Err(error) = audit::add(access, &entry).await {
                tracing::error!(tasks, by = ?purge.by, %error, "tasks were purged, and the history of the namespace has no line of it");
            }
        }
        Ok(tasks)
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        audit::newest(&self.0.node_commands.access, limit).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.0.peers.nodes().await
    }

    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        self.0.node_commands.send_node(node, command, by).await
    }

    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        self.0.node_commands.node_outcome(command).await
    }

    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        self.0.queries.log(id, from).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.0.queries.history(id, limit).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.0.feed.changes(after).await
    }

    async fn newest_change(&self) -> Result<u64, Error> {
        self.0.feed.newest().await
    }
}

/// How a cluster is backed up.
const SNAPSHOT: &str = "save a snapshot of the cluster with `etcdctl snapshot save FILE`: it has the keys of every namespace, \
     and restoring it brings all of them back to that time. For this namespace alone, copy or export its tasks while no node \
     works";

#[async_trait]
impl Transfer for EtcdStore {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        let found = Exports::new(&self.0.queries.reader).ids().await?;
        Ok(found.tasks)
    }

    async fn copied(&self) -> Result<Option<Copied>, Error> {
        let read = self.0.queries.reader.load_mark().await;
        read.map_err(|fault| fault.into_error("read the mark of a copy"))
    }

    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error> {
        self.0.queries.reader.set_mark(mark).await
    }

    async fn backup(&self, _: &Path) -> Result<Backup, Error> {
        Err(Error::Unsupported {
            store: self.name().to_owned(),
            operation: "back up the store",
            instead: SNAPSHOT,
        })
    }

    async fn moment(&self) -> Result<Moment, Error> {
        self.0.queries.moment().await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        Exports::new(&self.0.queries.reader).export(ids).await
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let mark = self.copied().await;
        if let Err(error) = mark.and_then(|mark| Copied::refuse(mark.as_ref())) {
            return tasks.iter().map(|_| Err(error.clone())).collect();
        }
        self.0.imports.import(tasks).await
    }
}

#[async_trait]
impl Doctor for EtcdStore {
    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        self.0.doctor.examine(how).await
    }
}

impl Components {
    async fn apply(&self, transaction: Transaction) -> Result<Applied, Error> {
        Copied::check(self.queries.reader.mark.get().as_ref(), &transaction)?;
        self.transactions.apply(transaction).await
    }
}
