//! The leases to which the records of applied transactions are attached.
//!
//! A lease lasts two hours, and gets records in its first hour, so a record is kept for one to two
//! hours. The processes of a namespace share the lease of the key `meta/transactions`. The end of a
//! lease deletes its records in one revision, so each process attaches only a limited number to one
//! lease.

use std::time::Duration;

use tokio::{sync::Mutex, time::Instant};
use tracing::debug;

use crate::store::etcd::{client::Fault, read::Access, write::Item};

/// How long a record is kept at least.
const KEPT: Duration = Duration::from_secs(3600);
/// How long a lease lives.
const LIVES: Duration = Duration::from_secs(2 * 3600);
/// How many records a process attaches to one lease.
const RECORDS: u32 = 1000;

/// The lease in use.
pub(crate) struct RecordLease {
    access: Access,
    current: Mutex<Option<Current>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Current {
    lease: i64,
    /// Until when it gets records.
    until: Instant,
    /// How many more records it may get.
    room: u32,
}

/// What to do for the next record.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Attach it to this lease.
    Use(i64),
    /// Use the lease that the processes share, if it lasts long enough.
    Share,
    /// Grant a lease: the one in use is full.
    Grant,
}

/// Takes room for a record.
fn next(current: &mut Option<Current>, now: Instant) -> Next {
    match current {
        Some(current) if current.until <= now => Next::Share,
        None => Next::Share,
        Some(current) => match current.room.checked_sub(1) {
            Some(room) => {
                current.room = room;
                Next::Use(current.lease)
            }
            None => Next::Grant,
        },
    }
}

impl RecordLease {
    pub(crate) fn new(access: Access) -> Self {
        let current = Mutex::default();
        Self { access, current }
    }

    /// Returns the lease for the next record. The first call of each hour reads or grants it.
    pub(crate) async fn lease(&self) -> Result<i64, Fault> {
        let mut current = self.current.lock().await;
        let shared = match next(&mut current, Instant::now()) {
            Next::Use(lease) => return Ok(lease),
            Next::Share => self.shared().await?,
            Next::Grant => None,
        };
        let (lease, lives) = match shared {
            Some(shared) => shared,
            None => (self.grant().await?, LIVES),
        };
        *current = Some(Current {
            lease,
            until: Instant::now() + lives.saturating_sub(KEPT),
            room: RECORDS - 1,
        });
        Ok(lease)
    }

    /// Drops a lease that the servers do not know.
    pub(crate) async fn is_gone(&self, lease: i64) {
        let mut current = self.current.lock().await;
        current.take_if(|current| current.lease == lease);
    }

    /// Reads the lease that the processes share, with its remaining time; `None` when it ends too
    /// early for a record.
    async fn shared(&self) -> Result<Option<(i64, Duration)>, Fault> {
        let (link, key) = (self.access.link(), self.access.keys().transactions());
        let Some(lease) = link.get_key(&key).await?.map(|kv| kv.lease()) else {
            return Ok(None);
        };
        let mut client = link.leases();
        let left = match link.call(client.time_to_live(lease, None)).await {
            Ok(found) => Duration::from_secs(u64::try_from(found.ttl()).unwrap_or(0)),
            Err(Fault::LeaseGone) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        Ok((left > KEPT).then_some((lease, left)))
    }

    /// Grants a lease, and shares it.
    async fn grant(&self) -> Result<i64, Fault> {
        let lease = self.access.link().grant(LIVES).await?;
        let key = self.access.keys().transactions();
        let mut item = Item::new("transactions");
        item.put_on(&key, String::new(), lease);
        // Without the key, another process grants its own lease.
        if let Err(fault) = self.access.pipeline.write(item).await {
            debug!(?fault, "could not share the lease of the transactions");
        }
        Ok(lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_gets_records_in_its_first_hour_until_it_is_full() {
        let now = Instant::now();
        let fresh = Current {
            lease: 7,
            until: now + KEPT,
            room: 2,
        };
        assert_eq!(next(&mut None, now), Next::Share);
        let mut current = Some(fresh);
        assert_eq!(next(&mut current, now), Next::Use(7));
        assert_eq!(next(&mut current, now), Next::Use(7));
        assert_eq!(next(&mut current, now), Next::Grant);
        let later = now + KEPT;
        assert_eq!(next(&mut Some(fresh), later), Next::Share);
        assert_eq!(next(&mut current, later), Next::Share);
    }
}
