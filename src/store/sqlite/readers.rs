//! [`Readers`]: a few connections that only read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::Semaphore;

use super::{
    errors::{self, Stop},
    open,
    open_files::{Access, OpenFiles},
    settings::Settings,
};
use crate::store::Error;

/// How many reads run at once.
const READERS: usize = 4;

/// Connections for reading. Reads never wait for the writer, and the writer never waits for reads.
pub(super) struct Readers {
    files: Arc<OpenFiles>,
    settings: Settings,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

/// A read that its caller may leave.
#[derive(Default)]
struct Reading(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    /// Interrupts the connection while the read uses it.
    handle: Option<InterruptHandle>,
    is_left: bool,
}

impl Reading {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the read on a connection, or returns `false` when the caller has left.
    fn begin(&self, conn: &Connection) -> bool {
        let mut progress = self.progress();
        progress.handle = Some(conn.get_interrupt_handle());
        !progress.is_left
    }

    /// Ends the read: an interrupt would meet the next one on the connection.
    fn end(&self) {
        self.progress().handle = None;
    }
}

/// The caller of a read. A read whose caller leaves ends early: nobody waits for the rows that it would compare.
struct Caller(Arc<Reading>);

impl Drop for Caller {
    fn drop(&mut self) {
        let mut progress = self.0.progress();
        progress.is_left = true;
        if let Some(handle) = progress.handle.take() {
            handle.interrupt();
        }
    }
}

impl Readers {
    pub(super) fn new(files: Arc<OpenFiles>, settings: Settings) -> Self {
        Self {
            files,
            settings,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS)),
        }
    }

    /// Runs `read` on a thread where it may block, in one transaction: it sees one state of the store. The read ends early
    /// when the future is dropped.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Error> {
        let failed = |e: String| Error::unavailable(operation, e);
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|e| failed(e.to_string()))?;
        let readers = Arc::clone(self);
        let reading = Arc::new(Reading::default());
        let _caller = Caller(Arc::clone(&reading));
        let task = tokio::task::spawn_blocking(move || {
            let result = readers.read(&reading, read);
            drop(permit);
            result
        });
        match task.await.map_err(|e| failed(e.to_string()))? {
            Ok(value) => Ok(value),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::Sql(error)) => Err(errors::running(self.files.path(), operation, &error)),
        }
    }

    fn read<T>(
        &self,
        reading: &Reading,
        read: impl FnOnce(&Connection) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let conn = idle().pop();
        let conn = match conn {
            Some(conn) => {
                self.files.check()?;
                conn
            }
            None => open::reader(&self.files, self.settings)?,
        };
        let result = match reading.begin(&conn) {
            true => conn
                .unchecked_transaction()
                .map_err(Stop::from)
                .and_then(|tx| read(&tx)),
            false => Err(Stop::Refused(Error::unavailable(
                "read",
                "its caller has left".to_owned(),
            ))),
        };
        reading.end();
        if self.files.access() == Access::Frozen {
            // A program that began to write may have changed pages during the read.
            self.files.check()?;
        }
        if !matches!(result, Err(Stop::Sql(_))) {
            idle().push(conn);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads for much longer than a test takes.
    const LONG: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000000)
        SELECT count(*) FROM n";

    fn read(reading: &Reading, conn: &Connection) -> Result<i64, Stop> {
        match reading.begin(conn) {
            true => Ok(conn.query_row(LONG, (), |row| row.get(0))?),
            false => Ok(0),
        }
    }

    #[test]
    fn a_read_ends_when_its_caller_leaves() {
        let conn = Connection::open_in_memory().unwrap();
        let reading = Arc::new(Reading::default());
        let caller = Caller(Arc::clone(&reading));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while reading.progress().handle.is_none() {
                    std::thread::yield_now();
                }
                // Until the read has begun, an interrupt has no effect.
                std::thread::sleep(std::time::Duration::from_millis(100));
                drop(caller);
            });
            let stopped = read(&reading, &conn);
            assert!(matches!(stopped, Err(Stop::Sql(_))), "{stopped:?}");
        });
        // The next read of the connection is not met.
        reading.end();
        assert_eq!(conn.query_row("SELECT 7", (), |row| row.get(0)), Ok(7));
        assert!(
            matches!(read(&reading, &conn), Ok(0)),
            "its caller has left"
        );
    }

    #[test]
    fn a_caller_that_leaves_after_the_end_interrupts_nothing() {
        let conn = Connection::open_in_memory().unwrap();
        let reading = Arc::new(Reading::default());
        let caller = Caller(Arc::clone(&reading));
        assert!(reading.begin(&conn));
        reading.end();
        let mut rows = conn.prepare("SELECT 1 UNION ALL SELECT 2").unwrap();
        let mut rows = rows.query(()).unwrap();
        assert!(rows.next().unwrap().is_some());
        drop(caller);
        assert!(rows.next().unwrap().is_some());
    }
}
