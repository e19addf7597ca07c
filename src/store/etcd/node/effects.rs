//! Effects: tasks and commands in the same transaction as a transition.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_statemachine::{CommandId, Task, TaskId};

use crate::store::{
    Error,
    etcd::{
        read::Reader,
        schema::{
            Of, Snapshot,
            checks::{check_command, check_task, exists, other_command},
        },
        write::{Edit, Item, edit::Sent},
    },
};

/// The effects of one transition.
pub(crate) struct Effects<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) max_bytes: usize,
    /// The task whose transition has them, and whether it ends by it.
    pub(crate) owner: &'a TaskId,
    pub(crate) ends: bool,
    pub(crate) now: Timestamp,
}

impl Effects<'_> {
    /// Adds them to the write of the transition, at this place.
    pub(crate) async fn add(
        &self,
        item: &mut Item,
        effects: &windlass_statemachine::Effects,
        mut place: u32,
    ) -> Result<(), Error> {
        let (keys, owner) = (&self.reader.keys, self.owner);
        let submits = effects.submit.iter().map(|task| &task.id);
        let ids = submits.chain(effects.send.iter().map(|send| &send.task));
        let mut ids: Vec<TaskId> = ids.cloned().collect();
        ids.sort();
        ids.dedup();
        let mut found = HashMap::new();
        for (id, read) in ids.iter().zip(self.reader.read_many(&ids).await) {
            let read = read.map_err(|fault| fault.into_error("read what effects are for"))?;
            found.insert(id.clone(), read);
        }
        let none = Snapshot::default();
        let of = |id: &TaskId| found.get(id).unwrap_or(&none);
        let has_ended = |id: &TaskId| match of(id) {
            _ if id == owner => Some(self.ends),
            found if found.task.is_some() => Some(false),
            found => found.finished.as_ref().map(|_| true),
        };

        let mut new: HashMap<&TaskId, &Task> = HashMap::new();
        for task in &effects.submit {
            check_task(task, self.max_bytes)?;
            match has_ended(&task.id) {
                Some(true) => return Err(Error::AlreadyFinished(task.id.clone())),
                Some(false) => return Err(exists(&task.id)),
                None if new.insert(&task.id, task).is_some() => return Err(exists(&task.id)),
                None => {}
            }
            item.touch(&task.id);
            let mut edit = Edit::new(keys, &task.id, item);
            edit.when(Of::Task, 0);
            edit.when(Of::Finished, 0);
            edit.put_task(task, place, self.now)?;
            place += 1;
        }
        let mut sent: HashMap<&CommandId, &TaskId> = HashMap::new();
        let mut compared: Vec<&TaskId> = vec![owner];
        for send in &effects.send {
            let known = self.reader.known(&send.id).await?;
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
            check_command(&send.command, props, self.max_bytes, self.now)?;
            let is_compared = new.contains_key(&send.task) || compared.contains(&&send.task);
            if !is_compared {
                compared.push(&send.task);
                item.touch(&send.task);
            }
            let mut edit = Edit::new(keys, &send.task, item);
            if !is_compared {
                edit.when_as_found(of(&send.task), &[Of::Task]);
            }
            edit.put_command(&Sent {
                id: &send.id,
                command: &send.command,
                at: self.now,
                place,
                pointer,
            })?;
            place += 1;
        }
        Ok(())
    }
}
