//! [`Servers`]: the members of a cluster, over one [`Model`], in virtual time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use etcd_client::proto::{
    PbCompactionRequest, PbCompactionResponse, PbLeaseGrantRequest, PbLeaseGrantResponse,
    PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse, PbLeaseRevokeRequest, PbLeaseRevokeResponse,
    PbLeaseTimeToLiveRequest, PbLeaseTimeToLiveResponse, PbPutRequest, PbPutResponse,
    PbRangeRequest, PbRangeResponse, PbStatusResponse, PbTxnRequest, PbTxnResponse,
};
use tokio::sync::watch;
use tonic::Status;

use super::{Model, Refusal, watchers::Watchers};
use crate::locked;

/// The members. They share one state: what one has written, all read.
#[derive(Debug)]
pub struct Servers {
    state: Mutex<State>,
    leads: watch::Sender<bool>,
    members: usize,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) model: Model,
    pub(super) now: Duration,
    pub(super) leases: BTreeMap<i64, Term>,
    pub(super) watchers: Watchers,
    /// Since when there is no leader.
    without_leader: Option<Duration>,
    /// Whether the disk takes no more writes.
    is_full: bool,
    /// What has happened to leases since somebody asked.
    news: Vec<LeaseNews>,
}

/// The time of a lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    /// When it ends.
    pub(super) until: Duration,
    /// For how long a renewal extends it.
    pub(super) ttl: Duration,
    /// When it was granted or renewed last. A new leader extends it, too.
    renewed: Duration,
}

/// What has happened to a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseNews {
    /// A process was granted it.
    Granted {
        /// The process.
        process: usize,
        /// The lease.
        lease: i64,
    },
    /// Its time was over.
    Expired {
        /// The lease.
        lease: i64,
        /// The keys that were deleted with it.
        keys: Vec<Vec<u8>>,
        /// When it was granted or renewed last.
        renewed: Duration,
    },
}

/// For how long a member believes in a leader that is gone.
const ELECTION: Duration = Duration::from_secs(1);
/// For how long a member waits for the quorum.
const PATIENCE: Duration = Duration::from_secs(7);

fn no_space() -> Status {
    Status::resource_exhausted("etcdserver: mvcc: database space exceeded")
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            Refusal::Compacted | Refusal::FutureRevision => Self::out_of_range(text),
            Refusal::LeaseNotFound => Self::not_found(text),
            Refusal::LeaseExists => Self::failed_precondition(text),
            Refusal::NotModelled(_) => Self::unimplemented(text),
            _ => Self::invalid_argument(text),
        }
    }
}

