//! [`Watch`]: reads the log of changes for a node, from the node's own position. The changes that a slow reader has not
//! read are in the file, not in memory.

use rusqlite::Connection;
use tokio::sync::mpsc::{self, error::TrySendError};
use windlass_statemachine::Kind;

use super::{
    batch::{Sql, newest},
    codes::{CHECKPOINTED, CLAIMED, DELETED, DROPPED, LOST, MOVED, NODE, QUARANTINED},
    dependencies, lease,
    progress::{CHUNK, Progress},
    read_changes::{self, Touched},
    views::{self, View, Views},
    worker,
};
use crate::hash::HashSet;
use crate::store::Event;

/// The most changes in one read.
const CHANGES: usize = 4000;

/// The watch of a node.
pub(super) struct Watch {
    lease: i64,
    kinds: Option<HashSet<Kind>>,
    events: mpsc::Sender<Vec<Event>>,
    /// The last change that was delivered; `None` before the list.
    seen: Option<i64>,
    /// While the list is sent: the last row that was sent.
    listed: Option<i64>,
    own: OwnClaims,
}

/// The tasks that the node has claimed, up to the position of its watch. The node knows of the ends that
/// it writes itself, so the watch neither reads nor reports them.
#[derive(Default)]
struct OwnClaims(HashSet<i64>);

impl OwnClaims {
    /// Notes a change. Returns whether it is an end that this lease has written.
    fn end(&mut self, change: &Touched, lease: i64) -> bool {
        match change.what {
            CLAIMED if change.detail >> 1 == lease => {
                self.0.insert(change.n);
                false
            }
            // Only the owner can end a task while its claim stands.
            MOVED => change.ends() && self.0.remove(&change.n),
            CLAIMED | DROPPED | LOST | QUARANTINED | DELETED => {
                self.0.remove(&change.n);
                false
            }
            _ => false,
        }
    }
}

impl Watch {
    pub(super) fn new(
        lease: i64,
        kinds: Option<Vec<Kind>>,
        events: mpsc::Sender<Vec<Event>>,
    ) -> Self {
        Self {
            lease,
            kinds: kinds.map(|kinds| kinds.into_iter().collect()),
            events,
            seen: None,
            listed: None,
            own: OwnClaims::default(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.events.is_closed()
    }

    /// Sends the next batch.
    pub(super) fn advance(&mut self, conn: &Connection, views: &mut Views) -> Sql<Progress> {
        if !lease::lives(conn, self.lease)? {
            return Ok(Progress::Ended);
        }
        if self.events.capacity() == 0 {
            return Ok(Progress::Full);
        }
        let Some(seen) = self.seen else {
            // Later changes are sent after the list, even if the list already includes them.
            let newest = newest(conn)?;
            return Ok(self.deliver(vec![Event::Reset], |watch| {
                watch.seen = Some(newest);
                watch.listed = Some(0);
                watch.own = OwnClaims::default();
            }));
        };
        if let Some(after) = self.listed {
            return self.list(conn, views, after);
        }
        let next = read_changes::touched(conn, seen, CHANGES)?;
        if next.gap {
            tracing::info!(
                lease = self.lease,
                "unread history was pruned; lists the tasks again"
            );
            self.seen = None;
            return Ok(Progress::More);
        }
        let done = next.rows.len() < CHANGES;
        let events = self.events(conn, views, &next.rows)?;
        let progress = self.deliver(events, |watch| watch.seen = Some(next.upto));
        Ok(if done && progress == Progress::More {
            Progress::Done
        } else {
            progress
        })
    }

    /// Sends a batch, and calls `then` after it was sent.
    fn deliver(&mut self, events: Vec<Event>, then: impl FnOnce(&mut Self)) -> Progress {
        if !events.is_empty() {
            match self.events.try_send(events) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => return Progress::Full,
                Err(TrySendError::Closed(_)) => return Progress::Ended,
            }
        }
        then(self);
        Progress::More
    }

    fn wants(&self, kind: &Kind) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }

