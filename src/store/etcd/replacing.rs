//! Imports that take the place of a task.
//!
//! One write takes the old task away and makes the new one be there, so that a crash leaves one of
//! them, whole. The servers limit the size of a write. What the old task would not show, and the new
//! one can be without for a moment, has writes of its own:
//!
//! 1. before: which task the new commands belong to. Without the commands that says nothing;
//! 2. the swap: task, state, props, commands with and without outcome, and as much of the newest
//!    history as fits;
//! 3. after: older history, and what is left of the old task. No reader shows history from before
//!    the submit.

use std::collections::HashSet;

use windlass_statemachine::{Invalid, TaskId};

use super::{
    Inner,
    claims::touch,
    item::Item,
    read::{Bundle, revision},
};
use crate::store::{Error, Exported};

const OPERATION: &str = "replace a task";
/// How many keys one write before or after the swap has at most.
const KEYS_AT_ONCE: usize = 50;

/// A swap that is ready to be written.
pub(super) struct Swap {
    id: TaskId,
    item: Item,
    /// The key that the new task has: as long as the swap was the last to write it, the rest belongs
    /// to it.
    main: String,
    /// History that did not fit.
    history: Vec<(String, String)>,
    /// History of the old task, with the revisions that wrote it.
    outdated: Vec<(String, i64)>,
    /// Pointers to commands of the old task alone.
    pointers: Vec<String>,
    read_at: i64,
}

impl Inner {
    /// Writes what goes before the swap; answers the swap of what was found with `exported`.
    pub(super) async fn prepare_swap(
        &self,
        exported: &Exported,
        found: &Bundle,
    ) -> Result<Swap, Error> {
        let (keys, id) = (&self.keys, &exported.task.id);
        let core = self.core_of(exported)?;
        let (histories, commands) = (keys.histories(id), format!("{}commands/", keys.root()));
        let (mut history, mut pointers, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in self.parts_of(exported)? {
            match &key {
                key_of if key_of.starts_with(&histories) => history.push((key, value)),
                key_of if key_of.starts_with(&commands) => pointers.push((key, value)),
                _ => parts.push((key, value)),
            }
        }
        let read = |prefix: String| async move {
            let read = self.get_all(&prefix).await;
            let (kvs, _) = read.map_err(|fault| fault.into_error(OPERATION))?;
            let keys = kvs.into_iter().filter_map(|kv| {
                let key = std::str::from_utf8(kv.key()).ok()?.to_owned();
                Some((key, kv.mod_revision()))
            });
            Ok::<Vec<_>, Error>(keys.collect())
        };
        let outcomes = read(keys.outcomes(id)).await?;
        let mut outdated = read(histories).await?;

        let mut item = self.as_found(id, found);
        item.in_order = true;
        item.when_at(&keys.state(id), revision(found.state.as_ref()));
        item.when_at(&keys.owner(id), 0);
        let slot = keys.slot(id);
        item.when_not_after(&slot, &format!("{slot}0"), found.revision);
        let mut names = Vec::new();
        let mut old = vec![keys.task(id), keys.finished(id), keys.props(id)];
        for stored in &found.queue {
            old.push(match &stored.name {
                Some(name) => keys.queued(id, name),
                None => slot.clone(),
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
        let most = self.capacity.operations().saturating_sub(2).max(2);
        let limit = self.capacity.bytes();
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
        for chunk in pointers.chunks(self.capacity.things(KEYS_AT_ONCE)) {
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
            pointers: gone,
            read_at: found.revision,
        })
    }

    /// A write that happens only as long as the old task is the one that was found.
    fn as_found(&self, id: &TaskId, found: &Bundle) -> Item {
        let mut item = Item::new(touch(id));
        item.when_at(&self.keys.task(id), revision(found.task.as_ref()));
        item.when_at(&self.keys.finished(id), revision(found.finished.as_ref()));
        item
    }

    /// Swaps the tasks, and writes what goes after it.
    pub(super) async fn swap(&self, swap: Swap) -> Result<(), Error> {
        let id = &swap.id;
        let at = self.write_part(swap.item, id).await?;
        let count = self.capacity.things(KEYS_AT_ONCE);
        for chunk in swap.history.chunks(count) {
            let mut item = Item::new(touch(id));
            item.when_at(&swap.main, at);
            for (key, value) in chunk {
                item.put(key, value.clone());
            }
            self.write_part(item, id).await?;
        }
        for chunk in swap.outdated.chunks(count) {
            let mut item = Item::new(touch(id));
            for (key, written) in chunk {
                item.delete_at(key, *written);
            }
            self.write_part(item, id).await?;
        }
        self.drop_pointers(id, swap.read_at, swap.pointers).await;
        Ok(())
    }
}