impl Servers {
    /// Returns this many members without keys.
    pub fn new(members: usize) -> Self {
        Self {
            state: Mutex::new(State {
                model: Model::new(),
                now: Duration::ZERO,
                leases: BTreeMap::new(),
                watchers: Watchers::default(),
                without_leader: None,
                is_full: false,
                news: Vec::new(),
            }),
            leads: watch::Sender::new(true),
            members,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Returns the number of members.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the last revision.
    pub fn revision(&self) -> i64 {
        self.lock().model.revision()
    }

    /// Lets the time pass until this moment: leases end.
    pub fn advance(&self, now: Duration) {
        let mut state = self.lock();
        state.now = now;
        // Without a leader no lease ends.
        if state.without_leader.is_some() {
            return;
        }
        let over = state.leases.iter().filter(|(_, term)| term.until <= now);
        let over: Vec<(i64, Duration)> = over.map(|(id, term)| (*id, term.renewed)).collect();
        for (id, renewed) in over {
            state.leases.remove(&id);
            let (lease, keys) = (id, state.model.keys_of(id));
            state.news.push(LeaseNews::Expired {
                lease,
                keys,
                renewed,
            });
            // It may have been revoked.
            let _ = state.model.revoke(&PbLeaseRevokeRequest { id });
            state.report();
        }
    }

    /// Returns what has happened to leases since the last call.
    pub fn take_news(&self) -> Vec<LeaseNews> {
        std::mem::take(&mut self.lock().news)
    }

    /// Takes the leader away, or elects one: that one extends every lease.
    pub fn set_leader(&self, leads: bool) {
        let mut state = self.lock();
        let now = state.now;
        if leads {
            state.without_leader = None;
            let leases = state.leases.values_mut();
            leases.for_each(|term| term.until = now + term.ttl);
        } else {
            state.without_leader.get_or_insert(now);
        }
        drop(state);
        self.leads.send_replace(leads);
    }

    /// Fills the disk, or makes room.
    pub fn set_full(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// Waits for a leader, as a member does.
    pub(super) async fn quorum(&self) -> Result<(), Status> {
        let since = self.lock().without_leader;
        let Some(since) = since else { return Ok(()) };
        if self.lock().now.saturating_sub(since) >= ELECTION {
            return Err(Status::unavailable("etcdserver: no leader"));
        }
        let mut leads = self.leads.subscribe();
        let waited = tokio::time::timeout(PATIENCE, leads.wait_for(|leads| *leads)).await;
        match waited {
            Ok(_) => Ok(()),
            Err(_) => Err(Status::unavailable("etcdserver: request timed out")),
        }
    }

    /// Waits until members report that there is no leader.
    pub(crate) async fn no_leader(&self) {
        let mut leads = self.leads.subscribe();
        loop {
            // The sender lives as long as this.
            let _ = leads.wait_for(|leads| !*leads).await;
            let back = tokio::time::timeout(ELECTION, leads.wait_for(|leads| *leads)).await;
            if back.is_err() {
                return;
            }
        }
    }

    pub(super) fn range(&self, request: &PbRangeRequest) -> Result<PbRangeResponse, Status> {
        Ok(self.lock().model.range(request)?)
    }

    pub(super) fn put(&self, request: &PbPutRequest) -> Result<PbPutResponse, Status> {
        let mut state = self.lock();
        if state.is_full {
            return Err(no_space());
        }
        let done = state.model.put(request.clone())?;
        state.report();
        Ok(done)
    }

    pub(super) fn txn(&self, request: &PbTxnRequest) -> Result<PbTxnResponse, Status> {
        let mut state = self.lock();
        if state.is_full && super::check::writes(request) {
            return Err(no_space());
        }
        let done = state.model.txn(request)?;
        state.report();
        Ok(done)
    }

    pub(super) fn compact(
        &self,
        request: &PbCompactionRequest,
    ) -> Result<PbCompactionResponse, Status> {
        let mut state = self.lock();
        state.model.compact(request)?;
        Ok(PbCompactionResponse {
            header: state.model.header(),
        })
    }

    pub(super) fn grant(
        &self,
        process: usize,
        request: &PbLeaseGrantRequest,
    ) -> Result<PbLeaseGrantResponse, Status> {
        let mut state = self.lock();
        let granted = state.model.grant(request)?;
        let lease = granted.id;
        state.news.push(LeaseNews::Granted { process, lease });
        let ttl = Duration::from_secs(granted.ttl.unsigned_abs());
        let (until, renewed) = (state.now + ttl, state.now);
        let term = Term {
            until,
            ttl,
            renewed,
        };
        state.leases.insert(granted.id, term);
        Ok(granted)
    }

    pub(super) fn revoke(
        &self,
        request: &PbLeaseRevokeRequest,
    ) -> Result<PbLeaseRevokeResponse, Status> {
        let mut state = self.lock();
        let revoked = state.model.revoke(request)?;
        state.leases.remove(&request.id);
        state.report();
        Ok(revoked)
    }

    pub(super) fn keep_alive(&self, request: &PbLeaseKeepAliveRequest) -> PbLeaseKeepAliveResponse {
        let mut state = self.lock();
        let now = state.now;
        let ttl = state.leases.get_mut(&request.id).map(|term| {
            (term.until, term.renewed) = (now + term.ttl, now);
            term.ttl
        });
        PbLeaseKeepAliveResponse {
            header: state.model.header(),
            id: request.id,
            ttl: ttl.map_or(0, |ttl| ttl.as_secs().cast_signed()),
        }
    }

    pub(super) fn time_to_live(
        &self,
        request: &PbLeaseTimeToLiveRequest,
    ) -> Result<PbLeaseTimeToLiveResponse, Status> {
        let state = self.lock();
        let mut found = state.model.time_to_live(request);
        if let Some(term) = state.leases.get(&request.id) {
            found.ttl = term.until.saturating_sub(state.now).as_secs().cast_signed();
        }
        Ok(found)
    }

    pub(super) fn status(&self, member: usize) -> PbStatusResponse {
        let state = self.lock();
        let leads = state.without_leader.is_none();
        PbStatusResponse {
            header: state.model.header(),
            version: "3.5.17".to_owned(),
            db_size: 1 << 20,
            db_size_in_use: 1 << 20,
            leader: u64::from(leads),
            raft_term: 2,
            errors: vec!["memberID:1 alarm:NOSPACE ".to_owned(); usize::from(state.is_full)],
            is_learner: false,
            raft_index: member as u64,
            ..Default::default()
        }
    }
}

impl State {
    /// Sends what has changed to the watches.
    pub(super) fn report(&mut self) {
        self.watchers.report(&self.model);
    }
}
