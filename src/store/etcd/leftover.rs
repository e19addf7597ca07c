//! What nodes and clients of Metafora leave behind: a task whose state is an end, but which is still
//! there (a node stores the end first and deletes the task then, so one that dies between leaves it;
//! and a client that submits an id anew looks at no state); and our marks of tasks that went on.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use etcd_client::KeyValue;
use jiff::Timestamp;
use tracing::{debug, info};
use windlass_statemachine::{ActionKind, Code, Fence, State, TaskId};

use super::{
    Inner,
    claims::touch,
    errors::Fault,
    item::Item,
    outcomes::{REJECTED_AT_ONCE, ended},
    read::{Bundle, corrupt, revision},
    records::{self, Entry, Envelope},
};
use crate::store::{Error, What};

/// The step that an end was come to by, in the table: nobody has told of it.
fn step(to: Code) -> What {
    let (message, from) = match to {
        Code::Killed => (ActionKind::Kill, Code::Runnable),
        Code::Failed => (ActionKind::Error, Code::Fault),
        _ => (ActionKind::Complete, Code::Runnable),
    };
    What::Moved {
        message,
        from,
        to,
        fence: Fence(0),
        command: None,
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl Inner {
    /// Deletes the marks of tasks whose state was written after them: a node of Metafora had those
    /// tasks while no node of ours was there to see it. Done once after every list.
    pub(super) async fn drop_outdated_marks(self: Arc<Self>) {
        let outdated = match self.outdated_marks().await {
            Ok(outdated) => outdated,
            Err(fault) => {
                let reason = fault.into_error("look for outdated marks");
                debug!(%reason, "the next list does it");
                return;
            }
        };
        for (id, marked, stored) in outdated {
            let mut item = Item::new(touch(&id));
            item.when_at(&self.keys.owner(&id), 0);
            item.when_at(&self.keys.state(&id), stored);
            item.when_at(&self.keys.parked(&id), marked);
            item.delete(&self.keys.parked(&id));
            // Another node does it too; and what was written meanwhile is not outdated.
            let _ = self.pipeline.write(item).await;
        }
    }

    /// The tasks whose state was written after their mark, and when both were.
    async fn outdated_marks(&self) -> Result<Vec<(TaskId, i64, i64)>, Fault> {
        let keys = &self.keys;
        // By a hash: a million marks stay small, and what is found is compared when it is written.
        let mut marks: HashMap<u64, i64> = HashMap::new();
        let mut take = |kv: KeyValue| {
            if let Some(id) = keys.strip(kv.key(), "parked/") {
                marks.insert(hash(id), kv.mod_revision());
            }
        };
        let at = self.scan_keys(0, &keys.all_parked(), &mut take).await?;
        let mut outdated = Vec::new();
        if marks.is_empty() {
            return Ok(outdated);
        }
        let mut take = |kv: KeyValue| {
            let stored = kv.mod_revision();
            if let Some(id) = keys.strip(kv.key(), "state/")
                && let Some(marked) = marks.get(&hash(id)).filter(|marked| **marked < stored)
                && let Ok(id) = TaskId::new(id)
            {
                outdated.push((id, *marked, stored));
            }
        };
        self.scan_keys(at, &keys.all_states(), &mut take).await?;
        Ok(outdated)
    }

    /// Takes a task that has ended, and that nobody has, from the live ones, as a node of Metafora
    /// does. If there is a record of its end, that one stays.
    pub(super) async fn unschedule(
        &self,
        id: &TaskId,
        bundle: &Bundle,
        state: &State,
        now: Timestamp,
    ) -> Result<(), Error> {
        const OPERATION: &str = "take an ended task from the live ones";
        let keys = &self.keys;
        let mut item = Item::new(touch(id)).at(self.pipeline.places(1), 1);
        item.when_at(&keys.owner(id), 0);
        item.when_at(&keys.task(id), revision(bundle.task.as_ref()));
        item.when_at(&keys.state(id), revision(bundle.state.as_ref()));
        let slot = keys.slot(id);
        item.when_not_after(&slot, &format!("{slot}0"), bundle.revision);
        for stored in bundle.queue.iter().take(REJECTED_AT_ONCE) {
            let name = stored.key_name();
            let outcome = stored.write_outcome(ended(state.code()))?;
            item.put(&keys.outcome(id, &name), outcome);
        }
        if bundle.queue.len() > REJECTED_AT_ONCE {
            // These first; that they are gone makes the task be looked at again.
            for stored in bundle.queue.iter().take(REJECTED_AT_ONCE) {
                match &stored.name {
                    Some(name) => item.delete(&keys.queued(id, name)),
                    None => item.delete(&slot),
                }
            }
        } else {
            item.delete(&keys.task(id));
            item.delete_all(&keys.parts(id));
            item.delete(&keys.parked(id));
            if bundle.finished.is_none() {
                self.put_ended(&mut item, id, bundle, state, now)?;
            }
        }
        let done = self.pipeline.write(item).await;
        let done = done.map_err(|fault| fault.into_error(OPERATION))?;
        if done.written.is_some() {
            info!(task = %id, state = %state.code(), "had ended, and was still there: it is not any more");
        }
        Ok(())
    }

    /// Adds the record of its end, with now as the time of it: Metafora keeps none.
    fn put_ended(
        &self,
        item: &mut Item,
        id: &TaskId,
        bundle: &Bundle,
        state: &State,
        now: Timestamp,
    ) -> Result<(), Error> {
        let task = bundle.whole_task(id).map_err(|e| corrupt(id, e))?;
        let (envelope, order) = bundle.envelope().map_err(|e| corrupt(id, e))?;
        let ended = Envelope {
            order: Some(order),
            props: Some(task.props).filter(|props| !props.is_null()),
            state: Some(state.code()),
            ended_at: Some(now),
            ..envelope
        };
        item.put(&self.keys.finished(id), records::write("task", &ended)?);
        let key = format!("{}-ended", self.keys.history(id, state.version));
        item.put(&key, Entry::write(now, item.place, &[step(state.code())])?);
        Ok(())
    }
}
