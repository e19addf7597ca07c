//! The purge of ended tasks.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Invalid, StateKind};

use super::Client;
use crate::store::{Error, Purge};

/// The number of tasks that a purge deletes at a time.
const CHUNK: u32 = 1000;

impl Client {
    /// Deletes the tasks that ended longer than `age` ago in one of `states` (empty: any terminal state),
    /// and returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `states`) for a state that is not terminal,
    /// [`Error::Unavailable`].
    pub async fn purge(&self, states: &[StateKind], age: Duration) -> Result<u64, Error> {
        if let Some(live) = states.iter().find(|s| !s.is_terminal()) {
            let reason = format!("'{live}' is not an end; purge takes completed, failed, killed");
            return Err(Invalid::new("states", reason).into());
        }
        let all = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
        let states = if states.is_empty() { &all[..] } else { states };
        let age = jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX);
        let before = self
            .store
            .clock()
            .now()
            .checked_sub(age)
            .unwrap_or(Timestamp::MIN);
        let mut purged = 0;
        loop {
            let purge = Purge::new(states, before).limit(CHUNK).by(self.by.clone());
            let now = self.store.registry().purge(&purge).await?;
            purged += now;
            if now < u64::from(CHUNK) {
                return Ok(purged);
            }
        }
    }
}
