//! [`Handler`]: what runs for a task, and [`Ctl`]: what it is given.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use windlass::{
    Json,
    workers::protocol::{Reply, Signalled, Start, What},
};

use crate::state::{Name, Shared};

/// What runs for a task: it returns a message in its JSON form.
pub type Handler = Arc<dyn Fn(&Start, &Ctl) -> Value + Send + Sync>;

/// What a handler is given. A thread cannot be aborted from outside, so a handler asks [`aborted`](Self::aborted) as often
/// as it can.
#[derive(Debug, Clone)]
pub struct Ctl {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: Name,
}

impl Ctl {
    /// Returns whether the handler is to end: it was asked to stop, or aborted.
    pub fn stopped(&self) -> bool {
        let state = self.shared.lock();
        match state.claim(&self.name) {
            Some(claim) => claim.stop_at.is_some() || claim.over,
            None => !state.keeps(&self.name),
        }
    }

    /// Returns whether the handler is aborted: nothing that it does counts any more.
    pub fn aborted(&self) -> bool {
        let state = self.shared.lock();
        match state.claim(&self.name) {
            Some(claim) => claim.over,
            None => !state.keeps(&self.name),
        }
    }

    /// Waits. Returns `false` early when the handler is to end.
    pub fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            self.shared.wait(left.min(Duration::from_millis(20)));
        }
        false
    }

    /// Stores new data, and waits until a server has answered.
    ///
    /// # Errors
    ///
    /// Why it is not stored.
    pub fn checkpoint(&self, data: &Value) -> Result<(), String> {
        let data = Json::new("data", data).map_err(|e| e.to_string())?;
        self.ask(What::Checkpoint(data))
    }

    /// Replies to a signal, and waits until a server has answered.
    ///
    /// # Errors
    ///
    /// Why it is not stored.
    pub fn answer(&self, reply: Reply) -> Result<(), String> {
        self.ask(What::Answer(reply))
    }

    /// Returns the signals and commands that have come since the last call.
    pub fn signals(&self) -> Vec<Signalled> {
        let mut state = self.shared.lock();
        let claim = state.claim_mut(&self.name);
        claim.map_or_else(Vec::new, |claim| std::mem::take(&mut claim.signals))
    }

    fn ask(&self, what: What) -> Result<(), String> {
        let gone = || "the claim is over".to_owned();
        let ticket = self.shared.lock().ask(&self.name, what).ok_or_else(gone)?;
        self.shared.notify();
        loop {
            {
                let mut state = self.shared.lock();
                if let Some(answer) = state.answers.remove(&ticket) {
                    return answer;
                }
                if state.claim(&self.name).is_none_or(|claim| claim.over) {
                    return Err(gone());
                }
            }
            self.shared.wait(Duration::from_millis(20));
        }
    }
}
