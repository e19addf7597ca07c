//! [`Admission`]: whether the servers accept this process.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::{error, info};

/// Whether the servers accept this process.
#[derive(Default)]
pub(super) struct Admission {
    pub(super) has_user: bool,
    /// Whether they have accepted it before: a later refusal is then retried, because operators may
    /// lift it.
    has_begun: AtomicBool,
    /// When the refusal was last reported.
    reported: Mutex<Option<Instant>>,
    is_rejected: AtomicBool,
}

/// How often the log repeats that the servers refuse this process.
const REPORT_EVERY: Duration = Duration::from_secs(60);

impl Admission {
    pub(super) fn new(has_user: bool) -> Self {
        Self {
            has_user,
            ..Self::default()
        }
    }

    /// Notes that the servers have accepted this process once.
    pub(super) fn began(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Returns whether the servers have accepted this process once.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Notes a refusal, and logs it at an interval.
    pub(super) fn rejected(&self, reason: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            error!(reason, "etcd rejects this process now; retrying");
            *reported = Some(Instant::now());
        }
        self.is_rejected.store(true, Ordering::Relaxed);
    }

    /// Notes an answer to a transaction, and logs the first one after a refusal.
    pub(super) fn accepted(&self) {
        if self.is_rejected.load(Ordering::Relaxed)
            && self.is_rejected.swap(false, Ordering::Relaxed)
        {
            info!("etcd accepts this process again");
            *self.reported.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}
