//! Transactions of several operations and guards.
//!
//! A try reads everything that the transaction names, the rules decide, and one item writes all
//! changes if nothing has changed since the read. The item also writes a record with the results,
//! which a repeat returns, and so does a try after one without an answer.

use futures::future::try_join_all;
use jiff::Timestamp;
use windlass_statemachine::{TaskId, TransactionId};

use super::record_lease::RecordLease;
use crate::store::{
    Applied, Error, Limits, Operation, Require, Transaction,
    etcd::{
        edits::{At, Before, Edits, Leftover},
        read::Access,
        schema::{
            numbers::PLACES,
            transactions::{Kept, applied, read_record},
        },
        write::{Item, Tries, Wrote, transaction as beside},
    },
    rules::{
        self,
        transaction::{Bounds, Step, decide},
    },
};

const OPERATION: &str = "apply a transaction";
/// How often a transaction is tried while its tasks change.
const TRIES: usize = 50;
/// Applies transactions.
pub(crate) struct Transactions {
    pub(crate) edits: Edits,
    pub(crate) record_lease: RecordLease,
    pub(crate) limits: Limits,
}

impl Transactions {
    fn access(&self) -> &Access {
        self.edits.access()
    }

    /// Applies a transaction, once for its id.
    pub(crate) async fn apply(&self, transaction: Transaction) -> Result<Applied, Error> {
        let access = self.access();
        let id = match transaction.id() {
            Some(id) => id.clone(),
            // Only for this call: it shows what a try without an answer has done.
            None => TransactionId::new(crate::unique_id::new().to_string())?,
        };
        let most = access.capacity().transaction();
        let most = most.min(self.limits.max_operations);
        rules::transaction::check(&transaction, "etcd", most)?;
        let tries = Tries::new(&access.pipeline, OPERATION);
        let mut tries = tries.at_most(TRIES).renewing();
        let mut left = Vec::new();
        // The first try of a transaction that only submits reads nothing: it compares that the ids
        // are free.
        let mut unread = is_of_new_tasks(&transaction);
        let applied = loop {
            let is_unread = std::mem::take(&mut unread);
            let mut before = match is_unread {
                true => Before::default(),
                false => Before::read(&self.edits, &transaction, Some(&id), OPERATION).await?,
            };
            let repeated = |kv| {
                let (applied, fingerprint) = read_record(kv)?;
                transaction.check_repeats(&fingerprint)?;
                applied.repeated_by(&transaction)
            };
            if let Some(record) = &before.record {
                break repeated(record)?;
            }
            let (now, max_bytes) = (access.now(), self.limits.max_bytes);
            let steps = match decide(&transaction, &mut before.facts, Bounds { max_bytes, now }) {
                Ok(steps) => steps,
                // Before the tasks are read, not every reason is known.
                Err(_) if is_unread => continue,
                Err(refused) => {
                    // The transaction may have been applied since its record was read; its tasks
                    // then differ.
                    let key = access.keys().transaction(&id);
                    if let Some(record) = access.reader.key(&key, OPERATION).await? {
                        break repeated(&record)?;
                    }
                    self.check_room(&transaction, now).await?;
                    return Err(refused);
                }
            };
            let lease = self.record_lease.lease().await;
            let lease = lease.map_err(|fault| fault.into_error(OPERATION))?;
            let of = Of {
                transaction: &transaction,
                id: &id,
                now,
                lease,
            };
            let built = self.built(of, &steps, &before).await?;
            let (item, kept) = (built.item, built.kept);
            left = built.left;
            item.check_room(access.capacity(), "operations")?;
            if let Wrote::At(at) = tries.write(item).await? {
                break applied(&kept, at);
            }
            if tries.has_lost_its_lease() {
                self.record_lease.is_gone(lease).await;
            }
        };
        for (task, left) in left {
            self.edits.clearing.drop_pointers(task, left).await;
        }
        Ok(applied)
    }

    /// Refuses a transaction that is only checked, if it is too large for the servers.
    async fn check_room(&self, transaction: &Transaction, now: Timestamp) -> Result<(), Error> {
        if !transaction.is_never() {
            return Ok(());
        }
        let transaction = &transaction.clone().without_never();
        let mut before = Before::read(&self.edits, transaction, None, OPERATION).await?;
        let max_bytes = self.limits.max_bytes;
        let Ok(steps) = decide(transaction, &mut before.facts, Bounds { max_bytes, now }) else {
            return Ok(());
        };
        let own = TransactionId::new(crate::unique_id::new().to_string())?;
        let of = Of {
            transaction,
            id: transaction.id().unwrap_or(&own),
            now,
            lease: 0,
        };
        let built = self.built(of, &steps, &before).await?;
        let capacity = self.access().capacity();
        built.item.check_room(capacity, "operations")
    }

    /// Returns the item that writes these steps.
    async fn built<'a>(
        &self,
        of: Of<'a>,
        steps: &[Step<'_>],
        before: &Before,
    ) -> Result<Built<'a>, Error> {
        let access = self.access();
        let Of {
            transaction,
            id,
            now,
            lease,
        } = of;
        let count = u32::try_from(steps.len()).unwrap_or(PLACES);
        let place = access.pipeline.places(count);
        let operations = transaction.operations().iter();
        let by = transaction.author();
        let at = |id, place| At { id, now, place, by };
        let steps = steps
            .iter()
            .zip(operations.map(Operation::task))
            .zip(place..);
        let parts: Vec<_> = steps
            .map(|((step, id), place)| self.edits.operation(step, before, at(id, place)))
            .collect();
        let parts = try_join_all(parts).await?;
        let kept: Vec<Kept> = parts.iter().map(|part| part.kept.clone()).collect();
        let fingerprint = transaction.fingerprint();
        let record = beside::record(access.keys(), (id, fingerprint), &kept, now, lease)?;
        let guards = transaction.guards().iter();
        let guards =
            guards.map(|guard| beside::guard(access.keys(), guard, before.found(&guard.task)));
        let mut items: Vec<Item> = std::iter::once(record).chain(guards).collect();
        let mut left = Vec::new();
        for (part, operation) in parts.into_iter().zip(transaction.operations()) {
            items.push(part.item);
            left.extend(part.left.map(|left| (operation.task(), left)));
        }
        let item = Item::union(items).at(place, count);
        Ok(Built { item, kept, left })
    }
}

/// The input of an item, in addition to its steps.
#[derive(Clone, Copy)]
struct Of<'a> {
    transaction: &'a Transaction,
    id: &'a TransactionId,
    now: Timestamp,
    /// The lease of its record.
    lease: i64,
}

/// A transaction as it is written.
struct Built<'a> {
    item: Item,
    /// Its results.
    kept: Vec<Kept>,
    /// The remains of its deletions.
    left: Vec<(&'a TaskId, Leftover)>,
}

/// Returns whether a transaction expects that none of its tasks exists.
fn is_of_new_tasks(transaction: &Transaction) -> bool {
    let mut operations = transaction.operations().iter();
    let mut guards = transaction.guards().iter();
    operations.all(|operation| matches!(operation, Operation::Submit(_)))
        && guards.all(|guard| guard.require == Require::Absent)
}
