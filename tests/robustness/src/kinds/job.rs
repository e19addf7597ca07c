//! The props and the data of the tasks.

use serde::{Deserialize, Serialize};

/// The work of a task: its props.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// How far it counts.
    pub total: u64,
    /// How long each step takes, in milliseconds.
    pub ms: u64,
    /// How many attempts fail first.
    pub fails: u32,
    /// How many tasks it submits when it completes.
    pub children: u64,
    /// Whether it answers a pause with a sleep. A sower or a doomed task ignores every command.
    pub stubborn: bool,
    /// Whether it answers a command with a release.
    #[serde(default)]
    pub releases: bool,
    /// How long it takes to stop, in milliseconds.
    #[serde(default)]
    pub lag: u64,
}

/// The data of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// How far it has counted.
    pub n: u64,
}
