//! [`Hold`]: keeps the nodes of the namespace from compacting the revision that an export reads.

use std::time::Duration;

use etcd_client::PutOptions;
use tokio::{runtime::Handle, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::store::etcd::{
    client::{Fault, Link},
    read::Reader,
};

/// How long the key stays after the process that reads has died.
const TTL: Duration = Duration::from_secs(60);

/// A key on a lease. The revision that created it is the one to read: no node compacts to a later one
/// ([`first`]). Other programs, and the members themselves, do not know it.
pub(crate) struct Hold {
    link: Link,
    lease: i64,
    /// The revision that can be read.
    pub(crate) revision: i64,
    _renewal: AbortOnDropHandle<()>,
}

impl Hold {
    /// Writes the key.
    pub(crate) async fn take(reader: &Reader) -> Result<Self, Fault> {
        let link = reader.link.clone();
        let lease = link.grant(TTL).await?;
        let mut client = link.kv();
        let options = PutOptions::new().with_lease(lease);
        let put = client.put(reader.keys.moment(), "", Some(options));
        let put = link.call(put).await;
        let renewal = tokio::spawn(renew(link.clone(), lease));
        // Dropped when the put has failed: the lease ends.
        let mut hold = Self {
            link,
            lease,
            revision: 0,
            _renewal: AbortOnDropHandle::new(renewal),
        };
        hold.revision = put?.header().map_or(0, |header| header.revision());
        Ok(hold)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let (link, lease) = (self.link.clone(), self.lease);
        // Without a runtime the lease ends by itself.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { link.revoke(lease).await });
        }
    }
}

async fn renew(link: Link, lease: i64) {
    loop {
        sleep(TTL / 3).await;
        let mut client = link.leases();
        let renewed = link.call(async {
            let (mut keeper, mut answers) = client.keep_alive(lease).await?;
            keeper.keep_alive().await?;
            answers.message().await
        });
        if let Err(fault) = renewed.await {
            debug!(
                ?fault,
                "could not renew the lease of an export; trying again"
            );
        }
    }
}

/// Returns the oldest revision that an export reads; `None` when no export runs.
pub(crate) async fn first(reader: &Reader) -> Result<Option<i64>, Fault> {
    let (holds, _) = reader.link.get_all(&reader.keys.moments()).await?;
    Ok(holds.iter().map(|kv| kv.create_revision()).min())
}
