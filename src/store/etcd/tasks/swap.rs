//! Imports that replace a task.
//!
//! One write deletes the old task and writes the new one, so that a crash leaves one of them,
//! whole. The servers limit the size of a write. Further writes contain what readers of the old
//! task do not see and the new task can lack for a moment:
//!
//! 1. before: the pointers to the new commands. A pointer without its command has no effect;
//! 2. the swap: task, state, props, commands with and without outcome, and as much of the newest
//!    history as fits;
//! 3. after: older history and log lines, and the remains of the old task. No reader shows history from before
//!    the submit.

use std::collections::HashSet;

use windlass_statemachine::{Invalid, TaskId};

use crate::store::{
    Error, Exported,
    etcd::{
        edits::{Clearing, Leftover},
        read::Reader,
        schema::{Snapshot, TaskKey, Unique},
        write::{
            Edit, Item,
            imported::{core_of, parts_of},
        },
    },
};

const OPERATION: &str = "replace a task";
const IMPORT: &str = "import a task";
/// The most keys of one write before or after the swap.
const KEYS_AT_ONCE: usize = 50;

/// A swap that is ready to be written.
pub(crate) struct Swap {
    id: TaskId,
    item: Item,
    /// The key of the new task. If no later write has changed it, the remaining parts belong to
    /// that task.
    main: String,
    /// History and log lines that did not fit.
    history: Vec<(String, String)>,
    /// History and log lines of the old task, with the revisions that wrote it.
    outdated: Vec<(String, i64)>,
    /// Pointers to commands of the old task alone.
    left: Leftover,
}

/// Swaps tasks with imported ones.
pub(crate) struct Swaps {
    pub(crate) clearing: Clearing,
}

impl Swaps {
    fn reader(&self) -> &Reader {
        &self.clearing.access.reader
    }

    /// Writes a part. Returns its revision.
    pub(crate) async fn write_part(&self, item: Item, id: &TaskId) -> Result<i64, Error> {
        let done = self.clearing.access.pipeline.write(item).await;
        let done = done.map_err(|fault| fault.into_error(IMPORT))?;
        done.written.ok_or_else(|| Error::task_exists(id))
    }

    /// Adds the unique key of an imported task, if it is to have it.
    pub(crate) async fn take_key(&self, item: &mut Item, exported: &Exported) -> Result<(), Error> {
        let Some((key, record)) = Unique::of(&exported.task, exported.submitted_at) else {
            return Ok(());
        };
        let name = self.reader().keys.unique(key);
        let there = self.reader().key(&name, IMPORT).await?;
        let mut until = None;
        if let Some(there) = there.as_ref().and_then(Unique::read)
            && *there.task() != exported.task.id
        {
            let found = self.reader().found(there.task(), IMPORT).await?;
            until = there.holder(key, &found).map(|holder| holder.until);
        }
        if exported.takes_key(until) {
            item.put(&name, record.write()?);
            item.touch_key(key);
        }
        Ok(())
    }

