//! [`Limits`]: what a store takes.

/// The limits of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a task's props, data and result together: 1 MiB by default.
    pub max_bytes: usize,
    /// How many outcomes of commands one write holds: 500 by default, on etcd a quarter of
    /// `--max-txn-ops`, at most 40.
    pub max_outcomes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 20,
            max_outcomes: 500,
        }
    }
}
