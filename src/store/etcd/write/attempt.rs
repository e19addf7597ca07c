//! The one loop of a change that is tried again, and what a lost answer means.
//!
//! A write that got no answer may have been done. So each try begins with reading, and a change looks
//! first whether what is there is what one of its tries has written.

use std::time::Duration;

use super::{batch::Done, item::Item, pipeline::Pipeline};
use crate::store::{
    Error,
    etcd::client::{Capacity, Fault},
};

/// After so many tries without an answer a change is given up.
const LOST: u32 = 5;

/// What a try came to.
#[derive(Debug)]
pub(crate) enum Tried {
    /// It was written at this revision.
    Written(i64),
    /// Something that it compares is not so any more.
    Changed,
    /// The servers take less than was thought: a smaller write may do.
    TooLarge,
    /// Whether it was written is not known.
    Lost(String),
    Failed(Fault),
}

impl Tried {
    /// What the answer to a write means that was made when the servers were thought to take `before`
    /// operations.
    pub(crate) fn of(answer: Result<Done, Fault>, before: usize, capacity: &Capacity) -> Self {
        match answer {
            Ok(Done { written: Some(at) }) => Self::Written(at),
            Ok(Done { written: None }) => Self::Changed,
            Err(Fault::Unknown(why)) => Self::Lost(why),
            Err(fault) if capacity.has_shrunk(before, &fault) => Self::TooLarge,
            Err(fault) => Self::Failed(fault),
        }
    }
}

/// The next step of a change.
#[derive(Debug)]
pub(crate) enum Step<T> {
    Write(Item),
    /// There is nothing to write (any more).
    Done(T),
    /// What is known has changed: once more from the beginning.
    Again,
}

/// A change of one task, or of one key, that is tried until its comparisons hold.
pub(crate) trait Change: Send {
    type Found: Send;
    type Output: Send;
    /// "submit a task": what is said to have failed.
    const OPERATION: &'static str;
    /// What changes too often, when it does.
    const SUBJECT: &'static str = "the task";
    /// How often it is tried.
    const TRIES: usize = 5;
    /// Whether it waits, with a pause that grows, until the store answers again: for what cannot be
    /// left to the caller.
    const PATIENT: bool = false;

    /// Reads what it depends on.
    fn read(&mut self) -> impl Future<Output = Result<Self::Found, Error>> + Send;

    /// What it comes to if what was found is what an earlier try has written.
    fn already_done(&mut self, found: &Self::Found) -> Option<Self::Output>;

    /// Makes the write.
    fn build(
        &mut self,
        found: Self::Found,
    ) -> impl Future<Output = Result<Step<Self::Output>, Error>> + Send;

    /// The write was done at this revision; `None` if it was only a part of the change.
    fn written(&mut self, at: i64) -> Option<Self::Output>;

    /// Whether the write was done is not known.
    fn lost(&mut self) {}
}

impl Pipeline {
    /// Carries out a change.
    pub(crate) async fn attempt<C: Change>(&self, change: &mut C) -> Result<C::Output, Error> {
        attempt(change, &self.capacity, |item| self.write(item)).await
    }
}

