//! The leases of the nodes of this process: joined, kept alive, and more of them when they fill.
//!
//! etcd stands still while a lease with many keys ends, so claims beyond about a thousand hang on
//! further leases of the same node. All are kept alive together; one that is gone ends them all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use futures::future::join_all;
use tracing::debug;

use super::{Inner, errors::Fault, item::Item, records, records::Registration};
use crate::store::{Error, Lease, NodeSpec, NodeStatus};

/// How many claims hang on one lease.
const CLAIMS_PER_LEASE: usize = 1000;

/// With the connection that it was opened on.
type Stream = (LeaseKeeper, LeaseKeepAliveStream, usize);

/// The leases of one node.
pub(super) struct NodeLease {
    ttl: Duration,
    state: Mutex<State>,
    /// One stream for each lease; locked for as long as all of them are renewed.
    streams: tokio::sync::Mutex<HashMap<i64, Stream>>,
    growing: tokio::sync::Mutex<()>,
}

struct State {
    registration: Registration,
    /// The status that is stored, if that is known.
    told: Option<NodeStatus>,
    /// It is being written.
    telling: bool,
    /// Each lease, and how many claims hang on it.
    leases: Vec<(i64, usize)>,
}

impl NodeLease {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ids(&self) -> Vec<i64> {
        self.state().leases.iter().map(|(id, _)| *id).collect()
    }

    fn room(&self) -> Option<i64> {
        let mut state = self.state();
        let found = state
            .leases
            .iter_mut()
            .find(|(_, n)| *n < CLAIMS_PER_LEASE)?;
        found.1 += 1;
        Some(found.0)
    }

    /// The status that is to be written next; `None` when what is stored is true.
    fn to_be_told(&self) -> Option<NodeStatus> {
        let mut state = self.state();
        let status = state.registration.status;
        if state.told.take() == Some(status) {
            (state.told, state.telling) = (Some(status), false);
            return None;
        }
        Some(status)
    }

    /// For how many more claims there is room.
    fn places_left(&self) -> usize {
        let left = |(_, n): &(i64, usize)| CLAIMS_PER_LEASE.saturating_sub(*n);
        self.state().leases.iter().map(left).sum()
    }

    /// A claim that hung on this lease is no more.
    fn freed(&self, token: i64) {
        if let Some(found) = self.state().leases.iter_mut().find(|(id, _)| *id == token) {
            found.1 = found.1.saturating_sub(1);
        }
    }
}

/// The nodes of this process.
#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<u64, Arc<NodeLease>>>);

impl Leases {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<NodeLease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, lease: u64) -> Option<Arc<NodeLease>> {
        self.lock().get(&lease).cloned()
    }

    pub(super) fn remove(&self, lease: u64) -> Option<Arc<NodeLease>> {
        self.lock().remove(&lease)
    }

    /// A lease of the node that has room for one more claim, which is counted.
    pub(super) fn room(&self, lease: u64) -> Option<i64> {
        self.get(lease)?.room()
    }

    pub(super) fn freed(&self, lease: u64, token: i64) {
        if let Some(node) = self.get(lease) {
            node.freed(token);
        }
    }
}

pub(super) fn number(lease: u64) -> i64 {
    i64::try_from(lease).unwrap_or(0)
}

impl Inner {
    async fn grant(&self, ttl: Duration) -> Result<i64, Fault> {
        let mut client = self.link.leases();
        let seconds = ttl.as_millis().div_ceil(1000).max(1);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let granted = self.link.call(client.grant(seconds, None)).await?;
        Ok(granted.id())
    }

