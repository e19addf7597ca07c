//! The terms of a task: reads, sets and checks them.

use super::Task;
use crate::{
    Invalid,
    terms::{Terms, check_limits},
};

impl Task {
    /// Returns the terms of the task; `None` when it has none.
    pub fn terms(&self) -> Option<Terms> {
        let terms = Terms {
            limits: self.limits.clone(),
            start_by: self.start_by,
            end_by: self.end_by,
            unique: self.unique.clone(),
            meta: self.meta.clone(),
            free_id: self.free_id,
        };
        (terms != Terms::default()).then_some(terms)
    }

    /// Sets the terms of the task.
    pub fn set_terms(&mut self, terms: Terms) {
        self.limits = terms.limits;
        self.start_by = terms.start_by;
        self.end_by = terms.end_by;
        self.unique = terms.unique;
        self.meta = terms.meta;
        self.free_id = terms.free_id;
    }

    /// Checks that the terms fit together.
    pub(crate) fn check_terms(&self) -> Result<(), Invalid> {
        check_limits(&self.limits)?;
        let starts = self.start_at;
        for (field, at) in [("start_by", self.start_by), ("end_by", self.end_by)] {
            if let (Some(at), Some(starts)) = (at, starts)
                && at < starts
            {
                let reason = format!("{at} is before start_at {starts}; give a later time");
                return Err(Invalid::new(field, reason));
            }
        }
        match (self.start_by, self.end_by) {
            (Some(start), Some(end)) if end < start => {
                let reason = format!("{end} is before start_by {start}; give a later time");
                Err(Invalid::new("end_by", reason))
            }
            _ => Ok(()),
        }
    }
}
