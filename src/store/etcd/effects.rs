//! Effects: tasks and commands in the same transaction as a transition.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_statemachine::{Command, CommandId, Effects, Json, State, Task, TaskId};

use super::{
    Inner,
    claims::touch,
    item::Item,
    queued::Stored,
    read::{Bundle, parked_for, revision},
    records::{self, Envelope, Hold},
};
use crate::store::{
    Error,
    rules::plan::{self, Bounds, Facts, Known, Step},
};

impl Inner {
    /// Adds the keys of a new task. That its id is free is compared by the caller.
    pub(super) fn put_task(
        &self,
        item: &mut Item,
        task: &Task,
        place: u32,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (keys, id) = (&self.keys, &task.id);
        let envelope = records::write("task", &Envelope::new(task, now, place))?;
        item.put(&keys.task(id), envelope);
        if !task.props.is_null() {
            item.put(&keys.props(id), task.props.as_str().to_owned());
        }
        let state = State::submitted(task.start_at, now);
        match parked_for(&state) {
            Some(parked) => {
                item.put(&keys.parked(id), records::write("parked", &parked)?);
                // A node of Metafora knows nothing of `start_at`: it sleeps by the state.
                let state = records::write_state(&state, &Hold::default())?;
                item.put(&keys.state(id), state);
            }
            // A Metafora node leaves the state of what it has done behind, and our mark.
            None => {
                item.delete(&keys.parked(id));
                item.delete(&keys.state(id));
            }
        }
        Ok(())
    }

    pub(super) async fn add_effects(
        &self,
        item: &mut Item,
        effects: &Effects,
        mut place: u32,
        (owner, ends): (&TaskId, bool),
        now: Timestamp,
    ) -> Result<(), Error> {
        let submits = effects.submit.iter().map(|task| &task.id);
        let ids = submits.chain(effects.send.iter().map(|send| &send.task));
        let mut ids: Vec<TaskId> = ids.cloned().collect();
        ids.sort();
        ids.dedup();
        let mut bundles = HashMap::new();
        for (id, read) in ids.iter().zip(self.read_many(&ids).await) {
            let bundle = read.map_err(|fault| fault.into_error("read what effects are for"))?;
            bundles.insert(id.clone(), bundle);
        }
        let mut before = Before {
            owner,
            ends,
            bundles,
            commands: HashMap::new(),
        };
        for send in &effects.send {
            if !before.commands.contains_key(&send.id) {
                let known = self.known(&send.id).await?;
                let known = (known.task, known.revision);
                before.commands.insert(send.id.clone(), known);
            }
        }
        let max_bytes = self.options.limits.max_bytes;
        let steps = plan::effects(effects, &before, Bounds { max_bytes, now })?;
        let mut compared: Vec<&TaskId> = vec![owner];
        for step in steps {
            match step {
                Step::Submit(task) => {
                    compared.push(&task.id);
                    item.touch(touch(&task.id));
                    item.when_at(&self.keys.task(&task.id), 0);
                    item.when_at(&self.keys.finished(&task.id), 0);
                    self.put_task(item, task, place, now)?;
                }
                Step::Send(send) => {
                    if !compared.contains(&&send.task) {
                        compared.push(&send.task);
                        item.touch(touch(&send.task));
                        let task = before.bundles.get(&send.task);
                        let task = task.and_then(|bundle| bundle.task.as_ref());
                        item.when_at(&self.keys.task(&send.task), revision(task));
                    }
                    let pointer = before.commands.get(&send.id);
                    let pointer = pointer.map_or(0, |(_, revision)| *revision);
                    self.put_command(
                        item,
                        (&send.task, &send.id),
                        &send.command,
                        (place, pointer),
                        now,
                    )?;
                }
            }
            place += 1;
        }
        Ok(())
    }

    /// Adds a command to the queue of its task.
    pub(super) fn put_command(
        &self,
        item: &mut Item,
        (task, id): (&TaskId, &CommandId),
        command: &Command,
        (place, pointer): (u32, i64),
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = self.keys.pointer(id);
        item.touch(format!("c{id}"));
        item.when_at(&key, pointer);
        let text = Stored::write(command, now, place)?;
        item.put(&self.keys.queued(task, id.as_str()), text);
        item.put(&key, Json::new("task", task)?.as_str().to_owned());
        Ok(())
    }
}

/// What is known when a write of task `owner` has its effects; `ends` tells whether the write ends it.
struct Before<'a> {
    owner: &'a TaskId,
    ends: bool,
    bundles: HashMap<TaskId, Bundle>,
    /// The task that a command was sent to, and when its pointer was written.
    commands: HashMap<CommandId, (Option<TaskId>, i64)>,
}

impl Facts for Before<'_> {
    fn task(&self, id: &TaskId) -> Option<Known> {
        let bundle = self.bundles.get(id).filter(|bundle| bundle.exists())?;
        let has_ended = match id == self.owner {
            true => self.ends,
            false => bundle.task.is_none(),
        };
        let props = bundle.whole_task(id).map_or(0, |task| task.props.len());
        Some(Known { has_ended, props })
    }

    fn command(&self, id: &CommandId) -> Option<TaskId> {
        self.commands.get(id)?.0.clone()
    }
}
