//! The watch of a node: a list, then a stream of changes that survives faults of etcd.
//!
//! One stream watches three prefixes: tasks, marks and nodes. A stream that breaks, or does not
//! respond, is opened again after the last revision seen of each prefix. If that revision is
//! compacted, the watch lists again.

mod message;
mod node_keys;

use std::{sync::Arc, time::Duration};

use etcd_client::{EventType, WatchOptions, WatchStream};
use futures::stream;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{info, warn};
use windlass_statemachine::{Backoff, Kind};

use super::{
    list::{Listed, list},
    mirror::Mirror,
};
use crate::store::{
    Error, Event, EventStream, Lease, NodeCommandId,
    etcd::{
        client::Fault,
        node::{Claims, NewTasks, NodeCommands, Peers, Refused, Repairs, number},
        read::Reader,
        schema::{KeyValue, end_of, registrations},
    },
};

/// How many tasks one batch of events has at most.
const BATCH: usize = 1000;
/// After this time without a message, a stream is asked for its progress. After the same time again
/// without a message it is considered dead.
const SILENCE: Duration = Duration::from_secs(5);
/// The pauses before a broken watch is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The watched prefixes. Their watch ids start at 1.
const TASKS: usize = 0;
const PARKED: usize = 1;
const NODE: usize = 2;

/// Why a stream ended.
enum StreamEnd {
    Broken(String),
    Compacted,
    /// The lease has expired, or the reader of the events is gone.
    Over,
}

impl From<Fault> for StreamEnd {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Compacted => Self::Compacted,
            fault => Self::Broken(fault.into_error("watch").to_string()),
        }
    }
}

/// Opens the watches of the nodes of this process. Clones share their state.
#[derive(Clone)]
pub(crate) struct Watcher {
    pub(crate) reader: Reader,
    pub(crate) claims: Arc<Claims>,
    pub(crate) new: Arc<NewTasks>,
    pub(crate) peers: Peers,
    pub(crate) repairs: Repairs,
    pub(crate) commands: NodeCommands,
}

/// The watch of one node.
struct NodeWatch {
    by: Watcher,
    lease: Lease,
    mirror: Mirror,
    kinds: Option<Vec<Kind>>,
    /// The last revision seen of each prefix.
    seen: [i64; 3],
    /// The revision of the last event of each prefix. Reports of progress may be ahead of it.
    received: [i64; 3],
    /// When the registration of the node was last written, as far as this process knows.
    registered: i64,
    events: mpsc::Sender<Vec<Event>>,
    last_node_command: NodeCommandId,
    /// The claims of this node that found no free slot.
    refused: mpsc::UnboundedReceiver<Refused>,
}

impl Watcher {
    /// Returns when the registration of the node was last written; `None` when the lease has ended. Detects an etcd
    /// that was restored below a revision that this process has seen.
    async fn registered(&self, lease: &Lease) -> Result<Option<i64>, Fault> {
        let key = self.reader.keys.registration(&lease.node);
        let (kvs, _) = self.reader.link.get_all(&key).await?;
        let mut own = kvs.iter().filter(|kv| kv.key() == key.as_bytes());
        let own = own.find(|kv| kv.lease() == number(lease.id));
        Ok(own.map(KeyValue::mod_revision))
    }

    pub(crate) async fn watch(
        &self,
        lease: &Lease,
        kinds: Option<Vec<Kind>>,
    ) -> Result<EventStream, Error> {
        let registered = self.registered(lease).await;
        let Some(registered) = registered.map_err(|fault| fault.into_error("watch"))? else {
            // The lease may still exist without the key of its node, because somebody deleted the key. The lease
            // is no longer renewed, so the node stops its handlers and joins again, before the lease ends and
            // frees its claims.
            self.claims.lost(lease.id);
            return Err(Error::lease_fenced(&lease.node));
        };
        let (events, from_watch) = mpsc::channel(16);
        let (to_watch, refused) = mpsc::unbounded_channel();
        self.claims.watched(lease.id, to_watch);
        let watch = NodeWatch {
            by: self.clone(),
            lease: lease.clone(),
            mirror: Mirror::new(
                self.reader.keys.clone(),
                self.reader.fences.clone(),
                lease.id,
                kinds.clone(),
            ),
            kinds,
            seen: [0; 3],
            received: [0; 3],
            registered,
            events,
            last_node_command: NodeCommandId::default(),
            refused,
        };
        tokio::spawn(watch.run());
        let events = stream::unfold(from_watch, |mut from_watch| async move {
            let events = from_watch.recv().await?;
            Some((events, from_watch))
        });
        let events: EventStream = Box::pin(events);
        Ok(events)
    }
}

