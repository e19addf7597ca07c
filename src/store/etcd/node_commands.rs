//! Nodes as clients see them, and the commands that they are sent.

use std::time::Duration;

use etcd_client::KeyValue;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{NodeName, TaskId};

use super::{
    Inner,
    errors::Fault,
    item::Item,
    leases::number,
    peers::{self, Told},
    records::{self, Registration, number as number_of},
};
use crate::store::{Error, Lease, NodeCommand, NodeRecord, QueuedNodeCommand};

/// How long an answer is kept for whoever asked.
const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// `/NS/nodes/NAME/commands/X`, as Metafora writes it.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    command: String,
    #[serde(default)]
    parameters: Option<Parameters>,
    /// Its place in the numbers of its revision.
    #[serde(default)]
    place: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Parameters {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskId>,
}

/// Reads a node command; one that cannot be read has its order and the reason.
pub(super) fn read(kv: &KeyValue) -> (u64, Result<QueuedNodeCommand, String>) {
    let stored = match records::parse::<Stored>(kv) {
        Ok(stored) => stored,
        Err(reason) => return (number_of(kv.create_revision(), 0), Err(reason)),
    };
    let order = number_of(kv.create_revision(), stored.place);
    let command = match (
        stored.command.as_str(),
        stored.parameters.unwrap_or_default().task,
    ) {
        ("freeze", _) => NodeCommand::Freeze,
        ("unfreeze", _) => NodeCommand::Unfreeze,
        ("balance", _) => NodeCommand::Balance,
        ("drain", _) => NodeCommand::Drain,
        ("stop_task", Some(task)) => NodeCommand::StopTask { task },
        ("stop_task", None) => return (order, Err("stop_task names no task".into())),
        (other, _) => return (order, Err(format!("'{other}' is no command of a node"))),
    };
    (order, Ok(QueuedNodeCommand { order, command }))
}

fn write(command: NodeCommand, place: u32) -> Result<String, Error> {
    let (name, task) = match command {
        NodeCommand::Freeze => ("freeze", None),
        NodeCommand::Unfreeze => ("unfreeze", None),
        NodeCommand::Balance => ("balance", None),
        NodeCommand::Drain => ("drain", None),
        NodeCommand::StopTask { task } => ("stop_task", Some(task)),
    };
    let stored = Stored {
        command: name.to_owned(),
        parameters: Some(Parameters { task }),
        place,
    };
    records::write("command", &stored)
}

const LIST_NODES: &str = "list the nodes";

fn record(lease: i64, told: Registration, lease_left_ms: u64, claims: u64) -> NodeRecord {
    NodeRecord {
        spec: told.spec,
        status: told.status,
        lease: u64::try_from(lease).unwrap_or(0),
        joined_at: told.joined_at,
        lease_left_ms,
        claims,
    }
}

impl Inner {
    pub(super) async fn nodes_of(&self) -> Result<Vec<NodeRecord>, Error> {
        let mut nodes = Vec::new();
        for (lease, told) in self.registrations().await? {
            let look = self.look_at_lease(lease).await;
            let look = look.map_err(|fault| fault.into_error(LIST_NODES))?;
            let Some((left, mut claims)) = look else {
                continue;
            };
            for lease in &told.leases {
                let more = self.look_at_lease(*lease).await;
                let more = more.map_err(|fault| fault.into_error(LIST_NODES))?;
                claims += more.map_or(0, |(_, claims)| claims);
            }
            nodes.push(record(lease, told, left * 1000, claims));
        }
        Ok(nodes)
    }

