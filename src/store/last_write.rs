//! [`LastWrite`]: whether a store took the last write of this process.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::Error;

/// How long a failure says that the store takes no writes. A process that writes seldom learns late that the store does again.
const COUNTS: Duration = Duration::from_secs(60);
/// How long a look at the store counts.
const FRESH: Duration = Duration::from_secs(2);

/// Whether a store took the last write of this process, and what a look at the store found.
#[derive(Debug, Default)]
pub(crate) struct LastWrite(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The failure of the last write.
    failed: Option<(Error, Instant)>,
    looked: Option<(Option<Error>, Instant)>,
}

impl LastWrite {
    /// Notes the end of a write. An error of the write itself (which no later try would change) says nothing about the store.
    pub(crate) fn note(&self, error: Option<Error>) {
        if error.as_ref().is_none_or(Error::is_retryable) {
            self.known().failed = error.map(|error| (error, Instant::now()));
        }
    }

    /// Returns why the store takes no writes: what `look` finds, else what the last write met. A small write may succeed where
    /// others fail, as the renewal of a lease on a full disk, so a success hides nothing that a look finds.
    ///
    /// `is_disproved` says of an error of a write whether a look that finds nothing has proven it over.
    pub(crate) async fn error_or(
        &self,
        look: impl Future<Output = Option<Error>>,
        is_disproved: impl Fn(&Error) -> bool,
    ) -> Option<Error> {
        let fresh = self.looked_at(Instant::now());
        let found = match fresh {
            Some(found) => found,
            None => {
                let found = look.await;
                self.known().looked = Some((found.clone(), Instant::now()));
                found
            }
        };
        let failed = || {
            self.failed_at(Instant::now())
                .filter(|error| !is_disproved(error))
        };
        found.or_else(failed)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looked_at(&self, now: Instant) -> Option<Option<Error>> {
        let known = self.known();
        let (found, at) = known.looked.as_ref()?;
        (now.saturating_duration_since(*at) < FRESH).then(|| found.clone())
    }

    fn failed_at(&self, now: Instant) -> Option<Error> {
        let known = self.known();
        let (error, at) = known.failed.as_ref()?;
        (now.saturating_duration_since(*at) < COUNTS).then(|| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Error {
        Error::unavailable("write", "the disk is full")
    }

    /// Returns what is known when a look finds this.
    async fn says(last: &LastWrite, found: Option<Error>) -> Option<String> {
        last.known().looked = None;
        let error = last.error_or(async { found }, |_| false).await;
        error.map(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_error_counts_until_a_write_succeeds_and_only_if_it_is_of_the_store() {
        let last = LastWrite::default();
        assert_eq!(says(&last, None).await, None);
        last.note(Some(full()));
        last.note(Some(Error::Unusable("too large".to_owned())));
        assert_eq!(says(&last, None).await, Some(full().to_string()));
        last.note(None);
        assert_eq!(says(&last, None).await, None);
    }

    #[test]
    fn an_error_of_a_process_that_writes_seldom_does_not_stay() {
        let last = LastWrite::default();
        last.note(Some(full()));
        let now = Instant::now();
        assert!(last.failed_at(now + COUNTS / 2).is_some());
        assert!(last.failed_at(now + COUNTS).is_none());
    }

    /// A process that had written nothing did not know of a full disk.
    #[tokio::test]
    async fn a_process_without_writes_looks_at_the_store_and_asks_it_seldom() {
        let last = LastWrite::default();
        assert_eq!(says(&last, Some(full())).await, Some(full().to_string()));
        let again = last.error_or(async { panic!("it has looked just now") }, |_| false);
        assert!(again.await.is_some());
        assert!(last.looked_at(Instant::now() + FRESH).is_none());
    }

    /// The lease of a node was renewed on a full disk: its pages said for 2 s of every 5 s that nothing was wrong.
    #[tokio::test]
    async fn a_write_that_succeeds_hides_nothing_that_a_look_finds() {
        let last = LastWrite::default();
        last.note(None);
        assert_eq!(says(&last, Some(full())).await, Some(full().to_string()));
        last.note(None);
        assert!(last.error_or(async { None }, |_| false).await.is_some());
    }

    #[tokio::test]
    async fn a_look_that_judges_an_error_ends_it() {
        let last = LastWrite::default();
        last.note(Some(full()));
        let is_disproved = |error: &Error| error.to_string().contains("full");
        assert!(last.error_or(async { None }, is_disproved).await.is_none());
        assert!(says(&last, None).await.is_some());
    }
}
