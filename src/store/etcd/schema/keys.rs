//! [`Keys`]: the keys of a namespace.
//!
//! An id never contains a `/`, and every range ends after one, so the ranges of `a` and `ab` do not
//! overlap.

mod meta;

use std::sync::{Arc, OnceLock};

use windlass_statemachine::{CommandId, NodeName, TaskId};

use super::{format::Layout, namespace::RING, recent::BLOCKS};
use crate::store::rules::log_lines::PartPlace;

/// The folder of separate props.
pub(crate) const PROPS_APART: &str = "meta/props/";
/// The folder of the lines that handlers log.
pub(crate) const LOG: &str = "meta/log/";
/// The folder of the index of ended tasks.
pub(crate) const ENDED: &str = "meta/ended/";

/// The keys of one namespace. Clones share the name and the layout.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// `/NS/`.
    root: Arc<str>,
    /// The layout, once this process knows it.
    layout: Arc<OnceLock<Layout>>,
}

/// A key that each task has at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TaskKey {
    Task,
    Finished,
    TaskState,
    Parked,
    Owner,
    Props,
    PropsApart,
}

/// The part of a task that a key contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The envelope.
    Task,
    Owner,
    Props,
    /// The single slot of a Metafora commander.
    Slot,
    /// A command in the queue of windlass.
    Command(&'a str),
}

