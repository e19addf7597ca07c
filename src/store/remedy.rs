//! [`Remedy`]: an operator's next step, as a value for programs; [`Advice`]: the same with a sentence.

use serde::Serialize;

/// A step that resolves an error or a finding. A program with a user interface translates it into its own
/// terms: the command line names its commands and options.
///
/// # Example
///
/// ```
/// use windlass::store::{Error, Remedy};
///
/// fn tip(error: &Error) -> &'static str {
///     match error.remedy() {
///         Some(Remedy::UseCopied) => "choose \"use this store again\" in the settings",
///         _ => "",
///     }
/// }
/// assert_eq!(tip(&Error::unavailable("list", "no leader")), "");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Remedy {
    /// Examine the store with [`Examination::repair`](super::examine::Examination::repair).
    Repair,
    /// Examine the store with [`Examination::full`](super::examine::Examination::full).
    FullCheck,
    /// Examine the store with [`Examination::compact`](super::examine::Examination::compact).
    Compact,
    /// Examine the store with [`Examination::raise_fences`](super::examine::Examination::raise_fences), while no
    /// node lives.
    RaiseFences,
    /// Examine the store with [`Examination::quota`](super::examine::Examination::quota).
    GiveQuota,
    /// List the quarantined tasks ([`Filter::quarantined`](super::Filter::quarantined)), which shows why each
    /// cannot be read, and retry them.
    ReadQuarantined,
    /// Export what can be read to a file ([`Store::export`](super::Store::export)).
    Export,
    /// Copy the tasks to another store ([`copy`](super::copy)).
    Copy,
    /// Remove the mark of a copy ([`Transfer::set_copied`](super::Transfer::set_copied)).
    UseCopied,
    /// Send the command run to one of the tasks.
    Run,
    /// Update the schedule ([`Client::schedules`](crate::Client::schedules)).
    UpdateSchedule,
    /// List the schedules ([`Client::schedules`](crate::Client::schedules)).
    ListSchedules,
}

/// A sentence that says what to do, with the step that programs can name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Advice {
    pub(crate) text: &'static str,
    pub(crate) remedy: Option<Remedy>,
}

impl Advice {
    /// Returns advice with a step.
    pub const fn new(text: &'static str, remedy: Remedy) -> Self {
        let remedy = Some(remedy);
        Self { text, remedy }
    }
}

impl From<&'static str> for Advice {
    /// Returns advice without a step of the library.
    fn from(text: &'static str) -> Self {
        let remedy = None;
        Self { text, remedy }
    }
}
