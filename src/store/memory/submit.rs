//! Submits tasks.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use windlass_statemachine::{Fence, Task, TaskState};

use super::{row::Row, world::World};
use crate::store::{
    ChangeKind,
    rules::{self, facts::Holder, kept_time::kept},
};

impl World {
    /// Adds a checked task. It replaces an existing task with its id, and continues the fences of that
    /// task.
    pub(super) fn put(&mut self, task: Task, now: Timestamp) {
        let id = task.id.clone();
        let fence = self.remove(&id).map(|row| row.fence);
        self.insert(task, now);
        if let Some(row) = self.tasks.get_mut(&id) {
            row.fence = fence.unwrap_or_default();
        }
    }

    /// Notes the unique key of a task, if it has one.
    pub(super) fn take_key(&mut self, task: &Task, order: u64, submitted_at: Timestamp) {
        if let Some(unique) = &task.unique {
            let holder = Holder {
                task: task.id.clone(),
                until: rules::unique::until(unique, submitted_at),
            };
            self.unique.insert(unique.key().to_owned(), (order, holder));
        }
    }

    /// Adds a checked task whose id is free.
    pub(super) fn insert(&mut self, mut task: Task, now: Timestamp) {
        let id = task.id.clone();
        let state = TaskState::first(&task, now);
        task.waits = None;
        task.paused = false;
        self.waiters.add(&id, &state);
        let what = ChangeKind::Submitted {
            state: state.code(),
        };
        let order = self.record(&id, what, now);
        self.take_key(&task, order, now);
        let row = Row {
            task: Arc::new(task),
            saved: state.into(),
            version: 0,
            ended: None,
            quarantine: None,
            order,
            submitted_at: kept(now),
            owner: None,
            fence: Fence::default(),
            abandoned: None,
            commands: BTreeMap::new(),
            waiting: BTreeSet::new(),
            history: VecDeque::from([order]),
            log: Vec::new(),
        };
        self.by_order.insert(order, id.clone());
        self.tasks.insert(id.clone(), row);
        self.touch(&id);
        self.touch_waiters(&id);
    }
}
