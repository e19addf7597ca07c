//! [`Tries`]: the tries of one change, and how a lost answer is resolved.
//!
//! A write without an answer may have happened. So a change reads before each further try, and
//! first checks whether one of its tries has written what it finds.

use std::time::Duration;

use super::{batch::Done, item::Item, pipeline::Pipeline};
use crate::store::{
    Error,
    etcd::client::{Capacity, Fault},
};

/// The number of tries without an answer after which a change fails.
const LOST: u32 = 5;
/// How often a change is tried while its task changes.
const TRIES: usize = 5;

/// The answer to one write.
#[derive(Debug)]
pub(crate) enum Tried {
    /// It was written at this revision.
    Written(i64),
    /// One of its comparisons no longer holds.
    Changed,
    /// The servers take less than assumed: a smaller write may succeed.
    TooLarge,
    /// It may have been written.
    Lost(String),
    Failed(Fault),
}

impl Tried {
    /// Reads the answer to a write that was built for servers which take `before` operations.
    pub(crate) fn of(answer: Result<Done, Fault>, before: usize, capacity: &Capacity) -> Self {
        match answer {
            Ok(Done {
                written: Some(at), ..
            }) => Self::Written(at),
            Ok(Done { written: None, .. }) => Self::Changed,
            Err(Fault::Unknown(why)) => Self::Lost(why),
            Err(fault) if capacity.has_shrunk(before, &fault) => Self::TooLarge,
            Err(fault) => Self::Failed(fault),
        }
    }
}

/// The result of one try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// The item was written at this revision.
    At(i64),
    /// The item was not written: what it compares has changed, or it was too large.
    Nothing,
    /// The item may have been written.
    Unknown,
}

