//! What a client asks of the store, handed to where it is done.

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, TaskId};

use super::{
    SqliteStore, all_failed,
    batch::newest,
    changes, codes, commands,
    coordinator::stream,
    errors::item,
    json, moving, nodes, prune, reader,
    subscriber::{Feed, QUEUE},
    tasks,
    watch::Message,
};
use crate::store::{
    Change, ChangeStream, CommandRecord, Count, Error, Exported, Filter, Limits, NodeCommand,
    NodeRecord, Page, Registry, Send, Submit, Submitted, TaskRecord,
    examine::{Examination, Finding},
    rules,
};

#[async_trait]
impl Registry for SqliteStore {
    fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn identity(&self) -> Result<String, Error> {
        self.0
            .readers
            .run("read the store's identity", reader::identity)
            .await
    }

    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let count = tasks.len();
        let done = self.0.writer.run("submit", count, move |batch| {
            let submit = |task| item(tasks::submit(batch, task));
            tasks.iter().map(submit).collect()
        });
        done.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn send(&self, commands: Vec<Send>) -> Vec<Result<u64, Error>> {
        let count = commands.len();
        let commands: Vec<_> = commands.into_iter().map(commands::Prepared::new).collect();
        let done = self.0.writer.run("send a command", count, move |batch| {
            let send = |command| item(commands::send(batch, command));
            commands.iter().map(send).collect()
        });
        done.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        let id = id.clone();
        let read = move |conn: &_| reader::command(conn, &id);
        self.0.readers.run("read a command", read).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        let task = task.clone();
        let read = move |conn: &_| reader::commands(conn, &task);
        self.0
            .readers
            .run("read the commands of a task", read)
            .await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let id = id.clone();
        let read = move |conn: &_| reader::get(conn, &id);
        self.0.readers.run("read a task", read).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        rules::page::check(page)?;
        let filter = filter.clone();
        let read = move |conn: &_| reader::list(conn, &filter, page);
        self.0.readers.run("list tasks", read).await
    }

    async fn counts(&self) -> Result<Vec<Count>, Error> {
        self.0.readers.run("count tasks", reader::counts).await
    }

    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let count = ids.len();
        let done = self.0.writer.run("delete", count, move |batch| {
            let delete = |id| item(tasks::delete(batch, id));
            ids.iter().map(delete).collect()
        });
        done.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let count = ids.len();
        let done = self.0.writer.run("retry", count, move |batch| {
            let retry = |id| item(tasks::retry(batch, id));
            ids.iter().map(retry).collect()
        });
        done.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn purge(&self, states: &[Code], before: Timestamp, limit: u32) -> Result<u64, Error> {
        let before = codes::micros(before);
        let mut left = limit;
        while left > 0 {
            let (states, step) = (states.to_vec(), left.min(prune::STEP));
            let purged = self.0.writer.run("purge", step as usize, move |batch| {
                prune::purge(batch, &states, before, step)
            });
            let purged = purged.await? as u32;
            left -= purged;
            if purged < step {
                break;
            }
        }
        Ok(u64::from(limit - left))
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let clock = self.0.lease_clock.clone();
        let read = move |conn: &_| reader::nodes(conn, &clock);
        self.0.readers.run("list nodes", read).await
    }

    async fn send_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error> {
        let (node, text) = (node.clone(), json("command", &command)?);
        let sent = self
            .0
            .writer
            .run("send a command to a node", 1, move |batch| {
                item(nodes::send(batch, &node, &text))
            });
        sent.await?
    }

    async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        let read = move |conn: &_| {
            let outcome = nodes::outcome(conn, order)?;
            Ok(outcome.ok_or_else(|| Error::no_node_command(order))?)
        };
        self.0.readers.run("read a node's answer", read).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        let id = id.clone();
        let read = move |conn: &_| reader::history(conn, &id, limit);
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
                return Err(rules::page::beyond(after, newest as u64).into());
            }
            if last + 1 < changes::oldest(conn)? {
                return Err(rules::page::pruned(after).into());
            }
            Ok(last)
        });
        let (changes, told) = tokio::sync::mpsc::channel(QUEUE);
        let feed = Feed::new(start.await?, changes);
        self.0.hub.add(Message::Feed(feed))?;
        Ok(Box::pin(stream(self.0.clone(), told)))
    }

    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        // Claims of nodes that are gone end with the next write of anybody; here it may be the last.
        let look = self.0.writer.run("look for ended leases", 1, |_| Ok(()));
        look.await?;
        self.0.readers.run("list tasks", moving::ids).await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let (count, ids) = (ids.len(), ids.to_vec());
        let read = move |conn: &_| {
            let one = |id| item(moving::export(conn, id));
            Ok(ids.iter().map(one).collect::<Result<Vec<_>, _>>()?)
        };
        let read = self.0.readers.run("export tasks", read).await;
        read.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let count = tasks.len();
        let done = self.0.writer.run("import tasks", count, move |batch| {
            let import = |task| item(moving::import(batch, task));
            tasks.iter().map(import).collect()
        });
        done.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        Self::examine(self, how).await
    }
}