impl NodeWatch {
    async fn run(mut self) {
        let node = self.lease.node.clone();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let (mut listed, mut reported) = (false, false);
        loop {
            let before = self.seen;
            let end = match self.follow(&mut listed, &mut reported).await {
                Ok(never) => match never {},
                Err(end) => end,
            };
            let watch = self.lease.id;
            self.by.peers.update(|nodes| nodes.follows(watch, false));
            match end {
                StreamEnd::Over => break,
                StreamEnd::Compacted => {
                    info!(%node, "the history after the last revision seen was compacted; listing again");
                    listed = false;
                }
                StreamEnd::Broken(reason) => {
                    if !reported {
                        warn!(%node, reason, "the watch broke; resuming after the last revision seen");
                        reported = true;
                    }
                    if self.seen != before {
                        backoff.restart();
                    }
                    tokio::select! {
                        biased;
                        () = self.events.closed() => break,
                        () = sleep(backoff.jittered(fastrand::f64())) => {}
                    }
                }
            }
        }
        self.by.peers.update(|nodes| nodes.forget(self.lease.id));
    }

    async fn send(&self, events: Vec<Event>) -> Result<(), StreamEnd> {
        if events.is_empty() {
            return Ok(());
        }
        self.events.send(events).await.map_err(|_| StreamEnd::Over)
    }

    /// Lists if necessary, then follows until the stream ends.
    async fn follow(
        &mut self,
        listed: &mut bool,
        reported: &mut bool,
    ) -> Result<std::convert::Infallible, StreamEnd> {
        self.check_past().await?;
        if !*listed {
            self.list().await?;
            *listed = true;
        }
        let turn = self.by.reader.link.turn();
        let mut stream = self.open().await?;
        let watch = self.lease.id;
        self.by.peers.update(|nodes| nodes.follows(watch, true));
        if *reported {
            info!(node = %self.lease.node, "the watch resumed");
            *reported = false;
        }
        let mut asked = false;
        let mut silent_at = Instant::now() + SILENCE;
        loop {
            let wait = self.mirror.next().map_or(silent_at, |at| at.min(silent_at));
            let message = tokio::select! {
                biased;
                message = stream.message() => Some(message),
                Some(refused) = self.refused.recv() => {
                    self.mirror.refused(refused);
                    None
                }
                () = sleep_until(wait) => None,
                () = self.events.closed() => return Err(StreamEnd::Over),
            };
            match message {
                Some(Ok(Some(response))) => {
                    asked = false;
                    silent_at = Instant::now() + SILENCE;
                    self.mirror.set_time(self.by.repairs.access.now());
                    self.take(&response).await?;
                }
                Some(Ok(None)) => return Err(StreamEnd::Broken("the stream has ended".into())),
                Some(Err(e)) => return Err(Fault::from(e).into()),
                // A claim was refused, or the wait for a mark or of a line has ended.
                None if Instant::now() < silent_at => {}
                None if asked => {
                    self.by.reader.link.leave(turn).await;
                    return Err(StreamEnd::Broken("the stream is silent".into()));
                }
                None => {
                    silent_at = Instant::now() + SILENCE;
                    let asking = timeout(self.by.reader.link.timeout(), stream.request_progress());
                    match asking.await {
                        Ok(Ok(())) => asked = true,
                        _ => {
                            self.by.reader.link.leave(turn).await;
                            return Err(StreamEnd::Broken("the stream takes no request".into()));
                        }
                    }
                }
            }
            self.drop_stale();
            self.mirror.set_time(self.by.repairs.access.now());
            let events = self.mirror.take(Instant::now());
            let reserver = self.mirror.reserver();
            self.by.claims.keeps_for(self.lease.id, reserver);
            self.send(events).await?;
        }
    }

