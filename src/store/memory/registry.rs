//! [`Registry`] for [`MemoryStore`].

use async_trait::async_trait;
use windlass_statemachine::{Author, CommandId, NodeName, TaskId};

use super::MemoryStore;
use crate::store::{
    Applied, AuditAction, AuditEntry, Change, ChangeStream, CommandRecord, Error, Filter, LimitUse,
    Limits, NamedValue, NodeCommand, NodeCommandId, NodeRecord, Page, Purge, Registry, SetValue,
    Span, StoredLog, TaskCount, TaskRecord, TaskStats, Transaction, Transfer,
    copy::Copied,
    rules::size::{Weight, writes},
};

#[async_trait]
impl Registry for MemoryStore {
    fn name(&self) -> &str {
        "memory"
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }

    fn limits(&self) -> Limits {
        self.shared.lock().0.limits
    }

    async fn identity(&self) -> Result<String, Error> {
        Ok(self.shared.identity.clone())
    }

    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        let mut answers = Vec::with_capacity(transactions.len());
        for (_, transactions) in writes(transactions, Weight::of) {
            if !answers.is_empty() {
                // Others write in between, and the runtime goes on.
                tokio::task::yield_now().await;
            }
            let (mut world, now) = self.shared.lock();
            let transactions = transactions.into_iter();
            answers.extend(transactions.map(|one| world.apply(one, now)));
        }
        answers
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

    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        Ok(self.shared.lock().0.span(filter, span))
    }

    async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        Ok(self.shared.lock().0.counts())
    }

    async fn stats(&self) -> Result<TaskStats, Error> {
        let (world, now) = self.shared.lock();
        Ok(world.stats(now))
    }

    fn keeps_counts(&self) -> bool {
        true
    }

    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        Ok(self.shared.lock().0.limits_in_use())
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, Error> {
        let (mut world, now) = self.shared.lock();
        let tasks = world.purge(&purge.states, purge.before, purge.limit, now);
        world.audit.extend(purge.entry(tasks, now));
        Ok(tasks)
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        let (world, _) = self.shared.lock();
        let skipped = world.audit.len().saturating_sub(limit as usize);
        Ok(world.audit.iter().skip(skipped).cloned().collect())
    }

    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error> {
        Ok(self.shared.lock().0.values_in(folder))
    }

    async fn set_value(&self, change: &SetValue) -> Result<bool, Error> {
        let (mut world, now) = self.shared.lock();
        world.set_value(change, now)
    }

    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        Ok(self.shared.lock().0.copied.as_ref().map(Copied::refusal))
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let (world, now) = self.shared.lock();
        Ok(world.nodes(now))
    }

    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        let (mut world, now) = self.shared.lock();
        let order = world.send_node(node, command.clone())?;
        world.audit.push_back(AuditEntry {
            at: now,
            by: by.cloned(),
            what: AuditAction::NodeCommanded {
                node: node.clone(),
                send: command,
            },
        });
        Ok(order)
    }

    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        self.shared.lock().0.node_outcome(command)
    }

    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        self.shared.lock().0.log_of(id, from)
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.shared.lock().0.history(id, limit)
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.shared.changes(after)
    }

    async fn newest_change(&self) -> Result<u64, Error> {
        Ok(self.shared.newest_change())
    }
}
