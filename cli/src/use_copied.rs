//! `--use-copied`: a store whose mark of a copy is removed with the first write that it refuses.
//!
//! Opening the store removes nothing: a dry run, a refused confirmation and a command that fails leave the mark.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::sync::Mutex;
use windlass::{
    CommandId, TaskId,
    statemachine::{Author, Kind, NodeName},
    store::{
        Applied, AuditEntry, Change, ChangeStream, Claimed, CommandRecord, Commit, Coordinator,
        Doctor, Error, EventStream, Exported, Filter, Lease, LimitUse, Limits, LogWrite, Moment,
        NamedValue, NewWorker, NodeCommand, NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Order,
        Page, Purge, Registry, SetValue, Span, Speaker, Store, StoredLog, TaskCount, TaskRecord,
        TaskStats, Transaction, Transfer, WorkerRecord,
        copy::{Backup, Copied, Outside},
    },
};

use crate::output::Output;

/// Returns the store; its mark is removed with the first write that it refuses.
pub(crate) fn wrapped(store: Store, out: Output) -> Store {
    let clock = store.clock().clone();
    let is_removed = Mutex::new(false);
    let wrapped = Arc::new(UseCopied {
        store,
        out,
        is_removed,
    });
    Store::from_parts(wrapped.clone(), wrapped, clock)
}

/// The store, with what has become of its mark.
struct UseCopied {
    store: Store,
    out: Output,
    /// Whether a write was made without the mark.
    is_removed: Mutex<bool>,
}

fn is_refused<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Copied(_)))
}

impl UseCopied {
    fn registry(&self) -> &dyn Registry {
        &**self.store.registry()
    }

    fn coordinator(&self) -> &dyn Coordinator {
        &**self.store.coordinator()
    }

    /// Makes calls that change tasks; those that the mark refuses again without it. The mark comes back if none of them
    /// succeeds.
    async fn write<'c, I: Clone + Send + Sync, T: Send>(
        &self,
        items: Vec<I>,
        call: impl Fn(Vec<I>) -> BoxFuture<'c, Vec<Result<T, Error>>> + Send + Sync,
    ) -> Vec<Result<T, Error>> {
        let mut results = call(items.clone()).await;
        if !results.iter().any(is_refused) {
            return results;
        }
        let mut is_removed = self.is_removed.lock().await;
        let refused = (0..results.len()).filter(|n| is_refused(&results[*n]));
        let refused: Vec<usize> = refused.collect();
        let removed = match self.remove().await {
            Ok(mark) => mark,
            Err(error) => {
                for n in refused {
                    results[n] = Err(error.clone());
                }
                return results;
            }
        };
        let again = refused.iter().filter_map(|n| items.get(*n).cloned());
        let again = call(again.collect()).await;
        let is_used = again.iter().any(Result::is_ok);
        for (n, result) in refused.into_iter().zip(again) {
            results[n] = result;
        }
        if is_used {
            if !std::mem::replace(&mut *is_removed, true) {
                self.out.note("the mark of the copy is removed");
            }
        } else if let Some(mark) = removed.filter(|_| !*is_removed)
            && let Err(error) = self.set_copied(Some(mark)).await
        {
            let text = "the mark of the copy was removed, though nothing was written: it could not be set again";
            self.out.note(format!("{text}: {error}"));
        }
        results
    }

    /// Writes like [`write`](Self::write), for one call.
    async fn write_one<'c, T: Send>(
        &self,
        call: impl Fn() -> BoxFuture<'c, Result<T, Error>> + Send + Sync,
    ) -> Result<T, Error> {
        let call = &call;
        let done = self.write(vec![()], |_| Box::pin(async move { vec![call().await] }));
        let lost = || Error::unavailable("write", "the store returned no result");
        done.await.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Removes the mark, and returns it.
    async fn remove(&self) -> Result<Option<Copied>, Error> {
        let transfer = self.store.transfer()?;
        let mark = transfer.copied().await?;
        if mark.is_some() {
            transfer.set_copied(None).await?;
        }
        Ok(mark)
    }
}

