//! [`Measure`]: the measurements for a peer.

/// A measurement for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Rates, processor time and syncs.
    Rates,
    /// Workers that are killed, and the tasks that they leave.
    Kills,
    /// The time from a submit to the start of the handler on an idle worker.
    Lateness,
    /// The memory of an idle worker beside jobs that are due in a year.
    Sleepers,
}

impl Measure {
    pub(super) const ALL: [Self; 4] = [Self::Rates, Self::Kills, Self::Lateness, Self::Sleepers];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rates => "rates",
            Self::Kills => "kills",
            Self::Lateness => "lateness",
            Self::Sleepers => "sleepers",
        }
    }
}
