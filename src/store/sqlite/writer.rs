//! [`Writer`]: the one thread of an open store that writes.
//!
//! It runs all waiting jobs in one transaction, so that many writes share one sync of the disk. It
//! answers each job when the transaction is durable or has failed.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    batch::{Batch, Environment, Finished, Sql},
    boot::LeaseClock,
    claim_cache::ClaimCache,
    copied,
    counts::Kinds,
    dependencies,
    errors::{self, Stop},
    jobs::{Intake, Job, Jobs, Load, Message, Work, stopped},
    lease, limits,
    open_files::OpenFiles,
    wake::CommitNotifier,
    wal::Wal,
};
use crate::{
    clock::Clock,
    store::{Error, Limits, last_write::LastWrite},
};

/// How often the log repeats a failure.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The phase in which a transaction failed.
enum Phase {
    Begin,
    Work,
    Commit,
}

/// The parts of the thread.
pub(super) struct Setup {
    pub(super) conn: Connection,
    pub(super) wal: Wal,
    pub(super) files: Arc<OpenFiles>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lease_clock: LeaseClock,
    pub(super) limits: Limits,
    pub(super) busy_timeout: Duration,
    /// Wakes the readers of this process after each transaction, if there are any.
    pub(super) notifier: Option<CommitNotifier>,
}

impl Setup {
    fn check(&self, phase: Phase) -> Result<(), (Stop, Phase)> {
        self.files.check().map_err(|e| (Stop::Refused(e), phase))
    }
}

