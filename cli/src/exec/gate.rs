//! [`Gate`]: how many commands run at once, while the node claims tasks ahead.
//!
//! A claim costs a durable write, which takes longer than a short command. So that no command waits for
//! one, a node claims more tasks than may run. The handlers of the others wait here. While commands are
//! long, nothing is claimed ahead: the tasks are left to other nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};
use windlass::{Message, TaskContext};

/// Commands that end sooner than this, on average, are short.
const SHORT: Duration = Duration::from_millis(50);
/// How long a task waits that was claimed ahead. Then it is released.
const PATIENCE: Duration = Duration::from_millis(250);

/// Lets commands run, up to a number. Clones are the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    permits: Arc<Semaphore>,
    /// How many tasks are claimed ahead while commands are short.
    most: u32,
    /// How many are claimed ahead at present.
    ahead: AtomicU32,
    /// How long a command takes lately, in microseconds; 0 before the first has ended.
    lately: AtomicU64,
}

/// A command that may run. Dropping it lets the next one run.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Gate,
    begun: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Gate {
    /// For `running` commands at once, and `most` tasks that are claimed ahead.
    pub(crate) fn new(running: u32, most: u32) -> Self {
        Self(Arc::new(Inner {
            permits: Arc::new(Semaphore::new(usize::try_from(running).unwrap_or(1))),
            most,
            ahead: AtomicU32::new(0),
            lately: AtomicU64::new(0),
        }))
    }

    /// How many tasks to claim beyond those that may run.
    pub(crate) fn ahead(&self) -> u32 {
        self.0.ahead.load(Relaxed)
    }

    /// Waits until a command may run.
    ///
    /// # Errors
    ///
    /// The message of a task whose command does not start now: it was stopped, or commands are long.
    pub(super) async fn enter(&self, task: &TaskContext) -> Result<Pass, Message> {
        let permit = tokio::select! {
            biased;
            stop = task.stop_requested() => return Err(stop.message()),
            permit = self.0.permits.clone().acquire_owned() => permit,
            () = sleep(PATIENCE) => {
                self.0.ahead.store(0, Relaxed);
                return Err(Message::release());
            }
        };
        // The semaphore is never closed.
        let permit = permit.map_err(|_| Message::release())?;
        Ok(Pass {
            gate: self.clone(),
            begun: Instant::now(),
            _permit: permit,
        })
    }

    /// A command has taken this long.
    fn took(&self, time: Duration) {
        let inner = &self.0;
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let lately = match inner.lately.load(Relaxed) {
            0 => time,
            lately => lately / 4 * 3 + time / 4,
        };
        inner.lately.store(lately, Relaxed);
        let is_short = Duration::from_micros(lately) < SHORT;
        let ahead = if is_short { inner.most } else { 0 };
        inner.ahead.store(ahead, Relaxed);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.took(self.begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_claimed_ahead_while_commands_are_short() {
        let gate = Gate::new(2, 7);
        assert_eq!(gate.ahead(), 0, "nothing is known yet");
        gate.took(Duration::from_millis(1));
        assert_eq!(gate.ahead(), 7);
        gate.took(Duration::from_secs(10));
        assert_eq!(gate.ahead(), 0);
        for _ in 0..40 {
            gate.took(Duration::from_millis(1));
        }
        assert_eq!(gate.ahead(), 7);
    }
}
