//! [`Registry`] for [`FaultyStore`].

use std::path::Path;

use async_trait::async_trait;
use windlass_statemachine::{Author, CommandId, NodeName, TaskId};

use super::{FaultyStore, Operation};
use crate::store::{
    self, Applied, AuditEntry, Change, ChangeStream, CommandRecord, Doctor, Error, Exported,
    Filter, LimitUse, Limits, Moment, NamedValue, NodeCommand, NodeCommandId, NodeRecord, Order,
    Page, Purge, RefusedRows, Registry, SetValue, Span, StoredLog, TaskCount, TaskRecord,
    TaskStats, Transaction, Transfer,
    copy::{Backup, Copied, Outside},
    examine::{Examination, Finding},
};

#[async_trait]
impl Registry for FaultyStore {
    fn name(&self) -> &str {
        self.registry().name()
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        self.registry().transfer().map(|_| self as &dyn Transfer)
    }

    fn doctor(&self) -> Option<&dyn Doctor> {
        self.registry().doctor().map(|_| self as &dyn Doctor)
    }

    fn limits(&self) -> Limits {
        self.registry().limits()
    }

    async fn refused_rows(&self) -> Result<RefusedRows, Error> {
        self.call(Operation::Read, self.registry().refused_rows())
            .await
    }

    async fn write_error(&self) -> Option<Error> {
        self.registry().write_error().await
    }

    async fn identity(&self) -> Result<String, Error> {
        self.call(Operation::Read, self.registry().identity()).await
    }

    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        let items = transactions.len();
        let first = transactions
            .first()
            .and_then(|one| one.operations().first());
        let operation = match first {
            Some(store::Operation::Submit(_)) => Operation::Submit,
            Some(store::Operation::Delete(_)) => Operation::Delete,
            Some(store::Operation::Retry(_)) => Operation::Retry,
            _ => Operation::Send,
        };
        let call = self.registry().apply(transactions);
        self.calls_of(operation, items, call).await
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

    fn order_of_newest(&self) -> Order {
        self.registry().order_of_newest()
    }

    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        let call = self.registry().span(filter, span);
        self.call(Operation::Read, call).await
    }

    async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        self.call(Operation::Read, self.registry().counts()).await
    }

    async fn stats(&self) -> Result<TaskStats, Error> {
        self.call(Operation::Read, self.registry().stats()).await
    }

    fn keeps_counts(&self) -> bool {
        self.registry().keeps_counts()
    }

    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        let call = self.registry().limits_in_use();
        self.call(Operation::Read, call).await
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, Error> {
        let call = self.registry().purge(purge);
        self.call(Operation::Delete, call).await
    }

    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        self.call(Operation::Read, self.registry().no_node_may_join())
            .await
    }

    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error> {
        let call = self.registry().values(folder);
        self.call(Operation::Read, call).await
    }

    async fn set_value(&self, change: &SetValue) -> Result<bool, Error> {
        let call = self.registry().set_value(change);
        self.call(Operation::Send, call).await
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        let call = self.registry().audit(limit);
        self.call(Operation::Read, call).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.call(Operation::Read, self.registry().nodes()).await
    }

    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        let call = self.registry().send_node(node, command, by);
        self.call(Operation::Send, call).await
    }

    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        let call = self.registry().node_outcome(command);
        self.call(Operation::Read, call).await
    }

    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        let call = self.registry().log_parts(id, from);
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

    async fn newest_change(&self) -> Result<u64, Error> {
        self.call(Operation::Read, self.registry().newest_change())
            .await
    }
}

#[async_trait]
impl Transfer for FaultyStore {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.call(Operation::Read, self.inner.transfer()?.ids())
            .await
    }

    async fn outside(&self, limit: u32) -> Result<Vec<Outside>, Error> {
        self.call(Operation::Read, self.inner.transfer()?.outside(limit))
            .await
    }

    async fn copied(&self) -> Result<Option<Copied>, Error> {
        self.call(Operation::Read, self.inner.transfer()?.copied())
            .await
    }

    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error> {
        let call = self.inner.transfer()?.set_copied(mark);
        self.call(Operation::Submit, call).await
    }

    async fn backup(&self, to: &Path) -> Result<Backup, Error> {
        self.call(Operation::Read, self.inner.transfer()?.backup(to))
            .await
    }

    fn file(&self) -> Option<&Path> {
        self.inner.transfer().ok().and_then(Transfer::file)
    }

    async fn moment(&self) -> Result<Moment, Error> {
        self.call(Operation::Read, self.inner.transfer()?.moment())
            .await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let call = async {
            match self.inner.transfer() {
                Ok(part) => part.export(ids).await,
                Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
            }
        };
        self.calls_of(Operation::Read, ids.len(), call).await
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let items = tasks.len();
        let call = async {
            match self.inner.transfer() {
                Ok(part) => part.import(tasks).await,
                Err(error) => tasks.iter().map(|_| Err(error.clone())).collect(),
            }
        };
        self.calls_of(Operation::Submit, items, call).await
    }
}

#[async_trait]
impl Doctor for FaultyStore {
    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        let call = self.inner.doctor()?.examine(how);
        self.call(Operation::Read, call).await
    }
}