    /// The same without asking anybody, where a watch is open: the claims are what the nodes told
    /// last, and how long their leases hold is not known. Nodes of Metafora are left out: they tell
    /// neither how much they have nor how much they could take, and take whatever is free, so that
    /// work given back for their sake would all end up there.
    pub(super) async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        let all = match self.peers.known() {
            Some(known) => known,
            None => self.registrations().await?,
        };
        let ours = |(_, told): &Told| told.spec.version != peers::METAFORA;
        let peers = all.into_iter().filter(ours).map(|(lease, told)| {
            let claims = u64::from(told.status.running);
            record(lease, told, 0, claims)
        });
        Ok(peers.collect())
    }

    /// What the nodes told of themselves, with their leases.
    async fn registrations(&self) -> Result<Vec<Told>, Error> {
        let all = self.get_all(&self.keys.nodes()).await;
        let (all, _) = all.map_err(|fault| fault.into_error(LIST_NODES))?;
        let nodes = all.iter().filter_map(|kv| peers::read(&self.keys, kv));
        Ok(nodes.map(|(_, told)| told).collect())
    }

    pub(super) async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
    ) -> Result<u64, Error> {
        const OPERATION: &str = "send a command to a node";
        let registration = self.keys.registration(node);
        let found = self.get_key(&registration).await;
        let found = found.map_err(|fault| fault.into_error(OPERATION))?;
        let lease = found.ok_or_else(|| Error::no_node(node))?.lease();
        let mut item = Item::new(format!("n{node}")).at(self.pipeline.places(1), 1);
        let place = item.place;
        item.when_there(&registration);
        let id = uuid::Uuid::now_v7();
        let key = format!("{}{id}", self.keys.node_commands(node));
        // On the node's lease: a command that waits goes with its node.
        item.put_on(&key, write(command, place)?, lease);
        match self.pipeline.write(item).await {
            Ok(done) => done
                .written
                .map(|at| number_of(at, place))
                .ok_or_else(|| Error::no_node(node)),
            Err(Fault::LeaseGone) => Err(Error::no_node(node)),
            Err(Fault::Unknown(reason)) => match self.get_key(&key).await {
                Ok(Some(kv)) => Ok(read(&kv).0),
                _ => Err(Error::unavailable(OPERATION, reason)),
            },
            Err(fault) => Err(fault.into_error(OPERATION)),
        }
    }

    pub(super) async fn acknowledge(
        &self,
        lease: &Lease,
        order: u64,
        outcome: &str,
    ) -> Result<(), Error> {
        const OPERATION: &str = "answer a node command";
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let registration = self.get_key(&self.keys.registration(&lease.node)).await;
        let registration = registration.map_err(failed)?;
        if registration.is_none_or(|kv| kv.lease() != number(lease.id)) {
            return Err(Error::lease_fenced(&lease.node));
        }
        let prefix = self.keys.node_commands(&lease.node);
        let (waiting, _) = self.get_all(&prefix).await.map_err(failed)?;
        let answer = self.keys.answer(order);
        let Some(kv) = waiting.iter().find(|kv| read(kv).0 == order) else {
            // The first answer is the one that its sender may have read already.
            let answered = self.get_key(&answer).await.map_err(failed)?;
            return answered
                .map(|_| ())
                .ok_or_else(|| Error::no_node_command(order));
        };
        let kept = self.grant_for(ANSWERS_KEPT).await.map_err(failed)?;
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        let mut item = Item::new(format!("n{}", lease.node));
        item.when_at(&key, kv.mod_revision());
        item.delete(&key);
        item.put_on(&answer, records::write("outcome", outcome)?, kept);
        self.pipeline.write(item).await.map_err(failed)?;
        Ok(())
    }

    pub(super) async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        const OPERATION: &str = "read the answer of a node";
        let failed = |fault: Fault| fault.into_error(OPERATION);
        // First those that wait: one that is answered meanwhile is then found, not missed.
        let (nodes, _) = self.get_all(&self.keys.nodes()).await.map_err(failed)?;
        let waits = nodes.iter().any(|kv| {
            let key = String::from_utf8_lossy(kv.key());
            key.contains("/commands/") && read(kv).0 == order
        });
        let answer = self
            .get_key(&self.keys.answer(order))
            .await
            .map_err(failed)?;
        match answer {
            Some(kv) => Ok(records::parse(&kv).ok()),
            None if waits => Ok(None),
            None => Err(Error::no_node_command(order)),
        }
    }
}
