//! [`Ledger`]: what the handlers of remote workers have seen, and what is wrong with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use windlass::workers::protocol::Start;

use crate::locked;

/// A run: task, fence and version.
type Name = (String, u64, u64);

/// The runs of all workers. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Ledger(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    started: BTreeSet<Name>,
    /// The run of each task that goes on, with the process of its worker.
    running: BTreeMap<String, (Name, u32)>,
    /// The last step of each incarnation of a task that was acknowledged.
    acknowledged: BTreeMap<(String, u32), u64>,
    /// Whether a worker was killed, or its lease may have ended: attempts may have failed.
    is_worker_lost: bool,
    wrong: Vec<String>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        locked(&self.0)
    }

    /// Notes the start of a run in a process, after this step.
    pub(super) fn starts(&self, start: &Start, pid: u32, step: u64) {
        let name = (start.id.to_string(), start.fence.0, start.run);
        let mut pages = self.lock();
        if !pages.started.insert(name.clone()) {
            pages.wrong.push(format!("{name:?} was started twice"));
        }
        let before = pages.running.insert(name.0.clone(), (name.clone(), pid));
        if let Some((before, _)) = before {
            let why = format!("{name:?} was started while {before:?} was running");
            pages.wrong.push(why);
        }
        let of = (name.0.clone(), start.incarnation);
        let acknowledged = pages.acknowledged.get(&of).copied().unwrap_or(0);
        if step < acknowledged {
            pages.wrong.push(format!(
                "{name:?} starts after step {step}, and step {acknowledged} was acknowledged"
            ));
        }
        if start.attempt != 1 && !pages.is_worker_lost {
            let attempt = start.attempt;
            let why = format!("{name:?} is attempt {attempt}, and no attempt has failed");
            pages.wrong.push(why);
        }
    }

    /// Notes that this step was acknowledged.
    pub(super) fn acknowledged(&self, start: &Start, step: u64) {
        let mut pages = self.lock();
        let of = (start.id.to_string(), start.incarnation);
        let last = pages.acknowledged.entry(of).or_default();
        *last = step.max(*last);
    }

    /// Notes the end of a run.
    pub(super) fn ends(&self, start: &Start) {
        let name = (start.id.to_string(), start.fence.0, start.run);
        let mut pages = self.lock();
        let is_it = |(running, _): &(Name, u32)| *running == name;
        if pages.running.get(&name.0).is_some_and(is_it) {
            pages.running.remove(&name.0);
        }
    }

    /// Notes that a worker was killed: its handlers have ended.
    pub(in crate::run) fn killed(&self, pid: u32) {
        let mut pages = self.lock();
        pages.running.retain(|_, (_, of)| *of != pid);
        // Its attempts count, also those whose runs it has not got yet.
        pages.is_worker_lost = true;
    }

    /// Notes that the lease of a worker may have ended, as no request of the worker has renewed it.
    pub(super) fn lapsed(&self) {
        self.lock().is_worker_lost = true;
    }

    /// Returns how many runs were started, and what was wrong.
    pub(in crate::run) fn close(&self) -> (usize, Vec<String>) {
        let pages = self.lock();
        (pages.started.len(), pages.wrong.clone())
    }
}
