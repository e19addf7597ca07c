//! The leases of the nodes of this process: grants them, keeps them alive, and adds more when they
//! fill. All leases of a node are kept alive together. The loss of one ends them all.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tracing::debug;
use windlass_statemachine::NodeName;

use super::{
    claims::Claims,
    granted::Granted,
    node_lease::{NodeLease, Stream},
};
use crate::store::{
    Error, Lease, NodeSpec, NodeStatus,
    copy::Copied,
    etcd::{
        client::Fault,
        read::Access,
        schema::{
            Registration,
            json::write,
            ranges::{node_commands_of, ranges},
        },
        write::Item,
    },
    rules,
};

/// Joins nodes, and keeps their leases. Clones share their state.
#[derive(Clone)]
pub(crate) struct Leases {
    pub(crate) access: Access,
    pub(crate) claims: Arc<Claims>,
}

pub(crate) fn number(lease: u64) -> i64 {
    i64::try_from(lease).unwrap_or(0)
}

impl Leases {
    pub(crate) async fn join(&self, spec: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        rules::worker::check_description(false, spec)?;
        let registration = Registration::new(spec.clone(), self.access.now());
        let joined = self.enter(registration, ttl).await?;
        joined.ok_or_else(|| Error::node_exists(&spec.name))
    }

    /// Grants a lease to a node, and registers it. Returns `None` when a live node has its name.
    pub(super) async fn enter(
        &self,
        registration: Registration,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        const OPERATION: &str = "join";
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let spec = &registration.spec;
        self.may_join(&spec.name).await?;
        // A node makes the namespace used, so the location of props is decided before.
        self.access.reader.decided(OPERATION).await?;
        let mark = self.access.reader.load_mark().await.map_err(failed)?;
        Copied::refuse(mark.as_ref())?;
        let granted = Granted::new(self.access.link(), ttl).await;
        let mut granted = granted.map_err(failed)?;
        let id = granted.id;
        let key = self.access.keys().registration(&spec.name);
        let mut item = Item::of_node(&spec.name);
        item.when_at(&key, 0);
        item.when_at(&self.access.keys().restored(), 0);
        // Unanswered commands were meant for an earlier node with this name.
        self.delete_commands(&mut item, &spec.name).await?;
        item.put_on(&key, write("node", &registration)?, id);
        if registration.remote.is_some() {
            // From the write on, another server may find the registration of a worker, and the worker uses its lease.
            granted.keep();
        }
        let joined = match self.access.pipeline.write(item).await {
            Ok(done) => done.written.is_some(),
            Err(Fault::Unknown(_)) => {
                let found = self.access.reader.key(&key, OPERATION).await?;
                found.is_some_and(|kv| kv.lease() == id)
            }
            Err(fault) => return Err(fault.into_error(OPERATION)),
        };
        if !joined {
            granted.revoke().await;
            self.may_join(&spec.name).await?;
            return Ok(None);
        }
        // They do not change while this node lives.
        self.access.reader.load_format().await.map_err(failed)?;
        granted.keep();
        let lease = Lease::new(u64::try_from(id).unwrap_or(0), spec.name.clone(), ttl);
        let node = NodeLease::new(registration, id, ttl);
        self.claims.joined(lease.id, node);
        Ok(Some(lease))
    }

