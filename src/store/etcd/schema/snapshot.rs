//! [`Snapshot`]: everything that belongs to a task, at one revision.

use windlass_statemachine::{Json, Task, TaskId, TaskState};

use super::{
    commands::Stored,
    fences::Fences,
    json::{parse, text_of},
    keys::{Part, TaskKey},
    kv::{KeyValue, revision},
    recent::{self, Recent},
    records::{Envelope, Hold, Owner, Parked, read_state},
    slots::{Slot, slots_of},
};
use crate::store::{Change, ChangeKind, Error, TaskRecord};

/// The keys that contain props of a task.
pub(crate) type PropsKeys = &'static [TaskKey];

/// Everything that belongs to a task.
#[derive(Debug, Default, Clone)]
pub(crate) struct Snapshot {
    pub(crate) fences: Fences,
    pub(crate) revision: i64,
    pub(crate) task: Option<KeyValue>,
    pub(crate) finished: Option<KeyValue>,
    pub(crate) state: Option<KeyValue>,
    pub(crate) parked: Option<KeyValue>,
    pub(crate) owner: Option<KeyValue>,
    pub(crate) props: Option<KeyValue>,
    pub(crate) props_apart: Option<KeyValue>,
    /// The queued commands in order, including malformed ones.
    pub(crate) queue: Vec<Stored>,
    /// Keys below the key of the task that are not parts of it, in order.
    pub(crate) others: Vec<Vec<u8>>,
}

impl Snapshot {
    /// Adds one key below `/NS/tasks/`.
    pub(crate) fn take(&mut self, part: &Part<'_>, kv: KeyValue) {
        match part {
            Part::Task => self.task = Some(kv),
            Part::Owner => self.owner = Some(kv),
            Part::Props => self.props = Some(kv),
            Part::Slot => self.queue.push(Stored::read(None, &kv)),
            Part::Command(name) => self.queue.push(Stored::read(Some(name), &kv)),
        }
    }

    /// Sets one of its keys.
    pub(crate) fn put(&mut self, of: TaskKey, kv: Option<KeyValue>) {
        let place = match of {
            TaskKey::Task => &mut self.task,
            TaskKey::Finished => &mut self.finished,
            TaskKey::TaskState => &mut self.state,
            TaskKey::Parked => &mut self.parked,
            TaskKey::Owner => &mut self.owner,
            TaskKey::Props => &mut self.props,
            TaskKey::PropsApart => &mut self.props_apart,
        };
        *place = kv;
    }

    /// Adds the keys of another read at the same revision.
    pub(crate) fn merge(&mut self, read: Self) {
        for (place, kv) in [
            (&mut self.task, read.task),
            (&mut self.finished, read.finished),
            (&mut self.state, read.state),
            (&mut self.parked, read.parked),
            (&mut self.owner, read.owner),
            (&mut self.props, read.props),
            (&mut self.props_apart, read.props_apart),
        ] {
            if kv.is_some() {
                *place = kv;
            }
        }
        self.queue.extend(read.queue);
        self.others.extend(read.others);
    }

    /// Returns the revision that last wrote one of its keys; 0 if it does not exist.
    pub(crate) fn revision_of(&self, of: TaskKey) -> i64 {
        revision(match of {
            TaskKey::Task => self.task.as_ref(),
            TaskKey::Finished => self.finished.as_ref(),
            TaskKey::TaskState => self.state.as_ref(),
            TaskKey::Parked => self.parked.as_ref(),
            TaskKey::Owner => self.owner.as_ref(),
            TaskKey::Props => self.props.as_ref(),
            TaskKey::PropsApart => self.props_apart.as_ref(),
        })
    }

    /// Returns the keys with props that the end of the task deletes.
    pub(crate) fn props_keys(&self) -> PropsKeys {
        match (&self.props, &self.props_apart) {
            (_, None) => &[TaskKey::Props],
            (None, Some(_)) => &[TaskKey::PropsApart],
            (Some(_), Some(_)) => &[TaskKey::Props, TaskKey::PropsApart],
        }
    }

