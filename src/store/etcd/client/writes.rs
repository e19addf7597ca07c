//! The transactions that write, and whether the cluster took the last one.

use etcd_client::{Txn, TxnResponse};

use super::{fault::Fault, link::Link};
use crate::store::Error;

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

    /// Returns why the cluster did not take the last write of this process.
    pub(crate) fn write_error(&self) -> Option<Error> {
        self.last.error()
    }
}
