//! Transactions of clients, also those of a single operation.
//!
//! A try reads everything that the transaction names, the rules decide, and one item writes all changes if nothing has
//! changed since the read. The item also writes a record with the results, which a repeat returns, and so does a try after
//! one without an answer. An operation that is [alone](Transaction::alone) needs no record: its task shows whether a try
//! was applied ([`lost`](super::lost)).

use futures::future::try_join_all;
use jiff::Timestamp;
use windlass_statemachine::{Command, TaskId, TransactionId};

use super::{lost::LostTries, record_lease::RecordLease};
use crate::store::{
    Applied, Error, Limits, Operation, Require, Transaction,
    etcd::{
        edits::{Before, Edits, Leftover, OperationInput, POINTERS},
        read::Access,
        schema::{
            numbers::PLACES,
            transactions::{Kept, applied, read_record},
        },
        write::{Item, Tries, Wrote, transaction},
    },
    rules::{
        self,
        transaction::{Bounds, Step, decide, decide_alone},
    },
};

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
        match transaction.alone() {
            Some(operation) => self.apply_alone(&transaction, operation).await,
            // Boxed to keep the future of a submit small.
            None => Box::pin(self.apply_recorded(transaction)).await,
        }
    }

    /// Applies an operation without a record.
    async fn apply_alone(
        &self,
        transaction: &Transaction,
        operation: &Operation,
    ) -> Result<Applied, Error> {
        let (access, clearing) = (self.access(), &self.edits.clearing);
        let (verb, id) = (operation.verb(), operation.task());
        let mut tries = Tries::new(&access.pipeline, verb);
        let mut lost = LostTries::default();
        let mut is_first = true;
        loop {
            let now = access.now();
            let is_assumed = std::mem::take(&mut is_first) && may_be_assumed(operation, now);
            let before = match is_assumed {
                true => Before::assumed(transaction),
                false => Box::pin(Before::read(&self.edits, transaction, None, verb)).await?,
            };
            if let Some(done) = lost.applied(operation, before.found(id)) {
                return Ok(done.into());
            }
            let max_bytes = self.limits.max_bytes;
            let step = decide_alone(operation, &before.facts, Bounds { max_bytes, now })?;
            if let Step::Known(done) = step {
                return Ok(done.into());
            }
            let place = access.pipeline.places(1);
            let input = OperationInput {
                id,
                now,
                place,
                by: transaction.author(),
                pointers: clearing.pointers_at_once(),
            };
            let part = self.edits.operation(&step, &before, input).await?;
            match tries.write(part.item).await? {
                Wrote::At(at) => {
                    if let Some(left) = part.left {
                        clearing.drop_pointers(id, left).await;
                    }
                    return Ok(applied(&[part.kept], at));
                }
                Wrote::Nothing => {}
                Wrote::Unknown => lost.note(step, now, place),
            }
        }
    }

    /// Applies a transaction with a record of it.
    async fn apply_recorded(&self, transaction: Transaction) -> Result<Applied, Error> {
        let access = self.access();
        let verb = "apply a transaction";
        let id = match transaction.id() {
            Some(id) => id.clone(),
            // Only for this call: it shows what a try without an answer has done.
            None => TransactionId::new(crate::unique_id::new().to_string())?,
        };
        let most = access.capacity().transaction();
        let most = most.min(self.limits.max_operations);
        rules::transaction::check(&transaction, "etcd", most)?;
        let tries = Tries::new(&access.pipeline, verb);
        let mut tries = tries.at_most(TRIES).renewing();
        let mut left = Vec::new();
        // The first try of a transaction that only submits reads nothing: it compares that the ids
        // are free.
        let mut is_first = is_of_new_tasks(&transaction);
        let applied = loop {
            let is_assumed = std::mem::take(&mut is_first);
            let mut before = match is_assumed {
                true => Before::assumed(&transaction),
                false => Before::read(&self.edits, &transaction, Some(&id), verb).await?,
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
                Err(_) if is_assumed => continue,
                Err(refused) => {
                    // The transaction may have been applied since its record was read; its tasks
                    // then differ.
                    let key = access.keys().transaction(&id);
                    if let Some(record) = access.reader.key(&key, verb).await? {
                        break repeated(&record)?;
                    }
                    self.check_room(&transaction, now).await?;
                    return Err(refused);
                }
            };
            let lease = self.record_lease.lease().await;
            let lease = lease.map_err(|fault| fault.into_error(verb))?;
            let input = ItemInput {
                transaction: &transaction,
                id: &id,
                now,
                lease,
            };
            let built = self.built(input, &steps, &before).await?;
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
        let mut before = Before::read(&self.edits, transaction, None, transaction.verb()).await?;
        let max_bytes = self.limits.max_bytes;
        let Ok(steps) = decide(transaction, &mut before.facts, Bounds { max_bytes, now }) else {
            return Ok(());
        };
        let own = TransactionId::new(crate::unique_id::new().to_string())?;
        let input = ItemInput {
            transaction,
            id: transaction.id().unwrap_or(&own),
            now,
            lease: 0,
        };
        let built = self.built(input, &steps, &before).await?;
        let capacity = self.access().capacity();
        built.item.check_room(capacity, "operations")
    }

    /// Returns the item that writes these steps.
    async fn built<'a>(
        &self,
        input: ItemInput<'a>,
        steps: &[Step<'_>],
        before: &Before,
    ) -> Result<Built<'a>, Error> {
        let access = self.access();
        let ItemInput {
            transaction,
            id,
            now,
            lease,
        } = input;
        let count = u32::try_from(steps.len()).unwrap_or(PLACES);
        let place = access.pipeline.places(count);
        let by = transaction.author();
        let operations = transaction.operations().iter();
        let steps = steps.iter().zip(operations).zip(place..);
        let parts = steps.map(|((step, operation), place)| {
            let input = OperationInput {
                id: operation.task(),
                now,
                place,
                by,
                pointers: POINTERS,
            };
            self.edits.operation(step, before, input)
        });
        let parts = try_join_all(parts).await?;
        let kept: Vec<Kept> = parts.iter().map(|part| part.kept.clone()).collect();
        let fingerprint = transaction.fingerprint();
        let record = transaction::record(access.keys(), (id, fingerprint), &kept, now, lease)?;
        let guards = transaction.guards().iter();
        let guards =
            guards.map(|guard| transaction::guard(access.keys(), guard, before.found(&guard.task)));
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
struct ItemInput<'a> {
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

/// Returns whether the first try of an operation reads nothing: its comparisons show whether what it assumes is true.
fn may_be_assumed(operation: &Operation, now: Timestamp) -> bool {
    match operation {
        Operation::Submit(_) => true,
        // How large a result or a payload may be depends on the props of the task.
        Operation::Send(send) => {
            let is_small = match &send.command {
                Command::Complete { result } => result.is_none(),
                Command::Signal(signal) => signal.payload_json().is_none(),
                _ => true,
            };
            is_small && send.command.check(now).is_ok()
        }
        Operation::Delete(_) | Operation::Retry(_) | Operation::Reschedule(_) => false,
    }
}
