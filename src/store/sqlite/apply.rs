//! Applies the transactions of clients.

use windlass_statemachine::TaskId;

use super::{batch::Batch, command, delete, errors::Stop, retry, submit, transaction};
use crate::store::{Applied, Done, Operation, Submit, Transaction};

/// A transaction. Its JSON texts are made before it reaches the writer thread.
pub(super) enum Prepared {
    Submit(Submit),
    Send(command::Prepared),
    Delete(TaskId),
    Retry(TaskId),
    /// More than one operation alone.
    All(transaction::Prepared),
}

impl Prepared {
    pub(super) fn new(transaction: Transaction) -> Self {
        if transaction.unique_keys().next().is_some() {
            return Self::All(transaction::Prepared::new(transaction));
        }
        match transaction.into_single() {
            Ok(Operation::Submit(submit)) => Self::Submit(submit),
            Ok(Operation::Send(send)) => Self::Send(command::Prepared::new(send)),
            Ok(Operation::Delete(id)) => Self::Delete(id),
            Ok(Operation::Retry(id)) => Self::Retry(id),
            Ok(operation @ Operation::Reschedule(_)) => {
                Self::All(transaction::Prepared::new(operation.into()))
            }
            Err(transaction) => Self::All(transaction::Prepared::new(transaction)),
        }
    }
}

pub(super) fn apply(batch: &mut Batch<'_>, prepared: &Prepared) -> Result<Applied, Stop> {
    Ok(Applied::from(match prepared {
        Prepared::Submit(new) => Done::Submitted(submit::submit(batch, new)?),
        Prepared::Send(send) => Done::Sent(command::send(batch, send)?),
        Prepared::Delete(id) => {
            delete::delete(batch, id)?;
            Done::Deleted
        }
        Prepared::Retry(id) => {
            retry::retry(batch, id)?;
            Done::Retried
        }
        Prepared::All(prepared) => return transaction::apply(batch, prepared),
    }))
}
