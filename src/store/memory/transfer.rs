//! Exports and imports tasks.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::Path,
    sync::Arc,
};

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::{MemoryStore, row::Row, world::World};
use crate::store::{
    Error, Exported, Moment, PastTasks, Transfer,
    copy::{Backup, Copied},
    export::TargetTask,
    rules::kept_time::kept,
};

impl World {
    pub(super) fn export(&self, id: &TaskId) -> Result<Exported, Error> {
        let row = self.row(id)?;
        Exported::new(
            self.record_of(row),
            row.abandoned.clone(),
            self.commands_of(id)?,
            self.history(id, u32::MAX)?,
        )
        .map(|exported| {
            let unique = exported.task.unique.as_ref();
            let holder = unique.and_then(|unique| self.holder(unique.key()));
            let holds_key = holder.is_some_and(|holder| holder.task == *id);
            exported.with_log(row.log.clone()).with_key(holds_key)
        })
    }

    pub(super) fn import(&mut self, exported: Exported, now: Timestamp) -> Result<(), Error> {
        Copied::refuse(self.copied.as_ref())?;
        exported.check_fits(self.limits.max_bytes)?;
        let id = exported.task.id.clone();
        let replaced = self.tasks.get(&id).map(|row| TargetTask {
            order: row.order,
            has_ended: row.has_ended(),
            is_claimed: row.owner.is_some(),
        });
        if let Some(target) = &replaced {
            exported.check_room(target)?;
        }
        for command in &exported.commands {
            if let Some((task, _)) = self.commands.get(&command.id)
                && *task != id
            {
                return Err(Error::other_command(&command.id, task));
            }
        }
        if replaced.is_some() {
            // No check after this one can refuse the import.
            self.erase(&id, now);
        }
        self.raise_fences(exported.fence);
        let exported = exported.renumbered(self.next_seq());
        if let Some(unique) = &exported.task.unique {
            let until = self.holder(unique.key()).map(|holder| holder.until);
            if exported.takes_key(until) {
                self.take_key(&exported.task, exported.order, exported.submitted_at);
            }
        }
        let state = exported.state;
        self.waiters.add(&id, &state);
        let ended = state.code().is_terminal();
        let ended = ended.then(|| (state.code(), state.since));
        if let Some((_, since)) = ended {
            self.ended.insert((since, exported.order));
        }
        let mut commands = BTreeMap::new();
        for command in exported.commands {
            let place = (id.clone(), command.order);
            self.commands.insert(command.id.clone(), place);
            commands.insert(command.order, command);
        }
        let waiting = commands.values().filter(|c| c.outcome.is_none());
        let row = Row {
            task: Arc::new(exported.task),
            version: state.version,
            ended,
            saved: state.into(),
            quarantine: None,
            order: exported.order,
            submitted_at: kept(exported.submitted_at),
            owner: None,
            fence: exported.fence,
            abandoned: exported.lost_by,
            waiting: waiting.map(|c| c.order).collect(),
            commands,
            history: VecDeque::new(),
            log: exported.log,
        };
        self.by_order.insert(exported.order, id.clone());
        self.tasks.insert(id.clone(), row);
        for change in exported.history {
            self.by = change.by;
            self.record(&id, change.what, change.at);
        }
        self.by = None;
        self.touch(&id);
        self.touch_waiters(&id);
        Ok(())
    }
}

/// The tasks of a moment.
struct Past(HashMap<TaskId, Result<Exported, Error>>);

#[async_trait]
impl PastTasks for Past {
    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let one = |id: &TaskId| self.0.get(id).cloned();
        let tasks = ids
            .iter()
            .map(|id| one(id).unwrap_or_else(|| Err(Error::no_task(id))));
        tasks.collect()
    }
}

#[async_trait]
impl Transfer for MemoryStore {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        let (world, _) = self.shared.lock();
        Ok(world.by_order.values().cloned().collect())
    }

    async fn copied(&self) -> Result<Option<Copied>, Error> {
        let (world, _) = self.shared.lock();
        Ok(world.copied.clone())
    }

    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error> {
        let (mut world, _) = self.shared.lock();
        world.copied = mark;
        Ok(())
    }

    async fn backup(&self, _: &Path) -> Result<Backup, Error> {
        Err(Error::unsupported("memory", "back up the store"))
    }

    async fn moment(&self) -> Result<Moment, Error> {
        let (world, now) = self.shared.lock();
        let ids: Vec<TaskId> = world.by_order.values().cloned().collect();
        let tasks = ids.iter().map(|id| (id.clone(), world.export(id)));
        let mut moment = Moment::new(ids.clone(), Past(tasks.collect()));
        moment.claimed = world.counts().iter().map(|count| count.claimed).sum();
        moment.nodes = world.nodes(now);
        Ok(moment)
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let (world, _) = self.shared.lock();
        ids.iter().map(|id| world.export(id)).collect()
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let (mut world, now) = self.shared.lock();
        let tasks = tasks.into_iter();
        tasks.map(|task| world.import(task, now)).collect()
    }
}
