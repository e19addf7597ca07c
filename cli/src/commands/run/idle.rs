//! [`Idle`]: names what a run waits for while none of its commands runs.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use windlass::{
    TaskId, TaskStatus,
    client::WaitReason,
    store::{Error, NodeRecord, TaskRecord},
};

use super::{batch::Batch, live::Live};
use crate::{exit::Failure, hint::Hint, view::due};

/// How long nothing runs before the run says what it waits for.
const AFTER: Duration = Duration::from_secs(5);
/// The shortest time between two such lines.
const AGAIN: Duration = Duration::from_secs(30);
/// How many tasks are looked at, at most.
const LOOKS: usize = 3;

/// When the last task of the run changed, and when the run said last what it waits for.
pub(super) struct Idle {
    changed: Instant,
    said: Option<Instant>,
}

impl Idle {
    pub(super) fn new(now: Instant) -> Self {
        let said = None;
        Self { changed: now, said }
    }

    /// A task of the run has changed, or one runs.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed = now;
    }

    /// Returns whether it is time to say what the run waits for.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due =
            now - self.changed >= AFTER && self.said.is_none_or(|said| now - said >= AGAIN);
        if is_due {
            self.said = Some(now);
        }
        is_due
    }
}

/// Returns what a task waits for, given the live nodes.
fn reason(
    record: &TaskRecord,
    nodes: &[NodeRecord],
    now: Timestamp,
    hint: &Hint,
) -> Option<String> {
    if let Some(reason) = WaitReason::of(record, nodes, now) {
        return Some(reason.to_string());
    }
    let state = record.state.as_ref().ok()?;
    match &state.status {
        TaskStatus::Sleeping { until } => {
            Some(format!("it sleeps, its time is {}", due(*until, now)))
        }
        TaskStatus::Paused => {
            let resume = hint.on_task("resume", &record.task.id);
            Some(format!("it is paused: `{resume}` lets it go on"))
        }
        _ => None,
    }
}

impl Batch {
    /// Says what the run waits for, when nothing has run for some time. Where the store does not answer,
    /// it says nothing: that is reported elsewhere.
    pub(super) async fn name_the_wait(&mut self, running: usize) -> Result<(), Failure> {
        let now = Instant::now();
        if running > 0 || self.live.is_empty() {
            self.idle.changed(now);
            return Ok(());
        }
        if !self.idle.is_due(now) {
            return Ok(());
        }
        // A task that waits for others of the run says less than those.
        let key = |(_, live): &(&TaskId, &Live)| (live.is_blocked(), live.first);
        let mut first: Vec<_> = self.live.iter().collect();
        first.sort_unstable_by_key(key);
        let first = first.into_iter().take(LOOKS);
        let first: Vec<_> = first.map(|(id, live)| (id.clone(), live.first)).collect();
        let nodes = match self.client.nodes().await {
            Ok(nodes) => nodes,
            Err(e) if e.is_retryable() => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let clock = self.client.store().clock().clone();
        for (id, line) in first {
            let record = match self.client.get(&id).await {
                Ok(record) => record,
                Err(Error::NotFound { .. }) => continue,
                Err(e) if e.is_retryable() => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            if let Some(reason) = reason(&record, &nodes, clock.now(), &self.hint) {
                self.report.idle(self.live.len(), (line, &id), &reason);
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_named_after_a_while_and_not_often() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut idle = Idle::new(start);
        assert!(!idle.is_due(at(4)));
        idle.changed(at(4));
        assert!(!idle.is_due(at(8)));
        assert!(idle.is_due(at(9)));
        assert!(!idle.is_due(at(20)));
        idle.changed(at(30));
        assert!(!idle.is_due(at(34)));
        assert!(!idle.is_due(at(38)), "not more often than every 30 s");
        assert!(idle.is_due(at(39)));
    }
}
