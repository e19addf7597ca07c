//! The stream of changes, for clients.

use std::sync::Arc;

use futures::stream;
use tokio::sync::watch;

use super::{Shared, world::World};
use crate::store::{Change, ChangeStream, Error};

/// The most changes in one batch.
const BATCH: usize = 1000;

impl World {
    /// Returns the next changes after this one; an error when some of them were pruned.
    fn after(&self, seq: u64) -> Result<Vec<Change>, Error> {
        let Some(index) = (seq + 1).checked_sub(self.first_seq) else {
            return Err(Error::pruned(seq));
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Ok(self.log.iter().skip(index).take(BATCH).cloned().collect())
    }
}

struct Reader {
    shared: Arc<Shared>,
    latest: watch::Receiver<u64>,
    /// The last change that was reported.
    reported: u64,
}

impl Reader {
    async fn next(&mut self) -> Result<Vec<Change>, Error> {
        loop {
            let wait = {
                let (world, now) = self.shared.lock();
                self.latest.mark_unchanged();
                match world.after(self.reported) {
                    Ok(changes) if changes.is_empty() => world.wait(now),
                    Ok(changes) => {
                        self.reported = changes.last().map_or(self.reported, |c| c.seq);
                        return Ok(changes);
                    }
                    Err(error) => {
                        // Reported once: the stream continues with the changes that are left.
                        self.reported = world.first_seq - 1;
                        return Err(error);
                    }
                }
            };
            let _ = tokio::time::timeout(wait, self.latest.changed()).await;
        }
    }
}

impl Shared {
    pub(super) fn newest_change(&self) -> u64 {
        let (world, _) = self.lock();
        world.next_seq() - 1
    }

    pub(super) fn changes(self: &Arc<Self>, after: Option<u64>) -> Result<ChangeStream, Error> {
        let (world, _) = self.lock();
        let newest = world.next_seq() - 1;
        let reported = after.unwrap_or(newest);
        if reported > newest {
            return Err(Error::beyond(reported, newest));
        }
        world.after(reported)?;
        let latest = world.latest.subscribe();
        drop(world);
        let reader = Reader {
            shared: self.clone(),
            latest,
            reported,
        };
        let changes: ChangeStream = Box::pin(stream::unfold(reader, |mut reader| async move {
            let changes = reader.next().await;
            Some((changes, reader))
        }));
        Ok(changes)
    }
}
