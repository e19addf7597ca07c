//! [`Boot`]: the start of a machine, for schedules with `@reboot`.

use std::{fs, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;
use tracing::{debug, warn};
use windlass_statemachine::StateKind;

use super::data::AHEAD;
use crate::{
    Client,
    clock::{Clock, SystemClock},
    store::{Error, Page, Store},
};

/// How long after the start of its machine a node still reports it. A node that starts later, as after an update of the
/// program, does not read the schedules for it.
const FRESH: SignedDuration = SignedDuration::from_hours(1);

/// How long a node waits before it reports again what the store did not take.
const AGAIN: Duration = Duration::from_secs(2);

/// How many schedules are read at once.
const READ_AT_ONCE: u32 = 1000;

/// A start of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Boot {
    /// The id of the start. No other start of any machine has it.
    pub(crate) id: String,
    /// When it was, in whole seconds.
    pub(crate) at: Timestamp,
}

impl Boot {
    /// Returns the last start of this machine; `None` on a system that does not show it.
    fn of_machine(now: Timestamp) -> Option<Self> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let up = fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = up.split_whitespace().next()?.parse().ok()?;
        let up = SignedDuration::try_from_secs_f64(up).ok()?;
        let at = now.checked_sub(up).ok()?;
        Some(Self {
            id: id.trim().to_owned(),
            at: Timestamp::from_second(at.as_second()).ok()?,
        })
    }
}

/// Reports the start of this machine to the schedules with `@reboot`, if it was a short time ago. A store with a clock
/// of its own knows no time of the machine.
pub(crate) async fn report(store: Store) {
    let now = store.clock().now();
    if now.duration_since(SystemClock::shared().now()).abs() > AHEAD {
        return;
    }
    let Some(boot) = Boot::of_machine(now).filter(|boot| now.duration_since(boot.at) < FRESH)
    else {
        return;
    };
    loop {
        match report_to_all(&store, &boot).await {
            Ok(()) => return,
            Err(error) if error.is_retryable() => {
                debug!(%error, "could not report the start of the machine to schedules; trying again");
                sleep(AGAIN).await;
            }
            Err(error) => {
                warn!(%error, "could not report the start of the machine to schedules");
                return;
            }
        }
    }
}

/// Reports a start to each live schedule with `@reboot`.
async fn report_to_all(store: &Store, boot: &Boot) -> Result<(), Error> {
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
            let is_live = record
                .state
                .is_some_and(|code: StateKind| !code.is_terminal());
            if !is_live || !record.spec.as_ref().is_ok_and(|spec| spec.is_at_boot()) {
                continue;
            }
            match schedules.boot(&record.id, boot).await {
                // It has ended, was deleted or became wrong since.
                Ok(())
                | Err(Error::ScheduleEnded(_) | Error::NotFound { .. } | Error::Invalid(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
