//! What nodes and clients of Metafora leave behind: a task whose state is an end, but which is still
//! there (a node stores the end first and deletes the task then, so one that dies between leaves it;
//! and a client that submits an id anew looks at no state); and our marks of tasks that went on.

use std::sync::Arc;

use jiff::Timestamp;
use tracing::info;
use windlass_statemachine::{ActionKind, Code, Fence, State, TaskId};

use super::{
    Inner,
    claims::touch,
    item::Item,
    read::{Bundle, revision},
    records::{self, Entry, Envelope},
};
use crate::store::{Error, What, rules};

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

impl Inner {
    /// Deletes marks of tasks that have gone on since: each with when it was set, and when the state
    /// was written that is newer. A node of Metafora had them while no node of ours was there to see
    /// it.
    pub(super) async fn drop_outdated(self: Arc<Self>, outdated: Vec<(TaskId, i64, i64)>) {
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

    /// Takes a task that has ended, and that nobody has, from the live ones, as a node of Metafora
    /// does. If there is a record of its end, that one stays.
    pub(super) async fn unschedule(&self, id: &TaskId, now: Timestamp) -> Result<(), Error> {
        const OPERATION: &str = "take an ended task from the live ones";
        let read = self.read(id).await;
        let bundle = &read.map_err(|fault| fault.into_error(OPERATION))?;
        let state = match bundle.state() {
            Ok((state, _)) if state.code().is_terminal() => &{ state },
            _ => return Ok(()),
        };
        let keys = &self.keys;
        let mut item = Item::new(touch(id)).at(self.pipeline.places(1), 1);
        item.when_at(&keys.owner(id), 0);
        item.when_at(&keys.task(id), revision(bundle.task.as_ref()));
        item.when_at(&keys.state(id), revision(bundle.state.as_ref()));
        let (slot, at_once) = (keys.slot(id), self.settled_at_once());
        item.when_not_after(&slot, &format!("{slot}0"), bundle.revision);
        for stored in bundle.queue.iter().take(at_once) {
            let name = stored.key_name();
            let outcome = stored.write_outcome(rules::command::ended(state.code()))?;
            item.put(&keys.outcome(id, &name), outcome);
        }
        if bundle.queue.len() > at_once {
            // These first; that they are gone makes the task be looked at again.
            for stored in bundle.queue.iter().take(at_once) {
                match &stored.name {
                    Some(name) => item.delete(&keys.queued(id, name)),
                    None => item.delete(&slot),
                }
            }
        } else {
            item.delete(&keys.task(id));
            item.delete_parts(&self.keys, id, bundle);
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
        let task = bundle
            .whole_task(id)
            .map_err(|e| Error::corrupt_task(id, e))?;
        let (envelope, order) = bundle.envelope().map_err(|e| Error::corrupt_task(id, e))?;
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
