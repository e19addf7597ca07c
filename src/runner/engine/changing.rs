//! Changes of the node while it runs: its slots, its kinds and its labels.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::info;
use windlass_statemachine::{
    Invalid, Kind,
    machine::{Input, StopReason},
};

use super::Engine;
use crate::{
    runner::{
        control::{Change, ChangeRequest},
        input::SlotId,
        kinds::KindEntry,
    },
    store::NodeSpec,
};

/// A handler that was removed, and the caller that waits until none of its runs is left.
pub(super) struct Removal {
    entry: Arc<KindEntry>,
    done: oneshot::Sender<Result<(), Invalid>>,
}

impl Engine {
    pub(super) fn change(&mut self, request: ChangeRequest) {
        let ChangeRequest { change, done } = request;
        let changed = match change {
            Change::Slots(slots) => {
                self.capacity.set_slots(slots);
                Ok(())
            }
            Change::SlotsOf(kind, slots) => self.set_slots_of(kind, slots),
            Change::Add(kind, entry) => self.add_kind(kind, entry),
            Change::Labels(labels) => {
                self.deps.selector = labels;
                self.describe();
                self.list_again();
                Ok(())
            }
            Change::Remove(kind) => match self.remove_kind(&kind) {
                Ok(entry) => {
                    self.removals.push(Removal { entry, done });
                    return;
                }
                Err(refused) => Err(refused),
            },
        };
        self.describe();
        let _ = done.send(changed);
    }

    fn set_slots_of(&mut self, kind: Kind, slots: u32) -> Result<(), Invalid> {
        let Some(entry) = self.deps.kinds.entry(&kind) else {
            let reason = format!("this node has no handler for '{kind}'; add one first");
            return Err(Invalid::new("kind", reason));
        };
        may_change(&kind, entry)?;
        self.capacity.set_slots_of(kind, Some(slots));
        Ok(())
    }

    fn add_kind(&mut self, kind: Kind, entry: KindEntry) -> Result<(), Invalid> {
        let named = &mut self.deps.kinds.named;
        if named.contains_key(&kind) {
            let reason = format!("'{kind}' has a handler; remove that one first");
            return Err(Invalid::new("handler", reason));
        }
        info!(node = %self.deps.node, %kind, "added a handler");
        self.capacity.set_slots_of(kind.clone(), entry.config.slots);
        self.metrics.begin(std::iter::once(&kind));
        named.insert(kind, Arc::new(entry));
        self.describe();
        self.list_again();
        Ok(())
    }

    /// Removes the handler of a kind, and releases its running tasks. Returns the handler.
    fn remove_kind(&mut self, kind: &Kind) -> Result<Arc<KindEntry>, Invalid> {
        let Some(entry) = self.deps.kinds.named.get(kind).cloned() else {
            let reason = format!("this node has no handler of its own for '{kind}'");
            return Err(Invalid::new("kind", reason));
        };
        may_change(kind, &entry)?;
        self.deps.kinds.named.remove(kind);
        self.capacity.forget_kind(kind);
        self.describe();
        self.list_again();
        let of_entry = self.slots.ids().into_iter();
        let of_entry: Vec<_> = of_entry.filter(|id| self.is_of(*id, &entry)).collect();
        info!(node = %self.deps.node, %kind, tasks = of_entry.len(), "removed a handler");
        for slot in of_entry {
            self.feed(slot, Input::Stop(StopReason::Drain));
        }
        Ok(entry)
    }

    fn is_of(&self, slot: SlotId, entry: &Arc<KindEntry>) -> bool {
        (self.slots.get(slot)).is_some_and(|slot| Arc::ptr_eq(&slot.kind, entry))
    }

    /// Notifies the callers whose removed handlers have no run left.
    pub(super) fn answer_removals(&mut self) {
        let slots = &self.slots;
        let is_over = |removal: &mut Removal| {
            let mut slots = slots.iter();
            !slots.any(|slot| Arc::ptr_eq(&slot.kind, &removal.entry))
        };
        for removal in self.removals.extract_if(.., is_over) {
            let _ = removal.done.send(Ok(()));
        }
    }

    /// Computes the present description of the node, and has the store record it.
    fn describe(&mut self) {
        let before = self.deps.wanted.borrow().spec.clone();
        let mut spec = NodeSpec {
            kinds: self.deps.kinds.listed(),
            data_versions: self.deps.kinds.data_versions(),
            labels: self.deps.selector.clone(),
            slots: self.capacity.slots(),
            slots_of: self.capacity.slots_of(),
            ..(*before).clone()
        };
        if self.deps.config.on_demand {
            // The slots change with each task: they are not worth a write, and no node should defer a task to them.
            self.deferral.set_me(spec.clone());
            spec.slots = before.slots;
        }
        if spec == *before {
            return;
        }
        if !self.deps.config.on_demand {
            self.deferral.set_me(spec.clone());
        }
        self.deps
            .wanted
            .send_modify(|wanted| wanted.spec = Arc::new(spec));
    }

    /// Watches again, so that the claimable tasks are those of the present kinds and labels. Until the list
    /// is complete, the node claims nothing.
    fn list_again(&mut self) {
        self.watch.end();
        self.due.clear();
        self.start_watch(Duration::ZERO);
    }

    /// Returns the kinds to watch: those with a handler, and those of the tasks that are here. A list names
    /// every task of its kinds, and the claim of a task that the list does not name counts as ended.
    pub(super) fn watched_kinds(&self) -> Option<Vec<Kind>> {
        let mut kinds = self.deps.kinds.listed()?;
        for slot in self.slots.iter() {
            if !kinds.contains(&slot.task.kind) {
                kinds.push(slot.task.kind.clone());
            }
        }
        Some(kinds)
    }
}

fn may_change(kind: &Kind, entry: &KindEntry) -> Result<(), Invalid> {
    if entry.config.is_apart {
        let reason =
            format!("the node runs '{kind}' by default; start it without schedules instead");
        return Err(Invalid::new("kind", reason));
    }
    Ok(())
}
