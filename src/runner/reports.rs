//! [`REPORTS`]: the target of the lines that report what keeps a node from work.

/// The tracing target of the lines in which a node reports what keeps its machine or its store from
/// work: file descriptors that run out, a full disk, a store that does not answer. A program that
/// logs errors alone can let these through: `error,windlass::node=warn`.
pub const REPORTS: &str = "windlass::node";
