//! Why tasks that wait for others are not run, once these have ended.

use std::{borrow::Cow, collections::HashMap};

use windlass::{
    Client, TaskId, TaskState, TaskStatus,
    store::{Error, TaskRecord},
};

use crate::exit::Failure;

/// Returns the records of tasks that wait for no live task as those of tasks that may be claimed, so that
/// [`WaitReason`](windlass::client::WaitReason) tells what else holds them back. Reads at most `most` tasks; the
/// records of which it knows too little stay as they are.
pub(crate) async fn unblocked<'r>(
    client: &Client,
    records: &'r [TaskRecord],
    most: usize,
) -> Result<Vec<Cow<'r, TaskRecord>>, Failure> {
    let mut is_live: HashMap<TaskId, bool> = HashMap::new();
    let mut changed = Vec::with_capacity(records.len());
    for record in records {
        let mut is_blocked = false;
        for id in waits_for(record) {
            is_blocked = match is_live.get(id) {
                Some(is_live) => *is_live,
                None if is_live.len() == most => true,
                None => {
                    let found = look(client, id).await?;
                    is_live.insert(id.clone(), found);
                    found
                }
            };
            if is_blocked {
                break;
            }
        }
        changed.push(match &record.state {
            Ok(state) if state.is_waiting() && !is_blocked => {
                let mut runnable = record.clone();
                let mut state = state.clone();
                state.status = TaskStatus::Runnable;
                runnable.state = Ok(state);
                Cow::Owned(runnable)
            }
            _ => Cow::Borrowed(record),
        });
    }
    Ok(changed)
}

fn waits_for(record: &TaskRecord) -> &[TaskId] {
    let state = record.state.as_ref().ok();
    let state: Option<&TaskState> = state.filter(|state| state.is_waiting());
    let waits = state.and_then(|state| state.waits.as_deref());
    waits.map_or(&[], |waits| &waits.tasks)
}

/// Returns whether a task is live: one that cannot be read is.
async fn look(client: &Client, id: &TaskId) -> Result<bool, Failure> {
    match client.get(id).await {
        Ok(record) => {
            Ok(record.state.is_err() || record.state.is_ok_and(|s| !s.code().is_terminal()))
        }
        Err(Error::NotFound { .. }) => Ok(false),
        Err(Error::Corrupt { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