impl Keys {
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            root: format!("/{namespace}/").into(),
            layout: Arc::default(),
        }
    }

    /// Returns the layout of the namespace, if it is decided.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.layout.get().copied()
    }

    /// Stores the layout that was read first, and returns it.
    pub(crate) fn keep_layout(&self, layout: Layout) -> Layout {
        *self.layout.get_or_init(|| layout)
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    pub(crate) fn tasks(&self) -> String {
        format!("{}tasks/", self.root)
    }

    pub(crate) fn task(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}", self.root)
    }

    pub(crate) fn of(&self, id: &TaskId, of: TaskKey) -> String {
        match of {
            TaskKey::Task => self.task(id),
            TaskKey::Finished => self.finished(id),
            TaskKey::TaskState => self.state(id),
            TaskKey::Parked => self.parked(id),
            TaskKey::Owner => self.owner(id),
            TaskKey::Props => self.props(id),
            TaskKey::PropsApart => self.props_apart(id),
        }
    }

    /// Returns the prefix of the parts of a live task: owner, props, commands.
    pub(crate) fn parts(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/", self.root)
    }

    pub(crate) fn owner(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/owner", self.root)
    }

    pub(crate) fn props(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/props", self.root)
    }

    /// Returns the key of the props of a task in a namespace that stores them apart from the keys
    /// that nodes watch.
    pub(crate) fn props_apart(&self, id: &TaskId) -> String {
        format!("{}{PROPS_APART}{id}", self.root)
    }

    /// Returns the key with the props of a new task.
    pub(crate) fn new_props(&self, id: &TaskId) -> String {
        match self.layout().unwrap_or_default().is_shared() {
            true => self.props(id),
            false => self.props_apart(id),
        }
    }

    /// Returns the single slot of a Metafora commander. The queue is the range from it up to
    /// `commands0`.
    pub(crate) fn slot(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/commands", self.root)
    }

    /// Returns the prefix of the queued commands of a task, without the slot.
    pub(crate) fn queue(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/commands/", self.root)
    }

    pub(crate) fn queued(&self, id: &TaskId, command: &str) -> String {
        format!("{}tasks/{id}/commands/{command}", self.root)
    }

    pub(crate) fn state(&self, id: &TaskId) -> String {
        format!("{}state/{id}", self.root)
    }

    pub(crate) fn all_parked(&self) -> String {
        format!("{}parked/", self.root)
    }

    pub(crate) fn parked(&self, id: &TaskId) -> String {
        format!("{}parked/{id}", self.root)
    }

    pub(crate) fn all_states(&self) -> String {
        format!("{}state/", self.root)
    }

    pub(crate) fn finished(&self, id: &TaskId) -> String {
        format!("{}finished/{id}", self.root)
    }

    /// Returns the prefix of the history of a task.
    pub(crate) fn histories(&self, id: &TaskId) -> String {
        format!("{}history/{id}/", self.root)
    }

    pub(crate) fn history(&self, id: &TaskId, version: u64) -> String {
        format!("{}history/{id}/{version:012}", self.root)
    }

    /// Returns the block of lines with this number. The block that is [`BLOCKS`] numbers later
    /// reuses the key.
    pub(crate) fn history_block(&self, id: &TaskId, number: u64) -> String {
        format!("{}history/{id}/{RING}{:02}", self.root, number % BLOCKS)
    }

    /// Returns the prefix of the log lines of a task.
    pub(crate) fn log(&self, id: &TaskId) -> String {
        format!("{}{LOG}{id}/", self.root)
    }

    /// Returns the key of a part of the log lines of a task.
    pub(crate) fn log_part(&self, id: &TaskId, place: PartPlace) -> String {
        let PartPlace {
            part,
            incarnation,
            attempt,
        } = place;
        format!("{}{part:012}.{incarnation}.{attempt}", self.log(id))
    }

    /// Returns the place of a part of the log lines of a task by its key.
    pub(crate) fn log_place(&self, id: &TaskId, key: &[u8]) -> Option<PartPlace> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&self.log(id))?;
        let mut numbers = name.splitn(3, '.');
        let mut next = || numbers.next();
        Some(PartPlace {
            part: next()?.parse().ok()?,
            incarnation: next()?.parse().ok()?,
            attempt: next()?.parse().ok()?,
        })
    }

    /// Returns the prefix of the commands of a task that have an outcome.
    pub(crate) fn outcomes(&self, id: &TaskId) -> String {
        format!("{}outcomes/{id}/", self.root)
    }

    pub(crate) fn outcome(&self, id: &TaskId, command: &str) -> String {
        format!("{}outcomes/{id}/{command}", self.root)
    }

    /// Returns the pointer to the task to which a command was sent.
    pub(crate) fn pointer(&self, command: &CommandId) -> String {
        format!("{}commands/{command}", self.root)
    }

    pub(crate) fn nodes(&self) -> String {
        format!("{}nodes/", self.root)
    }

    pub(crate) fn registration(&self, name: &NodeName) -> String {
        format!("{}nodes/{name}/_metafora", self.root)
    }

    /// Returns the key of the server that speaks for a remote worker.
    pub(crate) fn speaker(&self, name: &NodeName) -> String {
        format!("{}nodes/{name}/speaker", self.root)
    }

    pub(crate) fn node_commands(&self, name: &NodeName) -> String {
        format!("{}nodes/{name}/commands/", self.root)
    }

    pub(crate) fn answer(&self, order: u64) -> String {
        format!("{}answers/{order}", self.root)
    }

    /// Returns whether a key below the root describes the namespace itself.
    pub(crate) fn is_meta(&self, key: &[u8]) -> bool {
        let all = [
            self.fences(),
            self.identity(),
            self.copied(),
            self.places(),
            self.index(),
            self.horizon(),
            self.compaction(),
            self.transactions(),
            self.restored(),
        ];
        all.iter().any(|known| known.as_bytes() == key)
            || self.strip(key, "meta/transactions/").is_some()
            || self.split_slot(key).is_some()
            || self.strip(key, "meta/unique/").is_some()
            || self.strip(key, meta::MOMENT).is_some()
            || self.strip(key, meta::AUDIT).is_some()
            || self.strip(key, meta::VALUE).is_some()
            || self.strip(key, PROPS_APART).is_some()
            || self.strip(key, ENDED).is_some()
            || self.strip(key, LOG).is_some()
    }

    /// Returns the key of the [`Format`](super::Format), with the marks of
    /// [`Fences`](super::Fences).
    pub(crate) fn fences(&self) -> String {
        format!("{}meta/fences", self.root)
    }

    /// Returns the key of [`Restored`](super::Restored).
    pub(crate) fn restored(&self) -> String {
        format!("{}meta/restored", self.root)
    }

    /// Returns the key of the mark of a copy.
    pub(crate) fn copied(&self) -> String {
        format!("{}meta/copied", self.root)
    }

    /// Returns the key of the namespace's identity.
    pub(crate) fn identity(&self) -> String {
        format!("{}meta/identity", self.root)
    }

    /// Returns a key that is written only to get a revision.
    pub(crate) fn places(&self) -> String {
        format!("{}meta/places", self.root)
    }

    /// Returns the key of the [`Horizon`](super::Horizon).
    pub(crate) fn horizon(&self) -> String {
        format!("{}meta/horizon", self.root)
    }

    /// Returns a key that is written only to be seen by the watch of an index in memory.
    pub(crate) fn index(&self) -> String {
        format!("{}meta/index", self.root)
    }

    /// Returns the key of past times with their revisions, for compaction.
    pub(crate) fn compaction(&self) -> String {
        format!("{}meta/compaction", self.root)
    }

    /// Splits the key of a task, or of a part of one, into id and part.
    pub(crate) fn split<'a>(&self, key: &'a [u8]) -> Option<(&'a str, Part<'a>)> {
        let rest = self.strip(key, "tasks/")?;
        let Some((id, part)) = rest.split_once('/') else {
            return Some((rest, Part::Task));
        };
        let part = match part {
            "owner" => Part::Owner,
            "props" => Part::Props,
            "commands" => Part::Slot,
            // A name contains no `/`, so a deeper key belongs to another namespace.
            other => {
                let name = other.strip_prefix("commands/")?;
                Part::Command(Some(name).filter(|name| !name.contains('/'))?)
            }
        };
        Some((id, part))
    }

    /// Returns the part of a key of this namespace after `folder`.
    pub(crate) fn strip<'a>(&self, key: &'a [u8], folder: &str) -> Option<&'a str> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(&*self.root)?.strip_prefix(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_part_of_a_log_has_its_place() {
        let keys = Keys::new("n");
        let id: TaskId = "a".parse().unwrap_or_else(|e| panic!("{e}"));
        let place = PartPlace {
            part: 12,
            incarnation: 3,
            attempt: 4,
        };
        let key = keys.log_part(&id, place);
        assert_eq!(key, "/n/meta/log/a/000000000012.3.4");
        assert_eq!(keys.log_place(&id, key.as_bytes()), Some(place));
        assert_eq!(
            keys.log_place(&id, b"/n/meta/log/ab/000000000012.3.4"),
            None
        );
        assert_eq!(keys.log_place(&id, b"/n/meta/log/a/x"), None);
        assert!(keys.is_meta(key.as_bytes()));
    }

    #[test]
    fn keys_are_split_into_id_and_part() {
        let keys = Keys::new("a/b");
        for (key, expected) in [
            ("/a/b/tasks/x", Some(("x", Part::Task))),
            ("/a/b/tasks/x/owner", Some(("x", Part::Owner))),
            ("/a/b/tasks/x/props", Some(("x", Part::Props))),
            ("/a/b/tasks/x/commands", Some(("x", Part::Slot))),
            ("/a/b/tasks/x/commands/c", Some(("x", Part::Command("c")))),
            ("/a/b/tasks/x/other", None),
            ("/a/b/tasks/x/commands/c/owner", None),
            ("/a/tasks/x", None),
        ] {
            assert_eq!(keys.split(key.as_bytes()), expected, "{key}");
        }
    }
}
