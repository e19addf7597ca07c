//! [`PlanForm`]: the JSON form of a schedule that would be created or updated.

use serde::Serialize;
use serde_json::Value;
#[cfg(test)]
use windlass::schedule::Schedule;
use windlass::{TaskId, wire::TimeForm};

/// A schedule of an import or a dry run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlanForm<'a> {
    /// The schedule.
    pub(super) id: &'a TaskId,
    /// `created`, `updated` or `exists` for an import; `would create` or `would update` for a dry run.
    pub(super) action: &'static str,
    /// The fields of the schedule.
    #[cfg_attr(test, schemars(with = "Schedule"))]
    pub(super) spec: &'a Value,
    /// Its next times: five, or three for a line of an import.
    pub(super) next: Vec<TimeForm>,
}
