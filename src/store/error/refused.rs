//! Conversions between refusals and errors.

use super::Error;
use crate::store::{Reason, Refusal, Refusals};

impl Error {
    /// Returns the refusal of the only operation of a transaction as the error of that operation, where there is one.
    pub(crate) fn of_operation(self) -> Self {
        let Self::Refused(refusals) = &self else {
            return self;
        };
        let mut refusals = refusals.iter();
        let (Some(Refusal { task, reason, .. }), None) = (refusals.next(), refusals.next()) else {
            return self;
        };
        match reason {
            Reason::Missing => Self::no_task(task),
            Reason::Finished { difference } => Self::AlreadyFinished {
                task: task.clone(),
                difference: difference.clone(),
            },
            Reason::Unreadable(reason) => Self::corrupt_task(task, reason.clone()),
            Reason::Invalid(invalid) => invalid.clone().into(),
            Reason::TooLarge {
                field,
                bytes,
                limit,
            } => Self::too_large(field, *bytes, *limit),
            _ => self,
        }
    }
}

impl Reason {
    /// Converts the error of one operation into a reason.
    ///
    /// # Errors
    ///
    /// The error itself, when the store failed and the operation is not at fault.
    pub(crate) fn of(error: Error) -> Result<Self, Error> {
        Ok(match error {
            Error::NotFound { .. } => Self::Missing,
            Error::AlreadyExists { difference, .. } => Self::Exists { difference },
            Error::AlreadyFinished { difference, .. } => Self::Finished { difference },
            Error::Claimed(_) => Self::Claimed,
            Error::NotUnique { key, task, until } => Self::NotUnique { key, task, until },
            Error::Corrupt { reason, .. } => Self::Unreadable(reason),
            Error::Invalid(invalid) => Self::Invalid(invalid),
            Error::TooLarge {
                field,
                bytes,
                limit,
            } => Self::TooLarge {
                field,
                bytes,
                limit,
            },
            other => return Err(other),
        })
    }
}

impl Refusals {
    /// Returns the refusals as an error; `None` for an empty list.
    pub(crate) fn error(refusals: Vec<Refusal>) -> Option<Error> {
        (!refusals.is_empty()).then(|| Error::Refused(Self::new(refusals)))
    }
}
