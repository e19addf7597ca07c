//! Transactions of several operations and guards.
//!
//! A try reads all that the transaction names, the rules decide, and one item writes all changes, if
//! everything that was decided by is as it was read. The item also puts a record with the results. A
//! repeat returns them, and so does a try after one without an answer.

use futures::future::try_join_all;
use jiff::Timestamp;
use uuid::Uuid;
use windlass_statemachine::{Invalid, TaskId, TransactionId};

use super::{
    before::Before,
    clear::Leftover,
    delete::Deletes,
    keeping::Keeping,
    reschedule::{Rescheduled, Reschedules},
    retry::Retries,
    submit::Submits,
};
use crate::store::{
    Applied, Done, Error, Limits, Operation, Require, Submitted, Transaction,
    etcd::{
        read::Access,
        schema::{
            Of,
            numbers::PLACES,
            transactions::{Kept, applied, read_record},
        },
        write::{Edit, Item, Tries, Wrote, edit::Sent, transaction as parts},
    },
    rules::{
        self,
        plan::Bounds,
        transaction::{Step, decide},
    },
};

pub(crate) const OPERATION: &str = "apply a transaction";
/// How often a transaction is tried while its tasks change.
const TRIES: usize = 50;
/// How many pointers to commands the deletion of a task deletes in the write itself: the writes of
/// the largest operation count against the limit of the servers.
const POINTERS: usize = 4;

/// Applies transactions.
pub(crate) struct Transactions {
    pub(crate) submits: Submits,
    pub(crate) deletes: Deletes,
    pub(crate) retries: Retries,
    pub(crate) reschedules: Reschedules,
    pub(crate) keeping: Keeping,
    pub(crate) limits: Limits,
}

/// What one operation is about, when, and its place in the numbers of the revision.
struct At<'a> {
    id: &'a TaskId,
    now: Timestamp,
    place: u32,
}

/// One operation as a part of the write.
struct Part {
    item: Item,
    kept: Kept,
    left: Option<Leftover>,
}

impl Transactions {
    fn access(&self) -> &Access {
        &self.deletes.clearing.access
    }

    /// Applies a transaction, once for its id.
    pub(crate) async fn apply(&self, transaction: Transaction) -> Result<Applied, Error> {
        let access = self.access();
        let id = match transaction.id() {
            Some(id) => id.clone(),
            // For this call alone: it finds out what a try without an answer has done.
            None => TransactionId::new(Uuid::now_v7().to_string())?,
        };
        let most = access.capacity().transaction();
        let most = most.min(self.limits.max_operations);
        rules::transaction::check(&transaction, "etcd", most)?;
        let tries = Tries::new(&access.pipeline, OPERATION);
        let mut tries = tries.at_most(TRIES).renewing();
        let mut left = Vec::new();
        // The first try of submits alone reads nothing: it compares that the ids are free.
        let mut unread = is_of_new_tasks(&transaction);
        let applied = loop {
            let is_unread = std::mem::take(&mut unread);
            let before = match is_unread {
                true => Before::default(),
                false => Before::read(&access.reader, &self.retries, &transaction, &id).await?,
            };
            let repeated = |kv| read_record(kv)?.repeated_by(&transaction);
            if let Some(record) = &before.record {
                break repeated(record)?;
            }
            let (now, max_bytes) = (access.now(), self.limits.max_bytes);
            let steps = match decide(&transaction, &before.facts, Bounds { max_bytes, now }) {
                Ok(steps) => steps,
                // Not every reason is known before the tasks are read.
                Err(_) if is_unread => continue,
                Err(refused) => {
                    // It may have been applied since its record was read: then its tasks differ.
                    let key = access.keys().transaction(&id);
                    match access.reader.key(&key, OPERATION).await? {
                        Some(record) => break repeated(&record)?,
                        None => return Err(refused),
                    }
                }
            };
            let count = u32::try_from(steps.len()).unwrap_or(PLACES);
            let place = access.pipeline.places(count);
            let operations = transaction.operations().iter();
            let steps = steps
                .iter()
                .zip(operations.map(Operation::task))
                .zip(place..);
            let parts: Vec<_> = steps
                .map(|((step, id), place)| self.part(step, &before, At { id, now, place }))
                .collect();
            let parts = try_join_all(parts).await?;
            let lease = self.keeping.lease().await;
            let lease = lease.map_err(|fault| fault.into_error(OPERATION))?;
            let kept: Vec<Kept> = parts.iter().map(|part| part.kept.clone()).collect();
            let record = parts::record(access.keys(), &id, &kept, now, lease)?;
            let guards = transaction.guards().iter();
            let guards =
                guards.map(|guard| parts::guard(access.keys(), guard, before.found(&guard.task)));
            let mut items: Vec<Item> = std::iter::once(record).chain(guards).collect();
            left = Vec::new();
            for (part, operation) in parts.into_iter().zip(transaction.operations()) {
                items.push(part.item);
                left.extend(part.left.map(|left| (operation.task(), left)));
            }
            let item = Item::union(items).at(place, count);
            self.check_room(&item)?;
            if let Wrote::At(at) = tries.write(item).await? {
                break applied(&kept, at);
            }
            if tries.has_lost_its_lease() {
                self.keeping.is_gone(lease).await;
            }
        };
        for (task, left) in left {
            self.deletes.clearing.drop_pointers(task, left).await;
        }
        Ok(applied)
    }

