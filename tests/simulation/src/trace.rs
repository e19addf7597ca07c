//! [`Trace`]: what happened, in order, with the virtual time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use crate::locked;

/// The lines of a run. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    now: u64,
    lines: VecDeque<String>,
    /// How many lines are kept; 0 for none.
    most: usize,
}

impl Trace {
    /// Returns a trace that keeps the last lines.
    pub fn keeping(most: usize) -> Self {
        let trace = Self::default();
        trace.with(|kept| kept.most = most);
        trace
    }

    fn with<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> T {
        what(&mut locked(&self.0))
    }

    /// Sets the virtual time of the lines to come, in microseconds.
    pub fn set_time(&self, now: u64) {
        self.with(|kept| kept.now = now);
    }

    /// Adds a line, if lines are kept.
    pub fn say(&self, line: impl FnOnce() -> String) {
        self.with(|kept| {
            if kept.most == 0 {
                return;
            }
            if kept.lines.len() == kept.most {
                kept.lines.pop_front();
            }
            let line = format!("{:>12} {}", kept.now, line());
            kept.lines.push_back(line);
        });
    }

    /// Returns the lines that were kept.
    pub fn lines(&self) -> Vec<String> {
        self.with(|kept| kept.lines.iter().cloned().collect())
    }
}
