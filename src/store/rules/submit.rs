//! What a submit does when its id exists.

use windlass_statemachine::{Invalid, Kind, StateKind, Task, TaskId};

use super::size;
use crate::{
    schedule::check::check_props,
    store::{Error, IfExists, Submit},
};

/// The task that has the id of the submit.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    /// Whether it has ended. For an unreadable task: `false`, unless the store knows of its end
    /// without the record.
    pub(crate) has_ended: bool,
    /// The task; `None` when its envelope cannot be read.
    pub(crate) task: Option<&'a Task>,
    /// Its state, or the error why it cannot be read.
    pub(crate) code: Result<StateKind, Error>,
    /// Whether it waits for its time without a claim.
    pub(crate) is_waiting: bool,
}

/// What a submit does with the existing task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Accepts the task, which is in this state.
    Existing(StateKind),
    /// Replaces the ended task by the new one.
    Replace,
    /// Replaces the props and the time of the waiting task.
    Update,
}

/// Returns whether the task has completed and has a free id then ([`Task::free_id`]).
fn is_free(taken: &Taken<'_>) -> bool {
    taken.has_ended
        && matches!(taken.code, Ok(StateKind::Completed))
        && taken.task.is_some_and(|task| task.free_id)
}

/// Checks a submit on its own, whichever way it comes.
///
/// # Errors
///
/// - Those of [`size::check_task`].
/// - [`Error::Invalid`] (field `props`) for a schedule whose props are not those of one.
/// - [`Error::Invalid`] (field `after` or `paused`) for a submit that replaces a waiting task
///   ([`IfExists::ReplaceWaiting`]) and has terms that a task which already waits for a time cannot get.
pub(crate) fn check(submit: &Submit, max_bytes: usize) -> Result<(), Error> {
    size::check_task(&submit.task, max_bytes)?;
    check_props(&submit.task)?;
    let field = match &submit.task {
        _ if submit.if_exists != IfExists::ReplaceWaiting => return Ok(()),
        task if task.waits.is_some() => "after",
        task if task.paused => "paused",
        _ => return Ok(()),
    };
    let reason = "is not possible in a submit that replaces a waiting task, which gets its props and its time only; \
                  leave out one of them";
    Err(Invalid::new(field, reason).into())
}

/// Decides on a submit whose id exists.
///
/// # Errors
///
/// [`Error::AlreadyExists`] for a live task, [`Error::AlreadyFinished`] for an ended one;
/// [`Error::Corrupt`] when the existing task would be accepted, but its state cannot be read.
pub(crate) fn decide(submit: &Submit, taken: Taken<'_>) -> Result<Verdict, Error> {
    if is_free(&taken) {
        return Ok(Verdict::Replace);
    }
    decide_kept(submit, taken)
}

/// As [`decide`], for a task whose id stays taken: the free id of a completed task frees nothing else that the task
/// holds.
///
/// # Errors
///
/// As [`decide`].
pub(super) fn decide_kept(submit: &Submit, taken: Taken<'_>) -> Result<Verdict, Error> {
    let is_same = |task: &Task| task.is_same_work(&submit.task);
    // Only the operations of schedules change a schedule.
    let is_of_kind =
        |task: &Task| task.kind == submit.task.kind && task.kind.as_str() != Kind::SCHEDULE;
    match submit.if_exists {
        IfExists::Same if taken.task.is_some_and(is_same) => taken.code.map(Verdict::Existing),
        IfExists::Skip => taken.code.map(Verdict::Existing),
        IfExists::ReplaceFinished | IfExists::ReplaceWaiting if taken.has_ended => {
            Ok(Verdict::Replace)
        }
        IfExists::ReplaceWaiting if taken.is_waiting && taken.task.is_some_and(is_of_kind) => {
            Ok(Verdict::Update)
        }
        IfExists::Same => Err(match taken.task {
            Some(there) if taken.has_ended => Error::other_task_finished(there, &submit.task),
            Some(there) => Error::other_task_exists(there, &submit.task),
            None => refused(&submit.task.id, taken.has_ended),
        }),
        _ => Err(refused(&submit.task.id, taken.has_ended)),
    }
}