/// The handle of the thread. Dropping it ends the thread.
pub(super) struct Writer {
    jobs: mpsc::Sender<Message>,
    /// The error for every job on a file that is only read.
    refuses: Option<Error>,
    last: Arc<LastWrite>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(setup: Setup) -> Result<Self, Error> {
        let (jobs, queue) = mpsc::channel();
        let last = Arc::<LastWrite>::default();
        let thread = Thread {
            setup,
            intake: Intake::new(queue),
            kept: Kept::default(),
            warned: None,
            failing: None,
            last: last.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("windlass-sqlite-write".into())
            .spawn(move || thread.run())
            .map_err(|e| Error::unavailable_by("start the thread that writes", e))?;
        Ok(Self {
            jobs,
            refuses: None,
            last,
            thread: Some(thread),
        })
    }

    /// Returns a writer that refuses every job with this error.
    pub(super) fn refusing(error: Error) -> Self {
        Self {
            jobs: mpsc::channel().0,
            refuses: Some(error),
            last: Arc::default(),
            thread: None,
        }
    }

    /// Returns whether it refuses every job.
    pub(super) fn refuses(&self) -> bool {
        self.refuses.is_some()
    }

    /// Returns whether the store took the last transaction.
    pub(super) fn last(&self) -> &LastWrite {
        &self.last
    }

    /// Runs `work` in a transaction, together with other waiting jobs. Returns when the transaction is
    /// durable.
    pub(super) async fn run<T, F>(
        &self,
        operation: &'static str,
        load: impl Into<Load>,
        work: F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Sql<T> + Send + 'static,
    {
        if let Some(error) = &self.refuses {
            return Err(error.clone());
        }
        let (answer, answered) = oneshot::channel();
        let job = Work {
            operation,
            load: load.into(),
            work,
            result: None,
            answer,
        };
        let sent = self.jobs.send(Message::Job(Box::new(job)));
        sent.map_err(|_| stopped(operation))?;
        let (result, _) = answered.await.map_err(|_| stopped(operation))?;
        result
    }

    /// Returns a handle for jobs whose results no caller needs.
    pub(super) fn poster(&self) -> Poster {
        Poster(self.jobs.clone())
    }

    /// Makes the thread check for ended leases even without a job from now on.
    pub(super) fn keep_reaping(&self) {
        // A thread that has stopped is reported by the next job.
        let _ = self.jobs.send(Message::Reap);
    }
}

/// Sends jobs to the thread without waiting for them.
pub(super) struct Poster(mpsc::Sender<Message>);

impl Poster {
    /// Runs `work` in a transaction, like [`Writer::run`]. `work` is dropped when it is done or has failed.
    pub(super) fn post<T, F>(&self, operation: &'static str, load: impl Into<Load>, work: F)
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Sql<T> + Send + 'static,
    {
        let job = Work {
            operation,
            load: load.into(),
            work,
            result: None,
            answer: oneshot::channel().0,
        };
        // A thread that has stopped drops the job.
        let _ = self.0.send(Message::Job(Box::new(job)));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.jobs.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // The thread finishes the waiting jobs first. A panic of the thread was reported where it
            // happened.
            let _ = thread.join();
        }
    }
}

struct Thread {
    setup: Setup,
    intake: Intake,
    kept: Kept,
    /// When a warning about unreadable leases was last logged.
    warned: Option<Instant>,
    /// When a warning about writes that fail was last logged; `None` after one that did not.
    failing: Option<Instant>,
    last: Arc<LastWrite>,
}

/// What is kept from one transaction to the next.
#[derive(Default)]
struct Kept {
    lines: limits::Looks,
    claim_cache: ClaimCache,
    kinds: Kinds,
}

impl Thread {
    fn run(mut self) {
        while let Some(jobs) = self.intake.next() {
            if jobs.list.is_empty() {
                self.idle();
            } else {
                self.serve(jobs);
                self.setup.wal.keep_short(&self.setup.conn);
            }
        }
        self.setup.files.close();
    }

    /// Ends expired leases and examines the lines of limits while there is no job.
    fn idle(&mut self) {
        // The check logs once that the files are gone. From then on every job is refused.
        if self.setup.files.check().is_err() {
            return;
        }
        self.setup.wal.keep_short(&self.setup.conn);
        let reaped = match has_news(&self.setup) {
            Ok(true) => self.transact(&mut Jobs::default()).map_err(|(e, _)| e),
            Ok(false) => return,
            Err(e) => Err(Stop::Sql(e)),
        };
        let Err(stop) = reaped else { return };
        match self.error("look for ended leases", &stop) {
            error if self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) => {
                self.warned = Some(Instant::now());
                tracing::warn!(%error, "could not look for ended leases; retries");
            }
            error => tracing::debug!(%error, "could not look for ended leases"),
        }
    }

    fn serve(&mut self, mut jobs: Jobs) {
        match self.transact(&mut jobs) {
            Ok(writes) => {
                if writes {
                    self.last.note(None);
                }
                if writes && self.failing.take().is_some() {
                    tracing::info!(file = %self.setup.files.path().display(), "writes succeed again");
                }
                self.answer(jobs.list, None);
            }
            // A single job may be at fault (too large for the disk, a damaged page), so each gets
            // its own transaction.
            Err((Stop::Sql(error), Phase::Work)) if jobs.list.len() > 1 => {
                tracing::debug!(%error, "a batch failed; ran its jobs one by one");
                for job in jobs.list {
                    self.serve(Jobs::alone(job));
                }
            }
            Err((stop, _)) => {
                let stop = copied::refused(&self.setup.conn, stop);
                self.answer(jobs.list, Some(&stop));
            }
        }
    }

    fn answer(&mut self, jobs: Vec<Box<dyn Job>>, failed: Option<&Stop>) {
        let Some(stop) = failed else {
            jobs.into_iter().for_each(|job| job.answer(None));
            return;
        };
        self.last.note(Some(self.error("write", stop)));
        match stop {
            Stop::Sql(_) if self.failing.is_none_or(|at| at.elapsed() >= WARN_EVERY) => {
                self.failing = Some(Instant::now());
                // The text says what to do.
                let error = self.error("write", stop);
                tracing::warn!(%error, "a write failed");
            }
            Stop::Sql(error) => tracing::debug!(%error, "a write failed"),
            // The check of the files has logged the cause.
            Stop::Refused(error) => tracing::debug!(%error, "a write was refused"),
        }
        let error = |operation| self.error(operation, stop);
        jobs.into_iter().for_each(|job| job.answer(Some(&error)));
    }

    fn error(&self, operation: &'static str, stop: &Stop) -> Error {
        match stop {
            Stop::Sql(error) => errors::running(self.setup.files.path(), operation, error),
            Stop::Refused(error) => error.clone(),
        }
    }

    /// Runs the jobs in one transaction. Checks the files before the transaction, so that nothing is
    /// written to a file that was moved away, and after the commit, so that no write to such a file is
    /// acknowledged. Returns whether the jobs wrote anything.
    fn transact(&mut self, jobs: &mut Jobs) -> Result<bool, (Stop, Phase)> {
        let setup = &self.setup;
        let _rings_at_the_end = setup.notifier.as_ref().map(CommitNotifier::begin);
        setup.check(Phase::Begin)?;
        begin(&setup.conn, setup.busy_timeout).map_err(|e| (e.into(), Phase::Begin))?;
        let worked = work(setup, &mut self.intake, &self.kept, jobs)
            .map_err(|e| (Stop::Sql(e), Phase::Work));
        let conn = &setup.conn;
        let result = worked.and_then(|done| {
            let commit = execute(conn, "COMMIT");
            commit.map_err(|e| (e.into(), Phase::Commit))?;
            setup.check(Phase::Commit)?;
            for lost in done.lost {
                tracing::warn!(
                    node = lost.node,
                    lease = lost.lease,
                    claims = lost.claims,
                    "a node has ended without leaving, or its lease has expired; its claims are lost"
                );
            }
            Ok(done.writes)
        });
        if result.is_err() {
            self.kept.kinds.forget();
            setup.lease_clock.forget_next_end();
        }
        // SQLite rolls back on its own only after some errors.
        if result.is_err()
            && !conn.is_autocommit()
            && let Err(error) = conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "could not roll back");
        }
        result
    }
}

