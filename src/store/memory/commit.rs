//! Commits: checks everything first; no write after the checks can fail.

use jiff::Timestamp;
use windlass_statemachine::{CommandId, TaskId, TaskState, machine::Write, size::Size};

use super::{row::Saved, world::World};
use crate::store::{
    Claim, Commit, Error,
    rules::{
        self,
        plan::{self, Bounds, Facts, Known, Step},
    },
};

impl World {
    pub(super) fn commit(&mut self, commit: Commit, now: Timestamp) -> Result<(), Error> {
        let Commit { claim, write } = commit;
        let (id, fence) = (&claim.task, claim.fence);
        if self.was_applied(&claim, &write.state) {
            return Ok(());
        }
        self.check_claim(&claim)?;
        let max_bytes = self.limits.max_bytes;
        let props = self.row(id)?.task.props.len();
        rules::size::check(Size::of(&write.state), props, max_bytes)?;
        let before = Before {
            world: self,
            owner: id,
            ends: write.state.code().is_terminal(),
        };
        let steps = plan::effects(&write.effects, &before, Bounds { max_bytes, now })?;

        for what in rules::history::lines(fence, &write) {
            self.record(id, what, now);
        }
        let ends_claim = rules::history::ends_claim(&write);
        let Write {
            state, outcomes, ..
        } = write;
        for (order, outcome) in outcomes {
            self.settle(id, order, outcome);
        }
        let code = state.code();
        self.set_state(id, state);
        if let Some(owner) = self.tasks.get_mut(id).and_then(|row| row.owner.as_mut()) {
            owner.abandoned = false;
        }
        if code.is_terminal() {
            self.reject_waiting(id, code);
        }
        if ends_claim {
            self.unclaim(id);
        }
        self.touch(id);
        for step in steps {
            match step {
                Step::Submit(task) => self.insert(task.clone(), now),
                Step::Send(send) => {
                    self.enqueue(send.clone(), now);
                }
            }
        }
        Ok(())
    }

    /// Returns whether this write was applied before and its answer was lost.
    fn was_applied(&self, claim: &Claim, state: &TaskState) -> bool {
        match self.tasks.get(&claim.task).map(|row| &row.saved) {
            Some(Saved::State(stored)) => {
                stored.fence == claim.fence && stored.version == state.version
            }
            _ => false,
        }
    }
}

/// What is known when a write of task `owner` has its effects; `ends` is whether the write ends the task.
struct Before<'a> {
    world: &'a World,
    owner: &'a TaskId,
    ends: bool,
}

impl Facts for Before<'_> {
    fn task(&self, id: &TaskId) -> Option<Known> {
        let row = self.world.tasks.get(id)?;
        let has_ended = match id == self.owner {
            true => self.ends,
            false => row.has_ended(),
        };
        let props = row.task.props.len();
        Some(Known { has_ended, props })
    }

    fn command(&self, id: &CommandId) -> Option<TaskId> {
        let (task, _) = self.world.commands.get(id)?;
        Some(task.clone())
    }
}
