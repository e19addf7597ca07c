//! [`Store::export`]: writes a store to a file of lines.

use std::io::Write;

use serde::Serialize;

use super::{
    FileError, OUTSIDE, Outside, Problem, Progress,
    lines::{self, Counts, Head},
    pages::Pages,
    target::{self, settled},
};
use crate::store::{Error, Store};

/// What an export has written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Written {
    /// The number of tasks in the file.
    pub tasks: u64,
    /// The tasks that could not be read. The file names them.
    pub left: Vec<Problem>,
    /// Operations that are committed in the store but belong to no task. The file names them.
    pub outside: Vec<Outside>,
    /// The number of tasks that were deleted while the file was written. They are not in the file.
    pub gone: u64,
}

impl Written {
    /// Returns whether everything in the store is in the file.
    pub fn is_whole(&self) -> bool {
        self.left.is_empty() && self.outside.is_empty()
    }
}

impl Store {
    /// Writes every task to a file, with state, data, result, errors, commands and history: one JSON object a line, in
    /// submit order ([`Exported`](crate::store::Exported)).
    ///
    /// # Guarantees
    ///
    /// The last line has the number of tasks, so that [`import`](Self::import) refuses a truncated file. The store is
    /// not changed. A task that cannot be read is named in the file and in the result.
    ///
    /// # Assumptions
    ///
    /// No node works on the store: its live nodes are frozen or draining, and no task is claimed. Tasks that are
    /// submitted during the export are not in the file. The calling thread writes the file, up to 200 tasks at a
    /// time.
    ///
    /// # Errors
    ///
    /// [`FileError::Store`]: [`Error::Invalid`] (field `store`), which names the working nodes, [`Error::Unsupported`],
    /// [`Error::Unavailable`]. [`FileError::Io`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::{Store, copy::Import}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let store = Store::open("memory:").await?;
    /// Client::new(&store).submit(NewTask::new("report")).await?;
    /// let mut file = tempfile::NamedTempFile::new()?;
    /// let written = store.export(&mut file, |_| ()).await?;
    /// assert!(written.is_whole());
    ///
    /// let other = Store::open("memory:").await?;
    /// let report = other.import(file.as_file(), &Import::new(), |_| ()).await?;
    /// assert!(report.is_whole());
    /// assert_eq!(report.copied, 1);
    /// # Ok(()) }
    /// ```
    pub async fn export(
        &self,
        mut to: impl Write,
        mut progress: impl FnMut(Progress),
    ) -> Result<Written, FileError> {
        target::is_at_rest(self, "store").await?;
        let part = self.transfer()?;
        let ids = part.ids().await?;
        let tasks = ids.len() as u64;
        lines::write(&mut to, &Head::new(self.clock().now(), tasks))?;
        let (mut written, mut pages) = (Written::default(), Pages::new(&ids));
        while let Some(page) = pages.next() {
            let sent = part.export(page).await;
            pages.sized(&sent);
            for (id, sent) in page.iter().zip(sent) {
                match settled(sent)? {
                    Ok(task) => {
                        lines::write(&mut to, &task)?;
                        written.tasks += 1;
                    }
                    // The task was deleted during the export.
                    Err(Error::NotFound { what: "task", .. }) => written.gone += 1,
                    Err(error) => written.left.push(Problem::new(id, error)),
                }
            }
            progress(Progress {
                done: written.tasks + written.left.len() as u64,
                tasks,
            });
        }
        written.outside = part.outside(OUTSIDE).await?;
        for left in &written.left {
            lines::write(&mut to, &serde_json::json!({ "left": left }))?;
        }
        for outside in &written.outside {
            lines::write(&mut to, &serde_json::json!({ "outside": outside }))?;
        }
        let counts = Counts {
            tasks: written.tasks,
            left: written.left.len() as u64,
            outside: written.outside.len() as u64,
            gone: written.gone,
        };
        lines::write_end(&mut to, counts)?;
        to.flush().map_err(|source| FileError::Io {
            operation: "write",
            source,
        })?;
        Ok(written)
    }
}
