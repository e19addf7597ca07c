//! Leaving: claims are given back in batches before a lease is revoked, so that nothing is counted
//! as abandoned and etcd never has to end a lease with many keys.

use etcd_client::{LeaseTimeToLiveOptions, LeaseTimeToLiveResponse};
use futures::future::join_all;
use windlass_statemachine::TaskId;

use super::{
    Inner,
    claims::touch,
    errors::Fault,
    item::Item,
    keys::Part,
    leases::number,
    read::{parked_for, revision},
    records::{self, Entry, Hold},
};
use crate::store::{Error, Lease, What};

const OPERATION: &str = "leave";
const ROUNDS: usize = 4;

impl Inner {
    pub(super) async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        let node = self.leases.get(lease.id);
        let ids = node.map_or_else(|| vec![number(lease.id)], |node| node.ids());
        for id in &ids {
            self.give_back(lease, *id).await?;
        }
        // The main lease last: while it lives, the node does.
        for id in ids.iter().rev() {
            self.revoke(*id)
                .await
                .map_err(|fault| fault.into_error(OPERATION))?;
        }
        self.lost(lease);
        Ok(())
    }

    /// What the servers tell of a lease, with its keys; `None` when it is over.
    async fn told_of(&self, lease: i64) -> Result<Option<LeaseTimeToLiveResponse>, Fault> {
        let mut client = self.link.leases();
        let options = LeaseTimeToLiveOptions::new().with_keys();
        let told = client.time_to_live(lease, Some(options));
        match self.link.call(told).await {
            Ok(told) => Ok(Some(told)),
            Err(Fault::LeaseGone) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The tasks whose claims hang on a lease.
    async fn claims_on(&self, lease: i64) -> Result<Vec<TaskId>, Fault> {
        let Some(told) = self.told_of(lease).await? else {
            return Ok(Vec::new());
        };
        let ids = told
            .keys()
            .iter()
            .filter_map(|key| match self.keys.split(key)? {
                (id, Part::Owner) => TaskId::new(id).ok(),
                _ => None,
            });
        Ok(ids.collect())
    }

    async fn give_back(&self, lease: &Lease, id: i64) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let claims = self
                .claims_on(id)
                .await
                .map_err(|f| f.into_error(OPERATION))?;
            if claims.is_empty() {
                break;
            }
            let read = self.read_many(&claims).await;
            let mut writes = Vec::with_capacity(claims.len());
            for (task, read) in claims.iter().zip(read) {
                let bundle = read.map_err(|fault| fault.into_error(OPERATION))?;
                if let Some(item) = self.give_back_item(lease, task, &bundle)? {
                    writes.push(self.pipeline.write(item));
                }
            }
            for done in join_all(writes).await {
                match done {
                    Ok(_) | Err(Fault::Unknown(_)) => {}
                    Err(fault) => return Err(fault.into_error(OPERATION)),
                }
            }
        }
        Ok(())
    }

    fn give_back_item(
        &self,
        lease: &Lease,
        id: &TaskId,
        bundle: &super::read::Bundle,
    ) -> Result<Option<Item>, Error> {
        let Some(owner) = bundle
            .owner
            .as_ref()
            .filter(|kv| records::lease_of(kv) == lease.id)
        else {
            return Ok(None);
        };
        let keys = &self.keys;
        let mut item = Item::new(touch(id)).at(self.pipeline.places(1), 1);
        item.when_at(&keys.owner(id), owner.mod_revision());
        item.when_at(&keys.state(id), revision(bundle.state.as_ref()));
        item.delete(&keys.owner(id));
        // What cannot be read is set aside by the next who wants it.
        if let (Ok((state, _)), true) = (bundle.state(), bundle.task.is_some()) {
            item.put(
                &keys.state(id),
                records::write_state(&state, &Hold::default())?,
            );
            if let Some(parked) = parked_for(&state) {
                item.put(&keys.parked(id), records::write("parked", &parked)?);
            }
            let fence = self.fences.of(owner.mod_revision());
            let entry = Entry::write(self.now(), item.place, &[What::Dropped { fence }])?;
            item.put(&format!("{}-left", keys.history(id, state.version)), entry);
        }
        Ok(Some(item))
    }

    /// How many claims hang on a lease, and how long it still holds; `None` when it is over.
    pub(super) async fn look_at_lease(&self, lease: i64) -> Result<Option<(u64, u64)>, Fault> {
        let Some(told) = self.told_of(lease).await? else {
            return Ok(None);
        };
        let Ok(left) = u64::try_from(told.ttl()) else {
            return Ok(None);
        };
        let is_claim = |key: &&Vec<u8>| matches!(self.keys.split(key), Some((_, Part::Owner)));
        let claims = told.keys().iter().filter(is_claim).count() as u64;
        Ok(Some((left, claims)))
    }
}
