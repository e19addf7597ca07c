//! Commits: everything is checked first, then nothing of it can fail.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_statemachine::{Effects, State, Status, TaskId, machine::Write};

use super::world::World;
use crate::store::{Commit, Error, Send, What};

impl World {
    pub(super) fn commit(&mut self, commit: Commit, now: Timestamp) -> Result<(), Error> {
        let Commit { claim, write } = commit;
        let (id, fence) = (&claim.task, claim.fence);
        self.check_claim(&claim)?;
        self.check_size(id, &write.state)?;
        let ends = write.state.code().is_terminal();
        self.check_effects(id, ends, &write.effects, now)?;

        let Write {
            state,
            steps,
            outcomes,
            drop_claim,
            effects,
        } = write;
        for step in &steps {
            let what = What::Moved {
                message: step.message,
                from: step.from,
                to: step.to,
                fence,
                command: step.command,
            };
            self.record(id, what, now);
        }
        if steps.is_empty() && !drop_claim && !ends {
            self.record(id, What::Checkpointed { fence }, now);
        }
        for (order, outcome) in outcomes {
            self.settle(id, order, outcome);
        }
        let code = state.code();
        self.set_state(id, state);
        if let Some(owner) = self.tasks.get_mut(id).and_then(|row| row.owner.as_mut()) {
            owner.abandoned = false;
        }
        if ends {
            self.reject_waiting(id, code);
        }
        if drop_claim || ends {
            self.unclaim(id);
        }
        if drop_claim && !ends {
            self.record(id, What::Dropped { fence }, now);
        }
        self.touch(id);
        for task in effects.submit {
            self.insert(task, now);
        }
        for send in effects.send {
            self.enqueue(
                Send {
                    task: send.task,
                    id: send.id,
                    command: send.command,
                },
                now,
            );
        }
        Ok(())
    }

    fn check_size(&self, id: &TaskId, state: &State) -> Result<(), Error> {
        let props = self.tasks.get(id).map_or(0, |row| row.task.props.len());
        let data = state.data.as_ref().map_or(0, |d| d.len());
        let result = match &state.status {
            Status::Completed { result } => result.as_ref().map_or(0, |r| r.len()),
            _ => 0,
        };
        let (bytes, limit) = (props + data + result, self.limits.max_bytes);
        if bytes <= limit || data + result == 0 {
            return Ok(());
        }
        Err(Error::TooLarge {
            field: if result > data { "result" } else { "data" },
            bytes,
            limit,
        })
    }

    /// Whether all effects of a write of task `id` can be carried out, in their order.
    fn check_effects(
        &self,
        id: &TaskId,
        ends: bool,
        effects: &Effects,
        now: Timestamp,
    ) -> Result<(), Error> {
        let has_ended = |other: &TaskId| match self.tasks.get(other) {
            Some(_) if other == id => Some(ends),
            Some(row) => Some(row.has_ended()),
            None => None,
        };
        let mut new = HashMap::new();
        for task in &effects.submit {
            self.check_task(task)?;
            match has_ended(&task.id) {
                Some(true) => return Err(Error::AlreadyFinished(task.id.clone())),
                Some(false) => return Err(exists(&task.id)),
                None if new.insert(&task.id, task).is_some() => return Err(exists(&task.id)),
                None => {}
            }
        }
        let mut ids = HashMap::new();
        for send in &effects.send {
            let known = self.commands.get(&send.id).map(|(task, _)| task);
            match known.or_else(|| ids.get(&send.id).copied()) {
                Some(task) if *task == send.task => continue,
                Some(task) => return Err(Self::other_command(&send.id, task)),
                None => {}
            }
            ids.insert(&send.id, &send.task);
            let props = match (has_ended(&send.task), new.get(&send.task)) {
                (Some(true), _) => return Err(Error::AlreadyFinished(send.task.clone())),
                (Some(false), _) => self.tasks.get(&send.task).map_or(0, |r| r.task.props.len()),
                (None, Some(task)) => task.props.len(),
                (None, None) => return Err(Error::no_task(&send.task)),
            };
            self.check_command(&send.command, props, now)?;
        }
        Ok(())
    }
}

pub(super) fn exists(id: &TaskId) -> Error {
    Error::AlreadyExists {
        what: "task",
        name: id.to_string(),
    }
}
