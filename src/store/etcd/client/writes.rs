//! The transactions that write, and whether the cluster took the last one.

use std::time::Duration;

use etcd_client::{Txn, TxnResponse};
use tokio::time::timeout;

use super::{
    fault::{self, Fault},
    link::Link,
};
use crate::store::Error;

/// How long a page waits for the status of a member at most.
const LOOK: Duration = Duration::from_millis(500);

impl Link {
    /// Like [`txn`](Self::txn), for a transaction that writes.
    pub(crate) async fn write(&self, txn: Txn) -> Result<TxnResponse, Fault> {
        let answer = self.txn(txn).await;
        match &answer {
            Ok(answer) if answer.succeeded() => self.last.note(None),
            // Its conditions did not hold. A transaction that writes nothing succeeds with a full quota, too.
            Ok(_) => {}
            // It says something about a node, and nothing about the cluster.
            Err(Fault::LeaseGone) => {}
            Err(fault) => self.last.note(Some(fault.clone().into_error("write"))),
        }
        answer
    }

    /// Returns why the cluster takes no writes: what the last write of this process met, or the alarms that a member reports.
    pub(crate) async fn write_error(&self) -> Option<Error> {
        let looked = self.last.error_or(self.alarm(), is_quota);
        looked.await
    }

    /// Returns the alarm that keeps the cluster from taking writes. A status is answered by one member, without the quorum
    /// that a request for the alarms needs. One that does not come says nothing about writes.
    async fn alarm(&self) -> Option<Error> {
        let mut client = self.maintenance();
        let status = timeout(LOOK, self.call(client.status())).await;
        let status = status.ok()?.ok()?;
        let mut errors = status.errors().iter();
        let full = errors.any(|error| error.contains("NOSPACE"));
        full.then(|| Error::unavailable("write", fault::QUOTA_FULL))
    }
}

/// Returns whether a status shows when the cause of an error is gone.
fn is_quota(error: &Error) -> bool {
    error.to_string().contains(fault::QUOTA_FULL)
}
