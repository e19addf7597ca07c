//! [`Readers`]: a few connections that only read.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
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
    permits: Semaphore,
}

impl Readers {
    pub(super) fn new(files: Arc<OpenFiles>, settings: Settings) -> Self {
        Self {
            files,
            settings,
            idle: Mutex::default(),
            permits: Semaphore::new(READERS),
        }
    }

    /// Runs `read` on a thread where it may block, in one transaction: it sees one state of the store.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Error> {
        let failed = |e: String| Error::unavailable(operation, e);
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|e| failed(e.to_string()))?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || readers.read(read));
        match task.await.map_err(|e| failed(e.to_string()))? {
            Ok(value) => Ok(value),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::Sql(error)) => Err(errors::running(self.files.path(), operation, &error)),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Stop>) -> Result<T, Stop> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let conn = idle().pop();
        let conn = match conn {
            Some(conn) => {
                self.files.check()?;
                conn
            }
            None => open::reader(&self.files, self.settings)?,
        };
        let result = conn
            .unchecked_transaction()
            .map_err(Stop::from)
            .and_then(|tx| read(&tx));
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
