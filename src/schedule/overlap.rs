//! [`Overlap`]: how a time is handled while an earlier run is live.

use serde::{Deserialize, Serialize};

/// How a time is handled while an earlier run is live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Overlap {
    /// Submits no run; the time counts as overlapped.
    #[default]
    Skip,
    /// Submits a run that waits for the end of the earlier one. If another run waits already, submits none;
    /// the time then counts as overlapped.
    QueueOne,
    /// Submits a run that waits for the ends of all live runs, which may themselves wait for
    /// earlier runs.
    QueueAll,
    /// Sends the earlier runs the command `complete`, so that they may end in their own way, and submits a run
    /// that waits for their ends. Of several times that are due at once, only the last submits a run; the others
    /// count as overlapped.
    Cancel,
    /// Sends the earlier runs the command `kill`, and submits a run that waits for their ends. Several times that
    /// are due at once are handled as under [`Cancel`](Self::Cancel).
    Kill,
    /// Submits a run, and sends the earlier runs the command `pause`.
    Pause,
    /// Submits a run while fewer than this many are live: 1 to 1,000, or [`u32::MAX`] for any number.
    Allow(u32),
}
