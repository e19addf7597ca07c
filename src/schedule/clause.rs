//! The clauses of a schedule that have fields of their own: [`Every`] and [`Except`].

use jiff::{Timestamp, civil::Date};
use serde::{Deserialize, Serialize};

use super::{
    interval::Interval,
    span::{dates, time, times},
    template::or_default,
};

/// Times at equal distances, or months apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Every {
    /// The length of the interval: a fixed time such as `15m`, or months of the calendar such as `1mo`.
    pub(crate) interval: Interval,
    /// One of the times, from which the others are calculated; 1970-01-01T00:00:00Z by default, and for months midnight of
    /// that day in the zone.
    #[serde(default, deserialize_with = "time")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) anchor: Option<Timestamp>,
}

/// Times at which no run is submitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Except {
    /// The times of these cron expressions.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) cron: Vec<String>,
    /// Single times.
    #[serde(default, deserialize_with = "times")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) at: Vec<Timestamp>,
    /// Whole days in the zone of the schedule.
    #[serde(default, deserialize_with = "dates")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dates: Vec<Date>,
}

impl Except {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
