//! [`Limits`]: what a store takes.

/// What a store takes at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a task's props, data and result together: 1 MiB by default.
    pub max_bytes: usize,
    /// How many commands one write takes the outcomes of: 500 by default, on etcd a quarter of
    /// `--max-txn-ops` and 40 at the most.
    pub max_outcomes: usize,
    /// How many operations and guards one transaction has: 10,000 by default, on etcd what one etcd
    /// transaction holds (`--max-txn-ops`).
    pub max_operations: usize,
}

impl Limits {
    /// How many bytes of tasks one write takes: 16 MiB. A program that writes many items begins another write once
    /// it has this many, so that no write holds other writers up for long, and a transaction that has more is
    /// refused.
    pub const WRITE_BYTES: usize = 16 << 20;
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
