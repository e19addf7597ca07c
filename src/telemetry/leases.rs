//! What a node records of its lease.

use std::time::Duration;

use jiff::Timestamp;

use super::{JOINED, MARGIN, RENEWALS, TTL};

/// Records that the node has joined, with the length of its lease and the time for which the node trusts it now.
pub(crate) fn joined(at: Timestamp, ttl: Duration, left: Duration) {
    metrics::gauge!(JOINED).set(at.as_duration().as_secs_f64());
    metrics::gauge!(TTL).set(ttl.as_secs_f64());
    metrics::gauge!(MARGIN).set(left.as_secs_f64());
}

/// Records a renewal of the lease, with the time for which the node would still have trusted it.
pub(crate) fn renewed(left: Duration) {
    metrics::counter!(RENEWALS, "outcome" => "renewed").increment(1);
    metrics::gauge!(MARGIN).set(left.as_secs_f64());
}

/// Records that the node has no lease.
pub(crate) fn lease_lost() {
    metrics::gauge!(MARGIN).set(0.0);
}

/// Records a failed renewal of the lease.
pub(crate) fn not_renewed() {
    metrics::counter!(RENEWALS, "outcome" => "failed").increment(1);
}
