//! [`Quotas`]: how many live tasks the holders of tokens may have.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::problem::Problem;
use axum::http::StatusCode;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

/// The turns of callers with a quota: each counts and submits while no other request of the caller does.
#[derive(Default)]
pub(crate) struct Quotas {
    turns: Mutex<HashMap<String, Arc<Turns<()>>>>,
}

/// The turn of a caller, with the tasks that were counted in it.
pub(crate) struct Held {
    _turn: OwnedMutexGuard<()>,
    live: u64,
    most: u64,
}

impl Held {
    /// Returns whether the quota allows so many more live tasks.
    pub(crate) fn has_room_for(&self, adds: u64) -> bool {
        adds == 0 || self.live.saturating_add(adds) <= self.most
    }

    pub(crate) fn refusal(&self) -> Problem {
        let detail = format!(
            "the kinds of the token have {} live tasks, and with the token there may be at most {}; submit again when tasks have \
             ended, or use a token with another quota",
            self.live, self.most
        );
        Problem::new(StatusCode::CONFLICT, "quota", detail)
    }
}

impl Quotas {
    /// Waits for the turn of a caller, and counts its live tasks in it.
    pub(crate) async fn hold<E>(
        &self,
        caller: String,
        most: u64,
        live: impl Future<Output = Result<u64, E>>,
    ) -> Result<Held, E> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of tokens that nobody uses now.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(caller).or_default().clone()
        };
        let turn = turn.lock_owned().await;
        Ok(Held {
            _turn: turn,
            live: live.await?,
            most,
        })
    }
}
