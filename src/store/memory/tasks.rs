//! Tasks that come (submit, retry) and go (delete, purge, retention).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
    sync::Arc,
};

use jiff::Timestamp;
use windlass_statemachine::{Code, Fence, State, Task, TaskId, errors::MAX_KEPT};

use super::{
    commits::exists,
    world::{Row, World},
};
use crate::store::{Error, IfExists, Submit, Submitted, What, retention};

/// How many tasks one call of `maintain` removes at the most.
const TASKS_PER_STEP: u32 = 1000;
/// How many changes one call of `maintain` forgets at the most.
const CHANGES_PER_STEP: usize = 10_000;

impl World {
    pub(super) fn check_task(&self, task: &Task) -> Result<(), Error> {
        let (bytes, limit) = (task.props.len(), self.limits.max_bytes);
        if bytes > limit {
            return Err(Error::TooLarge {
                field: "props",
                bytes,
                limit,
            });
        }
        Ok(task.check(limit)?)
    }

    pub(super) fn submit(&mut self, submit: Submit, now: Timestamp) -> Result<Submitted, Error> {
        let Submit { task, if_exists } = submit;
        self.check_task(&task)?;
        // What cannot be read must not be mistaken for live or ended.
        let _ = self.read_state(&task.id, now);
        let Some(row) = self.tasks.get(&task.id) else {
            self.insert(task, now);
            return Ok(Submitted::New);
        };
        let same = if_exists == IfExists::Same && row.task.is_same_work(&task);
        match (if_exists, row.has_ended()) {
            (IfExists::Same, _) if same => Ok(Submitted::Existing(row.state()?.code())),
            (IfExists::ReplaceFinished, true) => {
                let fence = row.fence;
                self.remove(&task.id);
                let id = task.id.clone();
                self.insert(task, now);
                if let Some(row) = self.tasks.get_mut(&id) {
                    row.fence = fence;
                }
                Ok(Submitted::New)
            }
            (_, true) => Err(Error::AlreadyFinished(task.id)),
            (_, false) => Err(exists(&task.id)),
        }
    }

    /// Adds a task that was checked and whose id is free.
    pub(super) fn insert(&mut self, task: Task, now: Timestamp) {
        let id = task.id.clone();
        let state = State::submitted(task.start_at, now);
        let what = What::Submitted {
            state: state.code(),
        };
        let order = self.record(&id, what, now);
        let row = Row {
            task: Arc::new(task),
            saved: state.into(),
            set_aside: None,
            order,
            submitted_at: now,
            owner: None,
            fence: Fence::default(),
            abandoned: None,
            commands: BTreeMap::new(),
            waiting: BTreeSet::new(),
            history: VecDeque::from([order]),
        };
        self.by_order.insert(order, id.clone());
        self.tasks.insert(id.clone(), row);
        self.touch(&id);
    }

    pub(super) fn delete(&mut self, id: &TaskId, now: Timestamp) -> Result<(), Error> {
        // Whoever watches it is told while its kind is still known.
        self.touch(id);
        self.remove(id).ok_or_else(|| Error::no_task(id))?;
        self.record(id, What::Deleted, now);
        Ok(())
    }

    pub(super) fn retry(&mut self, id: &TaskId, now: Timestamp) -> Result<(), Error> {
        let read = self.read_state(id, now);
        let Some(row) = self.tasks.get_mut(id) else {
            return Err(Error::no_task(id));
        };
        let was_aside = row.set_aside.take().is_some();
        let state = match (read, row.state()) {
            (Ok(()), Ok(state)) if state.code().is_terminal() => state.retried(now),
            // It can be read again: it goes on from where it was.
            (Ok(()), Ok(state)) if was_aside => state,
            (Ok(()), Ok(state)) => {
                return Err(Error::not_retried(state.code()));
            }
            (Err(error), _) | (_, Err(error)) => {
                let mut state = State::new(now);
                state.errors.push(now, error.to_string(), MAX_KEPT);
                state
            }
        };
        self.set_state(id, state);
        self.record(id, What::Retried, now);
        self.touch(id);
        Ok(())
    }

    pub(super) fn purge(
        &mut self,
        states: &[Code],
        before: Timestamp,
        limit: u32,
        now: Timestamp,
    ) -> u64 {
        let old = self.ended.range(..(before, 0));
        let old = old.filter_map(|(_, order)| self.by_order.get(order));
        let old = old.filter(|id| {
            let code = self.tasks.get(*id).and_then(Row::code);
            code.is_some_and(|code| states.contains(&code))
        });
        let old: Vec<TaskId> = old.take(limit as usize).cloned().collect();
        for id in &old {
            self.remove(id);
            self.record(id, What::Deleted, now);
        }
        old.len() as u64
    }

    /// Prunes what was before a time; `latest` is how late it can be (see [`retention::oldest`]).
    pub(super) fn maintain(
        &mut self,
        (before, latest): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> u64 {
        let all = [Code::Completed, Code::Failed, Code::Killed];
        let gone = self.purge(&all, before, TASKS_PER_STEP, now);
        let ats = self.log.iter().map(|change| Ok::<_, Infallible>(change.at));
        let Ok(old) = retention::oldest(ats, (before, latest), CHANGES_PER_STEP);
        self.log.drain(..old);
        self.first_seq += old as u64;
        gone
    }
}
