//! [`Store::export`]: writes a store to a file of lines.

use std::io::Write;

use serde::Serialize;

use super::{
    FileError, Outside, Problem, Progress,
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
    /// The number of tasks that were deleted while the file was written: 0, because the file is one moment of the store.
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
    /// The file is one moment of the store ([`Transfer::moment`](crate::store::Transfer::moment)): it has every change
    /// that was stored before, and none that was stored later. An export that cannot read that moment to its end fails.
    /// The last line has the number of tasks, so that [`import`](Self::import) refuses a truncated file. The store is
    /// not changed. A task that cannot be read is named in the file and in the result.
    ///
    /// A store in a SQLite file is copied first, to a private folder beside it or, without room there, in the folder for
    /// temporary files (`TMPDIR`). The folder is removed when the copy is open, also after an error. On etcd all reads are
    /// at one revision, and a key on a lease keeps the nodes of the namespace from compacting it (`compact_after`).
    ///
    /// # Assumptions
    ///
    /// No node works on the store at that moment: its live nodes are frozen or draining, and no task is claimed. The
    /// calling thread writes the file, up to 200 tasks at a time.
    ///
    /// # Errors
    ///
    /// [`FileError::Store`]: [`Error::Invalid`] (field `store`), which names the working nodes, [`Error::Unsupported`],
    /// [`Error::Unavailable`], also when no disk has room for the copy, or another program has compacted the etcd.
    /// [`FileError::Io`].
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
        // Before the moment, which may be a copy of the whole store.
        target::is_at_rest(self, "store").await?;
        let moment = self.transfer()?.moment().await?;
        target::was_at_rest((&moment.nodes, moment.claimed), "store")?;
        let tasks = moment.ids.len() as u64;
        lines::write(&mut to, &Head::new(self.clock().now(), tasks))?;
        let (mut written, mut pages) = (Written::default(), Pages::new(&moment.ids));
        while let Some(page) = pages.next() {
            let sent = moment.export(page).await;
            pages.sized(&sent);
            for (id, sent) in page.iter().zip(sent) {
                match settled(sent)? {
                    Ok(task) => {
                        lines::write(&mut to, &task)?;
                        written.tasks += 1;
                    }
                    // A store that lists a task at a moment has it then; another store may not keep this duty.
                    Err(Error::NotFound { what: "task", .. }) => written.gone += 1,
                    Err(error) => written.left.push(Problem::new(id, error)),
                }
            }
            progress(Progress {
                done: written.tasks + written.left.len() as u64,
                tasks,
            });
        }
        written.outside.clone_from(&moment.outside);
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
