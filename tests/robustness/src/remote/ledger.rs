//! [`Ledger`]: what the handlers of remote workers saw, and what is wrong with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use windlass::workers::protocol::Start;

/// The name of a run: task, fence and version.
type Name = (String, u64, u64);

/// What the handlers of all workers saw.
#[derive(Debug, Default)]
pub struct Ledger {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    started: BTreeSet<Name>,
    running: BTreeMap<String, Name>,
    /// The greatest step of each task whose checkpoint was acknowledged.
    acknowledged: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the start of a run that continues after this step.
    pub fn starts(&self, start: &Start, step: u64) {
        let name = (start.id.to_string(), start.fence.0, start.run);
        let mut pages = self.lock();
        if !pages.started.insert(name.clone()) {
            pages.wrong.push(format!("{name:?} was started twice"));
        }
        if let Some(other) = pages.running.insert(name.0.clone(), name.clone()) {
            pages
                .wrong
                .push(format!("{name:?} was started while {other:?} was running"));
        }
        let acknowledged = pages.acknowledged.get(&name.0).copied().unwrap_or(0);
        if step < acknowledged {
            pages.wrong.push(format!(
                "{name:?} starts after step {step}, and step {acknowledged} was acknowledged"
            ));
        }
        if start.attempt != 1 {
            let attempt = start.attempt;
            pages.wrong.push(format!(
                "{name:?} is attempt {attempt}, and no attempt has failed"
            ));
        }
    }

    /// Notes that a checkpoint of this step was acknowledged.
    pub fn acknowledged(&self, start: &Start, step: u64) {
        let mut pages = self.lock();
        let last = pages.acknowledged.entry(start.id.to_string()).or_default();
        *last = step.max(*last);
    }

    /// Notes the end of a run.
    pub fn ends(&self, start: &Start) {
        let name = (start.id.to_string(), start.fence.0, start.run);
        let mut pages = self.lock();
        if pages.running.get(&name.0) == Some(&name) {
            pages.running.remove(&name.0);
        }
    }

    /// Returns how many runs were started, and what was wrong.
    pub fn close(&self) -> (usize, Vec<String>) {
        let pages = self.lock();
        (pages.started.len(), pages.wrong.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(fence: u64, run: u64, attempt: u32) -> Start {
        let text = format!(
            r#"{{"id":"t","fence":{fence},"run":{run},"kind":"k","props":null,"data_version":1,"attempt":{attempt},
            "incarnation":0,"n":1,"grace_ms":1,"now":"2030-01-01T00:00:00Z"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn each_wrong_thing_is_named() {
        let found = |runs: &[(Start, u64, bool)]| {
            let ledger = Ledger::default();
            for (start, step, ends) in runs {
                ledger.starts(start, *step);
                ledger.acknowledged(start, 3);
                if *ends {
                    ledger.ends(start);
                }
            }
            ledger.close().1.join("; ")
        };
        assert_eq!(
            found(&[(start(1, 1, 1), 0, true), (start(1, 5, 1), 3, true)]),
            ""
        );
        let twice = found(&[(start(1, 1, 1), 0, true), (start(1, 1, 1), 3, true)]);
        assert!(twice.contains("started twice"), "{twice}");
        let beside = found(&[(start(1, 1, 1), 0, false), (start(2, 4, 1), 3, true)]);
        assert!(beside.contains("was running"), "{beside}");
        let lost = found(&[(start(1, 1, 1), 0, true), (start(1, 5, 1), 2, true)]);
        assert!(lost.contains("step 3 was acknowledged"), "{lost}");
        let counted = found(&[(start(1, 1, 2), 0, true)]);
        assert!(counted.contains("attempt 2"), "{counted}");
    }
}
