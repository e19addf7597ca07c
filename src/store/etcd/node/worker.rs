//! Remote workers: their leases belong to no process. A process that did not register a worker reads its registration
//! when it first needs it.

use std::sync::Arc;

use windlass_statemachine::{NodeName, TaskId};

use super::{
    lease::{Leases, number},
    node_lease::NodeLease,
};
use crate::store::{
    Error, Lease, NewWorker, Speaker, WorkerRecord,
    etcd::{
        client::Fault,
        schema::{
            Part, Registration,
            json::{parse, write},
            registrations::{self, Remote},
        },
        write::Item,
    },
    rules::worker::{self, Holder, Registration as Decision},
};

const REGISTER: &str = "register a worker";
const SPEAK: &str = "speak for a worker";
const READ: &str = "read a worker";
/// How often a change of a registration is tried while others change it.
const TRIES: usize = 8;

/// A registration, as it is stored.
pub(super) struct Stored {
    /// The lease of the node.
    pub(super) lease: i64,
    revision: i64,
    pub(super) registration: Registration,
}

impl Stored {
    /// Returns the leases of the node, the main one first.
    pub(super) fn leases(&self) -> impl Iterator<Item = i64> {
        let further = self.registration.leases.iter().copied();
        std::iter::once(self.lease).chain(further)
    }

    fn remote(&self, node: &NodeName) -> Result<&Remote, Error> {
        let remote = self.registration.remote.as_ref();
        remote.ok_or_else(|| worker::not_a_worker(node).into())
    }

    fn record(&self, name: &NodeName, speaker: Speaker) -> Option<WorkerRecord> {
        let Registration {
            spec,
            status,
            remote,
            ..
        } = &self.registration;
        let remote = remote.as_ref()?;
        let lease = Lease::new(u64::try_from(self.lease).ok()?, name.clone(), remote.ttl);
        Some(WorkerRecord {
            status: status.clone(),
            speaker,
            ..WorkerRecord::new(lease, spec.clone(), &remote.secret)
        })
    }
}

impl Leases {
    pub(crate) async fn join_worker(&self, new: &NewWorker) -> Result<WorkerRecord, Error> {
        worker::check(new)?;
        let name = &new.spec.name;
        for _ in 0..TRIES {
            let stored = self.stored(name, REGISTER).await?;
            let holder = stored
                .as_ref()
                .map(|stored| match &stored.registration.remote {
                    Some(remote) => Holder::Worker(&remote.secret),
                    None => Holder::Node,
                });
            let joined = match (worker::register(new, holder)?, stored) {
                (Decision::Again, Some(stored)) => self.join_again(new, stored).await?,
                _ => {
                    let registration = Registration {
                        remote: Some(Remote {
                            secret: new.secret.clone(),
                            ttl: new.ttl,
                        }),
                        ..Registration::new(new.spec.clone(), self.access.now())
                    };
                    let lease = self.enter(registration, new.ttl).await?;
                    let record = |lease| WorkerRecord::new(lease, new.spec.clone(), &new.secret);
                    lease.map(record)
                }
            };
            // Otherwise the lease has ended, or somebody was faster.
            if let Some(record) = joined {
                return Ok(record);
            }
        }
        Err(Error::unavailable(
            REGISTER,
            "its registration changes too often",
        ))
    }

