//! Commits: checks everything first, so that no write can fail after the checks.

use jiff::Timestamp;
use windlass_statemachine::{Author, TaskState, machine::Write, size::Size};

use super::{row::Saved, world::World};
use crate::store::{
    Claim, Commit, Error, Transaction,
    rules::{
        self,
        commit::{Decision, Place, Stored},
        effects,
        transaction::{Bounds, Step},
    },
};

impl World {
    pub(super) fn commit(&mut self, commit: Commit, now: Timestamp) -> Result<(), Error> {
        let Commit {
            claim,
            mut write,
            log,
        } = commit;
        let (id, fence) = (&claim.task, claim.fence);
        let stored = self.written_by(&claim);
        let place = Place::of(&write);
        if stored.is_some_and(|stored| place.decide(stored) == Decision::Applied) {
            return Ok(());
        }
        self.check_claim(&claim)?;
        if let Some(stored) = stored {
            place.is_applied(id, stored)?;
        }
        let max_bytes = self.limits.max_bytes;
        let props = self.row(id)?.task.props.len();
        rules::size::check(Size::of_write(&write), props, max_bytes)?;
        let effects = Transaction::from(std::mem::take(&mut write.effects));
        let steps = self.effects(&claim, &write.state, &effects, now)?;

        if let Some(lines) = log {
            self.add_log(id, fence, &lines);
        }
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
        if !steps.is_empty() {
            self.by = Some(Author::task(id));
            for step in steps {
                self.carry_out(step, now);
            }
            self.by = None;
        }
        Ok(())
    }

    /// Decides the effects of a write that leaves its task in `state`.
    fn effects<'a>(
        &self,
        claim: &Claim,
        state: &TaskState,
        effects: &'a Transaction,
        now: Timestamp,
    ) -> Result<Vec<Step<'a>>, Error> {
        let limits = self.limits;
        effects::check(effects, "memory", limits.max_operations)?;
        let mut facts = self.facts(effects);
        if let Some(own) = facts.tasks.get_mut(&claim.task) {
            own.has_ended = state.code().is_terminal();
        }
        let max_bytes = limits.max_bytes;
        effects::decide(effects, &claim.task, &mut facts, Bounds { max_bytes, now })
    }

    /// Returns the write that made the stored state, if the claim has a state that can be read.
    fn written_by(&self, claim: &Claim) -> Option<Stored> {
        match self.tasks.get(&claim.task).map(|row| &row.saved) {
            Some(Saved::State(state)) if state.fence == claim.fence => Some(Stored::of(state)),
            _ => None,
        }
    }
}
