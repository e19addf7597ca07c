//! [`Edit`]: the content of a change of a task. Pure: keys, values and an item.

use jiff::Timestamp;
use windlass_statemachine::{
    CommandId, Json, NodeName, Outcome, StateKind, Task, TaskId, TaskState, command::NotedCommand,
};

use super::item::Item;
use crate::store::{
    ChangeKind, Error,
    etcd::schema::{
        Entry, Envelope, Hold, Keys, Layout, Parked, Recent, Snapshot, Stored, TaskKey, end_of,
        json::write, ranges::ranges, records::write_state, snapshot::PropsKeys,
    },
    rules,
};

/// The minimum number of writes that a task's history keeps.
pub(crate) const HISTORY: u64 = 64;
/// How often the history is cut. Cutting it with every write would add an operation to every
/// transition.
const CUT_EVERY: u64 = 16;
/// The most commands that the end of a task deletes by name; more are deleted as a range.
const FEW: usize = 8;

/// The part of a write that concerns one task.
pub(crate) struct Edit<'a> {
    pub(super) keys: &'a Keys,
    pub(super) id: &'a TaskId,
    pub(super) item: &'a mut Item,
}

/// The new state of a task, and the history line of the write.
pub(crate) struct Step<'a> {
    pub(crate) state: &'a TaskState,
    pub(crate) hold: &'a Hold,
    pub(crate) what: &'a [ChangeKind],
    pub(crate) now: Timestamp,
}

