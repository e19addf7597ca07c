//! Submits of many tasks in few writes.

use std::collections::{BTreeSet, HashSet, VecDeque};

use futures::{StreamExt, stream};
use windlass::{
    TaskId,
    client::SameRequest,
    store::{Done, Operation, Submit, Transaction},
};

use super::{Admitted, Asked, Change};
use crate::{mask::masked_result, problem::Problem};

/// How many tasks are read at once to compare them with a scope.
const READS: usize = 32;

/// A submit that the caller may make.
struct Ready {
    place: usize,
    transaction: Transaction,
    operation: Operation,
    adds: u64,
    /// Whether the store's error may quote a masked value.
    hides: bool,
}

impl Change<'_> {
    /// Applies submits, each on its own. `same` says which of their tasks count as existing for the others.
    pub(crate) async fn submits(
        &self,
        asked: Vec<Asked>,
        same: SameRequest,
        key: Option<&str>,
    ) -> Vec<Result<Done, Problem>> {
        let key_of = |n: usize| key.map(|key| format!("{key}-{n}"));
        let mut refused = self.missing(&asked, same, key_of).await.into_iter();
        let mut results = Vec::with_capacity(asked.len());
        let mut rest: VecDeque<Submit> = asked.into_iter().map(|one| one.submit).collect();
        while !rest.is_empty() {
            let batch = self.next_batch(&mut rest);
            let begin = results.len();
            let refused = refused.by_ref().take(batch.len()).collect();
            results.extend(self.batch((batch, refused), begin, key).await);
        }
        results
    }

    /// Takes the submits that can be compared with the scope before any of them is applied: none names a task that an earlier
    /// one submits.
    fn next_batch(&self, rest: &mut VecDeque<Submit>) -> Vec<Submit> {
        if self.by.scope.is_everything() {
            return rest.drain(..).collect();
        }
        let mut ids: HashSet<TaskId> = HashSet::new();
        let mut batch = Vec::new();
        while let Some(next) = rest.front() {
            let task = &next.task;
            let mut waits = task.waits.iter().flat_map(|waits| &waits.tasks);
            if ids.contains(&task.id) || waits.any(|waited| ids.contains(waited)) {
                break;
            }
            ids.insert(task.id.clone());
            batch.extend(rest.pop_front());
        }
        batch
    }

    async fn batch(
        &self,
        (batch, refused): (Vec<Submit>, Vec<Option<Problem>>),
        begin: usize,
        key: Option<&str>,
    ) -> Vec<Result<Done, Problem>> {
        let keys = (begin..).map(|n| key.map(|key| format!("{key}-{n}")));
        let batch = batch.into_iter().zip(refused).zip(keys);
        let admitted = batch.map(|((submit, refused), key)| async move {
            if let Some(refused) = refused {
                return Err(refused);
            }
            let operation = Operation::Submit(submit);
            let admitted = self.admit(&operation, &BTreeSet::new()).await?;
            let Admitted { guards, .. } = admitted;
            let guards = (Vec::new(), guards);
            let transaction = self.transaction(operation.clone(), guards, key.as_deref())?;
            Ok((transaction, operation, admitted.adds, admitted.hides))
        });
        let admitted = stream::iter(admitted).buffered(READS);
        let admitted: Vec<Result<_, Problem>> = admitted.collect().await;
        let mut results: Vec<Option<Result<Done, Problem>>> = Vec::new();
        let mut ready = VecDeque::new();
        for (place, admitted) in admitted.into_iter().enumerate() {
            results.push(match admitted {
                Ok((transaction, operation, adds, hides)) => {
                    ready.push_back(Ready {
                        place,
                        transaction,
                        operation,
                        adds,
                        hides,
                    });
                    None
                }
                Err(problem) => Some(Err(problem)),
            });
        }
        self.apply(ready, &mut results, key).await;
        let lost = || windlass::store::Error::Unusable("the store returned no result".to_owned());
        let results = results.into_iter();
        results
            .map(|result| result.unwrap_or_else(|| Err(lost().into())))
            .collect()
    }

    /// Applies what is ready in one write; with a quota in several, each as large as the quota allows.
    async fn apply(
        &self,
        mut ready: VecDeque<Ready>,
        results: &mut [Option<Result<Done, Problem>>],
        key: Option<&str>,
    ) {
        let mut put = |place: usize, result| {
            if let Some(slot) = results.get_mut(place) {
                *slot = Some(result);
            }
        };
        while !ready.is_empty() {
            let held = match self.hold(1).await {
                Ok(held) => held,
                Err(problem) => {
                    for one in ready {
                        put(one.place, Err(problem.copy()));
                    }
                    return;
                }
            };
            let mut taken = Vec::new();
            let mut adds = 0;
            while let Some(next) = ready.front() {
                let has_room = held
                    .as_ref()
                    .is_none_or(|held| held.has_room_for(adds + next.adds));
                if !has_room && adds > 0 {
                    // Some of those before may add nothing.
                    break;
                }
                let refused = match &held {
                    Some(held) if !has_room => match self.repeats(next).await {
                        Ok(true) => None,
                        Ok(false) => Some(held.refusal()),
                        Err(problem) => Some(problem),
                    },
                    _ => None,
                };
                let Some(next) = ready.pop_front() else { break };
                match refused {
                    Some(problem) => put(next.place, Err(problem)),
                    None => {
                        adds += if has_room { next.adds } else { 0 };
                        taken.push(((next.place, next.hides), next.transaction));
                    }
                }
            }
            let (places, transactions): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
            let applied = self.app.store.registry().apply(transactions).await;
            let mut applied = applied.into_iter();
            for (place, hides) in places {
                put(
                    place,
                    self.single(masked_result(applied.next(), hides), key),
                );
            }
        }
    }

    /// Returns whether a submit adds no task because it was made before.
    async fn repeats(&self, ready: &Ready) -> Result<bool, Problem> {
        Ok(self.exists_for(&ready.operation).await?
            || self
                .is_applied(ready.transaction.id(), &ready.operation)
                .await?)
    }
}
