//! Wakes schedules after a clock that was ahead is set right: they sleep until a time of the wrong
//! clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};
use windlass_statemachine::{Command, CommandId, Invalid, StateKind, TaskId, message::SendCommand};

use super::{data::AHEAD, hash::hash};
use crate::{
    Client,
    store::{Error, Page, Store},
};

/// How often a node looks at its clock.
const EVERY: Duration = Duration::from_secs(2);

/// How many schedules are read at once.
const READ_AT_ONCE: u32 = 1000;

/// Wakes schedules whenever the clock of this process is set back. Runs until it is dropped.
pub(crate) async fn watch(store: Store) {
    let began = Instant::now();
    let mut lead = Lead::default();
    let mut is_due = false;
    loop {
        sleep(EVERY).await;
        is_due |= lead.is_set_back(store.clock().now(), began.elapsed());
        if !is_due {
            continue;
        }
        match wake(&store).await {
            Ok(()) => is_due = false,
            Err(error) if error.is_retryable() => {
                debug!(%error, "could not wake schedules after the clock was set back; trying again");
            }
            Err(error) => {
                warn!(%error, "could not wake schedules after the clock was set back");
                is_due = false;
            }
        }
    }
}

/// How far the wall clock has moved ahead of the monotonic time.
#[derive(Debug, Default)]
struct Lead(Option<SignedDuration>);

impl Lead {
    /// Returns whether the clock was set back since the last look, by more than clocks of nodes
    /// differ.
    fn is_set_back(&mut self, clock: Timestamp, passed: Duration) -> bool {
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        let lead = clock
            .duration_since(Timestamp::UNIX_EPOCH)
            .saturating_sub(passed);
        let before = *self.0.get_or_insert(lead);
        let is_set_back = before.saturating_sub(lead) > AHEAD;
        if is_set_back || lead > before {
            self.0 = Some(lead);
        }
        is_set_back
    }
}

/// Finds live schedules whose times a clock that was ahead has decided, and makes them check
/// the time again.
async fn wake(store: &Store) -> Result<(), Error> {
    let schedules = Client::new(store).schedules();
    let mut page = Page {
        after: 0,
        limit: READ_AT_ONCE,
    };
    loop {
        let found = schedules.list(page).await?;
        let Some((last, _)) = found.last() else {
            return Ok(());
        };
        page.after = *last;
        for (_, record) in &found {
            let sleeps = record.state == Some(StateKind::Sleeping);
            let Some(ahead) = record.ahead.filter(|_| sleeps) else {
                continue;
            };
            warn!(schedule = %record.id, %ahead, "continues from the present: a clock that was ahead has already decided these times");
            match store
                .registry()
                .send(vec![run(&record.id, ahead)?])
                .await
                .pop()
            {
                Some(Err(error)) if error.is_retryable() => return Err(error),
                Some(Err(error)) => debug!(schedule = %record.id, %error, "was not woken"),
                Some(Ok(_)) | None => {}
            }
        }
    }
}

/// Returns the command that makes a schedule check the time. Each node sends the same command.
fn run(schedule: &TaskId, ahead: Timestamp) -> Result<SendCommand, Invalid> {
    let key = format!("{schedule} {ahead}");
    Ok(SendCommand::new(
        schedule.clone(),
        CommandId::new(format!("schedule-clock-{:016x}", hash(key.as_bytes())))?,
        Command::Run,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_is_set_back_by_more_than_clocks_differ_is_reported() {
        let mut lead = Lead::default();
        let mut look = |clock: i64, passed: u64| {
            let clock = Timestamp::from_second(clock).unwrap();
            lead.is_set_back(clock, Duration::from_secs(passed))
        };
        let begin = 1_900_000_000;
        assert!(!look(begin, 0));
        assert!(!look(begin + 10, 10));
        assert!(!look(begin + 20 - 59, 20), "by less");
        assert!(!look(begin + 30 + 10_800, 30), "it leaps forward");
        assert!(look(begin + 40, 40));
        assert!(!look(begin + 50, 50), "it is reported once");
        assert!(look(begin + 60 - 61, 60));
    }
}
