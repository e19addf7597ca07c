//! The watch of a node: the tasks that have changed since its last read.
//!
//! A watch keeps the ids of tasks, not events: delivery is level-triggered, so an event is built when it
//! is read. A slow reader costs at most one id per task, and never misses the last state of a task.

use std::{collections::BTreeSet, ops::Bound, sync::Arc, time::Duration};

use futures::stream;
use jiff::Timestamp;
use tokio::sync::Notify;
use windlass_statemachine::{Kind, TaskId};

use super::{Shared, row::Watcher, world::World};
use crate::store::{Error, Event, EventStream, Lease, NodeCommandId, QueuedNodeCommand};

/// The most tasks in one batch.
const BATCH: usize = 1000;
/// Within this time the end of a lease is noticed, even when a test moves the clock.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(500);
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// The result of one read.
enum Look {
    Events(Vec<Event>),
    /// No event; read again after this time at the latest.
    Nothing(Duration),
    LeaseGone,
}

impl World {
    /// Notifies every watch that gets events of the task that the task has changed.
    pub(super) fn touch(&mut self, id: &TaskId) {
        let Some(row) = self.tasks.get(id) else {
            return;
        };
        for watcher in self.watchers.values_mut() {
            if watcher.cares_for(row) && watcher.changed.insert((id.clone(), row.order)) {
                watcher.notify.notify_one();
            }
        }
    }

    /// Returns how long a stream may wait before it checks for expired leases.
    pub(super) fn wait(&self, now: Timestamp) -> Duration {
        let next = self.next_end(now).unwrap_or(LONGEST_WAIT);
        next.clamp(SHORTEST_WAIT, LONGEST_WAIT)
    }

    /// Adds the events of a task. A task that the watcher's lease has claimed is included only in a
    /// list.
    fn deliver(
        &mut self,
        watcher: u64,
        (id, order): (TaskId, u64),
        listing: bool,
        now: Timestamp,
        events: &mut Vec<Event>,
    ) {
        // Quarantines a task that cannot be read, which is then gone.
        let _ = self.read_state(&id, now);
        let row = self.tasks.get(&id).filter(|row| row.order == order);
        let Some(watcher) = self.watchers.get(&watcher) else {
            return;
        };
        let view = row.filter(|r| watcher.cares_for(r));
        let view = view.and_then(|row| self.view(row));
        let (Some(row), Some(view)) = (row, view) else {
            let fence = row.map(|row| row.fence);
            return events.push(Event::Gone { id, order, fence });
        };
        let ours = view.claimed_by == Some(watcher.lease);
        if listing || !ours {
            events.push(Event::Task(view));
        }
        if ours && !row.waiting.is_empty() {
            let commands = row.waiting_commands();
            events.push(Event::Commands {
                id,
                order,
                commands,
            });
        }
    }

    fn look(&mut self, id: u64, list: &mut Option<Vec<(TaskId, u64)>>, now: Timestamp) -> Look {
        let Some(watcher) = self.watchers.get(&id) else {
            return Look::LeaseGone;
        };
        if !self.leases.contains_key(&watcher.lease) {
            return Look::LeaseGone;
        }
        let mut events = Vec::new();
        if let Some(rest) = list {
            let at = rest.len().saturating_sub(BATCH);
            for task in rest.split_off(at) {
                self.deliver(id, task, true, now, &mut events);
            }
            if rest.is_empty() {
                *list = None;
                events.push(Event::Listed);
            }
            return Look::Events(events);
        }
        let (lease, reported) = (watcher.lease, watcher.node_command);
        let after = (Bound::Excluded(reported), Bound::Unbounded);
        for (command, row) in self.node_commands.range(after) {
            // Every server receives the commands of workers.
            let is_reported = row.lease == lease || self.is_worker(row.lease);
            if is_reported && row.outcome.is_none() {
                events.push(Event::Node(QueuedNodeCommand {
                    id: *command,
                    lease: row.lease,
                    command: row.command.clone(),
                }));
            }
        }
        let newest = self.node_commands.keys().next_back().copied();
        let mut changed = Vec::new();
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.node_command = reported.max(newest.unwrap_or_default());
            while changed.len() < BATCH
                && let Some(task) = watcher.changed.pop_first()
            {
                changed.push(task);
            }
        }
        for task in changed {
            self.deliver(id, task, false, now, &mut events);
        }
        if events.is_empty() {
            Look::Nothing(self.wait(now))
        } else {
            Look::Events(events)
        }
    }

    /// Returns the live tasks whose events the watcher gets, the latest submit first.
    fn to_list(&self, watcher: &Watcher) -> Vec<(TaskId, u64)> {
        let rows = self.by_order.values().rev();
        let rows = rows.filter_map(|id| self.tasks.get(id));
        let live = rows.filter(|row| !row.has_ended() && row.quarantine.is_none());
        let cared_for = live.filter(|row| watcher.cares_for(row));
        cared_for
            .map(|row| (row.task.id.clone(), row.order))
            .collect()
    }
}

/// The reading end of a stream. Dropping it removes the watcher.
struct Reader {
    shared: Arc<Shared>,
    id: u64,
    notify: Arc<Notify>,
    /// Whether the reset was delivered.
    reset: bool,
    /// The rest of the list.
    list: Option<Vec<(TaskId, u64)>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let (mut world, _) = self.shared.lock();
        world.watchers.remove(&self.id);
    }
}

impl Reader {
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let look = {
                let (mut world, now) = self.shared.lock();
                world.look(self.id, &mut self.list, now)
            };
            match look {
                Look::LeaseGone => return None,
                Look::Nothing(wait) => {
                    let _ = tokio::time::timeout(wait, self.notify.notified()).await;
                }
                Look::Events(mut events) => {
                    if !self.reset {
                        self.reset = true;
                        events.insert(0, Event::Reset);
                    }
                    return Some(events);
                }
            }
        }
    }
}

impl Shared {
    pub(super) fn watch(
        self: &Arc<Self>,
        lease: &Lease,
        kinds: Option<Vec<Kind>>,
    ) -> Result<EventStream, Error> {
        let (mut world, _) = self.lock();
        world.check_lease(lease)?;
        let notify = Arc::new(Notify::new());
        let watcher = Watcher {
            lease: lease.id,
            kinds,
            changed: BTreeSet::new(),
            node_command: NodeCommandId::default(),
            notify: notify.clone(),
        };
        let list = Some(world.to_list(&watcher));
        let id = world.number();
        world.watchers.insert(id, watcher);
        drop(world);
        let reader = Reader {
            shared: self.clone(),
            id,
            notify,
            reset: false,
            list,
        };
        let events = stream::unfold(reader, |mut reader| async move {
            let events = reader.next().await?;
            Some((events, reader))
        });
        let events: EventStream = Box::pin(events);
        Ok(events)
    }
}
