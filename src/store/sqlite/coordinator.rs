//! [`Coordinator`]: each method hands its work to the writer or to a reader.

use std::time::Duration;

use async_trait::async_trait;
use windlass_statemachine::{Kind, NodeName, TaskId, size::Size};

use super::{
    Inner, SqliteStore, all_failed, audit,
    batch::Batch,
    claim,
    codes::micros,
    commit,
    errors::item,
    hub::Message,
    jobs::Load,
    json, lease as leases, log_lines, node as nodes,
    progress::QUEUE,
    retention::{self, Purged},
    schema, stream, transaction,
    watch::Watch,
    worker,
};
use crate::store::{
    Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NewWorker,
    NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Registry, Speaker, WorkerRecord,
    rules::{self, size::Weight},
};

/// The most steps of pruning in one call.
const PRUNE_STEPS: u32 = 20;

#[async_trait]
impl Coordinator for SqliteStore {
    fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.0.check_tables().await?;
        let (spec, status) = (json("node", node)?, json("node", &NodeStatus::default())?);
        let node = node.clone();
        let joined = self.0.writer.run("join", 1, move |batch| {
            item(leases::join(batch, &node, &spec, &status, ttl))
        });
        let lease = joined.await??;
        self.0.writer.keep_reaping();
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        let (lease, status) = (lease.clone(), json("node", status)?);
        let renewed = self.0.writer.run("renew a lease", 1, move |batch| {
            item(worker::renew(batch, &lease, &status))
        });
        renewed.await?
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        node.check_name(lease)?;
        let (lease, spec) = (lease.clone(), node.clone());
        let described = self.0.writer.run("describe a node", 1, move |batch| {
            item(worker::describe(batch, &lease, &spec))
        });
        described.await?
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        let id = lease.id;
        let left = self
            .0
            .writer
            .run("leave", 1, move |batch| leases::leave(batch, id, None));
        left.await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        let (id, node) = (lease.id, lease.node.to_string());
        let ended = self.0.writer.run("end a lost lease", 1, move |batch| {
            leases::leave(batch, id, Some(&node))
        });
        ended.await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        let id = lease.id as i64;
        let lives = self
            .0
            .readers
            .run("watch", move |conn| Ok(leases::lives(conn, id)?));
        if !lives.await? {
            return Err(Error::lease_fenced(&lease.node));
        }
        let (events, reported) = tokio::sync::mpsc::channel(QUEUE);
        self.0
            .hub
            .add(Message::Watch(Watch::new(id, kinds, events)))?;
        Ok(Box::pin(stream(self.0.clone(), reported)))
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        let (lease, count) = (lease.clone(), tasks.len());
        let claimed = self.0.writer.run("claim", count, move |batch| {
            if let Some(error) = worker::claims_nothing(batch, &lease)? {
                return Ok(all_failed(count, &error));
            }
            claim::all(batch, &lease, &tasks)
        });
        claimed.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        let weight = |one: &Commit| Weight {
            operations: 1 + one.write.effects.operations(),
            bytes: Size::of(&one.write.state).bytes() + one.write.effects.bytes(),
        };
        let mut answers = Vec::new();
        for (weight, commits) in rules::size::writes(commits, weight) {
            let items = commits.len();
            let commits: Vec<_> = commits.into_iter().map(commit::Prepared::new).collect();
            let load = Load::from(weight);
            let done = self.0.writer.run("commit", load, move |batch| {
                let one = |one| item(commit::commit(batch, one));
                commits.iter().map(one).collect()
            });
            let done: Vec<_> = done.await.unwrap_or_else(|e| all_failed(items, &e));
            // Almost always, one write takes all of them.
            match answers.is_empty() {
                true => answers = done,
                false => answers.extend(done),
            }
        }
        answers
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        let items = writes.len();
        let done = self.0.writer.run("write log lines", items, move |batch| {
            let one = |one| item(log_lines::write(batch, one));
            writes.iter().map(one).collect()
        });
        done.await.unwrap_or_else(|e| all_failed(items, &e))
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        Registry::nodes(self).await
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        let (lease, outcome) = (lease.clone(), outcome.to_owned());
        let done = self.0.writer.run("acknowledge", 1, move |batch| {
            item(nodes::acknowledge(batch, &lease, command, &outcome))
        });
        done.await?
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        rules::worker::check(worker)?;
        self.0.check_tables().await?;
        let (worker, status) = (worker.clone(), json("node", &NodeStatus::default())?);
        let joined = self.0.writer.run("register a worker", 1, move |batch| {
            item(worker::join(batch, &worker, &status))
        });
        let record = joined.await??;
        self.0.writer.keep_reaping();
        Ok(record)
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        let (clock, name) = (self.0.lease_clock.clone(), name.clone());
        let read = move |conn: &_| worker::read(conn, &clock, &name);
        self.0.readers.run("read a worker", read).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        let (lease, speaker) = (lease.clone(), speaker.clone());
        let spoken = self.0.writer.run("speak for a worker", 1, move |batch| {
            item(worker::speak(batch, &lease, &speaker))
        });
        let lease = spoken.await??;
        self.0.writer.keep_reaping();
        Ok(lease)
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        let (clock, lease) = (self.0.lease_clock.clone(), lease.clone());
        let read = move |conn: &_| worker::held(conn, &clock, &lease, tasks.as_deref());
        self.0
            .readers
            .run("read the claims of a worker", read)
            .await
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        if let Some(retention) = retention {
            self.0.prune_clock.check(retention);
        }
        Ok(())
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        self.0.forget_transactions().await?;
        let Some(retention) = retention else {
            return Ok(0);
        };
        let mut purged = 0;
        for _ in 0..PRUNE_STEPS {
            let (tasks, changes) = self.0.prune(retention).await?;
            purged += tasks.tasks;
            if !tasks.is_full && changes < u64::from(retention::STEP) {
                break;
            }
        }
        Ok(purged)
    }
}

