//! Transactions of two clients that compete for one task, the baton: each deletes it and submits the next
//! baton together with three followers. One of the two is applied.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{
    Client, NewTask, TaskId,
    client::TransactionBuilder,
    store::{Applied, Error, Require},
};

use crate::{
    BoxError,
    reuse::{self, KINDS, Serving},
    traffic::{AGAIN, Traffic},
};

/// The kind of the batons. No node runs it: a baton sleeps until a transaction deletes it.
pub const KIND: &str = "baton";

/// How many tasks a transaction submits in addition to the next baton.
pub const FOLLOWERS: usize = 3;

/// The words of the followers come after those of [`crate::race`].
const WORDS: u64 = 2_000_000;

/// The answer that a client got for its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was applied.
    Applied,
    /// It was refused.
    Refused,
    /// It was applied, and its repetition returned something else.
    Differs(String),
}

/// One transaction: it deletes a baton and submits the next one with its followers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// The number of the transaction; that of its baton too.
    pub number: u64,
    /// The number of the baton that it deletes.
    pub from: u64,
    /// What its client knows of it.
    pub answer: Answer,
}

impl Pass {
    /// The ids of the tasks that follow its baton.
    ///
    /// # Errors
    ///
    /// None: the ids are valid.
    pub fn followers(&self) -> Result<Vec<TaskId>, BoxError> {
        let ids = (0..FOLLOWERS).map(|n| follower(self.number, n).parse());
        Ok(ids.collect::<Result<_, _>>()?)
    }
}

/// The id of the baton of this number.
pub fn baton(number: u64) -> String {
    format!("baton-{number}")
}

fn follower(number: u64, n: usize) -> String {
    format!("pass-{number}-{n}")
}

impl Traffic {
    /// Passes the baton until a time: two transactions compete for it, of this client and of `other`.
    ///
    /// # Errors
    ///
    /// When a transaction gets another answer than applied, refused, or one that allows a repetition.
    pub async fn pass(&self, other: &Client, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        let mut number = 0;
        let first = transaction(self.client(), &[], None, number);
        if settled(&first, &first).await?.is_err() {
            return Err("the first baton was refused".into());
        }
        let mut from = number;
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(20..150))).await;
            let servings: Vec<Serving> = (0..2 * FOLLOWERS as u64)
                .map(|n| Serving {
                    word: WORDS + number * 10 + n,
                    upto: rng.u64(1..4),
                    pace: rng.u64(5..50),
                })
                .collect();
            let repeats = rng.bool();
            let (one, two) = servings.split_at(FOLLOWERS);
            let (mine, theirs) = (number + 1, number + 2);
            let (one, two) = tokio::join!(
                compete([self.client(), other], one, (from, mine), repeats),
                compete([other, self.client()], two, (from, theirs), repeats),
            );
            let (one, two) = (one?, two?);
            let winner = [&one, &two]
                .into_iter()
                .find(|p| p.answer != Answer::Refused);
            let next = winner.map(|pass| pass.number);
            self.lock().passes.extend([one, two]);
            number = theirs;
            let Some(next) = next else {
                // The checker reports it: both were refused.
                return Ok(());
            };
            from = next;
        }
        Ok(())
    }
}

/// Commits a transaction until there is an answer, by both clients in turn, and once more when `repeats`.
async fn compete(
    clients: [&Client; 2],
    servings: &[Serving],
    (from, number): (u64, u64),
    repeats: bool,
) -> Result<Pass, BoxError> {
    let [one, other] = clients.map(|client| transaction(client, servings, Some(from), number));
    let answer = match settled(&one, &other).await? {
        Err(()) => Answer::Refused,
        Ok(_) if is_taken_for_another(clients[0], number).await => {
            Answer::Differs("its id was accepted for other operations".to_owned())
        }
        Ok(_) if !repeats => Answer::Applied,
        Ok(applied) => match settled(&other, &one).await? {
            Ok(again) if again == applied => Answer::Applied,
            again => Answer::Differs(format!("{applied:?}, then {again:?}")),
        },
    };
    Ok(Pass {
        number,
        from,
        answer,
    })
}

/// When a baton would start: never in a run.
fn far() -> jiff::Timestamp {
    jiff::Timestamp::MAX - jiff::SignedDuration::from_hours(24 * 366)
}

fn transaction(
    client: &Client,
    servings: &[Serving],
    from: Option<u64>,
    number: u64,
) -> TransactionBuilder {
    let mut all = client.transaction().id(format!("pass-{number}"));
    if let Some(from) = from {
        let from = baton(from);
        all = all
            .require(from.as_str(), Require::Unclaimed)
            .delete(from.as_str());
    }
    all = all.submit(NewTask::new(KIND).id(baton(number)).start_at(far()));
    for (n, serving) in servings.iter().enumerate() {
        let kind = KINDS[n % KINDS.len()];
        all = all.submit(reuse::task(&follower(number, n), kind, *serving));
    }
    all
}

/// Commits another transaction under the id of one that was applied. Returns whether it was accepted.
async fn is_taken_for_another(client: &Client, number: u64) -> bool {
    let all = client.transaction().id(format!("pass-{number}"));
    let all = all.submit(
        NewTask::new(KIND)
            .id(format!("stolen-{number}"))
            .start_at(far()),
    );
    all.commit().await.is_ok()
}

/// Commits a transaction until there is an answer: by the first client, then by the other one, in turn. The
/// error is a refusal.
async fn settled(
    one: &TransactionBuilder,
    other: &TransactionBuilder,
) -> Result<Result<Applied, ()>, BoxError> {
    for by in [one, other].into_iter().cycle() {
        match by.commit().await {
            Ok(applied) => return Ok(Ok(applied)),
            Err(Error::Refused(_)) => return Ok(Err(())),
            Err(e) if e.is_retryable() => sleep(AGAIN).await,
            Err(e) => return Err(e.into()),
        }
    }
    Err("there is no client".into())
}