/// Returns the error for an id that exists.
pub(crate) fn refused(id: &TaskId, has_ended: bool) -> Error {
    match has_ended {
        true => Error::finished(id),
        false => Error::task_exists(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(kind: &str) -> Task {
        Task::new("a".parse().unwrap(), kind.parse().unwrap())
    }

    fn decided(if_exists: IfExists, kind: &str, code: Option<StateKind>) -> String {
        let (there, task) = (task("k"), task(kind));
        let unreadable = || Error::corrupt_task(&there.id, "no JSON");
        let taken = Taken {
            has_ended: code.is_some_and(StateKind::is_terminal),
            task: Some(&there),
            code: code.ok_or_else(unreadable),
            is_waiting: code == Some(StateKind::Sleeping),
        };
        match decide(&Submit { task, if_exists }, taken) {
            Ok(Verdict::Existing(code)) => format!("existing {code}"),
            Ok(Verdict::Replace) => "replace".into(),
            Ok(Verdict::Update) => "update".into(),
            Err(Error::AlreadyExists { .. }) => "exists".into(),
            Err(Error::AlreadyFinished { .. }) => "finished".into(),
            Err(Error::Corrupt { .. }) => "corrupt".into(),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_rule_meets_every_task() {
        use IfExists::{Refuse, ReplaceFinished, ReplaceWaiting, Same, Skip};
        let (live, ended) = (Some(StateKind::Runnable), Some(StateKind::Failed));
        for (if_exists, kind, code, expected) in [
            (Refuse, "k", live, "exists"),
            (Refuse, "k", ended, "finished"),
            (Refuse, "k", None, "exists"),
            (Same, "k", live, "existing runnable"),
            (Same, "k", ended, "existing failed"),
            (Same, "k", None, "corrupt"),
            (Same, "other", live, "exists"),
            (Same, "other", ended, "finished"),
            (Same, "other", None, "exists"),
            (ReplaceFinished, "k", live, "exists"),
            (ReplaceFinished, "k", ended, "replace"),
            (ReplaceFinished, "k", None, "exists"),
            (ReplaceWaiting, "k", live, "exists"),
            (ReplaceWaiting, "k", Some(StateKind::Sleeping), "update"),
            (ReplaceWaiting, "other", Some(StateKind::Sleeping), "exists"),
            (ReplaceWaiting, "other", ended, "replace"),
            (ReplaceWaiting, "k", None, "exists"),
            (Skip, "other", live, "existing runnable"),
            (Skip, "other", ended, "existing failed"),
            (Skip, "other", None, "corrupt"),
        ] {
            let got = decided(if_exists, kind, code);
            assert_eq!(got, expected, "{if_exists:?} {kind} {code:?}");
        }
    }

    /// The text was that of a submit that accepts no task, so it did not say why this one was refused.
    #[test]
    fn a_submit_of_the_same_work_learns_how_the_task_differs() {
        let there = task("k");
        let refused = |new: Task| {
            let taken = Taken {
                has_ended: false,
                task: Some(&there),
                code: Ok(StateKind::Runnable),
                is_waiting: false,
            };
            let submit = Submit {
                task: new,
                if_exists: IfExists::Same,
            };
            decide(&submit, taken).unwrap_err().to_string()
        };
        let mut other = task("k");
        other.props = serde_json::json!(1).into();
        let text = "task 'a' exists already; its props are others";
        assert_eq!(refused(other), text);
        let text = "task 'a' exists already; its kind is 'k', not 'l'";
        assert_eq!(refused(task("l")), text);
    }

    #[test]
    fn every_submit_replaces_a_completed_task_whose_id_is_free() {
        let mut there = task("k");
        there.free_id = true;
        let all = [
            IfExists::Refuse,
            IfExists::Same,
            IfExists::ReplaceFinished,
            IfExists::Skip,
        ];
        for (code, is_replaced) in [
            (StateKind::Completed, true),
            (StateKind::Failed, false),
            (StateKind::Killed, false),
            (StateKind::Runnable, false),
        ] {
            for if_exists in all {
                let taken = Taken {
                    has_ended: code.is_terminal(),
                    task: Some(&there),
                    code: Ok(code),
                    is_waiting: false,
                };
                let task = task("k");
                let got = decide(&Submit { task, if_exists }, taken).ok();
                let ends = if_exists == IfExists::ReplaceFinished && code.is_terminal();
                let replaces = got == Some(Verdict::Replace);
                assert_eq!(replaces, is_replaced || ends, "{if_exists:?} {code}");
            }
        }
    }

    #[test]
    fn a_task_whose_envelope_cannot_be_read_is_not_the_same() {
        let taken = Taken {
            has_ended: false,
            task: None,
            code: Ok(StateKind::Runnable),
            is_waiting: true,
        };
        let (task, if_exists) = (task("k"), IfExists::Same);
        let refused = decide(&Submit { task, if_exists }, taken).unwrap_err();
        assert!(
            matches!(refused, Error::AlreadyExists { .. }),
            "{refused:?}"
        );
    }
}
