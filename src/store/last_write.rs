//! [`LastWrite`]: whether a store took the last write of this process.

use std::sync::{Mutex, PoisonError};

use super::Error;

/// Whether a store took the last write of this process.
#[derive(Debug, Default)]
pub(crate) struct LastWrite(Mutex<Option<Error>>);

impl LastWrite {
    /// Notes the end of a write. An error that a later write can have no more, such as one of the write itself, says nothing
    /// about the store.
    pub(crate) fn note(&self, error: Option<Error>) {
        if error.as_ref().is_none_or(Error::is_retryable) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
        }
    }

    /// Returns why the store did not take the last write; `None` after one that it took.
    pub(crate) fn error(&self) -> Option<Error> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_counts_until_a_write_succeeds_and_only_if_it_is_of_the_store() {
        let last = LastWrite::default();
        let says = || last.error().map(|error| error.to_string());
        assert_eq!(says(), None);
        let full = Error::unavailable("write", "the disk is full");
        last.note(Some(full.clone()));
        last.note(Some(Error::Unusable("too large".to_owned())));
        assert_eq!(says(), Some(full.to_string()));
        last.note(None);
        assert_eq!(says(), None);
    }
}
