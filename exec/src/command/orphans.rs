//! Ends commands whose worker and supervisor were killed together.
//!
//! One check at the start of a worker is not enough: a service manager may start it while the killed processes
//! still end, and another worker may die later. A task that was killed, paused or deleted in the meantime has no
//! next attempt that would end its command. So a worker checks again while it works
//! ([`Folders::keep_orphans_ended`]).

use std::time::Duration;

use futures::future::{self, join_all};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;
use windlass::{Fence, statemachine::Backoff};

use super::{
    folder::Folder,
    folders::Folders,
    leftover::{Leftover, NotEnded},
    record::{self, Record},
};

/// How often a worker looks for commands whose worker and supervisor have ended.
const EVERY: Duration = Duration::from_millis(500);

/// The minimum pause after a check, as a multiple of its duration.
const PAUSE: u32 = 100;

/// The longest pause after a command that could not be ended.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// A command whose worker and supervisor have ended.
pub(super) struct Orphan {
    folder: Folder,
    fence: Fence,
    grace: Option<Duration>,
    leftover: Leftover,
}

impl Orphan {
    /// Returns the command of the folder if no process is left to end it.
    fn of(folder: Folder) -> Option<Self> {
        let record = Record::read(&folder).filter(Record::is_orphan)?;
        Some(Self {
            fence: record.fence,
            grace: record.grace(),
            leftover: Leftover::of_orphan(&folder, &record),
            folder,
        })
    }

    /// Ends it; SIGKILL comes after the task's grace, or this one if it is shorter. Returns whether it has ended.
    async fn end(self, longest: Duration) -> bool {
        let groups = self.leftover.groups();
        if !groups.is_empty() {
            let folder = self.folder.path.display();
            warn!(%folder, fence = %self.fence, ?groups,
                "the command of a worker that was killed still runs: ending it");
        }
        let grace = self.grace.map_or(longest, |grace| grace.min(longest));
        match self.leftover.end(grace, future::pending()).await {
            // A later claim that replaced the record has already ended the command.
            Ok(()) | Err(NotEnded::OtherClaim(_)) => {
                record::ended(&self.folder, self.fence);
                true
            }
            Err(error) => {
                warn!(%error, "a command that was left could not be ended");
                false
            }
        }
    }
}

impl Folders {
    /// Ends the commands that workers of this machine have left running, and whose supervisor has ended, too: SIGTERM, and
    /// SIGKILL after the grace. A command that could not be ended is logged, and its record stays.
    pub async fn end_orphans(&self, grace: Duration) {
        self.end_all(self.orphans().await, grace).await;
    }

    /// Does the same again while this value, or a clone of it, lives: for the workers that are killed together with
    /// their supervisor later. Call it within a Tokio runtime.
    pub fn keep_orphans_ended(&mut self, grace: Duration) {
        let this = self.clone();
        let looking = tokio::spawn(async move {
            let mut failures = Backoff::new(EVERY, AFTER_FAILURE);
            let mut pause = EVERY;
            loop {
                sleep(pause).await;
                let began = Instant::now();
                let orphans = this.orphans().await;
                pause = EVERY.max(began.elapsed().saturating_mul(PAUSE));
                if orphans.is_empty() {
                    continue;
                }
                if this.end_all(orphans, grace).await {
                    failures = Backoff::new(EVERY, AFTER_FAILURE);
                } else {
                    pause = pause.max(failures.pause());
                }
                // The folders of ended tasks were kept while their commands ran.
                this.remove_needless(grace).await;
            }
        });
        self.set_looking(AbortOnDropHandle::new(looking));
    }

    async fn orphans(&self) -> Vec<Orphan> {
        let this = self.clone();
        let look = move || {
            let folders = this.with_record().into_iter();
            folders.filter_map(Orphan::of).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Returns whether all have ended.
    async fn end_all(&self, orphans: Vec<Orphan>, grace: Duration) -> bool {
        let ended = join_all(orphans.into_iter().map(|orphan| orphan.end(grace))).await;
        ended.into_iter().all(|ended| ended)
    }
}
