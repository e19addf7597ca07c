//! Deletes the records of unique keys that are free.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::sweep;
use crate::store::{
    Error,
    etcd::{
        read::Access,
        schema::{KeyValue, Unique},
    },
    retention::PruneClock,
};

const OPERATION: &str = "delete unique keys";
/// How often a node looks for free keys, and how long a key must have been free.
pub(crate) const PERIOD: Duration = Duration::from_secs(3600);

/// When this process last looked for free keys.
pub(crate) struct Sweeps(Mutex<Instant>);

impl Sweeps {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Returns whether it is time to look again. If so, sets the next time to a period later.
    pub(crate) fn is_time(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = last.elapsed() >= PERIOD;
        if is_time {
            *last = Instant::now();
        }
        is_time
    }
}

/// Deletes the records of keys that have been free for [`PERIOD`], unless a submit has taken them in the
/// meantime.
pub(crate) async fn sweep(access: &Access, clock: &PruneClock) -> Result<(), Error> {
    let Some(before) = clock.before(PERIOD) else {
        return Ok(());
    };
    let is_free = |kv: &KeyValue| Unique::read(kv).is_none_or(|record| record.until < before);
    let swept = sweep::sweep(access, &access.keys().all_unique(), is_free).await;
    swept.map_err(|fault| fault.into_error(OPERATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_looks_for_free_keys_once_in_a_period() {
        let sweeps = Sweeps::new();
        assert!(!sweeps.is_time());
        tokio::time::advance(PERIOD).await;
        assert!(sweeps.is_time() && !sweeps.is_time());
    }
}
