//! Reports what a run waits for while none of its commands runs.

use jiff::Timestamp;
use tokio::time::Instant;
use windlass::{
    TaskId, TaskStatus,
    client::WaitReason,
    store::{Error, TaskRecord},
};

use super::{batch::Batch, live::Live};
use crate::{exit::Failure, hint::Hint, view::due};

/// The most tasks that are examined.
const LOOKS: usize = 3;

/// Returns what a task waits for, given the reason why it is not run.
fn reason(
    record: &TaskRecord,
    waits: Option<WaitReason>,
    now: Timestamp,
    hint: &Hint,
) -> Option<String> {
    if let Some(reason) = waits {
        return Some(reason.to_string());
    }
    let state = record.state.as_ref().ok()?;
    match &state.status {
        TaskStatus::Sleeping { until } => {
            Some(format!("it sleeps, its time is {}", due(*until, now)))
        }
        TaskStatus::Paused => {
            let resume = hint.on_task("resume", &record.task.id);
            Some(format!("it is paused: `{resume}` lets it continue"))
        }
        _ => None,
    }
}

impl Batch {
    /// Reports what the run waits for when nothing has run for some time. Reports nothing if the store
    /// does not respond, which is reported elsewhere.
    pub(super) async fn name_the_wait(&mut self, running: usize) -> Result<(), Failure> {
        let now = Instant::now();
        if running > 0 || self.live.is_empty() {
            self.idle.changed(now);
            return Ok(());
        }
        if !self.idle.is_due(now) {
            return Ok(());
        }
        // A task that waits for other tasks of the run is less informative than those.
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
            let one = std::slice::from_ref(&record);
            let waits = match self.client.wait_reasons(one, &nodes).await {
                Ok(mut reasons) => reasons.pop().flatten(),
                Err(e) if e.is_retryable() => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            if let Some(reason) = reason(&record, waits, clock.now(), &self.hint) {
                self.report.idle(self.live.len(), (line, &id), &reason);
                return Ok(());
            }
        }
        Ok(())
    }
}
