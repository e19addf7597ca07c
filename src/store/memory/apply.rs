//! Applies the transactions of clients.

use jiff::Timestamp;

use super::{
    row::{Remembered, Row},
    world::World,
};
use crate::store::{
    Applied, Done, Error, Operation, Submitted, Transaction,
    copy::Copied,
    rules::{
        facts::Holder,
        retry::Counted,
        transaction::{self, Bounds, Facts, Need, Present, Step},
    },
};

impl World {
    pub(super) fn apply(
        &mut self,
        transaction: Transaction,
        now: Timestamp,
    ) -> Result<Applied, Error> {
        self.by = transaction.author().cloned();
        let applied = self.apply_by(&transaction, now);
        self.by = None;
        applied
    }

    /// Applies every operation or none. No write after the decision can fail.
    fn apply_by(&mut self, transaction: &Transaction, now: Timestamp) -> Result<Applied, Error> {
        Copied::check(self.copied.as_ref(), transaction)?;
        let limits = self.limits;
        transaction::check(transaction, "memory", limits.max_operations)?;
        let earlier = transaction.id().and_then(|id| self.applied.get(id));
        if let Some(earlier) = earlier {
            transaction.check_repeats(&earlier.fingerprint)?;
            return earlier.applied.clone().repeated_by(transaction);
        }
        let mut facts = self.facts(transaction);
        let bounds = Bounds {
            max_bytes: limits.max_bytes,
            now,
        };
        let steps = transaction::decide(transaction, &mut facts, bounds)?;
        let done = steps.into_iter().map(|step| self.carry_out(step, now));
        let applied = Applied::from(done.collect::<Vec<Done>>());
        if let Some(id) = transaction.id() {
            let remembered = Remembered {
                at: now,
                applied: applied.clone(),
                fingerprint: transaction.fingerprint(),
            };
            self.applied.insert(id.clone(), remembered);
        }
        Ok(applied)
    }

    /// Returns the facts about the tasks and commands that a transaction names.
    pub(super) fn facts(&self, transaction: &Transaction) -> Facts {
        let mut facts = Facts::default();
        let need = Need::of(transaction);
        for id in transaction.tasks() {
            if let Some(row) = self.tasks.get(id) {
                facts.tasks.insert(id.clone(), present(row, need));
            }
        }
        for operation in transaction.operations() {
            if let Operation::Send(send) = operation
                && let Some(known) = self.commands.get(&send.id)
            {
                facts.commands.insert(send.id.clone(), known.clone());
            }
        }
        for key in transaction.unique_keys() {
            if let Some(holder) = self.holder(key)
                && let Some(row) = self.tasks.get(&holder.task)
            {
                facts.tasks.insert(holder.task.clone(), present(row, need));
                facts.keys.insert(key.to_owned(), holder.clone());
            }
        }
        facts
    }

    /// Returns the existing task that has a unique key, even after its time.
    pub(super) fn holder(&self, key: &str) -> Option<&Holder> {
        let (order, holder) = self.unique.get(key)?;
        let row = self.tasks.get(&holder.task)?;
        (row.order == *order).then_some(holder)
    }

    /// Writes one step. Cannot fail, because everything was checked.
    pub(super) fn carry_out(&mut self, step: Step<'_>, now: Timestamp) -> Done {
        match step {
            Step::Known(done) => done,
            Step::Submit { task, .. } => {
                self.put(task.clone(), now);
                Done::Submitted(Submitted::New)
            }
            Step::Send(send) => Done::Sent(self.enqueue(send.clone(), now)),
            Step::Delete(one) => {
                self.erase(&one.task, now);
                Done::Deleted
            }
            Step::Retry {
                retry,
                state,
                limits,
            } => {
                self.put_props(&retry.task, retry.props.as_ref(), limits);
                self.restart(&retry.task, state, now);
                Done::Retried
            }
            Step::Reschedule {
                change,
                what,
                state,
                done,
            } => {
                self.reschedule(&change, (what, state), now);
                done
            }
        }
    }

    /// Forgets the transactions that need no longer be remembered, and the unique keys that are free. `latest`
    /// is the latest time that a record can have without a wrong clock.
    pub(super) fn forget_transactions(&mut self, latest: Timestamp) {
        if let Some(before) = transaction::forgotten_before(latest) {
            self.applied.retain(|_, earlier| earlier.at >= before);
            self.unique.retain(|_, (_, holder)| holder.until >= before);
        }
    }
}

fn present(row: &Row, need: Need) -> Present {
    let (task, state) = match need {
        Need::Whole => (Ok(row.task.clone()), row.saved.read()),
        Need::Head => {
            let unread = Present::NOT_READ.to_owned();
            (Err(unread.clone()), Err(unread))
        }
    };
    Present {
        task,
        order: row.order,
        state,
        quarantine: row.quarantine.clone(),
        has_ended: row.has_ended(),
        is_claimed: row.owner.is_some(),
        is_lost: row.abandoned.is_some(),
        last: Counted {
            version: row.version,
            fence: row.fence,
        },
        props: row.task.props.len(),
    }
}