impl Inner {
    /// Refuses a file whose tables differ: on such a file a node would fail with each call, for ever.
    async fn check_tables(&self) -> Result<(), Error> {
        let compare = |conn: &_| Ok(schema::differences(conn)?);
        let differences = self.readers.run("compare the tables", compare).await?;
        differences.check(&self.path)
    }

    /// Forgets transactions that need no longer be remembered. Writes nothing when there are none.
    async fn forget_transactions(&self) -> Result<(), Error> {
        let Some(before) = rules::transaction::forgotten_before(self.prune_clock.now()) else {
            return Ok(());
        };
        let (verb, before) = ("forget transactions", micros(before));
        let old = move |conn: &_| Ok(transaction::has_old(conn, before)?);
        for _ in 0..PRUNE_STEPS {
            if !self.readers.run(verb, old).await? {
                break;
            }
            let forget = move |batch: &mut Batch<'_>| {
                transaction::forget(batch, before, retention::STEP).map(drop)
            };
            let step = retention::STEP as usize;
            self.writer.run(verb, step, forget).await?;
        }
        Ok(())
    }

    /// Prunes one step. Returns the tasks and the number of changes that it deleted.
    async fn prune(&self, retention: Duration) -> Result<(Purged, u64), Error> {
        let Some(before) = self.prune_clock.before(retention) else {
            return Ok((Purged::NONE, 0));
        };
        let times = (before, self.prune_clock.now());
        let before = micros(before);
        let step = retention::STEP;
        let pruned = self.writer.run("prune", step as usize, move |batch| {
            let ended = windlass_statemachine::StateKind::ALL;
            let tasks = retention::purge(batch, &ended, before, step)?;
            let changes = retention::history(batch, times, step)?;
            retention::names(batch, before)?;
            audit::prune(batch, (before, times.1), step)?;
            Ok((tasks, changes))
        });
        pruned.await
    }
}
