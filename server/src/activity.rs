//! [`Counting`]: what the tasks do, counted while somebody asks.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass::{
    Client,
    client::activity::{Activity, Summary},
    store::Error,
};

/// How long the counts go on after the last request for them.
const IDLE: Duration = Duration::from_secs(300);

/// The counts of the process: they begin with the first request, and end some minutes after the last one, so that a server that
/// nobody asks follows no changes for them.
#[derive(Default)]
pub(crate) struct Counting {
    /// Held while the counts begin, so that two first requests begin them once.
    beginning: tokio::sync::Mutex<()>,
    kept: Arc<Mutex<Option<Kept>>>,
}

struct Kept {
    activity: Arc<Activity>,
    /// When they end, if nobody asks again.
    until: Instant,
}

impl Counting {
    /// Returns the counts at this moment. The first request begins them.
    pub(crate) async fn summary(
        &self,
        client: &Client,
        stop: &CancellationToken,
    ) -> Result<Summary, Error> {
        if let Some(activity) = self.asked() {
            return Ok(activity.summary());
        }
        let _beginning = self.beginning.lock().await;
        if let Some(activity) = self.asked() {
            return Ok(activity.summary());
        }
        let activity = Arc::new(client.activity().await?);
        let until = Instant::now() + IDLE;
        *lock(&self.kept) = Some(Kept {
            activity: activity.clone(),
            until,
        });
        tokio::spawn(end(self.kept.clone(), stop.clone()));
        Ok(activity.summary())
    }

    /// Returns the counts if they have begun, and lets them go on.
    fn asked(&self) -> Option<Arc<Activity>> {
        let mut kept = lock(&self.kept);
        let kept = kept.as_mut()?;
        kept.until = Instant::now() + IDLE;
        Some(kept.activity.clone())
    }
}

fn lock(kept: &Mutex<Option<Kept>>) -> std::sync::MutexGuard<'_, Option<Kept>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the counts when nobody has asked for them for some time, or when the server stops.
async fn end(kept: Arc<Mutex<Option<Kept>>>, stop: CancellationToken) {
    loop {
        let until = match &*lock(&kept) {
            Some(kept) if kept.until > Instant::now() => kept.until,
            _ => break,
        };
        tokio::select! {
            () = sleep_until(until) => {}
            () = stop.cancelled() => break,
        }
    }
    *lock(&kept) = None;
}

#[cfg(test)]
mod tests {
    use windlass::{NewTask, store::Store};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_counts_end_some_minutes_after_the_last_request() -> Result<(), Error> {
        let client = Client::new(&Store::open("memory:").await?);
        let (counting, stop) = (Counting::default(), CancellationToken::new());
        let first = counting.summary(&client, &stop).await?.since;
        let weak = lock(&counting.kept)
            .as_ref()
            .map(|kept| Arc::downgrade(&kept.activity));
        for _ in 0..5 {
            tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
            assert_eq!(counting.summary(&client, &stop).await?.since, first);
        }
        tokio::time::sleep(IDLE + Duration::from_secs(1)).await;
        assert!(weak.is_some_and(|weak| weak.strong_count() == 0));
        assert!(counting.asked().is_none());
        let again = counting.summary(&client, &stop).await?.since;
        assert!(again > first);
        client.submit(NewTask::new("k")).await?;
        // A server that stops ends them at once.
        stop.cancel();
        while counting.asked().is_some() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    #[tokio::test]
    async fn many_first_requests_begin_the_counts_once() -> Result<(), Error> {
        let client = Client::new(&Store::open("memory:").await?);
        let (counting, stop) = (Counting::default(), CancellationToken::new());
        let asked = (0..20).map(|_| counting.summary(&client, &stop));
        let asked = futures::future::try_join_all(asked).await?;
        assert!(asked.iter().all(|summary| summary.since == asked[0].since));
        Ok(())
    }
}
