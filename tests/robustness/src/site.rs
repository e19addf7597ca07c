//! [`Site`]: what all workers of a run have in common.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::witness::Journal;

/// The paths of the programs, which Cargo gives only to the tests of this package.
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    /// `windlass-robustness-worker`.
    pub worker: &'static str,
    /// `windlass-robustness-cli`.
    pub cli: &'static str,
}

/// What all workers of a run have in common.
#[derive(Debug)]
pub struct Site {
    /// The programs.
    pub programs: Programs,
    /// Where everything is.
    pub folder: PathBuf,
    /// The record of the test's actions on processes.
    pub journal: Arc<Journal>,
    /// How long leases last.
    pub ttl: Duration,
    /// How long the writes of handlers take to reach the store, at most.
    pub late: Duration,
    /// The store may be unavailable when a worker starts: the test then starts it again, like a
    /// supervisor.
    pub shaken: bool,
}

impl Site {
    /// The store's file.
    pub fn file(&self) -> PathBuf {
        self.folder.join("windlass.db")
    }

    /// The name of the store in that file.
    pub fn store(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    /// Where witnesses write.
    pub fn witnesses(&self) -> PathBuf {
        self.folder.join("witness")
    }
}
