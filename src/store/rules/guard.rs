//! Decides whether a guard holds.

use windlass_statemachine::Json;

use super::facts::Present;
use crate::store::{Guard, Reason, Require};

/// Returns the reason why a guard does not hold.
pub(super) fn holds(guard: &Guard, present: Option<&Present>) -> Result<(), Reason> {
    let Some(present) = present else {
        return match guard.require {
            Require::Absent => Ok(()),
            _ => Err(Reason::Missing),
        };
    };
    match &guard.require {
        Require::Exists => Ok(()),
        Require::Absent => Err(Reason::exists()),
        Require::State(required) => match present.readable()?.code() {
            is if is == *required => Ok(()),
            is => Err(Reason::State {
                is,
                required: vec![*required],
            }),
        },
        Require::Version(required) => match present.readable()?.version {
            is if is == *required => Ok(()),
            is => Err(Reason::Version {
                is,
                required: *required,
            }),
        },
        Require::Fence(required) => match present.last.fence {
            is if is == *required => Ok(()),
            is => Err(Reason::Fence {
                is,
                required: *required,
            }),
        },
        Require::Order(required) => match &present.task {
            Err(reason) => Err(Reason::Unreadable(reason.clone())),
            Ok(_) if present.order == *required => Ok(()),
            Ok(_) => Err(Reason::Order {
                is: present.order,
                required: *required,
            }),
        },
        Require::Kind(required) => match &present.task {
            Err(reason) => Err(Reason::Unreadable(reason.clone())),
            Ok(task) if task.kind == *required => Ok(()),
            Ok(task) => Err(Reason::Kind {
                is: task.kind.clone(),
                required: required.clone(),
            }),
        },
        Require::Data(required) => match (&present.readable()?.data, required) {
            (Some(is), Some(required)) if is.same_value(required) => Ok(()),
            // Data that is null is as good as none.
            (is, required)
                if [is, required]
                    .iter()
                    .all(|one| one.as_ref().is_none_or(Json::is_null)) =>
            {
                Ok(())
            }
            _ => Err(Reason::Data),
        },
        Require::Unclaimed if present.is_claimed => Err(Reason::Claimed),
        Require::Unclaimed => Ok(()),
    }
}