    /// Ends the watch when the lease has ended, or the etcd was restored to an earlier state; the next renewal reports
    /// which. A restored etcd that by now has more revisions than this process has seen shows an older registration.
    async fn check_past(&mut self) -> Result<(), StreamEnd> {
        let past = self.by.reader.link.past();
        let registered = match self.by.registered(&self.lease).await {
            Err(_) if past.behind().is_some() => return Err(StreamEnd::Over),
            registered => registered?.ok_or(StreamEnd::Over)?,
        };
        if registered < self.registered {
            past.went_back(self.registered, registered);
            return Err(StreamEnd::Over);
        }
        self.registered = registered;
        Ok(())
    }

    async fn list(&mut self) -> Result<(), StreamEnd> {
        let Listed {
            mut mirror,
            missing,
            outdated,
            nodes,
            seen,
        } = list(&self.by.reader, &self.by.claims, self.lease.id, &self.kinds).await?;
        let keys = &self.by.reader.keys;
        let (own, lease) = (keys.registration(&self.lease.node), number(self.lease.id));
        let is_own = |kv: &KeyValue| kv.key() == own.as_bytes() && kv.lease() == lease;
        if !nodes.iter().any(is_own) {
            // The key was deleted since this watch last looked for it. No event of the watch follows.
            return Err(StreamEnd::Over);
        }
        let reported = nodes.iter().filter_map(|kv| registrations::read(keys, kv));
        let (watch, reported) = (self.lease.id, reported.collect());
        self.by
            .peers
            .update(|nodes| nodes.listed(watch, seen[2], reported));
        self.send(vec![Event::Reset]).await?;
        for (id, (_, fence)) in &missing {
            self.by.claims.forget(id, *fence);
        }
        let gone = missing.into_iter().map(|(id, (order, fence))| Event::Gone {
            id,
            order,
            fence: Some(fence),
        });
        self.send(gone.collect()).await?;
        mirror.set_time(self.by.repairs.access.now());
        for some in mirror.listed().chunks(BATCH) {
            self.send(mirror.views(some)).await?;
        }
        self.send(vec![Event::Listed]).await?;
        self.mirror = mirror;
        self.drop_stale();
        if !outdated.is_empty() {
            tokio::spawn(self.by.repairs.clone().drop_outdated(outdated));
        }
        self.seen = seen;
        for kv in &nodes {
            self.node_key(EventType::Put, kv).await?;
        }
        Ok(())
    }

    /// Starts to delete the marks of tasks that a node of Metafora has claimed.
    fn drop_stale(&mut self) {
        for (id, marked) in self.mirror.take_stale() {
            tokio::spawn(self.by.repairs.clone().drop_stale(id, marked));
        }
    }

    async fn open(&self) -> Result<WatchStream, StreamEnd> {
        let keys = &self.by.reader.keys;
        let prefixes = [keys.tasks(), keys.all_parked(), keys.nodes()];
        let options = |n: usize| {
            WatchOptions::new()
                .with_range(end_of(&prefixes[n]))
                .with_start_revision(self.seen[n] + 1)
                .with_progress_notify()
                .with_watch_id(n as i64 + 1)
        };
        let mut client = self.by.reader.link.watcher();
        let opened = client.watch(prefixes[TASKS].clone(), Some(options(TASKS)));
        let mut stream = self.by.reader.link.call(opened).await?;
        for n in [PARKED, NODE] {
            let asked = stream.watch(prefixes[n].clone(), Some(options(n)));
            self.by.reader.link.call(asked).await?;
        }
        Ok(stream)
    }
}
