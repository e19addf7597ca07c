//! [`Progress`]: how far a reader of the log got.

/// How far a reader got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// There will be nothing more for it.
    Ended,
    /// It has received everything.
    Done,
    /// It has to read first what was sent to it.
    Full,
    /// There is more to tell.
    More,
}

/// How many tasks of a list, or changes of a feed, are read at once.
pub(super) const CHUNK: usize = 1000;
/// How many batches wait for a slow reader.
pub(super) const QUEUE: usize = 8;
