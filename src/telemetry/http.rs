//! What a server records of its requests.

use std::time::Duration;

use super::{IN_WORK, REQUEST_DURATION, REQUESTS};

/// Records a request that a server has answered.
pub fn answered(request: &str, status: u16, took: Duration) {
    let name = || request.to_owned();
    let status = status.to_string();
    metrics::counter!(REQUESTS, "request" => name(), "status" => status).increment(1);
    metrics::histogram!(REQUEST_DURATION, "request" => name()).record(took);
}

/// Records that the server works on a request more (1.0) or less (-1.0).
pub fn in_work(change: f64) {
    metrics::gauge!(IN_WORK).increment(change);
}
