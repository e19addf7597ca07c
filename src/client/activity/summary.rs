//! [`Summary`]: the counts, as programs read them.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::Kind;

use super::ring::Counts;

/// What the tasks of a namespace did in the last time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Activity"))]
#[non_exhaustive]
pub struct Summary {
    /// Since when changes are counted.
    pub since: Timestamp,
    /// The time of the summary.
    pub at: Timestamp,
    /// The last ten seconds (`10s`), minute (`1m`), ten minutes (`10m`) and hour (`1h`), in this order.
    pub windows: Vec<Window>,
}

/// The counts of the last time of some length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ActivityWindow"))]
#[non_exhaustive]
pub struct Window {
    /// The longest time that the window covers: `10s`, `1m`, `10m` or `1h`.
    pub name: String,
    /// The time that the window covers, in seconds, at least 1. It is shorter than the name says just after `since`, and later by at
    /// most a tenth of it (`1m` and `1h`: a sixtieth).
    pub seconds: f64,
    /// Claims of nodes. A node that keeps its claim between two steps of a task starts the task once.
    pub started: u64,
    /// Tasks that have completed.
    pub completed: u64,
    /// Attempts that have failed.
    pub failed_attempts: u64,
    /// Tasks that have failed for good.
    pub failed: u64,
    /// Claims that were lost with their nodes.
    pub lost: u64,
    /// The counts, divided by `seconds`.
    pub per_second: PerSecond,
    /// How late the tasks were claimed.
    pub lateness: Lateness,
    /// The counts by kind, the kind with the most failed attempts first.
    pub kinds: Vec<KindActivity>,
}

/// Counts, divided by the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ActivityPerSecond"))]
#[non_exhaustive]
pub struct PerSecond {
    /// Claims of nodes.
    pub started: f64,
    /// Tasks that have completed.
    pub completed: f64,
    /// Attempts that have failed.
    pub failed_attempts: f64,
}

/// The time from when tasks could be claimed until a node claimed them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ActivityLateness"))]
#[non_exhaustive]
pub struct Lateness {
    /// The number of claims whose due time was known.
    pub measured: u64,
    /// Half of them were at most this late, in seconds: at most 4 % off, or 1 ms. `null` without a measured claim.
    pub p50_seconds: Option<f64>,
    /// 99 % of them were at most this late.
    pub p99_seconds: Option<f64>,
}

/// The counts of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "KindActivity"))]
#[non_exhaustive]
pub struct KindActivity {
    /// The kind; `null` for tasks whose kind was not read, and for all kinds beyond 200.
    pub kind: Option<Kind>,
    /// Claims of nodes.
    pub started: u64,
    /// Tasks that have completed.
    pub completed: u64,
    /// Attempts that have failed.
    pub failed_attempts: u64,
    /// Tasks that have failed for good.
    pub failed: u64,
    /// Claims that were lost with their nodes.
    pub lost: u64,
}

impl Summary {
    /// Returns the window with this name.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let activity = Client::new(&Store::open("memory:").await?).activity().await?;
    /// let summary = activity.summary();
    /// assert_eq!(summary.window("1h").map(|window| window.started), Some(0));
    /// # Ok(()) }
    /// ```
    pub fn window(&self, name: &str) -> Option<&Window> {
        self.windows.iter().find(|window| window.name == name)
    }
}

impl KindActivity {
    pub(super) fn new(kind: Option<Kind>, counts: &Counts) -> Self {
        Self {
            kind,
            started: counts.started,
            completed: counts.completed,
            failed_attempts: counts.failed_attempts,
            failed: counts.failed,
            lost: counts.lost,
        }
    }

    /// Returns the place of the kind among the others.
    pub(super) fn place(&self) -> impl Ord + '_ {
        let most = Reverse((self.failed_attempts, self.failed, self.started));
        (most, self.kind.as_ref())
    }
}
