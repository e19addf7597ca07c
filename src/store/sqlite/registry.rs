//! [`Registry`]: each method hands its work to the writer or to a reader.

use async_trait::async_trait;
use windlass_statemachine::{Author, CommandId, NodeName, TaskId};

use super::{
    SqliteStore, all_failed, audit, batch::newest, codes, copied, errors::item, failures,
    feed::Feed, history, hub::Message, jobs::Load, json, limits, list, log_lines, node,
    progress::QUEUE, query, read_changes, read_counts, retention, space, stream, transaction,
    values,
};
use crate::store::{
    Applied, AuditEntry, Change, ChangeStream, CommandRecord, Doctor, Error, FailedTasks, Filter,
    LimitUse, Limits, NamedValue, NodeCommand, NodeCommandId, NodeRecord, Page, Purge, RefusedRows,
    Registry, SetValue, Span, StoredLog, TaskCount, TaskRecord, TaskStats, Transaction, Transfer,
    copy::Copied,
    rules::{self, size::Weight},
};

#[async_trait]
impl Registry for SqliteStore {
    fn name(&self) -> &str {
        "SQLite"
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }

    fn doctor(&self) -> Option<&dyn Doctor> {
        Some(self)
    }

    fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn write_error(&self) -> Option<Error> {
        let look = async { space::full(&self.0.path) };
        self.0.writer.last().error_or(look, |_| false).await
    }

