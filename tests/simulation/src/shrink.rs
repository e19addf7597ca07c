//! [`shrink`]: leaves out of a run that fails the faults that it fails without.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::isolated;

/// Returns the numbers of faults of a seed with which alone it fails. Takes no longer than `within`, and one run.
pub fn shrink(program: &Path, seed: u64, faults: usize, within: Duration) -> Vec<usize> {
    let began = Instant::now();
    let mut best: Vec<usize> = (0..faults).collect();
    // Half of the faults, then quarters, then single ones.
    let mut size = best.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.len() {
            if began.elapsed() > within {
                return best;
            }
            let mut less = best.clone();
            less.drain(at..(at + size).min(best.len()));
            match isolated::run(program, seed, Some(&less), 0).failure {
                Some(_) => best = less,
                None => at += size,
            }
        }
        size /= 2;
    }
    best
}
