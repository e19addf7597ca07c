//! Applies the transactions of clients.

use windlass_statemachine::TaskId;

use super::{batch::Batch, command, delete, errors::Stop, retry, submit};
use crate::store::{Applied, Operation, Submit, Transaction};

/// A transaction. Its JSON texts are made before it reaches the writer thread.
pub(super) enum Prepared {
    Submit(Submit),
    Send(command::Prepared),
    Delete(TaskId),
    Retry(TaskId),
}

impl Prepared {
    pub(super) fn new(transaction: Transaction) -> Self {
        match transaction.into_operation() {
            Operation::Submit(submit) => Self::Submit(submit),
            Operation::Send(send) => Self::Send(command::Prepared::new(send)),
            Operation::Delete(id) => Self::Delete(id),
            Operation::Retry(id) => Self::Retry(id),
        }
    }
}

pub(super) fn apply(batch: &mut Batch<'_>, prepared: &Prepared) -> Result<Applied, Stop> {
    Ok(match prepared {
        Prepared::Submit(new) => Applied::Submitted(submit::submit(batch, new)?),
        Prepared::Send(send) => Applied::Sent(command::send(batch, send)?),
        Prepared::Delete(id) => {
            delete::delete(batch, id)?;
            Applied::Deleted
        }
        Prepared::Retry(id) => {
            retry::retry(batch, id)?;
            Applied::Retried
        }
    })
}
