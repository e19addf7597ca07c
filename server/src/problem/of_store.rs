//! The errors of a store as answers show them.

use windlass::store::{Error, Part, Reason, Refusal, Refusals};

/// Returns whether an error says that the id of a transaction or of a command was used with another content. A store gets ids
/// that are valid, so its errors about them say nothing else.
pub(crate) fn is_id_used(error: &Error) -> bool {
    let is_of_id = |field: &str| matches!(field, "transaction id" | "command id");
    match error {
        Error::Invalid(invalid) => is_of_id(invalid.field()),
        Error::Refused(refusals) => refusals.iter().any(
            |one| matches!(&one.reason, Reason::Invalid(invalid) if is_of_id(invalid.field())),
        ),
        _ => false,
    }
}

/// Returns whether an error says that the present state of a task or schedule does not allow an operation: a retry of a live
/// task, a resume of a schedule that is not paused. The states of a filter are checked before a store gets them.
pub(super) fn is_of_state(error: &Error) -> bool {
    matches!(error, Error::Invalid(invalid) if invalid.field() == "state")
}

/// Returns an error without the reason why a record cannot be read, which may quote a value that is masked. The task itself
/// has it in `quarantined`.
pub(crate) fn without_text(error: Error) -> Error {
    let reason = "GET /v1/tasks/ID says why, in 'quarantined'";
    match error {
        Error::Corrupt { what, .. } if !what.starts_with("token") && !what.starts_with("mask") => {
            let reason = reason.to_owned();
            Error::Corrupt { what, reason }
        }
        Error::Refused(refusals)
            if refusals
                .iter()
                .any(|one| matches!(one.reason, Reason::Unreadable(_))) =>
        {
            let refusals = refusals.iter().cloned().map(|mut refusal| {
                if let Reason::Unreadable(text) = &mut refusal.reason {
                    reason.clone_into(text);
                }
                refusal
            });
            Error::Refused(Refusals::new(refusals.collect()))
        }
        error => error,
    }
}

/// Returns the error that an operation has outside of a transaction, if a single one was refused.
pub(super) fn alone(refusals: &Refusals) -> Option<Error> {
    let mut all = refusals.iter();
    let (Some(one), None) = (all.next(), all.next()) else {
        return None;
    };
    let name = one.task.to_string();
    Some(match &one.reason {
        Reason::Missing => Error::NotFound { what: "task", name },
        Reason::Exists { difference } => Error::AlreadyExists {
            what: "task",
            name,
            difference: difference.clone(),
        },
        Reason::Finished { difference } => Error::AlreadyFinished {
            task: one.task.clone(),
            difference: difference.clone(),
        },
        Reason::Claimed => Error::Claimed(one.task.clone()),
        Reason::NotUnique { key, task, until } => Error::NotUnique {
            key: key.clone(),
            task: task.clone(),
            until: *until,
        },
        Reason::Invalid(invalid) => invalid.clone().into(),
        Reason::TooLarge {
            field,
            bytes,
            limit,
        } => Error::too_large(field, *bytes, *limit),
        _ => return of_retry(one),
    })
}

/// Returns the error of a retry of a live task, if a refusal is one: no other operation needs an ended task.
pub(crate) fn of_retry(one: &Refusal) -> Option<Error> {
    let Reason::State { is, required } = &one.reason else {
        return None;
    };
    let is_operation = matches!(one.part, Part::Operation(_));
    let needs_end = required.iter().all(|state| state.is_terminal());
    (is_operation && needs_end).then(|| Error::not_retried(*is))
}

/// Returns the text of an error, with what a request can do about it.
pub(super) fn detail(error: &Error) -> String {
    let then = match error {
        Error::AlreadyExists { what: "task", .. } => {
            "; with \"if_exists\":\"same\" it counts as submitted, with \"replace-waiting\" one that waits gets the new props"
        }
        Error::AlreadyFinished { .. } => {
            " (POST /v1/tasks/ID/retry, or a submit with \"if_exists\":\"replace-finished\")"
        }
        Error::Claimed(_) => " (DELETE /v1/tasks/ID?force=true)",
        Error::ScheduleEnded(_) => " (PATCH /v1/schedules/ID updates one)",
        Error::NotASchedule { .. } => "; /v1/tasks/ID has the requests of tasks",
        Error::Copied(_) => " (the option --use-copied of `windlass` removes it)",
        Error::NotUnique { .. } => "; with \"if_exists\":\"same\" that task counts as submitted",
        _ => "",
    };
    format!("{error}{then}")
}
