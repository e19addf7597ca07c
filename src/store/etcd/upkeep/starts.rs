//! Deletes the slots of limits on starts whose period is over. Claims with the same key reuse some of them,
//! but slots of keys that no task uses any more would stay.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::sweep;
use crate::store::{
    Error,
    etcd::{
        read::Access,
        schema::{KeyValue, SlotRecord, json::parse},
    },
    retention::PruneClock,
};

/// How often a process looks for such slots, and the longest time before it first does.
const EVERY: Duration = Duration::from_secs(3600);
const FIRST: Duration = Duration::from_secs(300);

/// When to look for slots next, by the monotonic clock.
#[derive(Default)]
pub(crate) struct Starts {
    next: Mutex<Option<Duration>>,
}

impl Starts {
    /// Returns whether it is time to look. If so, sets the next time to an hour later.
    pub(crate) fn is_time(&self, now: Duration) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = next.is_some_and(|next| next <= now);
        if is_time || next.is_none() {
            *next = Some(now + if is_time { EVERY } else { FIRST });
        }
        is_time
    }
}

/// Deletes the slots whose period is over by the clock that prunes records, so that a node whose clock is ahead
/// deletes none that other nodes still have to count.
pub(crate) async fn sweep(access: &Access, clock: &PruneClock) -> Result<(), Error> {
    let (from, now) = (access.keys().all_starts(), clock.now());
    let is_over = |kv: &KeyValue| {
        let record = parse::<SlotRecord>(kv).ok();
        let start = record.and_then(|record| record.start);
        start.is_none_or(|start| start.is_over(now))
    };
    let swept = sweep::sweep(access, &from, is_over).await;
    swept.map_err(|fault| fault.into_error("delete the slots of limits"))
}
