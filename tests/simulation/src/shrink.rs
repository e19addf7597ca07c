//! [`shrink`]: leaves out of a plan that fails what it fails without.

use std::time::{Duration, Instant};

use crate::run::{Plan, Report};

/// Returns the plan without the faults that it fails without, and its report. Takes no longer than `within`, and one run.
pub fn shrink(plan: &Plan, failed: Report, within: Duration) -> (Plan, Report) {
    let began = Instant::now();
    let (mut best, mut report) = (plan.clone(), failed);
    // Half of the faults, then quarters, then single ones.
    let mut size = best.faults.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.faults.len() {
            if began.elapsed() > within {
                return (best, report);
            }
            let mut less = best.clone();
            let end = (at + size).min(less.faults.len());
            less.faults.drain(at..end);
            let tried = less.run();
            if tried.failure.is_some() {
                (best, report) = (less, tried);
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    (best, report)
}
