//! [`FileError`]: why a store could not be written to a file, or read from one.

use std::io;

use windlass_statemachine::{TaskId, text::counted};

use super::FORMAT;
use crate::store::Error;

/// Why a store could not be written to a file, or read from one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The file could not be written or read.
    #[error("could not {operation} the file: {source}")]
    Io {
        /// `write` or `read`.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A line is invalid.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The field, and what is wrong with it.
        reason: String,
    },
    /// The file ends before its last line.
    #[error(
        "the file is incomplete: it ends after line {lines}, without its last line; export the store again, or fetch the \
         whole file"
    )]
    Cut {
        /// The number of whole lines.
        lines: u64,
    },
    /// A newer version has written the file.
    #[error(
        "a newer windlass wrote the file (format {0}; this program reads {FORMAT}); update this program"
    )]
    Newer(u64),
    /// The store has tasks that are not in the file.
    #[error(
        "the store has {} that the file does not have, '{first}' for example; import into an empty store",
        counted(*count as u64, "task")
    )]
    NotEmpty {
        /// The number of these tasks.
        count: usize,
        /// The first of them.
        first: TaskId,
    },
    /// The file names tasks that the export could not read. A task that waits for one of them would run too
    /// early.
    #[error(
        "the file lacks {} that the export could not read, '{first}' for example, and tasks that wait for them \
         would run at once; retry or delete them in the exported store and export it again, or accept that they are \
         missing",
        counted(*count as u64, "task")
    )]
    Incomplete {
        /// The number of these tasks.
        count: usize,
        /// The first of them: its id, or its row.
        first: String,
    },
}
