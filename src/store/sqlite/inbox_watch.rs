//! [`InboxWatch`]: checks the inbox after each commit of another program, and asks the writer to take its rows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{batch::Sql, inbox, writer::Poster};

/// How long to wait after a job that took no rows, as on a full disk.
const AGAIN: Duration = Duration::from_millis(200);

/// The state of the inbox, for the thread of the hub.
#[derive(Default)]
pub(super) struct InboxWatch {
    /// The writer; `None` for a file that is only read.
    pub(super) writer: Option<Poster>,
    /// Whether rows waited at the last check.
    waits: bool,
    /// When the writer was last asked, and the `data_version` then.
    asked: Option<(Instant, i64)>,
    /// Whether the writer has a job.
    at_work: Arc<AtomicBool>,
}

/// Marks the end of a job when dropped, even if the job failed.
struct AtWork(Arc<AtomicBool>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl InboxWatch {
    /// Checks whether rows wait, after a commit of any connection.
    pub(super) fn look(&mut self, conn: &Connection, version: i64) -> Sql<()> {
        if self.writer.is_some() {
            self.waits = inbox::waits(conn)?;
            self.ask_again(version);
        }
        Ok(())
    }

    /// Asks the writer to take the waiting rows: once for each `data_version`, and from time to time while
    /// nothing changes.
    pub(super) fn ask_again(&mut self, version: i64) {
        let is_early = || {
            let asked = self.asked;
            asked.is_some_and(|(at, seen)| seen == version && at.elapsed() < AGAIN)
        };
        let Some(writer) = self.writer.as_ref().filter(|_| self.waits && !is_early()) else {
            return;
        };
        if self.at_work.swap(true, Ordering::AcqRel) {
            return;
        }
        self.asked = Some((Instant::now(), version));
        let at_work = AtWork(self.at_work.clone());
        writer.post("take the rows of the inbox", inbox::MOST, move |batch| {
            let _ = &at_work;
            inbox::take(batch).map(inbox::report)
        });
    }
}