/// Runs the jobs in the transaction that has begun.
fn work(setup: &Setup, intake: &mut Intake, kept: &Kept, jobs: &mut Jobs) -> Sql<Finished> {
    let now = setup.clock.now();
    let environment = Environment {
        limits: setup.limits,
        clock: &setup.lease_clock,
        claim_cache: &kept.claim_cache,
        kinds: &kept.kinds,
    };
    let mut batch = Batch::new(&setup.conn, now, environment)?;
    lease::reap(&mut batch)?;
    let mut done = 0;
    while let Some(job) = jobs.list.get_mut(done) {
        job.run(&mut batch)?;
        done += 1;
        if done == jobs.list.len() {
            intake.join(jobs);
            // A job that has joined may have a later time than the start of the transaction.
            if done < jobs.list.len() {
                batch.advance(setup.clock.now());
            }
        }
    }
    if intake.reaps {
        kept.lines.look(&mut batch)?;
    }
    dependencies::settle(&mut batch)?;
    batch.finish()
}

/// Returns whether there is a lease to end or a line of a limit to examine.
fn has_news(setup: &Setup) -> Sql<bool> {
    let conn = &setup.conn;
    Ok(lease::any_ended(conn, &setup.lease_clock)? || limits::any_stuck(conn, setup.clock.now())?)
}

/// Begins a transaction, and waits for the lock. SQLite's own wait sleeps for up to 100 ms at a time,
/// which would starve a process next to a busy one.
fn begin(conn: &Connection, timeout: Duration) -> Sql<()> {
    let mut since = None;
    loop {
        match execute(conn, "BEGIN IMMEDIATE") {
            Err(e) if errors::is_busy(&e) => {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() >= timeout {
                    return Err(e);
                }
                let patient = since.elapsed() > Duration::from_millis(50);
                let micros = if patient { 1000 } else { 200 } + fastrand::u64(..200);
                std::thread::sleep(Duration::from_micros(micros));
            }
            other => return other,
        }
    }
}

/// Runs a statement that returns nothing, and keeps it for the next transaction.
fn execute(conn: &Connection, sql: &str) -> Sql<()> {
    conn.prepare_cached(sql)?.execute(()).map(drop)
}
