//! Writes the lines that handlers log: with the writes that a task makes anyway, or else by a separate write, which
//! takes the lines of many tasks.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::warn;

use super::{
    Engine,
    slot::{Run, Slot},
    slot_log::SlotLog,
    timers::Wait,
};
use crate::{
    runner::{input::SlotId, reports::REPORTS},
    store::{Error, LogWrite, Logged},
};

/// The interval at which lines are written, less than one second. Tasks that log in the same interval are written
/// together.
const EVERY: Duration = Duration::from_millis(900);
/// How long lines wait when other lines of the task are being written.
const AGAIN: Duration = Duration::from_millis(100);

impl Slot {
    /// Returns the lines for the next transition. Lines of a separate write under way are among them: the store takes
    /// each line once.
    pub(super) fn log_for_commit(&mut self) -> Option<Arc<[Logged]>> {
        let log = self.log.as_mut()?;
        if let Some(run) = &self.run {
            run.data
                .take_log()
                .into_iter()
                .for_each(|line| log.lines.push(line));
        }
        let (lines, last) = log.all()?;
        log.in_commit = Some(last);
        Some(lines)
    }

    /// Notes the answer to the transition under way. Lines that were not written are written with the next one.
    pub(super) fn log_committed(&mut self, is_written: bool) {
        if let Some(log) = &mut self.log
            && let Some(last) = log.in_commit.take()
            && is_written
        {
            log.lines.drop_until(last);
        }
    }

    /// Returns the lines for a separate write; `None` while others are under way, or when there are none.
    fn log_for_write(&mut self) -> Option<LogWrite> {
        let (log, run) = (self.log.as_mut()?, self.run.as_ref()?);
        if log.in_commit.is_some() || log.in_write.is_some() {
            return None;
        }
        run.data
            .take_log()
            .into_iter()
            .for_each(|line| log.lines.push(line));
        let (lines, last) = log.all()?;
        log.in_write = Some(last);
        Some(LogWrite::new(self.claim.clone(), lines))
    }

    fn has_log_under_way(&self) -> bool {
        let under_way = |log: &SlotLog| log.in_commit.is_some() || log.in_write.is_some();
        self.log.as_deref().is_some_and(under_way)
    }
}

impl Engine {
    /// Handles a notification of logged lines.
    pub(super) fn has_logged(&mut self, id: SlotId) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.log.get_or_insert_default();
            self.logged(id);
        }
    }

    /// Plans a separate write of the lines of a running handler, if it has logged any.
    pub(super) fn logged(&mut self, id: SlotId) {
        let now = Instant::now();
        let at = self.next_log_write(now);
        let slot = self.slots.get(id).filter(|slot| slot.log.is_some());
        let Some(run) = slot.and_then(|slot| slot.run.as_ref()) else {
            return;
        };
        let is_full = run.data.log_is_full();
        self.wait_until(id, Wait::Log, if is_full { now } else { at });
    }

    /// Returns the time of the next separate writes: the same for all tasks.
    fn next_log_write(&self, now: Instant) -> Instant {
        let elapsed = self.timers.elapsed(now).as_millis() as u64;
        let every = EVERY.as_millis() as u64;
        let next = (elapsed / every + 1) * every;
        self.timers
            .moment(Duration::from_millis(next))
            .unwrap_or(now + EVERY)
    }

    /// Writes the lines of a slot, after a wait.
    pub(super) fn write_log(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if slot.has_log_under_way() {
            return self.wait_until(id, Wait::Log, Instant::now() + AGAIN);
        }
        if let Some(write) = slot.log_for_write() {
            self.outbox.push_log(id, write);
        }
    }

    /// Handles the answers to separate writes.
    pub(super) fn log_written(&mut self, answers: Vec<(SlotId, Result<(), Error>)>) {
        for (id, answer) in answers {
            let Some(slot) = self.slots.get_mut(id) else {
                continue;
            };
            let Some(log) = &mut slot.log else {
                continue;
            };
            let last = log.in_write.take();
            match answer {
                Err(error) if error.is_retryable() => {
                    warn!(target: REPORTS, task = %slot.task.id, %error, "could not write log lines; trying again");
                    self.wait_until(id, Wait::Log, Instant::now() + EVERY);
                }
                // Lines that the store refuses are never written.
                Ok(()) | Err(_) => log.lines.drop_until(last.unwrap_or(0)),
            }
        }
    }

    /// Keeps the last lines of a run that has ended, for the next write of its task.
    pub(super) fn end_log(&mut self, id: SlotId, run: &Run) {
        if let Some(slot) = self.slots.get_mut(id)
            && let Some(log) = &mut slot.log
        {
            let (lines, last) = run.data.end_log();
            lines.into_iter().for_each(|line| log.lines.push(line));
            log.last = last;
            self.no_wait(id, Wait::Log);
        }
    }
}
