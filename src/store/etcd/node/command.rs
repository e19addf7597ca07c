//! Commands to nodes, and their answers.

use std::time::Duration;

use windlass_statemachine::{Author, NodeName};

use super::lease::number as lease_number;
use crate::store::{
    AuditAction, AuditEntry, Error, Lease, NodeCommand, NodeCommandId,
    copy::Copied,
    etcd::{
        client::Fault,
        read::Access,
        schema::{
            json::{parse, write},
            node_commands::{self, read},
            numbers::number,
        },
        write::Item,
    },
};

/// How long an answer is kept for its sender.
const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Sends commands to nodes, and answers them. Clones share their state.
#[derive(Clone)]
pub(crate) struct NodeCommands {
    pub(crate) access: Access,
}

impl NodeCommands {
    pub(crate) async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        const OPERATION: &str = "send a command to a node";
        let mark = self.access.reader.load_mark().await;
        let mark = mark.map_err(|fault| fault.into_error(OPERATION))?;
        Copied::check_node(mark.as_ref(), &command)?;
        let registration = self.access.keys().registration(node);
        let found = self.access.reader.key(&registration, OPERATION).await?;
        let lease = found.ok_or_else(|| Error::no_node(node))?.lease();
        let mut item = Item::of_node(node).at(self.access.pipeline.places(1), 1);
        let place = item.place;
        item.when_there(&registration);
        let id = crate::unique_id::new();
        let key = format!("{}{id}", self.access.keys().node_commands(node));
        // Attached to the node's lease, so that a queued command expires with its node.
        item.put_on(&key, node_commands::write(command.clone(), place)?, lease);
        let entry = AuditEntry {
            at: self.access.now(),
            by: by.cloned(),
            what: AuditAction::NodeCommanded {
                node: node.clone(),
                send: command,
            },
        };
        let line = write("history of the namespace", &entry)?;
        item.put(&self.access.keys().audit(), line);
        match self.access.pipeline.write(item).await {
            Ok(done) => done
                .written
                .map(|at| NodeCommandId(number(at, place)))
                .ok_or_else(|| Error::no_node(node)),
            Err(Fault::LeaseGone) => Err(Error::no_node(node)),
            Err(Fault::Unknown(reason)) => match self.access.link().get_key(&key).await {
                Ok(Some(kv)) => Ok(read(&kv).0),
                _ => Err(Error::unavailable(OPERATION, reason)),
            },
            Err(fault) => Err(fault.into_error(OPERATION)),
        }
    }

    pub(crate) async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        const OPERATION: &str = "answer a node command";
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let registration = self.access.keys().registration(&lease.node);
        let registration = self.access.reader.key(&registration, OPERATION).await?;
        if registration.is_none_or(|kv| kv.lease() != lease_number(lease.id)) {
            return Err(Error::lease_fenced(&lease.node));
        }
        let prefix = self.access.keys().node_commands(&lease.node);
        let waiting = self.access.reader.all(&prefix, OPERATION).await?;
        let answer = self.access.keys().answer(command.0);
        let Some(kv) = waiting.iter().find(|kv| read(kv).0 == command) else {
            // The first answer stays: its sender may have read it.
            let answered = self.access.reader.key(&answer, OPERATION).await?;
            return answered
                .map(|_| ())
                .ok_or_else(|| Error::no_node_command(command));
        };
        let kept = self
            .access
            .link()
            .grant(ANSWERS_KEPT)
            .await
            .map_err(failed)?;
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        let mut item = Item::of_node(&lease.node);
        item.when_at(&key, kv.mod_revision());
        item.delete(&key);
        item.put_on(&answer, write("outcome", outcome)?, kept);
        self.access.pipeline.write(item).await.map_err(failed)?;
        Ok(())
    }

    pub(crate) async fn node_outcome(
        &self,
        command: NodeCommandId,
    ) -> Result<Option<String>, Error> {
        const OPERATION: &str = "read the answer of a node";
        // The queued ones first: a command that is answered in the meantime is then found among the
        // answers.
        let nodes = self.access.keys().nodes();
        let nodes = self.access.reader.all(&nodes, OPERATION).await?;
        let waits = nodes.iter().any(|kv| {
            let key = String::from_utf8_lossy(kv.key());
            key.contains("/commands/") && read(kv).0 == command
        });
        let answer = self.access.keys().answer(command.0);
        match self.access.reader.key(&answer, OPERATION).await? {
            Some(kv) => Ok(parse(&kv).ok()),
            None if waits => Ok(None),
            None => Err(Error::no_node_command(command)),
        }
    }
}
