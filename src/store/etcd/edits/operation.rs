//! [`OperationEdit`]: the contents of one operation of a transaction, or of one effect of a message, in a
//! write.

use jiff::Timestamp;
use windlass_statemachine::{Author, TaskId};

use super::{Before, Edits, Leftover, Retried, reschedule::Rescheduled};
use crate::store::{
    Done, Error, Submitted,
    etcd::{
        schema::{TaskKey, transactions::Kept},
        write::{Edit, Item, edit::Sent, transaction},
    },
    rules::transaction::Step,
};

/// How many pointers to commands a deletion beside other operations deletes in the same write. Few, because the writes of
/// the largest operation count against the limit of the servers.
pub(crate) const POINTERS: usize = 4;

/// What the contents of one operation are made of, beside its step: the task, the time, and the place in the numbers of the
/// revision.
pub(crate) struct OperationInput<'a> {
    pub(crate) id: &'a TaskId,
    pub(crate) now: Timestamp,
    pub(crate) place: u32,
    pub(crate) by: Option<&'a Author>,
    /// How many pointers to commands the deletion of a task deletes in the same write.
    pub(crate) pointers: usize,
}

/// What one operation puts into the write.
pub(crate) struct OperationEdit {
    pub(crate) item: Item,
    pub(crate) kept: Kept,
    pub(crate) left: Option<Leftover>,
}

impl Edits {
    /// Returns the contents of one operation in the write.
    pub(crate) async fn operation(
        &self,
        step: &Step<'_>,
        before: &Before,
        input: OperationInput<'_>,
    ) -> Result<OperationEdit, Error> {
        let OperationInput {
            id,
            now,
            place,
            by,
            pointers,
        } = input;
        let (keys, found) = (self.access().keys(), before.found(id));
        let mut item = Item::of(id).at(place, 1).by(by);
        let mut left = None;
        let kept = match step {
            Step::Known(done) => {
                if let Done::Submitted(submitted) = done {
                    transaction::when_exists_as_found(&mut Edit::new(keys, id, &mut item), found);
                    if let Submitted::Other { task, .. } = submitted {
                        self.when_holder(&mut item, before, task);
                    }
                }
                done.clone().into()
            }
            Step::Submit { task, replaces } => {
                let old = replaces.then_some(found);
                left = self.submit(&mut item, task, old, now, pointers).await?;
                self.take_key(&mut item, task, before, now)?;
                Done::Submitted(Submitted::New).into()
            }
            Step::Send(send) => {
                let mut edit = Edit::new(keys, id, &mut item);
                // Otherwise the same message submits the task, and that part compares its key.
                if found.task.is_some() || before.is_assumed {
                    edit.when_there(TaskKey::Task);
                }
                edit.put_command(&Sent {
                    id: &send.id,
                    command: &send.noted(),
                    at: now,
                    place,
                    pointer: before.pointer(&send.id),
                })?;
                Kept::Place { place }
            }
            Step::Delete(delete) => {
                let deleted = self.delete(&mut item, id, found, (pointers, delete.force));
                left = Some(deleted.await?);
                Edit::new(keys, id, &mut item).note_deleted(found, now)?;
                Done::Deleted.into()
            }
            Step::Retry {
                retry,
                state,
                limits,
            } => {
                let to = Retried {
                    state,
                    now,
                    props: retry.props.as_ref(),
                    limits: limits.as_deref(),
                };
                self.retry(&mut item, id, found, &to).await?;
                Done::Retried.into()
            }
            Step::Reschedule {
                change,
                what,
                state,
                done,
            } => {
                if let Done::Submitted(submitted) = done {
                    transaction::when_exists_as_found(&mut Edit::new(keys, id, &mut item), found);
                    if let Submitted::Other { task, .. } = submitted {
                        self.when_holder(&mut item, before, task);
                    }
                }
                let found = before.found(&change.task);
                let to = Rescheduled {
                    change,
                    what,
                    state,
                    now,
                };
                self.reschedule(&mut item, found, &to).await?;
                done.clone().into()
            }
        };
        Ok(OperationEdit { item, kept, left })
    }
}