    async fn identity(&self) -> Result<String, Error> {
        self.0
            .readers
            .run("read the store's identity", query::identity)
            .await
    }

    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        let mut answers = Vec::new();
        for (weight, transactions) in rules::size::writes(transactions, Weight::of) {
            let count = transactions.len();
            let load = Load::from(weight);
            let verb = transactions.first().map(Transaction::verb);
            let prepared: Vec<_> = transactions
                .into_iter()
                .map(transaction::Prepared::new)
                .collect();
            let verb = verb.unwrap_or("apply nothing");
            let done = self.0.writer.run(verb, load, move |batch| {
                let one = |prepared| item(transaction::apply(batch, prepared));
                prepared.iter().map(one).collect()
            });
            let done: Vec<_> = done.await.unwrap_or_else(|e| all_failed(count, &e));
            // Almost always, one write takes all of them.
            match answers.is_empty() {
                true => answers = done,
                false => answers.extend(done),
            }
        }
        answers
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        let id = id.clone();
        let read = move |conn: &_| query::command(conn, &id);
        self.0.readers.run("read a command", read).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        let task = task.clone();
        let read = move |conn: &_| query::commands(conn, &task);
        self.0
            .readers
            .run("read the commands of a task", read)
            .await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let id = id.clone();
        let read = move |conn: &_| query::get(conn, &id);
        self.0.readers.run("read a task", read).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        page.check()?;
        let filter = filter.clone();
        let read = move |conn: &_| list::list(conn, &filter, page);
        self.0.readers.run("list tasks", read).await
    }

    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        let filter = filter.clone();
        let read = move |conn: &_| list::span(conn, &filter, span);
        self.0.readers.run("list tasks", read).await
    }

    async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        self.0.readers.run("count tasks", read_counts::states).await
    }

    async fn stats(&self) -> Result<TaskStats, Error> {
        let now = self.0.clock.now();
        let read = move |conn: &_| read_counts::groups(conn, now);
        self.0.readers.run("count tasks", read).await
    }

    async fn refused_rows(&self) -> Result<RefusedRows, Error> {
        let read = |conn: &_| Ok(super::inbox::refused(conn)?);
        self.0.readers.run("read the inbox", read).await
    }

    fn keeps_counts(&self) -> bool {
        true
    }

    async fn failures(&self, limit: usize) -> Result<FailedTasks, Error> {
        let read = move |conn: &_| failures::groups(conn, limit);
        self.0.readers.run("count failed tasks", read).await
    }

    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        let now = self.0.clock.now();
        let read = move |conn: &_| limits::in_use(conn, now);
        self.0.readers.run("read the limits in use", read).await
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, Error> {
        let before = codes::micros(purge.before);
        let limit = purge.limit;
        let mut left = limit;
        while left > 0 {
            let (purge, step) = (purge.clone(), left.min(retention::STEP));
            let purged = self.0.writer.run("purge", step as usize, move |batch| {
                item(batch.on_behalf(purge.by.as_ref(), |batch| {
                    let purged = retention::purge(batch, &purge.states, before, step)?;
                    audit::purged(batch, purge.entry(purged.tasks, batch.now))?;
                    Ok(purged)
                }))
            });
            let purged = purged.await??;
            left = left.saturating_sub(purged.tasks as u32);
            // A step of tasks without readable ids deletes none, and the next one would find the same.
            if !purged.is_full || purged.tasks == 0 {
                break;
            }
        }
        Ok(u64::from(limit - left))
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        let read = move |conn: &_| audit::newest(conn, limit);
        let verb = "read the history of the namespace";
        self.0.readers.run(verb, read).await
    }

    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error> {
        let folder = folder.to_owned();
        let read = move |conn: &_| values::read(conn, &folder);
        self.0.readers.run("read named values", read).await
    }

    async fn set_value(&self, change: &SetValue) -> Result<bool, Error> {
        change.check()?;
        let change = change.clone();
        let set = self.0.writer.run("set a named value", 1, move |batch| {
            item(batch.on_behalf(change.by.as_ref(), |batch| values::set(batch, &change)))
        });
        set.await?
    }

    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        let mark = self.0.readers.run("read the mark of a copy", copied::read);
        Ok(mark.await?.as_ref().map(Copied::refusal))
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let clock = self.0.lease_clock.clone();
        let read = move |conn: &_| node::nodes(conn, &clock);
        self.0.readers.run("list nodes", read).await
    }

    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        let (name, text, by) = (node.clone(), json("command", &command)?, by.cloned());
        let sent = self
            .0
            .writer
            .run("send a command to a node", 1, move |batch| {
                item(batch.on_behalf(by.as_ref(), |batch| {
                    let mark = copied::read(batch.connection())?;
                    Copied::check_node(mark.as_ref(), &command)?;
                    let order = node::send(batch, &name, &text)?;
                    audit::commanded(batch, &name, command.clone())?;
                    Ok(order)
                }))
            });
        sent.await?
    }

    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        let read = move |conn: &_| {
            let outcome = node::outcome(conn, command)?;
            Ok(outcome.ok_or_else(|| Error::no_node_command(command))?)
        };
        self.0.readers.run("read a node's answer", read).await
    }

    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        let id = id.clone();
        let read = move |conn: &_| log_lines::read(conn, &id, from);
        self.0.readers.run("read a task's log lines", read).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        let id = id.clone();
        let read = move |conn: &_| history::history(conn, &id, limit);
        self.0.readers.run("read a task's history", read).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        let start = self.0.readers.run("follow changes", move |conn| {
            let newest = newest(conn)?;
            let Some(after) = after else {
                return Ok(newest);
            };
            let last = i64::try_from(after).unwrap_or(i64::MAX);
            if last > newest {
                return Err(Error::beyond(after, newest as u64).into());
            }
            if last + 1 < read_changes::oldest(conn)? {
                return Err(Error::pruned(after).into());
            }
            Ok(last)
        });
        let (changes, reported) = tokio::sync::mpsc::channel(QUEUE);
        let feed = Feed::new(start.await?, changes);
        self.0.hub.add(Message::Feed(feed))?;
        Ok(Box::pin(stream(self.0.clone(), reported)))
    }

    async fn newest_change(&self) -> Result<u64, Error> {
        let read = self
            .0
            .readers
            .run("read the newest change", |conn| Ok(newest(conn)?));
        let newest: i64 = read.await?;
        Ok(newest.unsigned_abs())
    }
}
