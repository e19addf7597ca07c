//! The part of the kit that applies transactions.

use super::kit::{Kit, id, one};
use crate::store::{Applied, Error, Part, Reason, Transaction};

impl Kit {
    pub(super) async fn try_apply(&self, transaction: &Transaction) -> Result<Applied, Error> {
        one(self.registry().apply(vec![transaction.clone()]).await)
    }

    pub(super) async fn apply(&self, transaction: &Transaction) -> Applied {
        let applied = self.try_apply(transaction).await;
        applied.unwrap_or_else(|e| panic!("{transaction:?} is refused: {e}"))
    }

    /// Returns the place, the task and the reason of each refusal.
    pub(super) async fn refusals(&self, transaction: &Transaction) -> Vec<(Part, String, Reason)> {
        match self.try_apply(transaction).await {
            Err(Error::Refused(refusals)) => refusals
                .iter()
                .map(|one| (one.part, one.task.to_string(), one.reason.clone()))
                .collect(),
            other => panic!("{transaction:?} is not refused: {other:?}"),
        }
    }

    /// Asserts that the only refusal is this one, of the first guard or of the first operation.
    pub(super) async fn assert_refused(
        &self,
        transaction: &Transaction,
        part: Part,
        reason: Reason,
    ) {
        let refusals = self.refusals(transaction).await;
        let reasons: Vec<_> = refusals.into_iter().map(|(p, _, r)| (p, r)).collect();
        assert_eq!(reasons, [(part, reason)], "{transaction:?}");
    }

    pub(super) async fn is_there(&self, text: &str) -> bool {
        match self.registry().get(&id(text)).await {
            Ok(_) => true,
            Err(Error::NotFound { .. }) => false,
            Err(other) => panic!("{text}: {other:?}"),
        }
    }
}
