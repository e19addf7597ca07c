//! [`REPORTS`]: the tracing target of reports about what keeps a node from working.

/// The tracing target of reports about what keeps a node from working: file descriptors that run
/// out, a full disk, a store that does not respond. A program that logs only errors can include
/// these: `error,windlass::node=warn`.
pub const REPORTS: &str = "windlass::node";
