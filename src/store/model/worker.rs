//! Remote workers: nodes whose lease belongs to no process.

use std::time::Duration;

use super::{Lease, NodeSpec, NodeStatus, Speaker};

/// A registration of a remote worker.
#[derive(Clone)]
#[non_exhaustive]
pub struct NewWorker {
    /// Its description, with [`NodeSpec::worker`].
    pub spec: NodeSpec,
    /// The hash of the secret that the worker has made for itself. The store compares and keeps it.
    pub secret: String,
    /// How long after the last renewal its lease ends.
    pub ttl: Duration,
}

impl NewWorker {
    /// Returns the registration of a worker.
    pub fn new(spec: NodeSpec, secret: impl Into<String>, ttl: Duration) -> Self {
        Self {
            spec,
            secret: secret.into(),
            ttl,
        }
    }
}

impl std::fmt::Debug for NewWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { spec, ttl, .. } = self;
        let mut shown = f.debug_struct("NewWorker");
        shown.field("spec", spec).field("ttl", ttl);
        shown.finish_non_exhaustive()
    }
}

/// A live worker, as the store knows it.
#[derive(Clone)]
#[non_exhaustive]
pub struct WorkerRecord {
    /// Its lease, without a speaker.
    pub lease: Lease,
    /// Its description.
    pub spec: NodeSpec,
    /// Its status, as the last renewal has stored it.
    pub status: NodeStatus,
    /// The hash of its secret.
    pub secret: String,
    /// The server that speaks for it.
    pub speaker: Speaker,
}

impl WorkerRecord {
    /// Returns a worker that has just registered.
    pub fn new(lease: Lease, spec: NodeSpec, secret: impl Into<String>) -> Self {
        Self {
            lease,
            spec,
            status: NodeStatus::default(),
            secret: secret.into(),
            speaker: Speaker::default(),
        }
    }
}

impl std::fmt::Debug for WorkerRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("WorkerRecord");
        shown
            .field("lease", &self.lease)
            .field("spec", &self.spec)
            .field("speaker", &self.speaker);
        shown.finish_non_exhaustive()
    }
}
