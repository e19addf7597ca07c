//! Effects: tasks and commands in the same transaction as a transition.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_statemachine::{Command, Effects, Invalid, Json, State, Task, TaskId};

use super::{
    Inner,
    claims::touch,
    item::Item,
    queued::Stored,
    read::{Bundle, parked_for, revision},
    records::{self, Envelope, Hold},
};
use crate::store::Error;

pub(super) fn exists(id: &TaskId) -> Error {
    Error::AlreadyExists {
        what: "task",
        name: id.to_string(),
    }
}

impl Inner {
    pub(super) fn check_task(&self, task: &Task) -> Result<(), Error> {
        let (bytes, limit) = (task.props.len(), self.options.limits.max_bytes);
        if bytes > limit {
            return Err(Error::TooLarge {
                field: "props",
                bytes,
                limit,
            });
        }
        Ok(task.check(limit)?)
    }

    /// Checks a command for a task with so many bytes of props.
    pub(super) fn check_command(
        &self,
        command: &Command,
        props: usize,
        now: Timestamp,
    ) -> Result<(), Error> {
        command.check(now)?;
        let limit = self.options.limits.max_bytes;
        match command {
            Command::Complete { result: Some(json) } if props + json.len() > limit => {
                Err(Error::TooLarge {
                    field: "result",
                    bytes: props + json.len(),
                    limit,
                })
            }
            _ => Ok(()),
        }
    }

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
        let none = Bundle::default();
        let of = |id: &TaskId| bundles.get(id).unwrap_or(&none);
        let has_ended = |id: &TaskId| match of(id) {
            _ if id == owner => Some(ends),
            bundle if bundle.task.is_some() => Some(false),
            bundle => bundle.finished.as_ref().map(|_| true),
        };

        let mut new: HashMap<&TaskId, &Task> = HashMap::new();
        for task in &effects.submit {
            self.check_task(task)?;
            match has_ended(&task.id) {
                Some(true) => return Err(Error::AlreadyFinished(task.id.clone())),
                Some(false) => return Err(exists(&task.id)),
                None if new.insert(&task.id, task).is_some() => return Err(exists(&task.id)),
                None => {}
            }
            item.touch(touch(&task.id));
            item.when_at(&self.keys.task(&task.id), 0);
            item.when_at(&self.keys.finished(&task.id), 0);
            self.put_task(item, task, place, now)?;
            place += 1;
        }
        let mut sent: HashMap<_, &TaskId> = HashMap::new();
        let mut compared: Vec<&TaskId> = vec![owner];
        for send in &effects.send {
            let known = self.known(&send.id).await?;
            let (known, pointer) = (known.task, known.revision);
            match known.as_ref().or_else(|| sent.get(&send.id).copied()) {
                Some(task) if *task == send.task => continue,
                Some(task) => return Err(other_command(&send.id, task)),
                None => {}
            }
            sent.insert(&send.id, &send.task);
            let props = match (has_ended(&send.task), new.get(&send.task)) {
                (Some(true), _) => return Err(Error::AlreadyFinished(send.task.clone())),
                (Some(false), _) => {
                    let task = of(&send.task).whole_task(&send.task);
                    task.map_or(0, |task| task.props.len())
                }
                (None, Some(task)) => task.props.len(),
                (None, None) => return Err(Error::no_task(&send.task)),
            };
            self.check_command(&send.command, props, now)?;
            if !new.contains_key(&send.task) && !compared.contains(&&send.task) {
                compared.push(&send.task);
                item.touch(touch(&send.task));
                let task = of(&send.task).task.as_ref();
                item.when_at(&self.keys.task(&send.task), revision(task));
            }
            self.put_command(
                item,
                (&send.task, &send.id),
                &send.command,
                (place, pointer),
                now,
            )?;
            place += 1;
        }
        Ok(())
    }

    /// Adds a command to the queue of its task.
    pub(super) fn put_command(
        &self,
        item: &mut Item,
        (task, id): (&TaskId, &windlass_statemachine::CommandId),
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

pub(super) fn other_command(id: &windlass_statemachine::CommandId, task: &TaskId) -> Error {
    let reason = format!("'{id}' was sent to task '{task}' before; give a new id");
    Invalid::new("command id", reason).into()
}
