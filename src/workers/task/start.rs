//! The start of a run, as the worker gets it.

use std::time::Duration;

use windlass_statemachine::{
    machine::Env,
    waits::{Waited, Waits},
};

use super::{
    super::protocol::{Awaited, Signalled, Start},
    RemoteTask, Starting,
};
use crate::telemetry::FirstStart;

impl RemoteTask {
    /// Notes a claim of this process, which counts when its run is sent.
    pub(in crate::workers) fn counts(&mut self, first: FirstStart) {
        self.first_start = Some(first);
    }

    /// Returns the run to send, once for each request that may carry it.
    pub(in crate::workers) fn take_start(&mut self, seq: u64, env: Env) -> Option<Start> {
        // The run before may still go on: it is stopped first. A run that is to end is not sent, even if the server before may
        // have sent it.
        if self.over.is_some() || self.is_to_end() {
            return None;
        }
        let start = self.start.as_mut().filter(|start| start.sent.is_none())?;
        start.sent = Some(seq);
        if let Some(first) = self.first_start.take() {
            first.count();
        }
        self.began = Some((start.run, env.elapsed));
        let Starting { run, attempt, .. } = *start;
        let state = self.machine.state();
        let waits = state.waits.as_deref();
        let end_by = state.deadlines.as_ref().and_then(|all| all.end_by);
        let ends_in = end_by.map(|at| Duration::try_from(at.duration_since(env.now)));
        Some(Start {
            id: self.task.id.clone(),
            fence: self.claim.fence,
            run,
            now: env.now,
            kind: self.task.kind.clone(),
            props: self.task.props.clone(),
            data: state.data.clone(),
            data_version: state.data_version,
            labels: self.task.labels.clone(),
            meta: self.task.meta.clone(),
            attempt,
            incarnation: state.incarnation,
            n: state.reported().saturating_add(1),
            signals: self.signalled(run, 0),
            waited: waits.map_or_else(Vec::new, waited),
            awaited_signal: state.awaited_signal.as_deref().map(|signal| Awaited {
                name: signal.name().to_owned(),
                expired: signal.expired(),
            }),
            wait_expired: state.wait_expired(),
            last_error: state.errors.last().cloned(),
            grace_ms: self.grace.as_millis() as u64,
            ends_in_ms: ends_in.map(|left| left.unwrap_or_default().as_millis() as u64),
        })
    }

    pub(super) fn signalled(&self, run: u64, after: u64) -> Vec<Signalled> {
        let new = self.signals.iter().filter(|(order, _)| *order > after);
        let new = new.map(|(order, command)| Signalled {
            id: self.task.id.clone(),
            fence: self.claim.fence,
            run,
            order: *order,
            command: command.clone(),
        });
        new.collect()
    }
}

/// Returns the outcomes of the tasks that were waited for.
fn waited(waits: &Waits) -> Vec<Waited> {
    let all = waits
        .tasks
        .iter()
        .cloned()
        .zip(waits.outcomes.iter().copied());
    all.map(|(task, outcome)| Waited::new(task, outcome))
        .collect()
}