    /// Returns the slots of limits that its claim has taken.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.owner.as_ref().map_or_else(Vec::new, slots_of)
    }

    pub(crate) fn exists(&self) -> bool {
        self.task.is_some() || self.finished.is_some()
    }

    /// Reads the envelope, and the submit order.
    pub(crate) fn envelope(&self) -> Result<(Envelope, u64), String> {
        let kv = self.task.as_ref().or(self.finished.as_ref());
        let kv = kv.ok_or("is gone")?;
        let envelope = Envelope::read(kv).map_err(|e| format!("its envelope: {e}"))?;
        let order = envelope.order(kv);
        Ok((envelope, order))
    }

    /// Returns the stand-in for an envelope that cannot be read, and its order.
    pub(crate) fn replaced_envelope(
        &self,
        id: &TaskId,
        reason: String,
    ) -> Result<(Envelope, u64), Error> {
        let kv = self.task.as_ref().or(self.finished.as_ref());
        let envelope = Envelope::foreign().map_err(|_| Error::corrupt_task(id, reason))?;
        let order = kv.map_or(0, |kv| envelope.order(kv));
        Ok((envelope, order))
    }

    pub(crate) fn whole_task(&self, id: &TaskId) -> Result<Task, String> {
        let (mut envelope, _) = self.envelope()?;
        // A client of Metafora writes props next to the task in any layout, and does not delete separate ones with
        // a task. Those are then older than the next task with the id.
        let written = self.task.as_ref().map_or(0, KeyValue::create_revision);
        let apart = self.props_apart.as_ref();
        let apart = apart.filter(|kv| kv.mod_revision() >= written);
        let stored = self.props.iter().chain(apart);
        let stored = stored.max_by_key(|kv| kv.mod_revision());
        let props = match (stored, envelope.props.take()) {
            (Some(kv), _) if self.task.is_some() => {
                let text = text_of(kv).map_err(|e| format!("its props: {e}"))?;
                Json::parse("props", text).map_err(|e| e.to_string())?
            }
            (_, Some(props)) => props,
            _ => Json::null(),
        };
        Ok(envelope.task(id, props))
    }

    /// Reads the state with the fields of the claim. A task that was never claimed has no stored
    /// state.
    pub(crate) fn state(&self) -> Result<(TaskState, Hold), String> {
        match &self.state {
            Some(kv) => read_state(kv, &self.fences),
            None => Ok((self.envelope()?.0.first_state(), Hold::default())),
        }
    }

    /// Returns the newest lines of its history, from the value of its state.
    pub(crate) fn recent(&self) -> Recent {
        Recent::of(self.state.as_ref())
    }

    /// Returns the changes in these lines.
    pub(crate) fn recent_changes(&self, id: &TaskId) -> Vec<Change> {
        let state = self.state.as_ref();
        state.map_or_else(Vec::new, |kv| recent::changes_of(id, kv, &self.fences))
    }

    /// Returns the submit of the task as a change; `None` when its envelope cannot be read.
    pub(crate) fn submit(&self, id: &TaskId) -> Option<Change> {
        let (envelope, order) = self.envelope().ok()?;
        let state = envelope.first_state().code();
        let (at, what) = (envelope.submitted_at(), ChangeKind::Submitted { state });
        Some(Change::new(order, at, id.clone(), what).by(envelope.by))
    }

    /// Returns whether the node that had claimed the live task has ended without releasing it, and no claim has followed.
    pub(crate) fn is_lost(&self) -> bool {
        let is_unclaimed = self.task.is_some() && self.owner.is_none();
        is_unclaimed
            && self
                .state()
                .is_ok_and(|(_, hold)| hold.claimed_by.is_some())
    }

    /// Returns why the task is quarantined; `None` when it is not.
    pub(crate) fn quarantined(&self) -> Option<String> {
        let parked: Parked = parse(self.parked.as_ref()?).ok()?;
        parked.quarantined
    }

    /// Returns why the task cannot be read; `None` when it can.
    pub(crate) fn fault(&self, id: &TaskId) -> Option<String> {
        self.whole_task(id).err().or_else(|| self.state().err())
    }

    pub(crate) fn record(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let (envelope, order) = match self.envelope() {
            Ok(read) => read,
            Err(reason) => self.replaced_envelope(id, reason)?,
        };
        let (whole, stored) = (self.whole_task(id), self.state());
        let fault = || {
            let unreadable = whole.as_ref().err().or(stored.as_ref().err());
            unreadable.cloned()
        };
        let quarantined = self.quarantined().or_else(fault);
        let fence = stored.as_ref().map(|(state, _)| state.fence);
        let owner = self.owner.as_ref();
        let by_owner = owner.map(|kv| self.fences.of(kv.mod_revision()));
        Ok(TaskRecord {
            task: whole.unwrap_or_else(|_| envelope.task(id, Json::null())),
            order,
            submitted_at: envelope.submitted_at(),
            node: owner
                .and_then(|kv| parse::<Owner>(kv).ok())
                .map(|owner| owner.node),
            fence: by_owner.or(fence.ok()).unwrap_or_default(),
            commands: self.queue.len() as u64,
            limited_by: None,
            state: match (quarantined, stored) {
                (Some(reason), _) | (None, Err(reason)) => Err(Error::corrupt_task(id, reason)),
                (None, Ok((state, _))) => Ok(state),
            },
        })
    }
}
