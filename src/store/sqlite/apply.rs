//! Applies the transactions of clients.

use windlass_statemachine::{Author, Delete, TaskId};

use super::{batch::Batch, command, delete, errors::Stop, retry, submit, transaction};
use crate::store::{Applied, Done, Operation, Submit, Transaction};

/// A transaction with its author. Its JSON texts are made before it reaches the writer thread.
pub(super) struct Prepared {
    by: Option<Author>,
    work: Work,
}

enum Work {
    Submit(Submit),
    Send(command::Prepared),
    Delete(Delete),
    Retry(TaskId),
    /// Anything but a single operation.
    All(transaction::Prepared),
}

impl Prepared {
    pub(super) fn new(transaction: Transaction) -> Self {
        let by = transaction.author().cloned();
        let work = Work::new(transaction);
        Self { by, work }
    }
}

impl Work {
    fn new(transaction: Transaction) -> Self {
        if transaction.looks_around() {
            return Self::All(transaction::Prepared::new(transaction));
        }
        match transaction.into_single() {
            Ok(Operation::Submit(submit)) => Self::Submit(submit),
            Ok(Operation::Send(send)) => Self::Send(command::Prepared::new(send)),
            Ok(Operation::Delete(delete)) => Self::Delete(delete),
            Ok(Operation::Retry(retry)) if !retry.is_edited() => Self::Retry(retry.task),
            Ok(operation @ (Operation::Retry(_) | Operation::Reschedule(_))) => {
                Self::All(transaction::Prepared::new(operation.into()))
            }
            Err(transaction) => Self::All(transaction::Prepared::new(transaction)),
        }
    }
}

pub(super) fn apply(batch: &mut Batch<'_>, prepared: &Prepared) -> Result<Applied, Stop> {
    batch.on_behalf(prepared.by.as_ref(), |batch| work(batch, &prepared.work))
}

fn work(batch: &mut Batch<'_>, work: &Work) -> Result<Applied, Stop> {
    Ok(Applied::from(match work {
        Work::Submit(new) => Done::Submitted(submit::submit(batch, new)?),
        Work::Send(send) => Done::Sent(command::send(batch, send)?),
        Work::Delete(one) => {
            delete::delete(batch, one)?;
            Done::Deleted
        }
        Work::Retry(id) => {
            retry::retry(batch, id)?;
            Done::Retried
        }
        Work::All(prepared) => return transaction::apply(batch, prepared),
    }))
}