#[async_trait]
impl Registry for UseCopied {
    fn name(&self) -> &str {
        self.registry().name()
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        self.registry().transfer().map(|_| self as &dyn Transfer)
    }

    fn doctor(&self) -> Option<&dyn Doctor> {
        self.registry().doctor()
    }

    fn limits(&self) -> Limits {
        self.registry().limits()
    }

    async fn write_error(&self) -> Option<Error> {
        self.registry().write_error().await
    }

    async fn identity(&self) -> Result<String, Error> {
        self.registry().identity().await
    }

    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        self.write(transactions, |some| self.registry().apply(some))
            .await
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.registry().command(id).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.registry().commands(task).await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        self.registry().get(id).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        self.registry().list(filter, page).await
    }

    fn order_of_newest(&self) -> Order {
        self.registry().order_of_newest()
    }

    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        self.registry().span(filter, span).await
    }

    async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        self.registry().counts().await
    }

    async fn stats(&self) -> Result<TaskStats, Error> {
        self.registry().stats().await
    }

    fn keeps_counts(&self) -> bool {
        self.registry().keeps_counts()
    }

    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        self.registry().limits_in_use().await
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, Error> {
        self.registry().purge(purge).await
    }

    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        self.registry().no_node_may_join().await
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        self.registry().audit(limit).await
    }

    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error> {
        self.registry().values(folder).await
    }

    async fn set_value(&self, change: &SetValue) -> Result<bool, Error> {
        self.registry().set_value(change).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.registry().nodes().await
    }

    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        self.write_one(|| self.registry().send_node(node, command.clone(), by))
            .await
    }

    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        self.registry().node_outcome(command).await
    }

    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        self.registry().log_parts(id, from).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.registry().history(id, limit).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.registry().changes(after).await
    }

    async fn newest_change(&self) -> Result<u64, Error> {
        self.registry().newest_change().await
    }
}

#[async_trait]
impl Transfer for UseCopied {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.store.transfer()?.ids().await
    }

    async fn outside(&self, limit: u32) -> Result<Vec<Outside>, Error> {
        self.store.transfer()?.outside(limit).await
    }

    async fn copied(&self) -> Result<Option<Copied>, Error> {
        self.store.transfer()?.copied().await
    }

    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error> {
        self.store.transfer()?.set_copied(mark).await
    }

    fn file(&self) -> Option<&Path> {
        self.store.transfer().ok().and_then(Transfer::file)
    }

    async fn backup(&self, to: &Path) -> Result<Backup, Error> {
        self.store.transfer()?.backup(to).await
    }

    async fn moment(&self) -> Result<Moment, Error> {
        self.store.transfer()?.moment().await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        match self.store.transfer() {
            Ok(part) => part.export(ids).await,
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        match self.store.transfer() {
            Ok(part) => self.write(tasks, |some| part.import(some)).await,
            Err(error) => tasks.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

#[async_trait]
impl Coordinator for UseCopied {
    fn limits(&self) -> Limits {
        self.coordinator().limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.write_one(|| self.coordinator().join(node, ttl)).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.coordinator().renew(lease, status).await
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        self.coordinator().describe(lease, node).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        self.coordinator().leave(lease).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        self.coordinator().abandon(lease).await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.coordinator().watch(lease, kinds).await
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        self.coordinator().claim(lease, tasks).await
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        self.coordinator().commit(commits).await
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        self.coordinator().log(writes).await
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.coordinator().peers().await
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.coordinator()
            .acknowledge(lease, command, outcome)
            .await
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        self.write_one(|| self.coordinator().join_worker(worker))
            .await
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        self.coordinator().worker(name).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.coordinator().speak(lease, speaker).await
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.coordinator().held(lease, tasks).await
    }

    fn detach(&self, lease: &Lease) {
        self.coordinator().detach(lease);
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        self.coordinator().check_clock(retention).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        self.coordinator().maintain(retention).await
    }
}
