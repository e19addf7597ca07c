//! [`LastWrite`]: whether a store took the last write of this process.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::Error;

/// How long a failure says that the store takes no writes. A process that writes seldom learns late that the store does again.
const COUNTS: Duration = Duration::from_secs(60);
/// How long a write that succeeded, or a look at the store, says whether the store takes writes.
const FRESH: Duration = Duration::from_secs(2);

/// Whether a store took the last write of this process.
#[derive(Debug, Default)]
pub(crate) struct LastWrite(Mutex<Option<Noted>>);

#[derive(Debug)]
struct Noted {
    error: Option<Error>,
    at: Instant,
    counts: Duration,
}

impl LastWrite {
    /// Notes the end of a write. An error of the write itself (which no later try would change) says nothing about the store.
    pub(crate) fn note(&self, error: Option<Error>) {
        if error.as_ref().is_none_or(Error::is_retryable) {
            let counts = if error.is_some() { COUNTS } else { FRESH };
            self.keep(error, counts);
        }
    }

    /// Returns why the store takes no writes: what the last write met, as long as that counts, else what `look` finds.
    pub(crate) async fn error_or(
        &self,
        look: impl Future<Output = Option<Error>>,
    ) -> Option<Error> {
        if let Some(known) = self.known(Instant::now()) {
            return known;
        }
        let found = look.await;
        // A write may have ended meanwhile, and knows better.
        if let Some(known) = self.known(Instant::now()) {
            return known;
        }
        self.keep(found.clone(), FRESH);
        found
    }

    fn keep(&self, error: Option<Error>, counts: Duration) {
        let at = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Noted { error, at, counts });
    }

    fn known(&self, now: Instant) -> Option<Option<Error>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref()?;
        (now.saturating_duration_since(last.at) < last.counts).then(|| last.error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Error {
        Error::unavailable("write", "the disk is full")
    }

    fn text(error: Option<Error>) -> Option<String> {
        error.map(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_error_counts_until_a_write_succeeds_and_only_if_it_is_of_the_store() {
        let last = LastWrite::default();
        let says = async || text(last.error_or(async { panic!("the writes say it") }).await);
        last.note(Some(full()));
        last.note(Some(Error::Unusable("too large".to_owned())));
        assert_eq!(says().await, text(Some(full())));
        last.note(None);
        assert_eq!(says().await, None);
    }

    #[test]
    fn an_error_of_a_process_that_writes_seldom_does_not_stay() {
        let last = LastWrite::default();
        last.note(Some(full()));
        let now = Instant::now();
        assert!(last.known(now + COUNTS / 2).is_some());
        assert!(last.known(now + COUNTS).is_none());
        last.note(None);
        assert!(last.known(Instant::now() + FRESH).is_none());
    }

    /// A process that had written nothing did not know of a full disk.
    #[tokio::test]
    async fn a_process_without_writes_looks_at_the_store_and_asks_it_seldom() {
        let last = LastWrite::default();
        assert_eq!(
            text(last.error_or(async { Some(full()) }).await),
            text(Some(full()))
        );
        let again = last.error_or(async { panic!("it has looked just now") });
        assert_eq!(text(again.await), text(Some(full())));
        assert!(last.known(Instant::now() + FRESH).is_none());
        // A write that ends during the look is newer.
        let last = LastWrite::default();
        let look = async {
            last.note(None);
            Some(full())
        };
        assert_eq!(text(last.error_or(look).await), None);
    }
}
