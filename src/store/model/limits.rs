//! [`Limits`]: the limits of a store.

/// The limits of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a task's props, data and result together: 1 MiB by default.
    pub max_bytes: usize,
    /// How many outcomes of commands one write may store: 500 by default; on etcd a quarter of
    /// `--max-txn-ops`, at most 40.
    pub max_outcomes: usize,
    /// How many operations and guards one transaction may have: 10,000 by default; on etcd as many
    /// as fit into one etcd transaction (`--max-txn-ops`).
    pub max_operations: usize,
}

impl Limits {
    /// How many bytes of tasks one write may have: 16 MiB. A program that writes many items starts another write
    /// at this size, so that no write blocks other writers for long. A larger transaction is refused.
    pub const WRITE_BYTES: usize = 16 << 20;

    /// How many operations one write may have, for the same reason: 1,000. Only a transaction, which cannot be divided, may
    /// have more: [`max_operations`](Self::max_operations).
    pub const WRITE_OPERATIONS: usize = 1000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 20,
            max_outcomes: 500,
            max_operations: 10_000,
        }
    }
}