    fn list(&mut self, conn: &Connection, views: &mut Views, after: i64) -> Sql<Progress> {
        let (live, last) = views.live(conn, after, CHUNK)?;
        let mut events = Vec::with_capacity(live.len());
        for view in live {
            let own = view.claimed_by == Some(self.lease as u64);
            let (id, order) = (view.id.clone(), view.order);
            if own {
                self.own.0.insert(order as i64);
            }
            let commanded = own && view.commanded;
            if self.wants(&view.kind) {
                events.push(Event::Task(view));
            }
            if commanded {
                let commands = views::commands(conn, order as i64)?;
                events.push(Event::Commands {
                    id,
                    order,
                    commands,
                });
            }
        }
        if last.is_none() {
            let workers = worker::all(conn)?.into_iter();
            for lease in workers.filter(|one| *one != self.lease).chain([self.lease]) {
                let commands = views::node_commands(conn, lease, None)?;
                events.extend(commands.into_iter().map(Event::Node));
            }
            events.push(Event::Listed);
        }
        Ok(self.deliver(events, |watch| watch.listed = last))
    }

    /// Returns the events of these changes for the node: each task once, with its present view.
    fn events(
        &mut self,
        conn: &Connection,
        views: &mut Views,
        touched: &[Touched],
    ) -> Sql<Vec<Event>> {
        let (mut events, mut reported) = (Vec::new(), HashSet::default());
        let mut ended = dependencies::Changed::new();
        let moved: HashSet<i64> = touched
            .iter()
            .filter(|one| one.is_other_kind())
            .map(|one| one.n)
            .collect();
        for change in touched {
            if change.concerns_waiters() {
                *ended.entry(change.n).or_default() |= change.lives();
            }
            if self.own.end(change, self.lease) {
                continue;
            }
            match change.what {
                // Every server receives the commands of workers.
                NODE if change.detail == self.lease || worker::is_worker(conn, change.detail)? => {
                    let lease = change.detail;
                    let commands = views::node_commands(conn, lease, Some(change.seq))?;
                    events.extend(commands.into_iter().map(Event::Node));
                }
                // While a claim stands, only its owner needs its moves, and the owner made them. The
                // release of a claim is a separate change.
                MOVED if !change.ends() => {}
                NODE | CHECKPOINTED => {}
                // The node knows of its own claims: the answer to the claim has the queued commands
                // of the task.
                CLAIMED if change.detail >> 1 == self.lease => {}
                _ if !reported.insert(change.n) => {}
                _ => match views.one(conn, change.n)? {
                    // A later task with this id has changes of its own.
                    Some(View::Deleted(id)) => events.push(Event::Gone {
                        id,
                        order: change.n as u64,
                        fence: None,
                    }),
                    Some(View::Ended(id, kind, fence)) => {
                        if kind.is_none_or(|kind| self.wants(&kind)) {
                            events.push(Event::Gone {
                                id,
                                order: change.n as u64,
                                fence: Some(fence),
                            });
                        }
                    }
                    Some(View::Live(view)) if view.claimed_by == Some(self.lease as u64) => {
                        // The node knows its own claims.
                        if view.commanded {
                            let commands = views::commands(conn, change.n)?;
                            events.push(Event::Commands {
                                id: view.id,
                                order: view.order,
                                commands,
                            });
                        }
                    }
                    Some(View::Live(view)) if self.wants(&view.kind) => {
                        events.push(Event::Task(view));
                    }
                    // The node may know the task of its old kind.
                    Some(View::Live(view)) if moved.contains(&change.n) => {
                        let fence = views::fence(conn, change.n)?;
                        events.push(Event::Gone {
                            id: view.id,
                            order: view.order,
                            fence: Some(fence),
                        });
                    }
                    Some(View::Live(_)) | None => {}
                },
            }
        }
        // Whatever the kind of a task is, tasks of this node's kinds may wait for it.
        for waiter in dependencies::waiters(conn, &ended)? {
            if reported.insert(waiter)
                && let Some(View::Live(view)) = views.one(conn, waiter)?
                && self.wants(&view.kind)
            {
                events.push(Event::Task(view));
            }
        }
        Ok(events)
    }
}
