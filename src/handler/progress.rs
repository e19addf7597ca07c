//! The progress that a running handler reports.

use std::sync::{PoisonError, atomic::Ordering};

use windlass_statemachine::{Progress, TaskType};

use super::{TaskContext, asks::Sent, run_data::RunData};

impl RunData {
    /// Returns the last reported progress, for the runner to store. The next report notifies the runner again.
    pub(crate) fn progress_to_keep(&self) -> Option<Progress> {
        self.progress_sent.store(false, Ordering::SeqCst);
        self.progress()
    }

    /// Returns the last reported progress.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let progress = self.progress.lock();
        progress.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<J: TaskType> TaskContext<J> {
    /// Reports how far the work is: a fraction from 0 to 1 (`None` if it is not known), and a text. Every client
    /// sees it within 2 s: it is stored with the next write of the task, or else by a separate write, at most one
    /// in 2 s and only if it has changed. Each run of the handler begins without progress.
    pub fn set_progress(&self, fraction: impl Into<Option<f64>>, text: impl Into<String>) {
        let fraction = fraction
            .into()
            .filter(|f| f.is_finite())
            .map(|f| f.clamp(0.0, 1.0));
        let progress = Progress::new(fraction, text);
        *self
            .run
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(progress);
        if !self.run.progress_sent.swap(true, Ordering::SeqCst) {
            // A runner that is gone stores nothing.
            let _ = (self.run.asks.0)(Sent::Progress);
        }
    }
}
