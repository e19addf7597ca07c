//! Submits: new tasks, and those that replace an ended one.

use jiff::Timestamp;
use windlass_statemachine::Author;

use crate::store::{
    Error, Submit, Submitted,
    etcd::{
        edits::Edits,
        schema::{Snapshot, numbers::place_of},
        write::{Tries, Wrote},
    },
    rules::{
        self,
        kept_time::kept,
        submit::{Taken, Verdict},
    },
};

const OPERATION: &str = "submit a task";

/// Submits tasks.
pub(crate) struct Submits {
    pub(crate) edits: Edits,
    pub(crate) max_bytes: usize,
}

impl Submits {
    pub(crate) async fn submit(
        &self,
        submit: Submit,
        by: Option<&Author>,
    ) -> Result<Submitted, Error> {
        let (clearing, task) = (&self.edits.clearing, &submit.task);
        rules::submit::check(&submit, self.max_bytes)?;
        let access = &clearing.access;
        let mut tries = Tries::new(&access.pipeline, OPERATION);
        // The time and the place of each submit without an answer. The task keeps both until its
        // end, which may come before the next read.
        let mut unknown: Vec<(Timestamp, u32)> = Vec::new();
        // The first try reads nothing: it compares that the id is free.
        let mut found: Option<Snapshot> = None;
        let mut left = None;
        let submitted = loop {
            if found.as_ref().is_some_and(|found| is_of(found, &unknown)) {
                break Submitted::New;
            }
            if let Some(found) = found.as_ref().filter(|found| found.exists())
                && let Verdict::Existing(code) = there(&submit, found)?
            {
                return Ok(Submitted::Existing(code));
            }
            let (mut item, now) = (access.item(&task.id, 1).by(by), access.now());
            let place = item.place;
            let old = found.take().filter(|found| found.finished.is_some());
            let pointers = clearing.pointers_at_once();
            left = self
                .edits
                .submit(&mut item, task, old.as_ref(), now, pointers)
                .await?;
            match tries.write(item).await? {
                Wrote::At(_) => break Submitted::New,
                Wrote::Nothing => {}
                Wrote::Unknown => unknown.push((now, place)),
            }
            found = Some(Box::pin(access.reader.found(&task.id, OPERATION)).await?);
        };
        if let Some(left) = left {
            clearing.drop_pointers(&task.id, left).await;
        }
        Ok(submitted)
    }
}

/// Returns whether the task with the id, live or ended, was submitted by one of these tries.
fn is_of(found: &Snapshot, tries: &[(Timestamp, u32)]) -> bool {
    let Ok((envelope, order)) = found.envelope() else {
        return false;
    };
    let mut tries = tries.iter();
    tries.any(|(at, place)| envelope.submitted_at == Some(kept(*at)) && place_of(order) == *place)
}

/// Decides a submit when the found task has its id.
pub(crate) fn there(submit: &Submit, found: &Snapshot) -> Result<Verdict, Error> {
    let id = &submit.task.id;
    let task = found.whole_task(id).ok();
    let code = match (found.quarantined(), found.state()) {
        (None, Ok((state, _))) => Ok(state.code()),
        (Some(reason), _) | (None, Err(reason)) => Err(Error::corrupt_task(id, reason)),
    };
    let taken = Taken {
        has_ended: found.task.is_none(),
        task: task.as_ref(),
        code,
        // A submit that replaces a waiting task is decided with all that it names.
        is_waiting: false,
    };
    rules::submit::decide(submit, taken)
}
