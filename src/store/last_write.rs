//! [`LastWrite`]: whether a store took the last write of this process.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::Error;

/// How long a failure says that the store takes no writes. A process that writes seldom learns late that the store does again.
const COUNTS: Duration = Duration::from_secs(60);

/// Whether a store took the last write of this process.
#[derive(Debug, Default)]
pub(crate) struct LastWrite(Mutex<Option<(Error, Instant)>>);

impl LastWrite {
    /// Notes the end of a write. An error of the write itself (which no later try would change) says nothing about the store.
    pub(crate) fn note(&self, error: Option<Error>) {
        if error.as_ref().is_none_or(Error::is_retryable) {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *last = error.map(|error| (error, Instant::now()));
        }
    }

    /// Returns why the store did not take the last write; `None` after one that it took, and a minute after the failure.
    pub(crate) fn error(&self) -> Option<Error> {
        self.error_at(Instant::now())
    }

    fn error_at(&self, now: Instant) -> Option<Error> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (error, at) = last.as_ref()?;
        (now.saturating_duration_since(*at) < COUNTS).then(|| error.clone())
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

    #[test]
    fn an_error_of_a_process_that_writes_seldom_does_not_stay() {
        let last = LastWrite::default();
        last.note(Some(Error::unavailable("write", "no leader")));
        let now = Instant::now();
        assert!(last.error_at(now + COUNTS / 2).is_some());
        assert!(last.error_at(now + COUNTS).is_none());
    }
}
