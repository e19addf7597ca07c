//! [`Registry`] for [`Split`].

use async_trait::async_trait;
use windlass_statemachine::{Author, CommandId, Invalid, NodeName, TaskId};

use super::Split;
use crate::store::{
    Applied, AuditEntry, Change, ChangeStream, CommandRecord, Doctor, Done, Error, Filter, Guard,
    LimitUse, Limits, NamedValue, NodeCommand, NodeCommandId, NodeRecord, Operation, Order, Page,
    Purge, RefusedRows, Registry, Require, SetValue, Span, StateRemoval, StoredLog, Submitted,
    TaskCount, TaskRecord, TaskStats, Transaction, Transfer, rules,
};

impl Split {
    /// Lists the tasks whose record the coordinator or the state store cannot read.
    async fn list_unreadable(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        // Only the state store knows which of its states it cannot read, so every state is loaded.
        let all = Filter {
            quarantined: false,
            states: Vec::new(),
            error: None,
            fingerprint: None,
            ..filter.clone()
        };
        let mut found = Vec::new();
        let mut after = page.after;
        loop {
            let limit = page.limit.clamp(1, 1000);
            let records = self.registry.list(&all, Page { after, limit }).await?;
            let Some(last) = records.last() else {
                return Ok(found);
            };
            after = last.order;
            let records = self.overlay_all(records).await?;
            found.extend(records.into_iter().filter(|record| filter.matches(record)));
            if found.len() >= page.limit as usize {
                found.truncate(page.limit as usize);
                return Ok(found);
            }
        }
    }

    /// Removes unreadable states of ended tasks, for a retry.
    async fn drop_unreadable(&self, ids: &[TaskId]) -> Result<(), Error> {
        let loaded = self.load(ids).await;
        let mut unreadable = Vec::new();
        for (id, loaded) in ids.iter().zip(loaded) {
            if matches!(loaded, Err(Error::Corrupt { .. }))
                && let Ok(record) = self.registry.get(id).await
                && record.state.is_ok_and(|s| s.code().is_terminal())
            {
                let (task, seen) = (id.clone(), None);
                unreadable.push(StateRemoval { task, seen });
            }
        }
        if unreadable.is_empty() {
            return Ok(());
        }
        self.states.remove(unreadable).await.into_iter().collect()
    }
}

/// Returns the tasks of the operations of a transaction, in their order.
fn changed(transaction: &Transaction) -> Vec<TaskId> {
    let operations = transaction.operations().iter();
    operations
        .map(|operation| operation.task().clone())
        .collect()
}

/// Returns whether the transaction reads or changes data, which the coordinator does not have.
fn touches_data(transaction: &Transaction) -> bool {
    let changes = |operation: &Operation| match operation {
        Operation::Reschedule(change) => change.data.is_some(),
        _ => false,
    };
    let reads = |guard: &Guard| matches!(guard.require, Require::Data(_));
    transaction.operations().iter().any(changes) || transaction.guards().iter().any(reads)
}

/// Returns the tasks that the transactions retry, except transactions that only check.
fn retried(transactions: &[Transaction]) -> Vec<TaskId> {
    let transactions = transactions.iter().filter(|one| !one.is_never());
    let operations = transactions.flat_map(Transaction::operations);
    let retried = operations.filter(|operation| matches!(operation, Operation::Retry(_)));
    retried.map(|operation| operation.task().clone()).collect()
}

#[async_trait]
impl Registry for Split {
    fn name(&self) -> &str {
        self.registry.name()
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        self.registry.transfer().map(|_| self as &dyn Transfer)
    }

    fn doctor(&self) -> Option<&dyn Doctor> {
        Some(self)
    }

    fn limits(&self) -> Limits {
        self.registry.limits()
    }

    async fn write_error(&self) -> Option<Error> {
        self.registry.write_error().await
    }

    async fn refused_rows(&self) -> Result<RefusedRows, Error> {
        self.registry.refused_rows().await
    }

    async fn identity(&self) -> Result<String, Error> {
        self.registry.identity().await
    }

    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        if transactions.iter().any(touches_data) {
            let reason = "is kept in a state store apart from the coordinator, which no transaction can change \
                          with it; keep states in the coordinator to change data";
            let refused = Error::from(Invalid::new("data", reason));
            return transactions.iter().map(|_| Err(refused.clone())).collect();
        }
        let ids: Vec<Vec<TaskId>> = transactions.iter().map(changed).collect();
        if let Err(error) = self.drop_unreadable(&retried(&transactions)).await {
            return transactions.iter().map(|_| Err(error.clone())).collect();
        }
        // The state of a replaced task is no longer read; the first claim removes it.
        let mut answers = self.registry.apply(transactions).await;
        let mut gone = Vec::new();
        for (ids, answer) in ids.into_iter().zip(&mut answers) {
            let Ok(applied) = answer.clone() else {
                continue;
            };
            // If the other operations of the transaction were applied, the task counts as existing.
            let is_single = ids.len() == 1;
            for (id, done) in ids.into_iter().zip(applied.done()) {
                match done {
                    Done::Deleted => gone.push(id),
                    Done::Submitted(Submitted::Existing(_) | Submitted::Other { .. })
                        if is_single =>
                    {
                        let id = match done {
                            Done::Submitted(Submitted::Other { task, .. }) => task,
                            _ => &id,
                        };
                        if let Ok(record) = self.get(id).await
                            && let Err(error) = record.state
                        {
                            *answer = Err(error);
                        }
                    }
                    _ => {}
                }
            }
        }
        self.forget(gone).await;
        answers
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.registry.command(id).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.registry.commands(task).await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let record = self.registry.get(id).await?;
        let mut records = self.overlay_all(vec![record]).await?;
        records.pop().ok_or_else(|| Error::no_task(id))
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        if filter.quarantined && page.limit > 0 {
            return self.list_unreadable(filter, page).await;
        }
        let records = self.registry.list(filter, page).await?;
        self.overlay_all(records).await
    }

    fn order_of_newest(&self) -> Order {
        self.registry.order_of_newest()
    }

    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        // In these orders the position of a task does not depend on its state.
        let is_by_task = matches!(span.order, Order::Submitted | Order::Id);
        if is_by_task && !filter.quarantined {
            let records = self.registry.span(filter, span).await?;
            return self.overlay_all(records).await;
        }
        rules::list::span_of_list(span, |page| self.list(filter, page)).await
    }

    async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        self.registry.counts().await
    }

    async fn stats(&self) -> Result<TaskStats, Error> {
        self.registry.stats().await
    }

    fn keeps_counts(&self) -> bool {
        self.registry.keeps_counts()
    }

    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        self.registry.limits_in_use().await
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, Error> {
        let changes = self.registry.changes(None).await?;
        let gone = self.registry.purge(purge).await?;
        self.forget_deleted(gone, changes).await;
        Ok(gone)
    }

    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        self.registry.no_node_may_join().await
    }

    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error> {
        self.registry.values(folder).await
    }

    async fn set_value(&self, change: &SetValue) -> Result<bool, Error> {
        self.registry.set_value(change).await
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        self.registry.audit(limit).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.registry.nodes().await
    }

    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        self.registry.send_node(node, command, by).await
    }

    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        self.registry.node_outcome(command).await
    }

    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        self.registry.log_parts(id, from).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.registry.history(id, limit).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.registry.changes(after).await
    }

    async fn newest_change(&self) -> Result<u64, Error> {
        self.registry.newest_change().await
    }
}