/// The tries of one change. The change drives them: it reads, builds an item and
/// [writes](Self::write) it, until the item was written or the tries are used up.
pub(crate) struct Tries<'a> {
    pipeline: &'a Pipeline,
    /// "submit a task": the operation that an error names.
    operation: &'static str,
    left: usize,
    lost: u32,
    is_patient: bool,
    renews_its_lease: bool,
    has_lost_its_lease: bool,
    /// How many operations the servers were assumed to take when the next item was built.
    operations: usize,
    reason: String,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(pipeline: &'a Pipeline, operation: &'static str) -> Self {
        Self {
            pipeline,
            operation,
            left: TRIES,
            lost: 0,
            is_patient: false,
            renews_its_lease: false,
            has_lost_its_lease: false,
            operations: pipeline.capacity.operations(),
            reason: "its keys change too often".to_owned(),
        }
    }

    /// Replaces the number of tries.
    pub(crate) fn at_most(mut self, tries: usize) -> Self {
        self.left = tries;
        self
    }

    /// Waits between tries, with a pause that grows, while the store does not answer.
    pub(crate) fn patient(mut self) -> Self {
        self.is_patient = true;
        self
    }

    /// Tries again, on another lease, when the lease of an item is gone.
    pub(crate) fn renewing(mut self) -> Self {
        self.renews_its_lease = true;
        self
    }

    /// Returns whether the lease of the last item was gone.
    pub(crate) fn has_lost_its_lease(&self) -> bool {
        self.has_lost_its_lease
    }

    /// Writes the item of the next try.
    pub(crate) async fn write(&mut self, item: Item) -> Result<Wrote, Error> {
        self.has_lost_its_lease = false;
        if self.left == 0 {
            return Err(Error::unavailable(self.operation, self.reason.clone()));
        }
        self.left -= 1;
        let (before, capacity) = (self.operations, &self.pipeline.capacity);
        let tried = Tried::of(self.pipeline.write(item).await, before, capacity);
        self.operations = capacity.operations();
        match tried {
            Tried::Written(at) => return Ok(Wrote::At(at)),
            Tried::Changed | Tried::TooLarge => return Ok(Wrote::Nothing),
            Tried::Lost(reason) => self.pause(reason).await?,
            Tried::Failed(Fault::LeaseGone) if self.renews_its_lease => {
                self.has_lost_its_lease = true;
                return Ok(Wrote::Nothing);
            }
            Tried::Failed(fault) => self.failed(fault.into_error(self.operation)).await?,
        }
        Ok(Wrote::Unknown)
    }

    /// Waits when a patient change could not read or write because the store does not answer.
    /// Returns every other error.
    pub(crate) async fn failed(&mut self, error: Error) -> Result<(), Error> {
        match error {
            Error::Unavailable { reason, .. } if self.is_patient => self.pause(reason).await,
            error => Err(error),
        }
    }

    async fn pause(&mut self, reason: String) -> Result<(), Error> {
        if self.is_patient {
            tokio::time::sleep(Duration::from_millis(50 << self.lost)).await;
        }
        self.lost += 1;
        if self.lost == LOST {
            return Err(Error::unavailable(self.operation, reason));
        }
        self.reason = reason;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        sync::{Arc, Mutex},
    };

    use tokio::{sync::mpsc, time::Instant};

    use super::*;
    use crate::store::etcd::client::{Limit, options::Options};
    use crate::store::etcd::write::batch::Waiting;

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

    fn done(written: Option<i64>) -> Done {
        Done {
            written,
            read: None,
        }
    }

    /// Servers with one key: whether it is there, and how often it was written.
    #[derive(Default)]
    struct Servers {
        is_there: bool,
        writes: u32,
        next: VecDeque<Next>,
    }

    impl Servers {
        fn write(&mut self, capacity: &Capacity) -> Result<Done, Fault> {
            self.writes += 1;
            let next = self.next.pop_front().unwrap_or(Next::NotNow);
            self.is_there |= matches!(next, Next::Written | Next::Changed | Next::LostAndWritten);
            match next {
                Next::Written => Ok(done(Some(7))),
                Next::Changed => Ok(done(None)),
                Next::LostAndWritten | Next::Lost => Err(Fault::Unknown("no answer".into())),
                Next::NotNow => Err(Fault::NotNow("no leader".into())),
                Next::TooLarge => {
                    capacity.learn(Limit::Operations, capacity.operations());
                    let error = Error::Unusable("too many operations".into());
                    Err(Fault::OverLimit(Limit::Operations, error))
                }
            }
        }
    }

    /// Makes the key, and takes one that is there for its own only after a try without an answer.
    /// Returns whether it is new.
    async fn make_key(mut tries: Tries<'_>, servers: &Mutex<Servers>) -> Result<bool, Error> {
        let mut is_lost = false;
        loop {
            if servers.lock().is_ok_and(|servers| servers.is_there) {
                return Ok(is_lost);
            }
            match tries.write(Item::new("key")).await? {
                Wrote::At(_) => return Ok(true),
                Wrote::Nothing => {}
                Wrote::Unknown => is_lost = true,
            }
        }
    }

    /// Returns the result, and how often the key was written.
    async fn make(is_patient: bool, next: &[Next]) -> (Result<bool, Error>, u32) {
        let servers = Arc::new(Mutex::new(Servers {
            next: next.iter().copied().collect(),
            ..Servers::default()
        }));
        let options = Options::parse("etcd://h:1/ns").unwrap_or_else(|e| panic!("{e}"));
        let capacity = Arc::new(Capacity::new(&options));
        let (to_writer, mut items) = mpsc::unbounded_channel();
        let pipeline = Pipeline::to(to_writer, capacity.clone());
        let by = servers.clone();
        let writer = tokio::spawn(async move {
            while let Some(waiting) = items.recv().await {
                let mut servers = by.lock().unwrap_or_else(|e| panic!("{e}"));
                let _ = waiting.answer.send(servers.write(&capacity));
            }
        });
        let tries = Tries::new(&pipeline, "make a key");
        let tries = if is_patient { tries.patient() } else { tries };
        let made = make_key(tries, &servers).await;
        writer.abort();
        let writes = servers.lock().map_or(0, |servers| servers.writes);
        (made, writes)
    }

    #[tokio::test]
    async fn what_a_lost_answer_has_written_is_not_written_again() {
        let (made, writes) = make(false, &[Next::LostAndWritten]).await;
        assert!(matches!(made, Ok(true)), "{made:?}");
        assert_eq!(writes, 1);
        let (made, writes) = make(false, &[Next::Lost, Next::Written]).await;
        assert!(matches!(made, Ok(true)), "{made:?}");
        assert_eq!(writes, 2);
    }

    #[tokio::test]
    async fn what_somebody_else_has_written_is_not_taken_for_our_own() {
        let (made, writes) = make(false, &[Next::Changed]).await;
        assert!(matches!(made, Ok(false)), "{made:?}");
        assert_eq!(writes, 1);
    }

    #[tokio::test]
    async fn a_write_that_was_too_large_is_made_again() {
        let (made, writes) = make(false, &[Next::TooLarge, Next::Written]).await;
        assert!(matches!(made, Ok(true)), "{made:?}");
        assert_eq!(writes, 2);
    }

    #[tokio::test]
    async fn only_a_change_that_renews_its_lease_is_tried_again_without_it() {
        let options = Options::parse("etcd://h:1/ns").unwrap_or_else(|e| panic!("{e}"));
        let capacity = Arc::new(Capacity::new(&options));
        let (to_writer, mut items) = mpsc::unbounded_channel::<Waiting>();
        let pipeline = Pipeline::to(to_writer, capacity);
        let writer = tokio::spawn(async move {
            while let Some(waiting) = items.recv().await {
                let _ = waiting.answer.send(Err(Fault::LeaseGone));
            }
        });
        let mut tries = Tries::new(&pipeline, "make a key");
        assert!(tries.write(Item::new("key")).await.is_err());
        let mut tries = Tries::new(&pipeline, "make a key").renewing();
        let wrote = tries.write(Item::new("key")).await;
        assert!(matches!(wrote, Ok(Wrote::Nothing)), "{wrote:?}");
        assert!(tries.has_lost_its_lease());
        writer.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_fails_with_the_last_reason() {
        for (next, expected, tries) in [
            (Next::Lost, "no answer", LOST),
            (Next::NotNow, "no leader", 1),
            (Next::TooLarge, "change too often", TRIES as u32),
        ] {
            let (made, writes) = make(false, &[next; 9]).await;
            let text = made.map_err(|error| error.to_string());
            assert!(
                text.clone().is_err_and(|e| e.ends_with(expected)),
                "{text:?}"
            );
            assert_eq!(writes, tries);
        }
        let begun = Instant::now();
        let (made, writes) = make(true, &[Next::NotNow; 9]).await;
        assert!(made.is_err_and(|error| error.is_retryable()));
        assert_eq!((writes, begun.elapsed().as_millis()), (LOST, 50 * 31));
        let (made, _) = make(true, &[Next::NotNow, Next::Lost, Next::Written]).await;
        assert!(
            matches!(made, Ok(true)),
            "it waits until there is an answer"
        );
    }
}