    pub(super) async fn revoke(&self, lease: i64) -> Result<(), Fault> {
        let mut client = self.link.leases();
        match self.link.call(client.revoke(lease)).await {
            Ok(_) | Err(Fault::LeaseGone) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// A lease for a key that is to go by itself after a while.
    pub(super) async fn grant_for(&self, ttl: Duration) -> Result<i64, Fault> {
        self.grant(ttl).await
    }

    pub(super) async fn join(&self, spec: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        const OPERATION: &str = "join";
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let id = self.grant(ttl).await.map_err(failed)?;
        let registration = Registration {
            spec: spec.clone(),
            status: NodeStatus::default(),
            joined_at: self.now(),
            leases: Vec::new(),
        };
        let key = self.keys.registration(&spec.name);
        let mut item = Item::new(format!("n{}", spec.name));
        item.when_at(&key, 0);
        // Commands that no node has answered were meant for one that is gone.
        self.delete_node_commands(&mut item, &spec.name).await?;
        item.put_on(&key, records::write("node", &registration)?, id);
        let joined = match self.pipeline.write(item).await {
            Ok(done) => done.written.is_some(),
            Err(Fault::Unknown(_)) => {
                let found = self.get_key(&key).await;
                let found = found.map_err(|fault| fault.into_error(OPERATION))?;
                found.is_some_and(|kv| kv.lease() == id)
            }
            Err(fault) => return Err(fault.into_error(OPERATION)),
        };
        if !joined {
            // If that fails it ends by itself: nothing hangs on it.
            let _ = self.revoke(id).await;
            return Err(Error::node_exists(&spec.name));
        }
        // From now on they stay as they are, for as long as this node lives.
        if let Err(fault) = self.load_fences().await {
            let _ = self.revoke(id).await;
            return Err(failed(fault));
        }
        let lease = Lease {
            id: u64::try_from(id).unwrap_or(0),
            node: spec.name.clone(),
            ttl,
        };
        let node = NodeLease {
            ttl,
            state: Mutex::new(State {
                registration,
                told: Some(NodeStatus::default()),
                telling: false,
                leases: vec![(id, 0)],
            }),
            streams: tokio::sync::Mutex::default(),
            growing: tokio::sync::Mutex::default(),
        };
        self.leases.lock().insert(lease.id, Arc::new(node));
        Ok(lease)
    }

    pub(super) async fn renew(
        self: &Arc<Self>,
        lease: &Lease,
        status: &NodeStatus,
    ) -> Result<(), Error> {
        let Some(node) = self.leases.get(lease.id) else {
            return Err(Error::lease_fenced(&lease.node));
        };
        self.tell_status(lease, &node, status);
        self.renew_all(lease, &node).await
    }

    /// Renews all leases of a node at once: each has the whole time of a call.
    async fn renew_all(&self, lease: &Lease, node: &NodeLease) -> Result<(), Error> {
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
                    self.lost(lease);
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

    /// Writes how the node is, if that has changed, and waits for nothing: the lease is renewed
    /// whatever becomes of it, and a write may take as long as the members need for a new leader.
    /// What was not told now is told with the next renewal.
    fn tell_status(self: &Arc<Self>, lease: &Lease, node: &Arc<NodeLease>, status: &NodeStatus) {
        {
            let mut state = node.state();
            state.registration.status = *status;
            if state.telling || state.told == Some(*status) {
                return;
            }
            state.telling = true;
        }
        let (inner, lease, node) = (self.clone(), lease.clone(), node.clone());
        tokio::spawn(async move {
            while let Some(status) = node.to_be_told() {
                // Until there is an answer, either may be stored.
                match inner.register(&lease, &node).await {
                    Ok(()) => node.state().told = Some(status),
                    Err(error) => {
                        debug!(node = %lease.node, %error, "its status was not told");
                        node.state().telling = false;
                        break;
                    }
                }
            }
        });
    }

    /// Renews one lease, on the stream that was used before if it still works. One that is silent
    /// must not use up the time that the lease has left.
    async fn keep_alive(
        &self,
        id: i64,
        stream: Option<Stream>,
        ttl: Duration,
    ) -> Result<Stream, Fault> {
        let limit = self.link.timeout().min(ttl / 6);
        if let Some((mut keeper, mut answers, turn)) = stream {
            let renewed = self.link.call_within(turn, limit, async {
                keeper.keep_alive().await?;
                answers.message().await
            });
            match renewed.await {
                Ok(Some(answer)) if answer.ttl() > 0 => return Ok((keeper, answers, turn)),
                Ok(Some(_)) | Err(Fault::LeaseGone) => return Err(Fault::LeaseGone),
                // A stream that broke says nothing of the lease.
                Ok(None) | Err(_) => {}
            }
        }
        let mut client = self.link.leases();
        let turn = self.link.turn();
        let opened = self.link.call_within(turn, limit, client.keep_alive(id));
        let (keeper, answers) = opened.await?;
        Ok((keeper, answers, turn))
    }

    /// Writes what the node tells of itself.
    async fn register(&self, lease: &Lease, node: &NodeLease) -> Result<(), Error> {
        let key = self.keys.registration(&lease.node);
        let text = records::write("node", &node.state().registration)?;
        let mut item = Item::new(format!("n{}", lease.node));
        // That it drains has to be known before what it gives back, or others leave that to it.
        item.urgent = true;
        item.when_there(&key);
        item.put_on(&key, text, number(lease.id));
        match self.pipeline.write(item).await {
            Ok(done) if done.written.is_some() => Ok(()),
            Ok(_) | Err(Fault::LeaseGone) => {
                self.lost(lease);
                Err(Error::lease_fenced(&lease.node))
            }
            Err(fault) => Err(fault.into_error("tell how the node is")),
        }
    }

    /// Forgets a lease that is over.
    pub(super) fn lost(&self, lease: &Lease) {
        self.leases.remove(lease.id);
        self.claims.forget_lease(lease.id);
    }

    /// The lease that the next claim hangs on.
    pub(super) async fn lease_for_claim(&self, lease: &Lease) -> Result<i64, Error> {
        loop {
            if let Some(id) = self.leases.room(lease.id) {
                return Ok(id);
            }
            self.make_room(lease, 1).await?;
        }
    }

    /// Sees to it that so many more claims have leases to hang on.
    pub(super) async fn make_room(&self, lease: &Lease, claims: usize) -> Result<(), Error> {
        const OPERATION: &str = "grant a further lease";
        let node = self.leases.get(lease.id);
        let node = node.ok_or_else(|| Error::lease_fenced(&lease.node))?;
        while node.places_left() < claims {
            let _one = node.growing.lock().await;
            if node.places_left() >= claims {
                break;
            }
            let granted = self.grant(node.ttl).await;
            let id = granted.map_err(|fault| fault.into_error(OPERATION))?;
            {
                let mut state = node.state();
                state.leases.push((id, 0));
                state.registration.leases.push(id);
            }
            self.register(lease, &node).await?;
        }
        Ok(())
    }
}
