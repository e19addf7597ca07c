//! The connection: gives every call a time limit, and allows large answers.
//!
//! The link uses one member at a time. When a call gets no answer, the link switches to the next
//! member on a new connection, or to a new connection of the only member. So a silent member or
//! path costs one time limit, and not one for each call that a balancer sends to it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use etcd_client::{
    Certificate, Client, CompactionOptions, ConnectOptions, GetOptions, Identity, KvClient,
    LeaseClient, LeaseTimeToLiveOptions, LeaseTimeToLiveResponse, MaintenanceClient, TlsOptions,
    Txn, TxnOpResponse, TxnResponse, WatchClient,
};
use tokio::{sync::Mutex, time::timeout};
use tracing::warn;

use super::{admission::Admission, fault::Fault, options::Options, past::Past};
use crate::store::{
    etcd::schema::{KeyValue, end_of},
    last_write::LastWrite,
};

/// A revision is one message, and so is a page: both exceed the default of 4 MiB.
const MAX_MESSAGE: usize = 1 << 30;

/// The clients of one connection. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Link {
    client: Client,
    timeout: Duration,
    members: Arc<Members>,
    admission: Arc<Admission>,
    past: Arc<Past>,
    pub(super) last: Arc<LastWrite>,
}

/// The members, and the one in use.
struct Members {
    endpoints: Vec<String>,
    /// Counts the switches. Modulo the number of members it is the index of the member in use.
    turn: AtomicUsize,
    changing: Mutex<()>,
}

impl Members {
    fn at(&self, turn: usize) -> &str {
        &self.endpoints[turn % self.endpoints.len()]
    }
}

impl Link {
    /// Connects to the first member that answers.
    pub(crate) async fn connect(options: &Options) -> Result<Self, Fault> {
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(options.timeout.min(Duration::from_secs(3)))
            // Servers refuse pings that come more often than every 5 s.
            .with_keep_alive(Duration::from_secs(6), Duration::from_secs(4))
            .with_keep_alive_while_idle(false)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((name, password)) = &options.user {
            connect = connect.with_user(name, password);
        }
        if options.is_tls() {
            let mut tls = match &options.ca {
                Some(ca) => TlsOptions::new().ca_certificate(Certificate::from_pem(ca)),
                None => TlsOptions::new().with_native_roots(),
            };
            if let Some((cert, key)) = &options.identity {
                tls = tls.identity(Identity::from_pem(cert, key));
            }
            if let Some(domain) = &options.domain {
                tls = tls.domain_name(domain);
            }
            connect = connect.with_tls(tls);
        } else if options.ca.is_some() || options.identity.is_some() {
            let text = "certificates are given, but the store's URL is without TLS: use etcds://";
            return Err(Fault::Setup(text.into()));
        }
        let endpoints = options.endpoints.clone();
        if endpoints.is_empty() {
            let text = "no endpoint is given: name at least one HOST:PORT of the cluster";
            return Err(Fault::Setup(text.into()));
        }
        // A random first member spreads the processes over the members.
        let first = fastrand::usize(0..endpoints.len());
        let members = Members {
            turn: AtomicUsize::new(first),
            changing: Mutex::default(),
            endpoints,
        };
        let mut failed = Fault::Unknown(no_answer(options.timeout));
        for turn in first..first + members.endpoints.len() {
            let opened = options.connector.connect(members.at(turn), connect.clone());
            match timeout(options.timeout, opened).await {
                Ok(Ok(client)) => {
                    members.turn.store(turn, Ordering::Relaxed);
                    return Ok(Self {
                        client,
                        timeout: options.timeout,
                        members: Arc::new(members),
                        admission: Arc::new(Admission::new(options.user.is_some())),
                        past: Arc::default(),
                        last: Arc::default(),
                    });
                }
                Ok(Err(e)) => failed = e.into(),
                Err(_) => failed = Fault::Unknown(no_answer(options.timeout)),
            }
            if matches!(failed, Fault::Setup(_)) {
                break;
            }
        }
        Err(failed)
    }

    pub(crate) fn kv(&self) -> KvClient {
        let kv = self.client.kv_client();
        kv.max_decoding_message_size(MAX_MESSAGE)
    }

    pub(crate) fn watcher(&self) -> WatchClient {
        let watch = self.client.watch_client();
        watch.max_decoding_message_size(MAX_MESSAGE)
    }

