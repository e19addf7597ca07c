//! Effects: tasks and commands in the same transaction as a transition.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_statemachine::{CommandId, TaskId};

use crate::store::{
    Error,
    etcd::{
        read::{self, Reader},
        schema::{Of, Snapshot},
        write::{Edit, Item, edit::Sent},
    },
    rules::plan::{self, Bounds, Facts, Known, Step},
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
            let read = read.map_err(|fault| fault.into_error("read the tasks of effects"))?;
            found.insert(id.clone(), read);
        }
        let mut commands = HashMap::new();
        for send in &effects.send {
            if !commands.contains_key(&send.id) {
                commands.insert(send.id.clone(), self.reader.known(&send.id).await?);
            }
        }
        let (max_bytes, now) = (self.max_bytes, self.now);
        let before = Before {
            effects: self,
            found,
            commands,
        };
        let mut compared: Vec<&TaskId> = vec![owner];
        for step in plan::effects(effects, &before, Bounds { max_bytes, now })? {
            match step {
                Step::Submit(task) => {
                    compared.push(&task.id);
                    item.touch(&task.id);
                    let mut edit = Edit::new(keys, &task.id, item);
                    edit.when(Of::Task, 0);
                    edit.when(Of::Finished, 0);
                    edit.put_task(task, place, now)?;
                }
                Step::Send(send) => {
                    let id = &send.task;
                    if !compared.contains(&id) {
                        compared.push(id);
                        item.touch(id);
                        let found = before.found.get(id);
                        let at = found.map_or(0, |found| found.revision_of(Of::Task));
                        Edit::new(keys, id, item).when(Of::Task, at);
                    }
                    let pointer = before.commands.get(&send.id);
                    Edit::new(keys, id, item).put_command(&Sent {
                        id: &send.id,
                        command: &send.command,
                        at: now,
                        place,
                        pointer: pointer.map_or(0, |known| known.revision),
                    })?;
                }
            }
            place += 1;
        }
        Ok(())
    }
}

/// The tasks and commands that effects are planned against.
struct Before<'a> {
    effects: &'a Effects<'a>,
    found: HashMap<TaskId, Snapshot>,
    commands: HashMap<CommandId, read::Known>,
}

impl Facts for Before<'_> {
    fn task(&self, id: &TaskId) -> Option<Known> {
        let found = self.found.get(id).filter(|found| found.exists())?;
        let has_ended = match id == self.effects.owner {
            true => self.effects.ends,
            false => found.task.is_none(),
        };
        let props = found.whole_task(id).map_or(0, |task| task.props.len());
        Some(Known { has_ended, props })
    }

    fn command(&self, id: &CommandId) -> Option<TaskId> {
        self.commands.get(id)?.task.clone()
    }
}
