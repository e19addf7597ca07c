//! [`Applied`]: the results of a transaction.

use serde::{Deserialize, Serialize};
use windlass_statemachine::Invalid;

use super::{
    operation::{Done, Submitted},
    transaction::Transaction,
};
use crate::store::Error;

/// The results of a transaction: one for each operation, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Applied(Vec<Done>);

impl From<Vec<Done>> for Applied {
    fn from(done: Vec<Done>) -> Self {
        Self(done)
    }
}

impl From<Done> for Applied {
    fn from(done: Done) -> Self {
        Self(vec![done])
    }
}

impl Applied {
    /// Returns the result of each operation.
    pub fn done(&self) -> &[Done] {
        &self.0
    }

    /// Returns the result of a transaction that was a single submit.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] for the result of another operation, which means that the store is
    /// faulty.
    pub fn submitted(self) -> Result<Submitted, Error> {
        match self.0.as_slice() {
            [Done::Submitted(submitted)] => Ok(submitted.clone()),
            _ => Err(self.unexpected("submit a task")),
        }
    }

    /// Returns the order of the command of a transaction that was a single send.
    ///
    /// # Errors
    ///
    /// The errors of [`submitted`](Self::submitted).
    pub fn sent(self) -> Result<u64, Error> {
        match self.0.as_slice() {
            [Done::Sent(order)] => Ok(*order),
            _ => Err(self.unexpected("send a command")),
        }
    }

    /// Returns the stored result of an earlier transaction as the result of `transaction`, which
    /// repeats it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `transaction id`) when the earlier transaction had another number of
    /// operations, so that it was another transaction.
    pub fn repeated_by(self, transaction: &Transaction) -> Result<Self, Error> {
        let (had, has) = (self.0.len(), transaction.operations().len());
        if had == has {
            return Ok(self);
        }
        let id = transaction.id().map_or("", |id| id.as_str());
        let reason = format!(
            "'{id}' was applied with {had} operations, and this transaction has {has}; give each \
             transaction an id of its own"
        );
        Err(Invalid::new("transaction id", reason).into())
    }

    fn unexpected(self, verb: &str) -> Error {
        Error::Unusable(format!(
            "could not {verb}: the store returned the results {:?} of other operations; report it to \
             the author of the store",
            self.0
        ))
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{StateKind, TransactionId};

    use super::*;

    #[test]
    fn results_survive_their_stored_form() {
        let applied = Applied::from(vec![
            Done::Submitted(Submitted::New),
            Done::Submitted(Submitted::Existing(StateKind::Paused)),
            Done::Submitted(Submitted::Other {
                task: "b".parse().unwrap(),
                state: StateKind::Paused,
            }),
            Done::Sent(7),
            Done::Deleted,
            Done::Retried,
            Done::Rescheduled(StateKind::Sleeping),
        ]);
        let text = serde_json::to_string(&applied).unwrap();
        assert_eq!(
            text,
            r#"[{"submitted":"new"},{"submitted":{"existing":"paused"}},{"submitted":{"other":{"task":"b","state":"paused"}}},{"sent":7},"deleted","retried",{"rescheduled":"sleeping"}]"#
        );
        assert_eq!(serde_json::from_str::<Applied>(&text).unwrap(), applied);
    }

    #[test]
    fn an_id_of_another_transaction_is_refused() {
        let applied = Applied::from(Done::Deleted);
        let id = TransactionId::new("t").unwrap();
        let same = Transaction::new().with_id(id).delete("a".parse().unwrap());
        assert_eq!(applied.clone().repeated_by(&same).unwrap(), applied);
        let refused = applied
            .repeated_by(&same.delete("b".parse().unwrap()))
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "transaction id: 't' was applied with 1 operations, and this transaction has 2; give each \
             transaction an id of its own"
        );
    }
}
