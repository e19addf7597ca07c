//! The keys below `/NS/nodes/`: registrations, and the commands to this node.

use etcd_client::EventType;
use tracing::{error, warn};

use super::{NodeWatch, StreamEnd};
use crate::store::{
    Event, Lease,
    etcd::{
        node::number,
        schema::{
            KeyValue, Reported,
            format::{FOREIGN_ADVICE, FOREIGN_NODES},
            node_commands,
            ranges::is_pointer,
            registrations::{self, METAFORA},
        },
    },
};

impl NodeWatch {
    /// Applies a key below `/NS/nodes/`: a registration, or a command to this node.
    pub(super) async fn node_key(
        &mut self,
        event: EventType,
        kv: &KeyValue,
    ) -> Result<(), StreamEnd> {
        let keys = &self.by.reader.keys;
        let Some((node, rest)) = registrations::split(keys, kv.key()) else {
            return Ok(());
        };
        let ours = node == self.lease.node;
        if rest == "_metafora" {
            let reported = match event {
                EventType::Put => registrations::read(keys, kv).map(|(_, reported)| reported),
                EventType::Delete => None,
            };
            let is_foreign = |(_, known): &Reported| known.spec.version == METAFORA;
            if reported.as_ref().is_some_and(is_foreign)
                && self
                    .by
                    .reader
                    .keys
                    .layout()
                    .is_some_and(|layout| !layout.is_shared())
            {
                error!(%node, "{FOREIGN_NODES}; {FOREIGN_ADVICE}");
            }
            let (watch, revision) = (self.lease.id, kv.mod_revision());
            self.by
                .peers
                .update(|nodes| nodes.changed(watch, revision, node, reported));
            let gone = event == EventType::Delete || kv.lease() != number(self.lease.id);
            return match ours {
                true if gone => Err(StreamEnd::Over),
                true => {
                    self.registered = self.registered.max(kv.mod_revision());
                    Ok(())
                }
                false => self.send(vec![Event::Peers]).await,
            };
        }
        let name = rest.strip_prefix("commands/");
        let name = name.filter(|name| !name.contains('/') && !is_pointer(kv));
        // Every server receives the commands of workers.
        let is_reported = ours || self.by.peers.is_worker(self.lease.id, &node);
        if is_reported && name.is_some() && event == EventType::Put {
            // A client of Metafora attaches its commands to no lease.
            let to = match ours {
                true => self.lease.clone(),
                false => {
                    let lease = u64::try_from(kv.lease()).unwrap_or(0);
                    Lease::new(lease, node, self.lease.ttl)
                }
            };
            return self.node_command(&to, kv).await;
        }
        Ok(())
    }

    async fn node_command(&mut self, to: &Lease, kv: &KeyValue) -> Result<(), StreamEnd> {
        let (order, read) = node_commands::read(kv);
        // The keys come in the order of their numbers, whichever nodes they are for.
        if order <= self.last_node_command {
            return Ok(());
        }
        self.last_node_command = order;
        match read {
            Ok(mut command) => {
                command.lease = to.id;
                self.send(vec![Event::Node(command)]).await
            }
            Err(reason) => {
                let node = &to.node;
                warn!(%node, reason, "rejecting a node command that cannot be read");
                let outcome = format!("rejected: it cannot be read: {reason}");
                // If this fails, the next watch repeats it.
                let _ = self.by.commands.acknowledge(to, order, &outcome).await;
                Ok(())
            }
        }
    }
}
