//! [`Local`]: the time zone in which a request reads days and local times.

use axum::http::request::Parts;
use jiff::{Timestamp, Zoned, tz::TimeZone};
use windlass::clock::in_local_zone;

/// The time zone in which a request reads `yesterday` and `2030-01-01 09:00`. A page gives the zone in which it shows times, so
/// that a form reads them as the page shows them; other requests have that of this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Local(Option<TimeZone>);

impl Local {
    /// Returns the zone that a page has chosen.
    pub(crate) fn chosen(zone: &TimeZone) -> Self {
        Self(Some(zone.clone()))
    }

    /// Returns the zone of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or_default()
    }

    /// Returns a time in this zone.
    pub(crate) fn at(&self, now: Timestamp) -> Zoned {
        match &self.0 {
            Some(zone) => now.to_zoned(zone.clone()),
            None => in_local_zone(now),
        }
    }
}