/// A command that is sent.
pub(crate) struct Sent<'a> {
    pub(crate) id: &'a CommandId,
    pub(crate) command: &'a NotedCommand,
    pub(crate) at: Timestamp,
    /// Its place in the numbers of the revision.
    pub(crate) place: u32,
    /// When the pointer to it was written; 0 if it does not exist.
    pub(crate) pointer: i64,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(keys: &'a Keys, id: &'a TaskId, item: &'a mut Item) -> Self {
        Self { keys, id, item }
    }

    /// Compares that a key was last written at this revision; 0: that it does not exist.
    pub(crate) fn when(&mut self, of: TaskKey, revision: i64) {
        self.item.when_at(&self.keys.of(self.id, of), revision);
    }

    /// Compares that the key exists.
    pub(crate) fn when_there(&mut self, of: TaskKey) {
        self.item.when_there(&self.keys.of(self.id, of));
    }

    /// Compares that these keys are unchanged since they were read.
    pub(crate) fn when_as_found(&mut self, found: &Snapshot, keys: &[TaskKey]) {
        for of in keys {
            self.when(*of, found.revision_of(*of));
        }
    }

    /// Compares that no command was sent after this revision.
    pub(crate) fn when_no_command_since(&mut self, revision: i64) {
        let slot = self.keys.slot(self.id);
        self.item
            .when_not_after(&slot, &format!("{slot}0"), revision);
    }

    /// Compares that the task has only its envelope: no owner, no command, no props of Metafora.
    pub(crate) fn when_bare(&mut self) {
        let parts = self.keys.parts(self.id);
        let end = String::from_utf8_lossy(&end_of(&parts)).into_owned();
        self.item.when_not_after(&parts, &end, 0);
    }

    /// Compares that a node is registered with this lease.
    pub(crate) fn when_registered(&mut self, node: &NodeName, lease: i64) {
        self.item.when_on(&self.keys.registration(node), lease);
    }

    /// Reads the props of the task in the same transaction, in the layout `Compact`.
    pub(crate) fn get_props(&mut self) {
        self.item.get(&self.keys.props_apart(self.id));
    }

    /// Compares that none of these tasks is live.
    pub(crate) fn when_none_lives(&mut self, tasks: &[TaskId]) {
        for id in tasks {
            self.item.when_at(&self.keys.task(id), 0);
        }
    }

    pub(crate) fn delete(&mut self, of: TaskKey) {
        self.item.delete(&self.keys.of(self.id, of));
    }

    /// Puts a state with these lines of history.
    pub(crate) fn put_state(
        &mut self,
        state: &TaskState,
        hold: &Hold,
        recent: &Recent,
    ) -> Result<(), Error> {
        let key = self.keys.state(self.id);
        self.item
            .put(&key, recent.extend(write_state(state, hold)?));
        Ok(())
    }

    /// Writes the state after a step, and adds its line to the history. `recent` are the lines in the value of the
    /// state so far. Returns those in the new value.
    pub(crate) fn put_step(&mut self, step: &Step<'_>, recent: &Recent) -> Result<Recent, Error> {
        let &Step { state, hold, .. } = step;
        let mut recent = recent.clone();
        if self.keys.layout() != Some(Layout::Compact) {
            self.put_state(state, hold, &recent)?;
            self.put_history(state.version, step.what, step.now)?;
            return Ok(recent);
        }
        let (version, place) = (state.version, self.item.place);
        let line = Entry::write_line(step.now, (place, self.item.by.as_ref()), step.what)?;
        let full = recent.push(version, line);
        self.put_state(state, hold, &recent)?;
        if let Some(full) = full {
            let key = self.keys.history_block(self.id, full.number);
            self.item.put(&key, full.text);
        }
        self.cut_history(version);
        Ok(recent)
    }

    /// Writes the mark of a task without an owner. Returns whether it has one.
    pub(crate) fn put_parked(
        &mut self,
        state: &TaskState,
        submitted_at: Timestamp,
    ) -> Result<bool, Error> {
        let parked = Parked::of(state, submitted_at);
        if let Some(parked) = &parked {
            let key = self.keys.parked(self.id);
            self.item.put(&key, write("parked", parked)?);
        }
        Ok(parked.is_some())
    }

    /// Puts the mark of a task that cannot be read.
    pub(crate) fn put_quarantined(&mut self, reason: &str) -> Result<(), Error> {
        let parked = Parked {
            quarantined: Some(reason.to_owned()),
            ..Parked::default()
        };
        let key = self.keys.parked(self.id);
        self.item.put(&key, write("parked", &parked)?);
        Ok(())
    }

    /// Puts the envelope of a live task, or of one that has ended.
    pub(crate) fn put_envelope(&mut self, of: TaskKey, envelope: &Envelope) -> Result<(), Error> {
        let key = self.keys.of(self.id, of);
        self.item.put(&key, write("task", envelope)?);
        Ok(())
    }

    /// Writes the record of an ended task, and its key in the index of ended tasks. The time in the index is that of
    /// the state, by which lists by end are ordered.
    pub(crate) fn put_finished(
        &mut self,
        envelope: &Envelope,
        code: StateKind,
        since: Timestamp,
    ) -> Result<(), Error> {
        self.put_envelope(TaskKey::Finished, envelope)?;
        let key = self.keys.ended(since, self.id);
        self.item.put(&key, write("state", &code)?);
        Ok(())
    }

    /// Deletes the record of an ended task, as it was read, with its key in the index of ended tasks. The caller
    /// compares the record.
    pub(crate) fn delete_finished(&mut self, found: &Snapshot) {
        self.delete(TaskKey::Finished);
        for key in found.end_keys(self.keys, self.id) {
            self.item.delete(&key);
        }
    }

    pub(crate) fn put_props(&mut self, props: &Json) {
        let key = self.keys.new_props(self.id);
        self.item.put(&key, props.as_str().to_owned());
    }

    /// Like [`put_step`](Self::put_step), with the line as a key that contains the version.
    pub(crate) fn put_step_apart(&mut self, step: &Step<'_>) -> Result<(), Error> {
        let &Step { state, hold, .. } = step;
        self.put_state(state, hold, &Recent::default())?;
        let key = self.keys.history(self.id, state.version);
        let line = Entry::write(
            step.now,
            (self.item.place, self.item.by.as_ref()),
            step.what,
        )?;
        self.item.put(&key, line);
        Ok(())
    }

    /// Adds a line to the history of the task as a key, and from time to time deletes the oldest
    /// ones.
    pub(super) fn put_history(
        &mut self,
        version: u64,
        what: &[ChangeKind],
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = self.keys.history(self.id, version);
        let line = Entry::write(now, (self.item.place, self.item.by.as_ref()), what)?;
        self.item.put(&key, line);
        self.cut_history(version);
        Ok(())
    }

    /// Deletes the oldest lines from time to time. In the layout `Compact` these are lines from another store, and
    /// those that are separate from the task's writes.
    fn cut_history(&mut self, version: u64) {
        if let Some(old) = version.checked_sub(HISTORY)
            && version.is_multiple_of(CUT_EVERY)
        {
            let old = self.keys.history(self.id, old);
            let all = self.keys.histories(self.id);
            self.item.delete_range(&all, format!("{old}~"));
        }
    }

    /// Adds a line with this name to the history, separate from those of the task's writes.
    pub(crate) fn put_line(
        &mut self,
        name: &str,
        what: ChangeKind,
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = format!("{}{name}", self.keys.histories(self.id));
        let line = Entry::write(now, (self.item.place, self.item.by.as_ref()), &[what])?;
        self.item.put(&key, line);
        Ok(())
    }

    /// Adds the keys of a new task. The caller compares that the id is free.
    pub(crate) fn put_task(
        &mut self,
        task: &Task,
        place: u32,
        now: Timestamp,
    ) -> Result<(), Error> {
        let envelope = Envelope {
            by: self.item.by.clone(),
            ..Envelope::new(task, now, place)
        };
        self.put_envelope(TaskKey::Task, &envelope)?;
        if !task.props.is_null() {
            self.put_props(&task.props);
        }
        let state = TaskState::first(task, now);
        if self.put_parked(&state, now)? {
            // A node of Metafora ignores `start_at` and reads the state.
            return self.put_state(&state, &Hold::default(), &Recent::default());
        }
        // A Metafora node that ends a task leaves its state and the mark of windlass.
        self.delete(TaskKey::Parked);
        self.delete(TaskKey::TaskState);
        Ok(())
    }

    /// Adds a command to the queue of the task.
    pub(crate) fn put_command(&mut self, sent: &Sent<'_>) -> Result<(), Error> {
        let key = self.keys.pointer(sent.id);
        self.item.touch_command(sent.id.as_str());
        self.item.when_at(&key, sent.pointer);
        let text = Stored::write(sent.command, sent.at, (sent.place, self.item.by.as_ref()))?;
        let queued = self.keys.queued(self.id, sent.id.as_str());
        self.item.put(&queued, text);
        let names_it = Json::new("task", self.id)?;
        self.item.put(&key, names_it.as_str().to_owned());
        Ok(())
    }

    /// Records outcomes. At the `end` of the task, rejects every other command; [`end`](Self::end)
    /// then deletes the queue.
    pub(crate) fn settle(
        &mut self,
        queue: &[Stored],
        outcomes: &[(u64, Outcome)],
        end: Option<StateKind>,
    ) -> Result<(), Error> {
        for stored in queue {
            let reported = outcomes.iter().find(|(order, _)| *order == stored.order);
            match (reported, end) {
                (Some((_, outcome)), _) => self.put_outcome(stored, outcome.clone())?,
                (None, Some(code)) => self.put_outcome(stored, rules::command::ended(code))?,
                (None, None) => continue,
            }
            if end.is_none() {
                self.dequeue(stored);
            }
        }
        Ok(())
    }

    pub(crate) fn put_outcome(&mut self, stored: &Stored, outcome: Outcome) -> Result<(), Error> {
        let key = self.keys.outcome(self.id, &stored.key_name());
        self.item.put(&key, stored.write_outcome(outcome)?);
        Ok(())
    }

    /// Compares that a command is queued, as it was read.
    pub(crate) fn when_waits(&mut self, stored: &Stored) {
        let key = self.key_of(stored);
        self.item.when_at(&key, stored.revision);
    }

    fn key_of(&self, stored: &Stored) -> String {
        match &stored.name {
            Some(name) => self.keys.queued(self.id, name),
            None => self.keys.slot(self.id),
        }
    }

    /// Removes a command from the queue; from the slot only if the slot still contains this
    /// command.
    pub(crate) fn dequeue(&mut self, stored: &Stored) {
        let key = self.key_of(stored);
        match stored.name {
            Some(_) => self.item.delete(&key),
            None => self.item.delete_at(&key, stored.revision),
        }
    }

    /// Replaces a live task by the record of its end. `queue` has all of its commands; `room`
    /// limits how many of them are deleted one by one.
    pub(crate) fn end(
        &mut self,
        queue: &[Stored],
        room: usize,
        props: PropsKeys,
        envelope: &Envelope,
        state: &TaskState,
    ) -> Result<(), Error> {
        self.delete(TaskKey::Task);
        self.delete(TaskKey::Owner);
        for key in props {
            self.delete(*key);
        }
        let is_many = queue.len() > FEW.min(room);
        for stored in queue {
            if stored.name.is_none() || !is_many {
                self.item.delete(&self.key_of(stored));
            }
        }
        if is_many {
            self.item.delete_all(&self.keys.queue(self.id));
        }
        self.put_finished(envelope, state.code(), state.since)
    }

    /// Deletes the parts of a live task other than its envelope, as they were read. The caller
    /// compares that no command was sent since.
    pub(crate) fn delete_parts(&mut self, found: &Snapshot) {
        self.delete_owner(found);
        for key in found.props_keys() {
            self.delete(*key);
        }
        if found.queue.iter().any(|stored| stored.name.is_none()) {
            self.item.delete(&self.keys.slot(self.id));
        }
        let prefix = self.keys.queue(self.id);
        let own = found.queue.iter().filter_map(|stored| {
            let name = stored.name.as_deref()?;
            Some((self.keys.queued(self.id, name).into_bytes(), true))
        });
        let mut all: Vec<_> = own.collect();
        if all.is_empty() {
            return;
        }
        let others = found.others.iter().map(|key| (key.clone(), false));
        all.extend(others.filter(|(key, _)| key.starts_with(prefix.as_bytes())));
        all.sort();
        self.item.delete_ranges(ranges(&prefix, &all));
    }
}