    pub(crate) fn leases(&self) -> LeaseClient {
        self.client.lease_client()
    }

    pub(crate) fn maintenance(&self) -> MaintenanceClient {
        self.client.maintenance_client()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the part of the servers' history that this process has seen.
    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    /// Returns the greatest revision that this process has seen.
    ///
    /// # Errors
    ///
    /// The servers have already gone back to an earlier state.
    fn before(&self) -> Result<i64, Fault> {
        match self.past.behind() {
            Some(behind) => Err(behind.fault()),
            None => Ok(self.past.seen()),
        }
    }

    /// Returns the number of members.
    pub(crate) fn members(&self) -> usize {
        self.members.endpoints.len()
    }

    /// Waits for an answer, within the time limit.
    ///
    /// Boxes the call: thousands of writes and claims wait at a time, and otherwise each would
    /// contain and move the ten kilobytes of its call.
    pub(crate) fn call<T: Send>(
        &self,
        call: impl Future<Output = Result<T, etcd_client::Error>> + Send,
    ) -> impl Future<Output = Result<T, Fault>> + Send {
        self.call_within(self.turn(), self.timeout, call)
    }

    /// Like [`call`](Self::call), with a separate time limit, on the connection of this `turn`.
    pub(crate) fn call_within<T: Send>(
        &self,
        turn: usize,
        limit: Duration,
        call: impl Future<Output = Result<T, etcd_client::Error>> + Send,
    ) -> impl Future<Output = Result<T, Fault>> + Send {
        let call = Box::pin(timeout(limit, call));
        async move {
            match call.await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(e)) => {
                    let fault = Box::pin(self.classified(Fault::from(e))).await;
                    // If there is only one member, the client itself reopens a connection that it
                    // knows to be broken.
                    if self.members() > 1 && is_of_the_member(&fault) {
                        Box::pin(self.leave(turn)).await;
                    }
                    Err(fault)
                }
                Err(_) => {
                    Box::pin(self.leave(turn)).await;
                    Err(Fault::Unknown(no_answer(limit)))
                }
            }
        }
    }

    /// Notes that the servers accepted this process, so that a later refusal is not final.
    pub(crate) fn accepted(&self) {
        self.admission.began();
    }

    /// Classifies a fault. Renews a stale token. A refusal after the servers accepted this process
    /// may be lifted, so it becomes [`Fault::NotNow`].
    async fn classified(&self, fault: Fault) -> Fault {
        let fault = match fault {
            Fault::StaleToken(_) => {
                match timeout(self.timeout, self.client.refresh_token()).await {
                    Ok(Ok(())) | Err(_) => fault,
                    Ok(Err(e)) => Fault::from(e),
                }
            }
            fault => fault,
        };
        match fault {
            Fault::Setup(text) if self.admission.has_begun() => {
                self.admission.rejected(&text);
                Fault::NotNow(text)
            }
            fault => fault,
        }
    }

    /// Returns the version of the member; `None` when it reports none.
    pub(crate) async fn version(&self) -> Option<String> {
        let mut client = self.client.maintenance_client();
        let status = self.call(client.status()).await.ok()?;
        Some(status.version().to_owned())
    }

    /// Returns the number of the connection in use.
    pub(crate) fn turn(&self) -> usize {
        self.members.turn.load(Ordering::Relaxed)
    }

    /// Switches to the next member, or to a new connection of the only one, if `turn` is still in
    /// use. Calls that fail together switch once.
    pub(crate) async fn leave(&self, turn: usize) {
        let members = &self.members;
        let next = turn.wrapping_add(1);
        let _one = members.changing.lock().await;
        let changed =
            members
                .turn
                .compare_exchange(turn, next, Ordering::Relaxed, Ordering::Relaxed);
        if changed.is_err() {
            return;
        }
        // Replaces the endpoint of the same name.
        let reported = timeout(self.timeout, async {
            self.client.add_endpoint(members.at(next)).await?;
            if members.at(next) != members.at(turn) {
                self.client.remove_endpoint(members.at(turn)).await?;
            }
            Ok::<_, etcd_client::Error>(())
        });
        match reported.await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => warn!(error = %e, "cannot change to another member of etcd"),
            Err(_) => warn!("cannot change to another member of etcd: the client is stuck"),
        }
    }

    /// Carries out a transaction, unless the servers have gone back to an earlier state.
    pub(crate) async fn txn(&self, txn: Txn) -> Result<TxnResponse, Fault> {
        let before = self.before()?;
        let answer = self.txn_of_any_past(txn).await?;
        let revision = answer.header().map_or(0, |header| header.revision());
        self.past.answered(before, revision)?;
        Ok(answer)
    }

    /// Like [`txn`](Self::txn), even if the servers have gone back to an earlier state.
    pub(crate) async fn txn_of_any_past(&self, txn: Txn) -> Result<TxnResponse, Fault> {
        let mut kv = self.kv();
        // A token may become stale at any call. The call has then changed nothing.
        let again = self.admission.has_user.then(|| txn.clone());
        let answer = match (self.call(kv.txn(txn)).await, again) {
            (Err(Fault::StaleToken(_)), Some(txn)) => self.call(kv.txn(txn)).await,
            (answer, _) => answer,
        };
        // Renewing a lease needs no permission, so only a transaction shows that the servers accept
        // this process.
        if answer.is_ok() {
            self.admission.accepted();
        }
        answer
    }

    pub(crate) async fn get_key(&self, key: &str) -> Result<Option<KeyValue>, Fault> {
        let mut client = self.kv();
        let mut got = self.call(client.get(key, None)).await?;
        Ok(got.take_kvs().pop().map(KeyValue::from))
    }

    /// Reads the keys that begin with `prefix` in one page, with the revision. For small numbers of
    /// keys, such as those of one task or of the nodes.
    pub(crate) async fn get_all(&self, prefix: &str) -> Result<(Vec<KeyValue>, i64), Fault> {
        let before = self.before()?;
        let mut client = self.kv();
        let options = GetOptions::new().with_range(end_of(prefix));
        let mut got = self.call(client.get(prefix, Some(options))).await?;
        let revision = got.header().map_or(0, |header| header.revision());
        self.past.answered(before, revision)?;
        let kvs = got.take_kvs().into_iter().map(KeyValue::from);
        Ok((kvs.collect(), revision))
    }

    /// Compacts the history before this revision. Returns false if it was compacted already.
    pub(crate) async fn compact(&self, revision: i64) -> Result<bool, Fault> {
        let mut client = self.kv();
        let compact = client.compact(revision, None::<CompactionOptions>);
        match self.call(compact).await {
            Ok(_) => Ok(true),
            Err(Fault::Compacted) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Grants a lease of whole seconds, rounded up.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<i64, Fault> {
        let mut client = self.leases();
        let seconds = ttl.as_millis().div_ceil(1000).max(1);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let granted = self.call(client.grant(seconds, None)).await?;
        Ok(granted.id())
    }

    /// Revokes a lease, unless it has expired.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), Fault> {
        let mut client = self.leases();
        match self.call(client.revoke(lease)).await {
            Ok(_) | Err(Fault::LeaseGone) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Reads a lease with its keys; `None` when it has expired.
    pub(crate) async fn lease(&self, lease: i64) -> Result<Option<LeaseTimeToLiveResponse>, Fault> {
        let mut client = self.leases();
        let options = LeaseTimeToLiveOptions::new().with_keys();
        match self.call(client.time_to_live(lease, Some(options))).await {
            Ok(found) => Ok(Some(found).filter(|found| found.ttl() >= 0)),
            Err(Fault::LeaseGone) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl From<etcd_client::KeyValue> for KeyValue {
    fn from(kv: etcd_client::KeyValue) -> Self {
        let (created, written, lease) = (kv.create_revision(), kv.mod_revision(), kv.lease());
        let (key, value) = kv.into_key_value();
        Self {
            key,
            value,
            created,
            written,
            lease,
        }
    }
}

/// Returns the keys of the answer to a get.
pub(crate) fn kvs(response: TxnOpResponse) -> Vec<KeyValue> {
    match response {
        TxnOpResponse::Get(mut got) => {
            let kvs = got.take_kvs().into_iter().map(KeyValue::from);
            kvs.collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn kv(response: Option<TxnOpResponse>) -> Option<KeyValue> {
    response.map(kvs)?.pop()
}

/// Returns whether the fault concerns only this member, so that another one may answer.
fn is_of_the_member(fault: &Fault) -> bool {
    match fault {
        Fault::Unknown(_) => true,
        Fault::NotNow(reason) => reason.contains("no leader"),
        _ => false,
    }
}

fn no_answer(timeout: Duration) -> String {
    format!("no answer within {timeout:?}; look whether etcd runs there and has a quorum")
}
