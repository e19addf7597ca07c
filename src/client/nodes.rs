//! Nodes, the commands to them, and the history of the namespace.

use windlass_statemachine::{Invalid, Kind, NodeName};

use super::{Client, name};
use crate::store::{AuditEntry, Error, NodeCommand, NodeCommandId, NodeRecord};

impl Client {
    /// Returns the live nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.store.registry().nodes().await
    }

    /// Returns whether a live node has a handler for this kind.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn is_handled(
        &self,
        kind: impl TryInto<Kind, Error: Into<Invalid>>,
    ) -> Result<bool, Error> {
        let kind = name(kind)?;
        let nodes = self.nodes().await?;
        Ok(nodes.iter().any(|n| {
            n.spec
                .kinds
                .as_ref()
                .is_none_or(|kinds| kinds.contains(&kind))
        }))
    }

    /// Sends a command to a node. Returns its number, for [`node_outcome`](Self::node_outcome).
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when no live node has that name, [`Error::Unavailable`].
    pub async fn command_node(
        &self,
        node: impl TryInto<NodeName, Error: Into<Invalid>>,
        command: NodeCommand,
    ) -> Result<NodeCommandId, Error> {
        let registry = self.store.registry();
        let by = Some(&self.by);
        registry.send_node(&name(node)?, command, by).await
    }

    /// Returns the history of the namespace, oldest first: at most the last `limit` changes after which no task
    /// remains to record them, with their authors. Those are deletions, purges and commands to nodes of the last 90
    /// days ([`AUDIT_RETENTION`](crate::store::AUDIT_RETENTION)).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        self.store.registry().audit(limit).await
    }

    /// Returns a node's answer to a command; `None` while it has not answered.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when the command does not exist (any more), [`Error::Unavailable`].
    pub async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        self.store.registry().node_outcome(command).await
    }
}
