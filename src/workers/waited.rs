//! Results of the tasks that a run of a worker has waited for.

use std::sync::Arc;

use windlass_statemachine::{Invalid, NodeName, TaskStatus, Waited, Waits};

use super::{error::WorkerError, protocol::ReadWaited, secret, service::Service};
use crate::{
    client::{AIM, ById},
    store::{Error, TaskRecord},
};

/// The most tasks of one answer, which is also the default.
const MOST: u32 = 100;

/// Tasks that a run has waited for, as a store has them now.
#[derive(Debug)]
#[non_exhaustive]
pub struct WaitedRecords {
    /// The tasks from the place that was asked for, without their props; `None` for a task that does not exist.
    pub tasks: Vec<(Waited, Option<TaskRecord>)>,
    /// The place of the next task; `None` at the end.
    pub next: Option<u64>,
}

/// Reads the tasks. It ends early with the task with whose result the results have 1 MiB.
pub(super) async fn read(
    service: &Arc<Service>,
    name: &NodeName,
    request: &ReadWaited,
) -> Result<WaitedRecords, WorkerError> {
    let limit = request.limit.unwrap_or(MOST);
    if !(1..=MOST).contains(&limit) {
        let reason = format!("{limit} is not from 1 to {MOST}");
        return Err(Invalid::new("limit", reason).into());
    }
    let lease = service.record(name, &secret::hash(&request.secret)).await?;
    let lost = || WorkerError::Lost {
        task: request.id.clone(),
        fence: request.fence,
    };
    let record = match service.registry.get(&request.id).await {
        Ok(record) => record,
        Err(Error::NotFound { .. }) => return Err(lost()),
        Err(error) => return Err(WorkerError::Store(error)),
    };
    let holds = record.node.as_ref() == Some(&lease.lease.node) && record.fence == request.fence;
    let state = record.state.as_ref().ok().filter(|_| holds);
    let Some(state) = state.filter(|state| state.current_run() == request.run) else {
        return Err(lost());
    };
    let all = state.waits.as_deref().map_or_else(Vec::new, Waits::waited);
    let from = usize::try_from(request.from).unwrap_or(usize::MAX);
    let page = all.iter().skip(from).take(limit as usize);
    let mut found = ById::new(
        &service.registry,
        page.clone().map(|waited| waited.task.clone()),
    );
    let (mut tasks, mut bytes) = (Vec::new(), 0);
    for waited in page {
        let Some((_, record)) = found.next().await.map_err(WorkerError::Store)? else {
            break;
        };
        bytes += record.as_ref().map_or(0, shown_bytes);
        tasks.push((waited.clone(), record));
        if bytes >= AIM {
            break;
        }
    }
    let next = from.saturating_add(tasks.len());
    Ok(WaitedRecords {
        next: (next < all.len()).then_some(next as u64),
        tasks,
    })
}

/// Returns how many bytes of a task an answer has: its result, or its error.
fn shown_bytes(record: &TaskRecord) -> usize {
    let Ok(state) = &record.state else { return 0 };
    match &state.status {
        TaskStatus::Completed { result } => {
            result.as_ref().map_or(0, windlass_statemachine::Json::len)
        }
        _ => state.errors.last().map_or(0, |last| last.error.len()),
    }
}
