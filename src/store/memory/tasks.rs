//! Tasks that come (submit, retry) and go (delete, purge, retention).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
    sync::Arc,
};

use jiff::Timestamp;
use windlass_statemachine::{Code, Fence, State, Task, TaskId};

use super::world::{Row, World};
use crate::store::{
    Error, Submit, Submitted, What, retention,
    rules::{
        self,
        retry::{Counted, Record},
        submit::{Taken, Verdict},
    },
};

/// How many tasks one call of `maintain` removes at the most.
const TASKS_PER_STEP: u32 = 1000;
/// How many changes one call of `maintain` forgets at the most.
const CHANGES_PER_STEP: usize = 10_000;

impl World {
    pub(super) fn submit(&mut self, submit: Submit, now: Timestamp) -> Result<Submitted, Error> {
        rules::size::check_task(&submit.task, self.limits.max_bytes)?;
        let Some(row) = self.tasks.get(&submit.task.id) else {
            self.insert(submit.task, now);
            return Ok(Submitted::New);
        };
        let taken = Taken {
            has_ended: row.has_ended(),
            task: Some(&row.task),
            code: row.state().map(|state| state.code()),
        };
        match rules::submit::decide(&submit, taken)? {
            Verdict::Existing(code) => Ok(Submitted::Existing(code)),
            Verdict::Replace => {
                let (id, fence) = (submit.task.id.clone(), row.fence);
                self.remove(&id);
                self.insert(submit.task, now);
                if let Some(row) = self.tasks.get_mut(&id) {
                    row.fence = fence;
                }
                Ok(Submitted::New)
            }
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
            version: 0,
            ended: None,
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
        let row = self.row(id)?;
        let record = Record {
            id,
            state: row.saved.read(),
            envelope: None,
            is_quarantined: row.set_aside.is_some(),
            last: Counted {
                version: row.version,
                fence: row.fence,
            },
        };
        let state = rules::retry::state(record, now)?;
        self.unclaim(id);
        if let Some(row) = self.tasks.get_mut(id) {
            (row.set_aside, row.abandoned) = (None, None);
        }
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
            let ended = self.tasks.get(*id).and_then(|row| row.ended);
            ended.is_some_and(|(code, _)| states.contains(&code))
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
