//! [`Progress`]: how far a reader of the log has got.

/// How far a reader of the log got in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// The reader is gone.
    Ended,
    /// The reader has received everything.
    Done,
    /// The queue of the reader is full.
    Full,
    /// There is more to deliver.
    More,
}

/// The number of tasks of a list, or changes of a feed, in one read.
pub(super) const CHUNK: usize = 1000;
/// The most batches that are queued for a slow reader.
pub(super) const QUEUE: usize = 8;
