//! A node whose etcd was restored to an earlier state leaves a note, and no node can join while the note exists.
//!
//! Continuing would not be safe: fences are revisions, so an owner from the lost history could pass for a new
//! one.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tracing::warn;
use windlass_statemachine::NodeName;

use super::lease::Leases;
use crate::store::{
    Error,
    etcd::{
        client::{Behind, Fault},
        schema::{
            Restored,
            json::{parse, write},
            restored, revision,
        },
    },
};

/// How often a node tries to write the note while others do.
const TRIES: usize = 4;

impl Leases {
    /// Writes the note and returns the error, if the node's etcd has gone back to an earlier state.
    pub(super) async fn gone_back(&self, node: &NodeName) -> Option<Error> {
        let behind = self.access.link().past().behind()?;
        // Another node, or the next call, repeats it.
        if let Err(fault) = self.note(node, behind).await {
            let error = fault.into_error("note that the etcd was restored");
            warn!(%node, %error, "could not note that the etcd was restored to an earlier state");
        }
        Some(behind.error())
    }

    /// Refuses a join while the note exists.
    pub(super) async fn may_join(&self, node: &NodeName) -> Result<(), Error> {
        if let Some(error) = self.gone_back(node).await {
            return Err(error);
        }
        match self.no_node_may_join().await? {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Returns the content of the note, with what to do.
    pub(crate) async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        let key = self.access.keys().restored();
        let note = self
            .access
            .reader
            .key(&key, "read the note of a restore")
            .await?;
        Ok(note.map(|kv| match parse::<Restored>(&kv) {
            Ok(note) => restored(note.what()),
            Err(reason) => restored(format_args!("{key} cannot be read: {reason}")),
        }))
    }

    /// Writes the note, unless there is one from a node that had seen at least as much.
    async fn note(&self, node: &NodeName, Behind { seen, found }: Behind) -> Result<(), Fault> {
        let (key, link) = (self.access.keys().restored(), self.access.link());
        let note = Restored {
            at: self.access.now(),
            node: node.clone(),
            seen,
            found,
            fence: self.access.reader.fences.of(seen).0,
        };
        let text = write("restored", &note).map_err(Fault::Refused)?;
        for _ in 0..TRIES {
            let there = link.get_key(&key).await?;
            let known = there.as_ref().and_then(|kv| parse::<Restored>(kv).ok());
            if known.is_some_and(|known| known.seen >= seen) {
                return Ok(());
            }
            let same = Compare::mod_revision(&*key, CompareOp::Equal, revision(there.as_ref()));
            let txn = Txn::new()
                .when([same])
                .and_then([TxnOp::put(&*key, &*text, None)]);
            if link.txn_of_any_past(txn).await?.succeeded() {
                return Ok(());
            }
        }
        Err(Fault::NotNow("it changes too often".into()))
    }
}
