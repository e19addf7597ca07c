//! [`Granted`]: a lease that no node has yet.

use std::time::Duration;

use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};
use windlass_statemachine::Backoff;

use crate::store::etcd::client::{Fault, Link};

/// A lease that was granted for a registration. Dropped before it is [kept](Self::keep), it is revoked: a
/// registration that was stored without an answer would hold the name until the lease expires.
pub(super) struct Granted {
    link: Link,
    pub(super) id: i64,
    ttl: Duration,
    is_kept: bool,
}

impl Granted {
    pub(super) async fn new(link: &Link, ttl: Duration) -> Result<Self, Fault> {
        let id = link.grant(ttl).await?;
        Ok(Self {
            link: link.clone(),
            id,
            ttl,
            is_kept: false,
        })
    }

    /// Leaves the lease as it is.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Revokes the lease. After a failure it is tried again, without the caller.
    pub(super) async fn revoke(mut self) {
        self.is_kept = self.link.revoke(self.id).await.is_ok();
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // Without a runtime the process is about to end.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(revoke(self.link.clone(), self.id, self.ttl));
        }
    }
}

/// Revokes a lease, until it has expired.
async fn revoke(link: Link, id: i64, ttl: Duration) {
    let expired = Instant::now() + ttl;
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    while link.revoke(id).await.is_err() && Instant::now() < expired {
        sleep(backoff.jittered(fastrand::f64())).await;
    }
}
