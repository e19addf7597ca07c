//! The marks of the mirror: the keys below `/NS/parked/`.

use etcd_client::EventType;
use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::Mirror;
use crate::store::etcd::{
    schema::{KeyValue, Parked, json::parse},
    watch::entries::Mark,
};

/// A mark, the next deadline of its task, and the revision that wrote it.
pub(super) type Marked = (Mark, Option<Timestamp>, i64);

impl Mark {
    /// Returns the mark, the next deadline of its task, and the tasks that the task waits for.
    fn read(kv: &KeyValue) -> (Self, Option<Timestamp>, Vec<TaskId>) {
        match parse::<Parked>(kv) {
            Ok(Parked {
                quarantined: Some(_),
                ..
            }) => (Self::Quarantined, None, Vec::new()),
            Ok(Parked {
                until: Some(at),
                waits,
                deadline,
                ..
            }) => (Self::Until(at), deadline, waits),
            Ok(Parked {
                ready: Some(since),
                deadline,
                ..
            }) => (Self::Ready(since), deadline, Vec::new()),
            Ok(Parked { deadline, .. }) => (Self::Paused, deadline, Vec::new()),
            Err(_) => (Self::Paused, None, Vec::new()),
        }
    }
}

impl Mirror {
    /// Applies a key below `/NS/parked/`.
    pub(crate) fn parked_key(&mut self, event: EventType, kv: &KeyValue, listing: bool) {
        let id = self.keys.strip(kv.key(), "parked/");
        let Some(id) = id.and_then(|id| TaskId::new(id).ok()) else {
            return;
        };
        let (mark, deadline, waits) = match event {
            EventType::Put => Mark::read(kv),
            EventType::Delete => (Mark::None, None, Vec::new()),
        };
        let at = kv.mod_revision();
        self.releases.settled(&id);
        match self.tasks.get(&id) {
            Some(mut entry) => {
                self.waiters.put(&id, waits);
                (entry.mark, entry.late.parked, entry.marked) = (mark, deadline, at);
                let order = entry.order;
                self.tasks.put(&id, entry);
                self.touch(&id, order);
                self.look_for_stale(&id);
            }
            None if mark == Mark::None || listing => {
                self.early.remove(&id);
                self.waiters.remove(&id);
            }
            None => {
                self.waiters.put(&id, waits);
                self.early.insert(id, (mark, deadline, at));
            }
        }
    }

    pub(super) fn look_for_stale(&mut self, id: &TaskId) {
        if let Some(entry) = self.tasks.get(id)
            && entry.owner.is_some_and(|owner| owner.foreign)
            && matches!(entry.mark, Mark::Ready(_) | Mark::Until(_) | Mark::Paused)
        {
            self.stale.push((id.clone(), entry.marked));
        }
    }

    pub(crate) fn has_marks(&self) -> bool {
        self.tasks.has_marks()
    }

    /// Returns the task of this state if its mark is older than the state, with the revisions of
    /// both: the mark is outdated.
    pub(crate) fn outdated_by(&self, state: &KeyValue) -> Option<(TaskId, i64, i64)> {
        let id = TaskId::new(self.keys.strip(state.key(), "state/")?).ok()?;
        let entry = self.tasks.get(&id)?;
        let stored = state.mod_revision();
        let outdated = entry.mark != Mark::None && entry.owner.is_none() && entry.marked < stored;
        outdated.then_some((id, entry.marked, stored))
    }

    /// Takes the marks to delete, because a node of Metafora has claimed their tasks.
    pub(crate) fn take_stale(&mut self) -> Vec<(TaskId, i64)> {
        std::mem::take(&mut self.stale)
    }

    /// Notes that every key below `/NS/parked/` up to this revision has arrived.
    pub(crate) fn marks_are_at(&mut self, revision: i64) {
        self.releases.marks_are_at(revision);
    }
}
