//! Refusals and the errors that they come from and become.

use super::Error;
use crate::store::{Reason, Refusal, Refusals};

impl Reason {
    /// Converts the error of one operation into a reason.
    ///
    /// # Errors
    ///
    /// The error itself, when the store failed and the operation is not at fault.
    pub(crate) fn of(error: Error) -> Result<Self, Error> {
        Ok(match error {
            Error::NotFound { .. } => Self::Missing,
            Error::AlreadyExists { .. } => Self::Exists,
            Error::AlreadyFinished(_) => Self::Finished,
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
