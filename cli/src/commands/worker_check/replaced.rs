//! The scenario in which a greater run of a claim replaces the one that goes on, and the earlier one comes late once more.

use std::time::Instant;

use super::{
    rules::{REPLACED, Rule, WORKS},
    scenarios::{SLACK, sleeps},
    script::Script,
    stand_in_store::StandInStore,
};

/// A server starts a run again when an exchange reaches it late that was sent before the worker had the run.
#[derive(Default)]
pub(super) struct Replaced {
    is_replaced: bool,
    /// When the start of the earlier run was sent again.
    late: Option<Instant>,
}

impl Script for Replaced {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(60_000));
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        let task = &mut store.tasks[0];
        if !task.is_live() {
            store.breaks(REPLACED, "the run that has replaced another one was ended");
            return true;
        }
        if !task.is_running() {
            return false;
        }
        if !self.is_replaced {
            task.replace();
            self.is_replaced = true;
            return false;
        }
        let Some(earlier) = &mut task.earlier else {
            return false;
        };
        let Some(late) = self.late else {
            (earlier.is_due, self.late) = (true, Some(Instant::now()));
            return false;
        };
        if earlier.is_due || late.elapsed() < 2 * SLACK {
            return false;
        }
        let mut findings = Vec::new();
        if earlier.starts() > 1 {
            findings.push("a late answer has started a run again that a greater one has replaced");
        } else if earlier.goes_on_after(late + SLACK) {
            findings
                .push("the handler of a run goes on that a greater run of its claim has replaced");
        }
        if !task.goes_on_after(late + SLACK) {
            findings
                .push("a late answer with an earlier run has ended the handler of the present one");
        }
        for finding in findings {
            store.breaks(REPLACED, finding);
        }
        true
    }

    fn late(&self) -> (Rule, String) {
        match self.is_replaced {
            true => (
                REPLACED,
                "it has not started the run that replaces another one".to_owned(),
            ),
            false => (WORKS, "it has not started a handler".to_owned()),
        }
    }
}
