//! A store whose transactions have a planted defect.

use std::collections::HashSet;

use windlass::{
    Invalid, Task,
    store::{
        Applied, Done, Error, IfExists, Operation, Reason, Refusals, Registry, Submit, Submitted,
        Transaction,
    },
};

use super::{defect::Defect, journal::Call, store::PlantedStore};

/// A new transaction with these operations.
fn with_all<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Transaction {
    let operations = operations.into_iter().cloned();
    operations.fold(Transaction::new(), Transaction::with)
}

impl PlantedStore {
    pub(crate) async fn planted_transactions(
        &self,
        transactions: Vec<Transaction>,
    ) -> Vec<Result<Applied, Error>> {
        self.write(Call::Apply(transactions.clone()));
        let mut answers = Vec::new();
        for transaction in transactions {
            answers.push(self.planted_transaction(transaction).await);
        }
        let failed = answers.iter().find_map(|answer| answer.as_ref().err());
        if self.has(Defect::OneBadTransactionRefusesAll)
            && let Some(error) = failed.cloned()
        {
            return answers.iter().map(|_| Err(error.clone())).collect();
        }
        answers
    }

    async fn apply_one(&self, transaction: Transaction) -> Result<Applied, Error> {
        self.inner.apply(vec![transaction]).await.remove(0)
    }

    async fn planted_transaction(&self, transaction: Transaction) -> Result<Applied, Error> {
        let operations = transaction.operations();
        let pruned = self.memory.lock().unwrap().pruned;
        let answer = match self.defect {
            Some(Defect::TransactionsAreHalfApplied) => {
                for operation in operations {
                    let _ = self.apply_one(with_all([operation])).await;
                }
                self.apply_one(transaction.clone()).await
            }
            Some(Defect::GuardsSeeTheOperations) if operations.len() > 1 => {
                let done = self.apply_one(with_all(operations)).await?;
                let guards = transaction.guards().iter().cloned();
                let probe = with_all([]).submit(probe());
                let probe = guards.fold(probe, |t, g| t.require(g.task, g.require));
                self.apply_one(probe).await?;
                Ok(done)
            }
            Some(Defect::GuardsAreIgnored) => self.apply_one(with_all(operations)).await,
            Some(Defect::RepeatedTransactionsAreNew) => {
                let guards = transaction.guards().iter().cloned();
                let new = with_all(operations);
                let new = guards.fold(new, |t, g| t.require(g.task, g.require));
                self.apply_one(new).await
            }
            Some(Defect::PruningForgetsTransactions) if pruned => {
                self.apply_one(with_all(operations)).await
            }
            Some(Defect::RepeatedTasksAreAccepted) => {
                let mut named = HashSet::new();
                let once = operations.iter().filter(|one| named.insert(one.task()));
                self.apply_one(with_all(once)).await
            }
            Some(Defect::LargeTransactionsAreAccepted) => {
                let most = Registry::limits(&self.inner).max_operations;
                self.apply_one(with_all(operations.iter().take(most))).await
            }
            Some(Defect::RescheduledTasksKeepTheirTime) => {
                let others = operations.iter().map(|one| match one {
                    Operation::Reschedule(change) => {
                        let mut change = change.clone();
                        (change.due, change.priority, change.limits) = (None, Some(0), None);
                        Operation::Reschedule(change)
                    }
                    other => other.clone(),
                });
                let others: Vec<Operation> = others.collect();
                self.apply_one(with_all(&others)).await
            }
            Some(Defect::KindsStay | Defect::PropsStay) => {
                let stays = self.defect;
                let others = operations.iter().map(|one| match one {
                    Operation::Reschedule(change) => {
                        let mut change = change.clone();
                        match stays {
                            Some(Defect::KindsStay) => change.kind = None,
                            _ => change.props = None,
                        }
                        change.priority = change.priority.or(Some(0));
                        Operation::Reschedule(change)
                    }
                    other => other.clone(),
                });
                let others: Vec<Operation> = others.collect();
                self.apply_one(with_all(&others)).await
            }
            Some(Defect::RetriesTakeNothing) => {
                let others = operations.iter().map(|one| match one {
                    Operation::Retry(retry) => Operation::Retry(retry.task.clone().into()),
                    other => other.clone(),
                });
                let others: Vec<Operation> = others.collect();
                self.apply_one(with_all(&others)).await
            }
            Some(Defect::GuardsAloneAreRefused) if operations.is_empty() => {
                let empty = Invalid::new("operations", "are empty");
                Err(empty.into())
            }
            _ => self.apply_one(transaction.clone()).await,
        };
        match answer {
            Err(Error::Refused(refusals)) if self.has(Defect::RefusalsNameTheFirst) => {
                let first = refusals.iter().take(1).cloned().collect();
                Err(Error::Refused(Refusals::new(first)))
            }
            Err(Error::Refused(refusals)) if self.has(Defect::DifferencesAreNotNamed) => {
                let plain = refusals.iter().cloned().map(|mut one| {
                    one.reason = match one.reason {
                        Reason::Exists { .. } => Reason::exists(),
                        Reason::Finished { .. } => Reason::finished(),
                        other => other,
                    };
                    one
                });
                Err(Error::Refused(Refusals::new(plain.collect())))
            }
            Err(Error::Invalid(e))
                if self.has(Defect::IdsStandForAnyOperations) && e.field() == "transaction id" =>
            {
                let done = operations.iter().map(|_| Done::Submitted(Submitted::New));
                Ok(Applied::from(done.collect::<Vec<_>>()))
            }
            Err(Error::Refused(_))
                if self.has(Defect::ClaimedTasksAreRescheduled)
                    || self.has(Defect::SchedulesMove) =>
            {
                let done = transaction.operations().iter();
                let done = done.map(|_| Done::Submitted(Submitted::New));
                Ok(Applied::from(done.collect::<Vec<_>>()))
            }
            answer => answer,
        }
    }
}

/// A submit of a task that no case names.
fn probe() -> Submit {
    Submit {
        task: Task::new("probe".parse().unwrap(), "demo".parse().unwrap()),
        if_exists: IfExists::Skip,
    }
}
