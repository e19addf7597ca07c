//! Counters whose labels are known in advance. They begin with 0: a series that begins with its first event hides that
//! event from `increase()`.

use super::{RENEWALS, SCHEDULE_TIMES, STORE_ERRORS};
use crate::store::Error;

/// The operations of the store whose errors are counted.
const OPERATIONS: [&str; 4] = ["claim", "commit", "join", "renew"];
/// The classes of errors of the store.
const CLASSES: [&str; 7] = [
    "fenced",
    "superseded",
    "unavailable",
    "corrupt",
    "too_large",
    "invalid",
    "other",
];
/// What is decided on a time of a schedule.
const TIMES: [&str; 5] = ["fired", "missed", "skipped", "overlapped", "refused"];
/// The outcomes of a renewal.
const RENEWED: [&str; 2] = ["renewed", "failed"];

/// Registers the counters.
pub(super) fn begin() {
    for outcome in RENEWED {
        metrics::counter!(RENEWALS, "outcome" => outcome).increment(0);
    }
    for outcome in TIMES {
        metrics::counter!(SCHEDULE_TIMES, "outcome" => outcome).increment(0);
    }
    for operation in OPERATIONS {
        for class in CLASSES {
            metrics::counter!(STORE_ERRORS, "operation" => operation, "class" => class)
                .increment(0);
        }
    }
}

/// Records times that a schedule has decided on.
pub(crate) fn schedule_times(outcome: &'static str, times: u64) {
    if times > 0 {
        metrics::counter!(SCHEDULE_TIMES, "outcome" => outcome).increment(times);
    }
}

/// Records an error of the store.
pub(crate) fn store_error(operation: &'static str, error: &Error) {
    let class = match error {
        Error::Fenced(_) => "fenced",
        Error::Superseded { .. } | Error::OtherSpeaker { .. } => "superseded",
        Error::Unavailable { .. } => "unavailable",
        Error::Corrupt { .. } => "corrupt",
        Error::TooLarge { .. } => "too_large",
        Error::Invalid(_) => "invalid",
        _ => "other",
    };
    metrics::counter!(STORE_ERRORS, "operation" => operation, "class" => class).increment(1);
}
