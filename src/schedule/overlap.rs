//! [`Overlap`]: what happens while an earlier run is live.

use serde::{Deserialize, Serialize};

/// What happens at a time at which an earlier run is live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Overlap {
    /// The time submits no run, and counts as overlapped.
    #[default]
    Skip,
    /// The run waits for the end of the earlier one. A time at which another run waits already submits none,
    /// and counts as overlapped.
    QueueOne,
    /// The run waits for the ends of all runs that are live, as do all of the runs before.
    QueueAll,
    /// The earlier runs get the command `complete`, so they may end in their own way; the run waits for their
    /// ends. Of several times that are due at once, only the last submits a run. The others count as overlapped.
    Cancel,
    /// The earlier runs get the command `kill`; the run waits for their ends. Several times that are due at once are
    /// decided as under [`Cancel`](Self::Cancel).
    Kill,
    /// The run is submitted, and the earlier ones get the command `pause`.
    Pause,
    /// The run is submitted while fewer than this many are live: 1 to 1,000, or [`u32::MAX`] for any number.
    Allow(u32),
}
