//! [`LostTries`]: whether a try without an answer has applied an operation, from what its task shows.

use jiff::Timestamp;
use windlass_statemachine::TaskState;

use crate::store::{
    Done, Operation, Submitted,
    etcd::schema::{Snapshot, numbers::place_of},
    rules::{kept_time::kept, transaction::Step},
};

/// The tries of one operation that have no answer.
#[derive(Debug, Default)]
pub(crate) struct LostTries {
    /// The time and the place of each submit. The task keeps both until its end, which may come before the next read.
    submits: Vec<(Timestamp, u32)>,
    /// The state that the last retry wrote.
    retried: Option<TaskState>,
    has_deleted: bool,
}

impl LostTries {
    /// Notes a try of this step, at this time and this place in the numbers of the revision.
    pub(crate) fn note(&mut self, step: Step<'_>, now: Timestamp, place: u32) {
        match step {
            Step::Submit { .. } => self.submits.push((now, place)),
            Step::Retry { state, .. } => self.retried = Some(state),
            Step::Delete(_) => self.has_deleted = true,
            // A command is found by its id.
            Step::Send(_) | Step::Known(_) | Step::Reschedule { .. } => {}
        }
    }

    /// Returns the result of the operation, if its task as it was read since shows that a try has applied it.
    pub(crate) fn applied(&self, operation: &Operation, found: &Snapshot) -> Option<Done> {
        match operation {
            Operation::Submit(_) => {
                let is_new = self.is_of_a_submit(found);
                is_new.then_some(Done::Submitted(Submitted::New))
            }
            // The try started the task, which may even have ended since.
            Operation::Retry(_) => {
                let (tried, (is, _)) = (self.retried.as_ref()?, found.state().ok()?);
                let of = |state: &TaskState| (state.incarnation, state.version);
                (of(&is) >= of(tried)).then_some(Done::Retried)
            }
            Operation::Delete(_) => (self.has_deleted && !found.exists()).then_some(Done::Deleted),
            Operation::Send(_) | Operation::Reschedule(_) => None,
        }
    }

    /// Returns whether the task with the id, live or ended, was submitted by one of the tries.
    fn is_of_a_submit(&self, found: &Snapshot) -> bool {
        if self.submits.is_empty() {
            return false;
        }
        let Ok((envelope, order)) = found.envelope() else {
            return false;
        };
        let mut tries = self.submits.iter();
        tries.any(|(at, place)| {
            envelope.submitted_at == Some(kept(*at)) && place_of(order) == *place
        })
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Delete, RetryTask, Submit, Task, TaskId};

    use super::*;
    use crate::store::etcd::schema::KeyValue;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn id() -> TaskId {
        "a".parse().unwrap_or_else(|e| panic!("{e}"))
    }

    fn stored(text: &str) -> Snapshot {
        Snapshot {
            task: Some(KeyValue::new("task", text, 7)),
            ..Snapshot::default()
        }
    }

    fn lost(step: Step<'_>) -> LostTries {
        let mut lost = LostTries::default();
        lost.note(step, NOW, 5);
        lost
    }

    #[test]
    fn a_submit_without_an_answer_is_known_by_its_time_and_its_place() {
        let kind = "k".parse().unwrap_or_else(|e| panic!("{e}"));
        let submit = Submit::from(Task::new(id(), kind));
        let task = &submit.task;
        let lost = lost(Step::Submit {
            task,
            replaces: false,
        });
        let operation = Operation::Submit(submit.clone());
        let own = r#"{"kind":"k","submitted_at":"1970-01-01T00:00:00Z","place":5}"#;
        let new = Some(Done::Submitted(Submitted::New));
        assert_eq!(lost.applied(&operation, &stored(own)), new);
        let others = [
            own.replace(":5}", ":6}"),
            own.replace("00:00:00Z", "00:00:01Z"),
            "no JSON".to_owned(),
        ];
        for other in others {
            let found = stored(&other);
            assert_eq!(lost.applied(&operation, &found), None, "{other}");
        }
        let none = LostTries::default();
        assert_eq!(none.applied(&operation, &stored(own)), None);
    }

    #[test]
    fn a_retry_without_an_answer_is_known_by_the_incarnation_that_it_began() {
        let state = |incarnation, version| TaskState {
            incarnation,
            version,
            ..TaskState::new(NOW)
        };
        let retry = RetryTask::from(id());
        let lost = lost(Step::Retry {
            retry: &retry,
            state: state(2, 9),
            limits: None,
        });
        let operation = Operation::Retry(retry);
        let found = |state: &TaskState| Snapshot {
            state: serde_json::to_string(state)
                .ok()
                .map(|text| KeyValue::new("state", &text, 8)),
            ..stored(r#"{"kind":"k"}"#)
        };
        for (is, result) in [
            (state(1, 8), None),
            (state(2, 9), Some(Done::Retried)),
            (state(2, 11), Some(Done::Retried)),
            (state(3, 12), Some(Done::Retried)),
        ] {
            assert_eq!(lost.applied(&operation, &found(&is)), result, "{is:?}");
        }
        let none = LostTries::default();
        assert_eq!(none.applied(&operation, &found(&state(2, 9))), None);
    }

    #[test]
    fn a_deletion_without_an_answer_is_known_by_the_task_that_is_gone() {
        let delete = Delete::new(id());
        let lost = lost(Step::Delete(&delete));
        let operation = Operation::Delete(delete);
        let gone = Snapshot::default();
        assert_eq!(lost.applied(&operation, &gone), Some(Done::Deleted));
        let there = stored(r#"{"kind":"k"}"#);
        assert_eq!(lost.applied(&operation, &there), None);
        assert_eq!(LostTries::default().applied(&operation, &gone), None);
    }
}
