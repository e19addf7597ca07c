//! [`Job`]: a job of the thread that writes, and [`Intake`]: its queue.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::batch::{Batch, Sql};
use crate::store::{Error, Limits, rules::size::Weight};

/// The number of items after which a transaction is committed, even if more jobs wait.
const MAX_ITEMS: usize = 2000;
/// The number of items up to which jobs still join a transaction that has begun. With so few items
/// the sync takes longer than the work. With more, it is better to let the next transaction fill in
/// the meantime.
const JOINED: usize = 16;
/// How often the thread checks for ended leases while it has no job.
const REAP_EVERY: Duration = Duration::from_millis(400);

/// The size of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) items: usize,
    /// The size of the JSON values, for jobs in which it matters.
    pub(super) bytes: usize,
}

impl From<Weight> for Load {
    fn from(weight: Weight) -> Self {
        Self {
            items: weight.operations,
            bytes: weight.bytes,
        }
    }
}

impl From<usize> for Load {
    fn from(items: usize) -> Self {
        Self { items, bytes: 0 }
    }
}

/// A job of the writer. It may run more than once, each time in a transaction without the effects of
/// the previous run. Its answer is sent once.
pub(super) trait Job: Send {
    fn load(&self) -> Load;
    fn run(&mut self, batch: &mut Batch<'_>) -> Sql<()>;
    fn answer(self: Box<Self>, failed: Option<&dyn Fn(&'static str) -> Error>);
}

pub(super) struct Work<T, F> {
    pub(super) operation: &'static str,
    pub(super) load: Load,
    pub(super) work: F,
    pub(super) result: Option<T>,
    /// The work is returned with the result, so that the caller frees it, and not the thread that
    /// writes.
    pub(super) answer: oneshot::Sender<(Result<T, Error>, F)>,
}

impl<T: Send, F: FnMut(&mut Batch<'_>) -> Sql<T> + Send> Job for Work<T, F> {
    fn load(&self) -> Load {
        self.load
    }

    fn run(&mut self, batch: &mut Batch<'_>) -> Sql<()> {
        self.result = Some((self.work)(batch)?);
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<&dyn Fn(&'static str) -> Error>) {
        let result = match (failed, self.result) {
            (None, Some(result)) => Ok(result),
            (Some(failed), _) => Err(failed(self.operation)),
            (None, None) => Err(stopped(self.operation)),
        };
        // Fails when the caller has stopped waiting. The job is done in any case.
        let _ = self.answer.send((result, self.work));
    }
}

/// Returns the error of a job that the thread did not run.
pub(super) fn stopped(operation: &'static str) -> Error {
    Error::unavailable(operation, "the store was closed")
}

pub(super) enum Message {
    Job(Box<dyn Job>),
    /// Sent when nodes of this process are live on this store: check for ended leases even without
    /// a job.
    Reap,
    Stop,
}

/// The jobs of a transaction.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) list: Vec<Box<dyn Job>>,
    items: usize,
    bytes: usize,
    /// Whether no other job may join.
    alone: bool,
}

impl Jobs {
    /// Returns a job whose transaction no other joins.
    pub(super) fn alone(job: Box<dyn Job>) -> Self {
        let list = vec![job];
        Self {
            list,
            alone: true,
            ..Self::default()
        }
    }
}

/// The queue of the thread.
pub(super) struct Intake {
    queue: Receiver<Message>,
    /// Whether more jobs may come.
    is_open: bool,
    /// Whether to check for ended leases even without a job.
    pub(super) reaps: bool,
}

impl Intake {
    pub(super) fn new(queue: Receiver<Message>) -> Self {
        Self {
            queue,
            is_open: true,
            reaps: false,
        }
    }

    /// Waits for jobs. Returns an empty list when it is time to check for ended leases, and `None`
    /// when no more jobs come.
    pub(super) fn next(&mut self) -> Option<Jobs> {
        let mut jobs = Jobs::default();
        while self.is_open && jobs.list.is_empty() {
            let next = match self.reaps {
                true => self.queue.recv_timeout(REAP_EVERY),
                false => self.queue.recv().map_err(RecvTimeoutError::from),
            };
            match next {
                Ok(message) => self.take(message, &mut jobs),
                Err(RecvTimeoutError::Timeout) => return Some(jobs),
                Err(RecvTimeoutError::Disconnected) => self.is_open = false,
            }
        }
        self.add(&mut jobs, MAX_ITEMS);
        (!jobs.list.is_empty()).then_some(jobs)
    }

    /// Adds waiting jobs to a transaction that has begun and is small.
    pub(super) fn join(&mut self, jobs: &mut Jobs) {
        if !jobs.alone {
            self.add(jobs, JOINED);
        }
    }

    /// Adds waiting jobs while the transaction has fewer items than this, and fewer bytes than a write may have.
    fn add(&mut self, jobs: &mut Jobs, below: usize) {
        while self.is_open
            && jobs.items < below
            && jobs.bytes < Limits::WRITE_BYTES
            && let Ok(message) = self.queue.try_recv()
        {
            self.take(message, jobs);
        }
    }

    fn take(&mut self, message: Message, jobs: &mut Jobs) {
        match message {
            Message::Job(job) => {
                let load = job.load();
                jobs.items += load.items.max(1);
                jobs.bytes += load.bytes;
                jobs.list.push(job);
            }
            Message::Reap => self.reaps = true,
            Message::Stop => self.is_open = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    struct Items(Load);

    impl Job for Items {
        fn load(&self) -> Load {
            self.0
        }

        fn run(&mut self, _: &mut Batch<'_>) -> Sql<()> {
            Ok(())
        }

        fn answer(self: Box<Self>, _: Option<&dyn Fn(&'static str) -> Error>) {}
    }

    fn job(items: usize) -> Message {
        Message::Job(Box::new(Items(items.into())))
    }

    fn bytes(bytes: usize) -> Message {
        Message::Job(Box::new(Items(Load { items: 1, bytes })))
    }

    fn intake(messages: impl IntoIterator<Item = Message>) -> (Sender<Message>, Intake) {
        let (sender, queue) = channel();
        messages.into_iter().for_each(|m| sender.send(m).unwrap());
        (sender, Intake::new(queue))
    }

    #[test]
    fn what_waits_is_one_transaction_up_to_a_bound() {
        let (_sender, mut intake) = intake([job(MAX_ITEMS - 1), job(0), job(1), job(1)]);
        assert_eq!(intake.next().unwrap().list.len(), 2, "none counts as one");
        assert_eq!(intake.next().unwrap().list.len(), 2);
    }

    /// A transaction of 1,600 tasks of 1 MB kept every other writer waiting for seconds.
    #[test]
    fn a_transaction_has_a_bound_in_bytes() {
        let half = Limits::WRITE_BYTES / 2;
        let jobs = || [bytes(half), bytes(half - 1), bytes(half), bytes(1)];
        let (_sender, mut intake) = intake(jobs());
        let counts: Vec<usize> = (0..2).map(|_| intake.next().unwrap().list.len()).collect();
        assert_eq!(counts, [3, 1], "the third begins before the bound");
        // Nor may a job join a transaction that has begun.
        let (sender, mut intake) = self::intake([bytes(Limits::WRITE_BYTES)]);
        let mut jobs = intake.next().unwrap();
        sender.send(bytes(1)).unwrap();
        intake.join(&mut jobs);
        assert_eq!(jobs.list.len(), 1);
    }

    #[test]
    fn a_small_transaction_takes_in_what_comes_while_it_runs() {
        let (sender, mut intake) = intake([job(JOINED - 2)]);
        let mut jobs = intake.next().unwrap();
        for _ in 0..3 {
            sender.send(job(1)).unwrap();
        }
        intake.join(&mut jobs);
        assert_eq!(jobs.list.len(), 3, "and one waits for the next");
        let mut alone = Jobs::alone(Box::new(Items(1.into())));
        intake.join(&mut alone);
        assert_eq!(alone.list.len(), 1, "a job that runs alone stays alone");
        assert_eq!(intake.next().unwrap().list.len(), 1);
    }

    #[test]
    fn jobs_before_the_stop_are_run() {
        let (sender, mut intake) = intake([job(1), Message::Reap, Message::Stop]);
        sender.send(job(1)).unwrap();
        assert_eq!(intake.next().unwrap().list.len(), 1);
        assert!(intake.reaps);
        assert!(intake.next().is_none(), "those after it are not");
    }
}