async fn attempt<C: Change, F: Future<Output = Result<Done, Fault>> + Send>(
    change: &mut C,
    capacity: &Capacity,
    write: impl Fn(Item) -> F + Send,
) -> Result<C::Output, Error> {
    let mut reason = format!("{} changes too often", C::SUBJECT);
    let (mut lost, mut is_first) = (0, true);
    for _ in 0..C::TRIES {
        let before = capacity.operations();
        let step = match change.read().await {
            Ok(found) => match change.already_done(&found) {
                Some(output) => return Ok(output),
                None => change.build(found).await,
            },
            Err(error) if is_first => return Err(error),
            Err(error) => Err(error),
        };
        is_first = false;
        let tried = match step {
            Ok(Step::Done(output)) => return Ok(output),
            Ok(Step::Again) => continue,
            Ok(Step::Write(item)) => Tried::of(write(item).await, before, capacity),
            Err(Error::Unavailable { reason, .. }) if C::PATIENT => Tried::Lost(reason),
            Err(error) => return Err(error),
        };
        reason = match tried {
            Tried::Written(at) => match change.written(at) {
                Some(output) => return Ok(output),
                None => continue,
            },
            Tried::Changed | Tried::TooLarge => continue,
            Tried::Lost(why) => why,
            Tried::Failed(fault) => match fault.into_error(C::OPERATION) {
                Error::Unavailable { reason, .. } if C::PATIENT => reason,
                error => return Err(error),
            },
        };
        change.lost();
        if C::PATIENT {
            tokio::time::sleep(Duration::from_millis(50 << lost)).await;
        }
        lost += 1;
        if lost == LOST {
            break;
        }
    }
    Err(Error::unavailable(C::OPERATION, reason))
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Mutex};

    use tokio::time::Instant;

    use super::*;
    use crate::store::etcd::client::{Limit, options::Options};

    /// What the servers do with the next write, and what they answer.
    #[derive(Clone, Copy)]
    enum Next {
        Written,
        Changed,
        LostAndWritten,
        Lost,
        TooLarge,
        NotNow,
    }

    /// Servers with one key: whether it is there, and how often it was written.
    #[derive(Default)]
    struct Servers {
        is_there: bool,
        writes: u32,
        next: VecDeque<Next>,
    }

    /// Makes the key, and takes one that is there for its own only after a try without an answer.
    struct Make<'a, const PATIENT: bool> {
        servers: &'a Mutex<Servers>,
        lost: bool,
    }

    impl<const PATIENT: bool> Change for Make<'_, PATIENT> {
        type Found = bool;
        /// Whether it is new.
        type Output = bool;
        const OPERATION: &'static str = "make a key";
        const PATIENT: bool = PATIENT;

        async fn read(&mut self) -> Result<bool, Error> {
            Ok(self.servers.lock().is_ok_and(|servers| servers.is_there))
        }

        fn already_done(&mut self, is_there: &bool) -> Option<bool> {
            (*is_there && self.lost).then_some(true)
        }

        async fn build(&mut self, is_there: bool) -> Result<Step<bool>, Error> {
            Ok(match is_there {
                true => Step::Done(false),
                false => Step::Write(Item::new("key")),
            })
        }

        fn written(&mut self, _: i64) -> Option<bool> {
            Some(true)
        }

        fn lost(&mut self) {
            self.lost = true;
        }
    }

    fn capacity() -> Capacity {
        let options = Options::parse("etcd://h:1/ns").unwrap_or_else(|e| panic!("{e}"));
        Capacity::new(&options)
    }

    /// The result, and how often the key was written.
    async fn make<const PATIENT: bool>(next: &[Next]) -> (Result<bool, Error>, u32) {
        let servers = Mutex::new(Servers {
            next: next.iter().copied().collect(),
            ..Servers::default()
        });
        let capacity = &capacity();
        let write = async |_| {
            let mut servers = servers.lock().unwrap_or_else(|e| panic!("{e}"));
            servers.writes += 1;
            let next = servers.next.pop_front().unwrap_or(Next::NotNow);
            servers.is_there |=
                matches!(next, Next::Written | Next::Changed | Next::LostAndWritten);
            match next {
                Next::Written => Ok(Done { written: Some(7) }),
                Next::Changed => Ok(Done { written: None }),
                Next::LostAndWritten | Next::Lost => Err(Fault::Unknown("no answer".into())),
                Next::NotNow => Err(Fault::NotNow("no leader".into())),
                Next::TooLarge => {
                    capacity.learn(Limit::Operations, capacity.operations());
                    let error = Error::Unusable("too many operations".into());
                    Err(Fault::OverLimit(Limit::Operations, error))
                }
            }
        };
        let mut change = Make::<PATIENT> {
            servers: &servers,
            lost: false,
        };
        let made = attempt(&mut change, capacity, write).await;
        let writes = servers.lock().map_or(0, |servers| servers.writes);
        (made, writes)
    }

    #[tokio::test]
    async fn what_a_lost_answer_has_written_is_not_written_again() {
        let (made, writes) = make::<false>(&[Next::LostAndWritten]).await;
        assert!(matches!(made, Ok(true)), "{made:?}");
        assert_eq!(writes, 1);
        let (made, writes) = make::<false>(&[Next::Lost, Next::Written]).await;
        assert!(matches!(made, Ok(true)), "{made:?}");
        assert_eq!(writes, 2);
    }

    #[tokio::test]
    async fn what_somebody_else_has_written_is_not_taken_for_our_own() {
        let (made, writes) = make::<false>(&[Next::Changed]).await;
        assert!(matches!(made, Ok(false)), "{made:?}");
        assert_eq!(writes, 1);
    }

    #[tokio::test]
    async fn a_write_that_was_too_large_is_made_again() {
        let (made, writes) = make::<false>(&[Next::TooLarge, Next::Written]).await;
        assert!(matches!(made, Ok(true)), "{made:?}");
        assert_eq!(writes, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_given_up_with_the_last_reason() {
        for (next, expected, tries) in [
            (Next::Lost, "no answer", LOST),
            (Next::NotNow, "no leader", 1),
        ] {
            let (made, writes) = make::<false>(&[next; 9]).await;
            let text = made.map_err(|error| error.to_string());
            assert!(
                text.clone().is_err_and(|e| e.ends_with(expected)),
                "{text:?}"
            );
            assert_eq!(writes, tries);
        }
        let begun = Instant::now();
        let (made, writes) = make::<true>(&[Next::NotNow; 9]).await;
        assert!(made.is_err_and(|error| error.is_retryable()));
        assert_eq!((writes, begun.elapsed().as_millis()), (LOST, 50 * 31));
        let (made, _) = make::<true>(&[Next::NotNow, Next::Lost, Next::Written]).await;
        assert!(
            matches!(made, Ok(true)),
            "it waits until there is an answer"
        );
    }
}
