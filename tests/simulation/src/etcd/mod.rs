//! A model of one etcd server: what it answers, without time, disk or network.
//!
//! Requests and answers are the messages of etcd itself, so a service can hand them on. `tests/differential.rs` holds the
//! model to real servers. Left out are users, sorting, filters by revision, and options that the store does not use: a
//! request with one of these is refused by name.

mod check;
mod keys;
mod leases;
mod operate;
mod server;
pub(crate) mod service;
mod txn;
mod watch;
mod watchers;

use std::collections::{BTreeMap, VecDeque};

use etcd_client::proto::{
    PbCompactionRequest, PbEvent, PbKeyValue, PbRangeRequest, PbRangeResponse, PbResponseHeader,
};

pub(crate) use self::watch::DELETE;
use self::{keys::Keys, leases::Lease};
pub use self::{
    operate::Snapshot,
    server::{LeaseNews, Servers},
    watch::Events,
};

/// Why a server refuses a request, with the text that etcd gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The revision was compacted.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    /// The revision does not exist yet.
    #[error("etcdserver: mvcc: required revision is a future revision")]
    FutureRevision,
    /// The lease has ended, or never was.
    #[error("etcdserver: requested lease not found")]
    LeaseNotFound,
    /// A lease has this id already.
    #[error("etcdserver: lease already exists")]
    LeaseExists,
    /// A transaction would write a key twice.
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    /// A transaction has more operations than a server takes.
    #[error("etcdserver: too many operations in txn request")]
    TooManyOperations,
    /// A request without a key.
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    /// The model does not have this.
    #[error("the model of etcd does not know {0}")]
    NotModelled(&'static str),
}

/// A server.
///
/// # Example
///
/// ```
/// use etcd_client::proto::{PbPutRequest, PbRangeRequest};
/// use windlass_simulation::etcd::Model;
///
/// let mut etcd = Model::new();
/// etcd.put(PbPutRequest { key: b"k".to_vec(), value: b"v".to_vec(), ..Default::default() })?;
/// let found = etcd.range(&PbRangeRequest { key: b"k".to_vec(), ..Default::default() })?;
/// assert_eq!((found.kvs[0].value.as_slice(), found.kvs[0].mod_revision), (&b"v"[..], 2));
/// # Ok::<(), windlass_simulation::etcd::Refusal>(())
/// ```
#[derive(Debug, Clone)]
pub struct Model {
    /// The last revision.
    revision: i64,
    /// Earlier revisions than this one were compacted; -1 for none, so that a server takes one compaction at 0.
    compacted: i64,
    keys: Keys,
    /// The changes that are not compacted, in their order.
    log: VecDeque<PbEvent>,
    leases: BTreeMap<i64, Lease>,
    /// The id of the next lease whose request gives none.
    next_lease: i64,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// Returns a server without keys.
    pub fn new() -> Self {
        Self {
            revision: 1,
            compacted: -1,
            keys: Keys::default(),
            log: VecDeque::new(),
            leases: BTreeMap::new(),
            next_lease: 1,
        }
    }

    /// Returns the last revision.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    fn header(&self) -> Option<PbResponseHeader> {
        header(self.revision)
    }

    /// Reads keys.
    ///
    /// # Errors
    ///
    /// Those of etcd, and [`Refusal::NotModelled`].
    pub fn range(&self, request: &PbRangeRequest) -> Result<PbRangeResponse, Refusal> {
        check::range(request)?;
        self.check_revision(request.revision)?;
        Ok(self.read(request, self.revision))
    }

    /// Deletes the history before a revision.
    ///
    /// # Errors
    ///
    /// [`Refusal::Compacted`], [`Refusal::FutureRevision`].
    pub fn compact(&mut self, request: &PbCompactionRequest) -> Result<(), Refusal> {
        let at = request.revision;
        if at <= self.compacted {
            return Err(Refusal::Compacted);
        }
        if at > self.revision {
            return Err(Refusal::FutureRevision);
        }
        self.compacted = at;
        self.keys.compact(at);
        let is_old = |event: &PbEvent| watch::revision(event) < at;
        while self.log.front().is_some_and(is_old) {
            self.log.pop_front();
        }
        Ok(())
    }

    /// Refuses a revision that cannot be read; 0 is the last one.
    fn check_revision(&self, revision: i64) -> Result<(), Refusal> {
        match revision {
            ..=0 => Ok(()),
            later if later > self.revision => Err(Refusal::FutureRevision),
            earlier if earlier < self.compacted => Err(Refusal::Compacted),
            _ => Ok(()),
        }
    }

    /// Reads keys at the revision of the request, or at `newest`: within a transaction that has written, its own.
    fn read(&self, request: &PbRangeRequest, newest: i64) -> PbRangeResponse {
        let at = if request.revision > 0 {
            request.revision
        } else {
            newest
        };
        let mut kvs: Vec<PbKeyValue> = self.keys.at(&request.key, &request.range_end, at).collect();
        let count = kvs.len() as i64;
        let limit = match usize::try_from(request.limit) {
            Ok(0) | Err(_) => kvs.len(),
            Ok(limit) => limit,
        };
        if request.count_only {
            kvs.clear();
        }
        let more = kvs.len() > limit;
        kvs.truncate(limit);
        if request.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        PbRangeResponse {
            header: header(newest),
            kvs,
            more,
            count,
        }
    }
}

fn header(revision: i64) -> Option<PbResponseHeader> {
    Some(PbResponseHeader {
        revision,
        ..Default::default()
    })
}
