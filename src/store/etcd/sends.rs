//! Commands: sent to the queue of a task, and found again by their id.

use etcd_client::{Txn, TxnOp};
use windlass_statemachine::{Command, CommandId, TaskId};

use super::{
    Inner,
    claims::touch,
    errors::Fault,
    item::Item,
    queued::Stored,
    read::{kv, revision},
    records::{self, number},
};
use crate::store::{CommandRecord, Error, Send, rules};

const OPERATION: &str = "send a command";
const ROUNDS: usize = 5;

/// What a command id stands for already.
pub(super) struct Known {
    /// The task it was sent to, and what is kept of it.
    pub(super) task: Option<TaskId>,
    pub(super) stored: Option<Stored>,
    /// When its pointer was written: one that points to nothing may be written over.
    pub(super) revision: i64,
}

pub(super) fn record(task: &TaskId, stored: &Stored) -> Option<CommandRecord> {
    Some(CommandRecord {
        id: stored.id().ok()?,
        task: task.clone(),
        order: stored.order,
        command: stored.command.clone().ok()?,
        sent_at: stored.sent_at,
        outcome: stored.became.clone(),
    })
}

impl Inner {
    /// Finds a command by its id.
    pub(super) async fn known(&self, id: &CommandId) -> Result<Known, Error> {
        const OPERATION: &str = "find a command";
        let pointer = self.get_key(&self.keys.pointer(id)).await;
        let pointer = pointer.map_err(|fault| fault.into_error(OPERATION))?;
        let task = pointer
            .as_ref()
            .and_then(|kv| records::parse::<TaskId>(kv).ok());
        let revision = revision(pointer.as_ref());
        let Some(task) = task else {
            let (task, stored) = (None, None);
            return Ok(Known {
                task,
                stored,
                revision,
            });
        };
        let read = Txn::new().and_then([
            TxnOp::get(self.keys.queued(&task, id.as_str()), None),
            TxnOp::get(self.keys.outcome(&task, id.as_str()), None),
        ]);
        let read = self.link.txn(read).await;
        let read = read.map_err(|fault| fault.into_error(OPERATION))?;
        let mut found = read.op_responses().into_iter();
        let kv = kv(found.next()).or_else(|| kv(found.next()));
        let stored = kv.map(|kv| Stored::read(Some(id.as_str()), &kv));
        Ok(Known {
            task: stored.as_ref().map(|_| task),
            stored,
            revision,
        })
    }

    pub(super) async fn send(&self, send: Send) -> Result<u64, Error> {
        let mut pointer = 0;
        let mut reason = String::from("the task changes too often");
        let first_look = !matches!(send.command, Command::Complete { result: Some(_) })
            && send.command.check(self.now()).is_ok();
        for round in 0..ROUNDS {
            if round > 0 || !first_look {
                match self.look_before_send(&send).await? {
                    Ok(order) => return Ok(order),
                    Err(revision) => pointer = revision,
                }
            }
            let now = self.now();
            let mut item = Item::new(touch(&send.task)).at(self.pipeline.places(1), 1);
            let place = item.place;
            item.when_there(&self.keys.task(&send.task));
            self.put_command(
                &mut item,
                (&send.task, &send.id),
                &send.command,
                (place, pointer),
                now,
            )?;
            match self.pipeline.write(item).await {
                Ok(done) => {
                    if let Some(at) = done.written {
                        return Ok(number(at, place));
                    }
                }
                Err(Fault::Unknown(why)) => reason = why,
                Err(fault) => return Err(fault.into_error(OPERATION)),
            }
        }
        Err(Error::unavailable(OPERATION, reason))
    }

    /// Whether the command is known (its order), or can be sent (the revision of a pointer that
    /// points to nothing).
    async fn look_before_send(&self, send: &Send) -> Result<Result<u64, i64>, Error> {
        let known = self.known(&send.id).await?;
        if let (Some(task), Some(stored)) = (&known.task, &known.stored) {
            if *task == send.task {
                return Ok(Ok(stored.order));
            }
            return Err(Error::other_command(&send.id, task));
        }
        let read = self.read(&send.task).await;
        let bundle = read.map_err(|fault| fault.into_error(OPERATION))?;
        match (&bundle.task, &bundle.finished) {
            (Some(_), _) => {}
            (None, Some(_)) => return Err(Error::AlreadyFinished(send.task.clone())),
            (None, None) => return Err(Error::no_task(&send.task)),
        }
        let task = bundle.whole_task(&send.task);
        let props = task.map_or(0, |task| task.props.len());
        let limit = self.options.limits.max_bytes;
        rules::command::check(&send.command, props, limit, self.now())?;
        Ok(Err(known.revision))
    }

    pub(super) async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        let known = self.known(id).await?;
        let found = known.task.zip(known.stored);
        let found = found.and_then(|(task, stored)| record(&task, &stored));
        found.ok_or_else(|| Error::no_command(id))
    }

    /// The commands of a task, those that have an outcome included, in order.
    pub(super) async fn stored_commands(&self, id: &TaskId) -> Result<Vec<Stored>, Error> {
        const OPERATION: &str = "read the commands of a task";
        // First those that wait: one that gets its outcome meanwhile is then there twice, not gone.
        let bundle = self.read(id).await.map_err(|f| f.into_error(OPERATION))?;
        if !bundle.exists() {
            return Err(Error::no_task(id));
        }
        let prefix = self.keys.outcomes(id);
        let (settled, _) = self
            .get_all(&prefix)
            .await
            .map_err(|f| f.into_error(OPERATION))?;
        let settled = settled.iter().filter_map(|kv| {
            let key = std::str::from_utf8(kv.key()).ok()?;
            Some(Stored::read(Some(key.strip_prefix(&prefix)?), kv))
        });
        let mut all: Vec<Stored> = settled.collect();
        for waiting in bundle.queue {
            if all.iter().all(|stored| stored.order != waiting.order) {
                all.push(waiting);
            }
        }
        all.sort_by_key(|stored| stored.order);
        Ok(all)
    }

    pub(super) async fn commands(&self, id: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        let all = self.stored_commands(id).await?;
        Ok(all.iter().filter_map(|stored| record(id, stored)).collect())
    }
}