    /// Renews a live worker and describes it again. Returns `None` when its lease has ended.
    async fn join_again(
        &self,
        new: &NewWorker,
        stored: Stored,
    ) -> Result<Option<WorkerRecord>, Error> {
        let name = &new.spec.name;
        let remote = stored.remote(name)?;
        let id = u64::try_from(stored.lease).unwrap_or(0);
        let lease = Lease::new(id, name.clone(), remote.ttl);
        let renewed = async {
            let node = self.attached(&lease).await?;
            self.renew_all(&lease, &node).await?;
            let spec = |registration: &mut Registration| registration.spec = new.spec.clone();
            self.amend(&lease, &node, (spec, false)).await
        };
        match renewed.await {
            Ok(()) => {
                let (speaker, _) = self.speaker(name, REGISTER).await?;
                let stored = self.stored(name, REGISTER).await?;
                Ok(stored.and_then(|stored| stored.record(name, speaker)))
            }
            Err(Error::Fenced(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        let Some(stored) = self.stored(name, READ).await? else {
            return Ok(None);
        };
        let (speaker, _) = self.speaker(name, READ).await?;
        Ok(stored.record(name, speaker))
    }

    pub(crate) async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        if let Some(error) = self.gone_back(&lease.node).await {
            return Err(error);
        }
        for _ in 0..TRIES {
            let stored = self.registered(lease, SPEAK).await?;
            let ttl = stored.remote(&lease.node)?.ttl;
            let (current, revision) = self.speaker(&lease.node, SPEAK).await?;
            let is_other = worker::speaks(&lease.node, &current, speaker)?;
            let revision = match is_other {
                false => Some(revision),
                true => self.take_place(lease, speaker, revision).await?,
            };
            let Some(revision) = revision else {
                continue;
            };
            if is_other {
                // What this process knew of the claims may be older than the writes of the speakers in between.
                self.claims.lost(lease.id);
            }
            // The claims of earlier speakers are refused from here on, so none is missed.
            let stored = self.registered(lease, SPEAK).await?;
            let node = self.attach(&stored, lease, SPEAK).await?;
            node.state().speaker = Some((speaker.clone(), revision));
            let mut granted = Lease::new(lease.id, lease.node.clone(), ttl);
            granted.speaker = Some(speaker.clone());
            return Ok(granted);
        }
        Err(Error::unavailable(
            SPEAK,
            "other servers speak for it by turns",
        ))
    }

    /// Writes a new speaker, if its key has this revision. Returns the revision of the write; `None` to look again.
    async fn take_place(
        &self,
        lease: &Lease,
        speaker: &Speaker,
        revision: i64,
    ) -> Result<Option<i64>, Error> {
        let keys = self.access.keys();
        let (registration, key) = (keys.registration(&lease.node), keys.speaker(&lease.node));
        let id = number(lease.id);
        let mut item = Item::of_node(&lease.node);
        item.when_on(&registration, id);
        item.when_at(&key, revision);
        item.put_on(&key, write("speaker", speaker)?, id);
        match self.access.pipeline.write(item).await {
            Ok(done) => Ok(done.written),
            // The next look finds what is stored.
            Err(Fault::Unknown(_) | Fault::LeaseGone) => Ok(None),
            Err(fault) => Err(fault.into_error(SPEAK)),
        }
    }

    /// Returns the stored speaker of a worker, and the revision of its key; 0 before the first.
    async fn speaker(
        &self,
        name: &NodeName,
        operation: &'static str,
    ) -> Result<(Speaker, i64), Error> {
        let key = self.access.keys().speaker(name);
        let Some(kv) = self.access.reader.key(&key, operation).await? else {
            return Ok((Speaker::default(), 0));
        };
        let speaker = parse::<Speaker>(&kv).map_err(|reason| Error::Corrupt {
            what: format!("the speaker of worker '{name}'"),
            reason,
        })?;
        Ok((speaker, kv.mod_revision()))
    }

    /// Returns the revision of the key of the speaker that the claims of this lease compare; `None` for a lease without
    /// a speaker. Reads it again if `reads_again`.
    pub(super) async fn spoken(
        &self,
        lease: &Lease,
        reads_again: bool,
        operation: &'static str,
    ) -> Result<Option<i64>, Error> {
        let Some(speaker) = &lease.speaker else {
            return Ok(None);
        };
        let node = self.attached(lease).await?;
        let known = node.state().speaker.clone();
        if let Some((known, revision)) = known.filter(|_| !reads_again)
            && known == *speaker
        {
            return Ok(Some(revision));
        }
        let (stored, revision) = self.speaker(&lease.node, operation).await?;
        worker::check_speaker(lease, &stored)?;
        node.state().speaker = Some((stored, revision));
        Ok(Some(revision))
    }

    /// Reads the registration of the live node with this name.
    async fn stored(
        &self,
        name: &NodeName,
        operation: &'static str,
    ) -> Result<Option<Stored>, Error> {
        let keys = self.access.keys();
        let key = keys.registration(name);
        let Some(kv) = self.access.reader.key(&key, operation).await? else {
            return Ok(None);
        };
        let read = registrations::read(keys, &kv);
        Ok(read.map(|(_, (lease, registration))| Stored {
            lease,
            revision: kv.mod_revision(),
            registration,
        }))
    }

    /// Reads the registration of this lease.
    pub(super) async fn registered(
        &self,
        lease: &Lease,
        operation: &'static str,
    ) -> Result<Stored, Error> {
        let stored = self.stored(&lease.node, operation).await?;
        let stored = stored.filter(|stored| stored.lease == number(lease.id));
        stored.ok_or_else(|| {
            self.claims.lost(lease.id);
            Error::lease_fenced(&lease.node)
        })
    }

    /// Returns the node of a lease. Reads a worker that another process has registered.
    pub(super) async fn attached(&self, lease: &Lease) -> Result<Arc<NodeLease>, Error> {
        if let Some(node) = self.claims.node(lease.id) {
            return Ok(node);
        }
        let stored = self.registered(lease, READ).await?;
        if stored.registration.remote.is_none() {
            return Err(Error::lease_fenced(&lease.node));
        }
        self.attach(&stored, lease, READ).await
    }

    /// Reads how many claims are attached to each lease of a worker, and adds it to the nodes of this process.
    async fn attach(
        &self,
        stored: &Stored,
        lease: &Lease,
        operation: &'static str,
    ) -> Result<Arc<NodeLease>, Error> {
        let claims = self.owners(stored, lease, operation).await?;
        Ok(self.keep_node(stored, lease, &claims))
    }

    pub(super) fn keep_node(
        &self,
        stored: &Stored,
        lease: &Lease,
        claims: &[(i64, Vec<TaskId>)],
    ) -> Arc<NodeLease> {
        let leases = claims.iter().map(|(id, tasks)| (*id, tasks.len()));
        let registration = stored.registration.clone();
        let ttl = registration
            .remote
            .as_ref()
            .map_or(lease.ttl, |one| one.ttl);
        let node = NodeLease::with_claims(registration, leases.collect(), ttl);
        self.claims.joined(lease.id, node)
    }

    /// Returns the leases of a worker, with the tasks whose claims are attached to each.
    pub(super) async fn owners(
        &self,
        stored: &Stored,
        lease: &Lease,
        operation: &'static str,
    ) -> Result<Vec<(i64, Vec<TaskId>)>, Error> {
        let mut claims = Vec::new();
        for id in stored.leases() {
            let reported = self.access.link().lease(id).await;
            let reported = reported.map_err(|fault| fault.into_error(operation))?;
            let Some(reported) = reported else {
                if id == stored.lease {
                    self.claims.lost(lease.id);
                    return Err(Error::lease_fenced(&lease.node));
                }
                continue;
            };
            let keys = reported.keys().iter();
            let tasks = keys.filter_map(|key| match self.access.keys().split(key)? {
                (id, Part::Owner) => TaskId::new(id).ok(),
                _ => None,
            });
            claims.push((id, tasks.collect()));
        }
        Ok(claims)
    }

    /// Changes the stored registration of a worker, which other processes change, too. If `compares`, only the speaker of the
    /// lease may change it.
    pub(super) async fn amend(
        &self,
        lease: &Lease,
        node: &NodeLease,
        (change, compares): (impl Fn(&mut Registration), bool),
    ) -> Result<(), Error> {
        const OPERATION: &str = "describe a worker";
        let _one = node.registering.lock().await;
        let key = self.access.keys().registration(&lease.node);
        for tried in 0..TRIES {
            let spoken = match compares {
                true => self.spoken(lease, tried > 0, OPERATION).await?,
                false => None,
            };
            let mut stored = self.registered(lease, OPERATION).await?;
            let before = write("node", &stored.registration)?;
            change(&mut stored.registration);
            let text = write("node", &stored.registration)?;
            if text != before {
                let mut item = Item::of_node(&lease.node);
                // As for a node: others must know that it drains before they see the tasks that it releases.
                item.urgent = true;
                item.when_at(&key, stored.revision);
                if let Some(revision) = spoken {
                    item.when_at(&self.access.keys().speaker(&lease.node), revision);
                }
                item.put_on(&key, text, number(lease.id));
                match self.access.pipeline.write(item).await {
                    Ok(done) if done.written.is_some() => {}
                    // The next try finds the end of the lease.
                    Ok(_) | Err(Fault::LeaseGone) => continue,
                    Err(fault) => return Err(fault.into_error(OPERATION)),
                }
            }
            let mut state = node.state();
            // The next status may be known already.
            stored.registration.status = state.registration.status.clone();
            state.registration = stored.registration;
            return Ok(());
        }
        Err(Error::unavailable(
            OPERATION,
            "its registration changes too often",
        ))
    }
}