    /// Refuses a write that the servers would refuse.
    fn check_room(&self, item: &Item) -> Result<(), Error> {
        let capacity = self.access().capacity();
        let (has, most) = (item.operations(), capacity.operations());
        if has > most {
            let reason = format!(
                "take {has} operations of etcd, and its servers take at most {most} in one transaction \
                 (--max-txn-ops); split the transaction, or raise the option of the servers and \
                 'max-txn-ops' in the store's URL"
            );
            return Err(Invalid::new("operations", reason).into());
        }
        match item.bytes > capacity.bytes() {
            true => Err(Error::too_large(
                "transaction",
                item.bytes,
                capacity.bytes(),
            )),
            false => Ok(()),
        }
    }

    /// Makes the part of one operation.
    async fn part(&self, step: &Step<'_>, before: &Before, at: At<'_>) -> Result<Part, Error> {
        let At { id, now, place } = at;
        let (keys, found) = (self.access().keys(), before.found(id));
        let mut item = Item::of(id).at(place, 1);
        let mut left = None;
        let kept = match step {
            Step::Known(done) => {
                if matches!(done, Done::Submitted(_)) {
                    parts::when_exists_as_found(&mut Edit::new(keys, id, &mut item), found);
                }
                (*done).into()
            }
            Step::Submit { task, replaces } => {
                let old = replaces.then_some(found);
                left = self
                    .submits
                    .add(&mut item, task, old, now, POINTERS)
                    .await?;
                Done::Submitted(Submitted::New).into()
            }
            Step::Send(send) => {
                let mut edit = Edit::new(keys, id, &mut item);
                edit.when_there(Of::Task);
                edit.put_command(&Sent {
                    id: &send.id,
                    command: &send.command,
                    at: now,
                    place,
                    pointer: before.pointer(&send.id),
                })?;
                Kept::Place { place }
            }
            Step::Delete(_) => {
                left = Some(self.deletes.add(&mut item, id, found, POINTERS).await?);
                Done::Deleted.into()
            }
            Step::Retry { state, .. } => {
                self.retries.add(&mut item, id, found, state, now)?;
                Done::Retried.into()
            }
            Step::Reschedule {
                change,
                from,
                state,
            } => {
                let from = *from;
                let to = Rescheduled {
                    change,
                    from,
                    state,
                    now,
                };
                self.reschedules.add(&mut item, found, &to).await?;
                Done::Rescheduled(state.code()).into()
            }
        };
        Ok(Part { item, kept, left })
    }
}

/// Returns whether a transaction expects that none of the tasks that it names exists.
fn is_of_new_tasks(transaction: &Transaction) -> bool {
    let mut operations = transaction.operations().iter();
    let mut guards = transaction.guards().iter();
    operations.all(|operation| matches!(operation, Operation::Submit(_)))
        && guards.all(|guard| guard.require == Require::Absent)
}