    /// Writes what comes before the swap of `found` with `exported`. Returns the swap.
    pub(crate) async fn prepare_swap(
        &self,
        exported: &Exported,
        found: &Snapshot,
    ) -> Result<Swap, Error> {
        let (keys, id) = (&self.reader().keys, &exported.task.id);
        self.reader().decided(IMPORT).await?;
        let core = core_of(keys, exported)?;
        let (histories, log) = (keys.histories(id), keys.log(id));
        let commands = format!("{}commands/", keys.root());
        let (mut history, mut pointers, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in parts_of(keys, exported)? {
            match &key {
                key_of if key_of.starts_with(&histories) => history.push((key, value)),
                key_of if key_of.starts_with(&log) => history.push((key, value)),
                key_of if key_of.starts_with(&commands) => pointers.push((key, value)),
                _ => parts.push((key, value)),
            }
        }
        let read = |prefix: String| async move {
            let kvs = self.reader().all(&prefix, OPERATION).await?;
            let keys = kvs.into_iter().filter_map(|kv| {
                let key = std::str::from_utf8(kv.key()).ok()?.to_owned();
                Some((key, kv.mod_revision()))
            });
            Ok::<Vec<_>, Error>(keys.collect())
        };
        let outcomes = read(keys.outcomes(id)).await?;
        let mut outdated = read(histories).await?;
        outdated.extend(read(log).await?);

        let mut item = self.as_found(id, found);
        item.in_order = true;
        let mut edit = Edit::new(keys, id, &mut item);
        edit.when_as_found(found, &[TaskKey::TaskState]);
        edit.when(TaskKey::Owner, 0);
        edit.when_no_command_since(found.revision);
        let mut names = Vec::new();
        let mut old = vec![keys.task(id), keys.finished(id)];
        old.extend(found.end_keys(keys, id));
        old.extend(found.props_keys().iter().map(|of| keys.of(id, *of)));
        for stored in &found.queue {
            old.push(match &stored.name {
                Some(name) => keys.queued(id, name),
                None => keys.slot(id),
            });
            names.extend(stored.name.clone());
        }
        let prefix = keys.outcomes(id);
        for (key, _) in outcomes {
            names.extend(key.strip_prefix(&prefix).map(str::to_owned));
            old.push(key);
        }
        let mut written = HashSet::new();
        let puts = parts.into_iter().map(|(key, value)| (key, Some(value)));
        for (key, value) in core.into_iter().chain(puts) {
            match value {
                Some(value) => item.put(&key, value),
                None => item.delete(&key),
            }
            written.insert(key);
        }
        for key in old {
            if written.insert(key.clone()) {
                item.delete(&key);
            }
        }
        self.take_key(&mut item, exported).await?;
        let capacity = self.clearing.access.capacity();
        let (most, limit) = (capacity.of_one(), capacity.bytes());
        if item.operations() > most || item.bytes > limit {
            let reason = format!(
                "'{id}' cannot be replaced: its commands do not fit into one write of etcd; delete it in \
                 the target, and copy it again"
            );
            return Err(Invalid::new("task", reason).into());
        }
        let mut fits = true;
        let history = history.into_iter().filter_map(|(key, value)| {
            outdated.retain(|(outdated, _)| *outdated != key);
            fits &= item.operations() < most && item.bytes + key.len() + value.len() < limit;
            if fits {
                item.put(&key, value);
                return None;
            }
            Some((key, value))
        });
        let history = history.collect();

        let kept: HashSet<String> = pointers.iter().map(|(key, _)| key.clone()).collect();
        let names = names.into_iter().map(|name| format!("{commands}{name}"));
        let gone = names.filter(|key| !kept.contains(key)).collect();
        for chunk in pointers.chunks(capacity.things(KEYS_AT_ONCE)) {
            let mut item = self.as_found(id, found);
            for (key, value) in chunk {
                item.put(key, value.clone());
            }
            self.write_part(item, id).await?;
        }
        Ok(Swap {
            id: id.clone(),
            item,
            main: match exported.state.code().is_terminal() {
                true => keys.finished(id),
                false => keys.task(id),
            },
            history,
            outdated,
            left: Leftover {
                read_at: found.revision,
                pointers: gone,
            },
        })
    }

    /// Returns an item that compares that the old task is the one that was found.
    fn as_found(&self, id: &TaskId, found: &Snapshot) -> Item {
        let mut item = Item::of(id);
        let mut edit = Edit::new(&self.reader().keys, id, &mut item);
        edit.when_as_found(found, &[TaskKey::Task, TaskKey::Finished]);
        item
    }

    /// Swaps the tasks, and writes what comes after the swap.
    pub(crate) async fn swap(&self, swap: Swap) -> Result<(), Error> {
        let id = &swap.id;
        let at = self.write_part(swap.item, id).await?;
        let count = self.clearing.access.capacity().things(KEYS_AT_ONCE);
        for chunk in swap.history.chunks(count) {
            let mut item = Item::of(id);
            item.when_at(&swap.main, at);
            for (key, value) in chunk {
                item.put(key, value.clone());
            }
            self.write_part(item, id).await?;
        }
        for chunk in swap.outdated.chunks(count) {
            let mut item = Item::of(id);
            for (key, written) in chunk {
                item.delete_at(key, *written);
            }
            self.write_part(item, id).await?;
        }
        self.clearing.drop_pointers(id, swap.left).await;
        Ok(())
    }
}
