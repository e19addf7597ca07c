//! [`Feed`]: reads the log of changes for a client.

use rusqlite::Connection;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    batch::Sql,
    progress::{CHUNK, Progress},
    read_changes,
};
use crate::store::{Change, Error};

/// A client's feed of changes.
pub(super) struct Feed {
    changes: mpsc::Sender<Result<Vec<Change>, Error>>,
    seen: i64,
}

impl Feed {
    pub(super) fn new(seen: i64, changes: mpsc::Sender<Result<Vec<Change>, Error>>) -> Self {
        Self { changes, seen }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.changes.is_closed()
    }

    /// Ends the feed with an error. A reader whose queue is full gets the error from its next call to
    /// the store.
    pub(super) fn fail(self, error: &Error) {
        let _ = self.changes.try_send(Err(error.clone()));
    }

    /// Sends the next batch.
    pub(super) fn advance(&mut self, conn: &Connection) -> Sql<Progress> {
        if self.changes.capacity() < 2 {
            return Ok(Progress::Full);
        }
        let next = read_changes::after(conn, self.seen, CHUNK)?;
        if next.gap {
            let _ = self.changes.try_send(Err(Error::pruned(self.seen as u64)));
        }
        let done = next.upto - self.seen < CHUNK as i64;
        if !next.rows.is_empty() {
            match self.changes.try_send(Ok(next.rows)) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => return Ok(Progress::Full),
                Err(TrySendError::Closed(_)) => return Ok(Progress::Ended),
            }
        }
        self.seen = next.upto;
        Ok(if done { Progress::Done } else { Progress::More })
    }
}