    pub(crate) async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        if let Some(error) = self.gone_back(&lease.node).await {
            return Err(error);
        }
        let node = self.attached(lease).await?;
        self.report_status(lease, &node, status);
        self.renew_all(lease, &node).await
    }

    pub(crate) async fn describe(&self, lease: &Lease, spec: &NodeSpec) -> Result<(), Error> {
        if let Some(error) = self.gone_back(&lease.node).await {
            return Err(error);
        }
        let node = self.attached(lease).await?;
        rules::worker::check_description(node.is_worker, spec)?;
        let change = |registration: &mut Registration| registration.spec.clone_from(spec);
        self.change(lease, &node, change).await
    }

    /// Changes the registration of a node, and writes it.
    async fn change(
        &self,
        lease: &Lease,
        node: &NodeLease,
        change: impl Fn(&mut Registration),
    ) -> Result<(), Error> {
        if node.is_worker {
            return self.amend(lease, node, (change, false)).await;
        }
        change(&mut node.state().registration);
        self.register(lease, node).await
    }

    /// Renews all leases of a node at once, each with its own time limit.
    pub(super) async fn renew_all(&self, lease: &Lease, node: &NodeLease) -> Result<(), Error> {
        let mut streams = node.streams.lock().await;
        let (ids, ttl) = (node.ids(), node.ttl);
        let renewals = ids.iter().map(|id| {
            let stream = streams.remove(id);
            async move { (*id, self.keep_alive(*id, stream, ttl).await) }
        });
        let mut failed = None;
        for (id, renewed) in join_all(renewals.collect::<Vec<_>>()).await {
            match renewed {
                Ok(stream) => {
                    streams.insert(id, stream);
                }
                Err(Fault::LeaseGone) => {
                    drop(streams);
                    self.claims.lost(lease.id);
                    return Err(Error::lease_fenced(&lease.node));
                }
                Err(fault) => failed = Some(fault),
            }
        }
        match failed {
            Some(fault) => Err(fault.into_error("renew the lease")),
            None => Ok(()),
        }
    }

    /// Starts to write the status of the node if it has changed. The renewal does not wait for the
    /// write, which may take as long as the members need to elect a leader. The next renewal
    /// repeats a failed write.
    fn report_status(&self, lease: &Lease, node: &Arc<NodeLease>, status: &NodeStatus) {
        {
            let mut state = node.state();
            state.registration.status = status.clone();
            if state.writing || state.reported.as_ref() == Some(status) {
                return;
            }
            state.writing = true;
        }
        let (leases, lease, node) = (self.clone(), lease.clone(), node.clone());
        tokio::spawn(async move {
            while let Some(status) = node.unreported() {
                // Without an answer, either status may be stored.
                let change = |registration: &mut Registration| registration.status = status.clone();
                let written = match node.is_worker {
                    true => leases.amend(&lease, &node, (change, true)).await,
                    false => leases.change(&lease, &node, change).await,
                };
                match written {
                    Ok(()) => node.state().reported = Some(status),
                    Err(error) => {
                        debug!(node = %lease.node, %error, "could not report the status of the node");
                        node.state().writing = false;
                        break;
                    }
                }
            }
        });
    }

    /// Renews one lease, on the stream of the last renewal if it still works. A silent stream must
    /// not use up the remaining time of the lease.
    async fn keep_alive(
        &self,
        id: i64,
        stream: Option<Stream>,
        ttl: Duration,
    ) -> Result<Stream, Fault> {
        let limit = self.access.link().timeout().min(ttl / 6);
        if let Some((mut keeper, mut answers, turn)) = stream {
            let renewed = self.access.link().call_within(turn, limit, async {
                keeper.keep_alive().await?;
                answers.message().await
            });
            match renewed.await {
                Ok(Some(answer)) if answer.ttl() > 0 => return Ok((keeper, answers, turn)),
                Ok(Some(_)) | Err(Fault::LeaseGone) => return Err(Fault::LeaseGone),
                // A broken stream says nothing about the lease.
                Ok(None) | Err(_) => {}
            }
        }
        let mut client = self.access.link().leases();
        let turn = self.access.link().turn();
        let opened = self
            .access
            .link()
            .call_within(turn, limit, client.keep_alive(id));
        let (keeper, answers) = opened.await?;
        Ok((keeper, answers, turn))
    }

    /// Writes the registration of the node.
    async fn register(&self, lease: &Lease, node: &NodeLease) -> Result<(), Error> {
        let key = self.access.keys().registration(&lease.node);
        let _one = node.registering.lock().await;
        let text = write("node", &node.state().registration)?;
        let mut item = Item::of_node(&lease.node);
        // Urgent, because other nodes must know that it drains before they see the tasks that it
        // releases: otherwise they would defer these tasks to it.
        item.urgent = true;
        item.when_there(&key);
        item.put_on(&key, text, number(lease.id));
        match self.access.pipeline.write(item).await {
            Ok(done) if done.written.is_some() => Ok(()),
            Ok(_) | Err(Fault::LeaseGone) => {
                self.claims.lost(lease.id);
                Err(Error::lease_fenced(&lease.node))
            }
            Err(fault) => Err(fault.into_error("report the status of a node")),
        }
    }

    /// Returns the lease to which the next claim is attached.
    pub(crate) async fn lease_for_claim(&self, lease: &Lease) -> Result<i64, Error> {
        loop {
            if let Some(id) = self.claims.room(lease.id) {
                return Ok(id);
            }
            self.make_room(lease, 1).await?;
        }
    }

    /// Grants leases until there is room for this many more claims.
    pub(crate) async fn make_room(&self, lease: &Lease, claims: usize) -> Result<(), Error> {
        const OPERATION: &str = "grant a further lease";
        let node = self.attached(lease).await?;
        while node.places_left() < claims {
            let _one = node.growing.lock().await;
            if node.places_left() >= claims {
                break;
            }
            let granted = self.access.link().grant(node.ttl).await;
            let id = granted.map_err(|fault| fault.into_error(OPERATION))?;
            node.state().leases.push((id, 0));
            let change = |registration: &mut Registration| registration.leases.push(id);
            self.change(lease, &node, change).await?;
        }
        Ok(())
    }

    /// Adds the deletion of the commands in the queue of a node with this name.
    async fn delete_commands(&self, item: &mut Item, node: &NodeName) -> Result<(), Error> {
        let prefix = self.access.keys().node_commands(node);
        let kvs = self
            .access
            .reader
            .all(&prefix, "read the commands of a node")
            .await?;
        item.delete_ranges(ranges(&prefix, &node_commands_of(&kvs, &prefix)));
        Ok(())
    }
}
