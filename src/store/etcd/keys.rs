//! Where everything is: the keys of a namespace.
//!
//! An id never holds a `/`, and every range ends behind one, so `a` and `ab` never touch.

use windlass_statemachine::{CommandId, NodeName, TaskId};

/// The keys of one namespace.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// `/NS/`.
    root: String,
}

/// Which key of a task an event is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The envelope.
    Task,
    Owner,
    Props,
    /// The single slot of a Metafora commander.
    Slot,
    /// A command of our queue.
    Command(&'a str),
}

/// The end of the range of keys that begin with `prefix`.
pub(super) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Self {
        let root = format!("/{namespace}/");
        Self { root }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn tasks(&self) -> String {
        format!("{}tasks/", self.root)
    }

    pub(super) fn task(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}", self.root)
    }

    /// What belongs to a live task: owner, props, commands.
    pub(super) fn parts(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/", self.root)
    }

    pub(super) fn owner(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/owner", self.root)
    }

    pub(super) fn props(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/props", self.root)
    }

    /// The single slot of a Metafora commander; with everything up to `commands0` it is the queue.
    pub(super) fn slot(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/commands", self.root)
    }

    pub(super) fn queued(&self, id: &TaskId, command: &str) -> String {
        format!("{}tasks/{id}/commands/{command}", self.root)
    }

    pub(super) fn state(&self, id: &TaskId) -> String {
        format!("{}state/{id}", self.root)
    }

    pub(super) fn all_parked(&self) -> String {
        format!("{}parked/", self.root)
    }

    pub(super) fn parked(&self, id: &TaskId) -> String {
        format!("{}parked/{id}", self.root)
    }

    pub(super) fn all_states(&self) -> String {
        format!("{}state/", self.root)
    }

    pub(super) fn all_finished(&self) -> String {
        format!("{}finished/", self.root)
    }

    pub(super) fn finished(&self, id: &TaskId) -> String {
        format!("{}finished/{id}", self.root)
    }

    /// The history of a task.
    pub(super) fn histories(&self, id: &TaskId) -> String {
        format!("{}history/{id}/", self.root)
    }

    pub(super) fn history(&self, id: &TaskId, version: u64) -> String {
        format!("{}history/{id}/{version:012}", self.root)
    }

    /// The commands of a task that have an outcome.
    pub(super) fn outcomes(&self, id: &TaskId) -> String {
        format!("{}outcomes/{id}/", self.root)
    }

    pub(super) fn outcome(&self, id: &TaskId, command: &str) -> String {
        format!("{}outcomes/{id}/{command}", self.root)
    }

    /// Which task a command was sent to.
    pub(super) fn pointer(&self, command: &CommandId) -> String {
        format!("{}commands/{command}", self.root)
    }

    pub(super) fn nodes(&self) -> String {
        format!("{}nodes/", self.root)
    }

    pub(super) fn registration(&self, name: &NodeName) -> String {
        format!("{}nodes/{name}/_metafora", self.root)
    }

    pub(super) fn node_commands(&self, name: &NodeName) -> String {
        format!("{}nodes/{name}/commands/", self.root)
    }

    pub(super) fn answer(&self, order: u64) -> String {
        format!("{}answers/{order}", self.root)
    }

    /// What is added to revisions to make fences of them.
    pub(super) fn fences(&self) -> String {
        format!("{}meta/fences", self.root)
    }

    /// The identity of the namespace.
    pub(super) fn identity(&self) -> String {
        format!("{}meta/identity", self.root)
    }

    /// What is written only to have a revision of its own.
    pub(super) fn places(&self) -> String {
        format!("{}meta/places", self.root)
    }

    /// What `maintain` remembers.
    pub(super) fn horizon(&self) -> String {
        format!("{}meta/horizon", self.root)
    }

    /// Which revision it was at which time, for those who compact.
    pub(super) fn compaction(&self) -> String {
        format!("{}meta/compaction", self.root)
    }

    /// Takes the key of a task, or of a part of one, apart.
    pub(super) fn split<'a>(&self, key: &'a [u8]) -> Option<(&'a str, Part<'a>)> {
        let rest = self.strip(key, "tasks/")?;
        let Some((id, part)) = rest.split_once('/') else {
            return Some((rest, Part::Task));
        };
        let part = match part {
            "owner" => Part::Owner,
            "props" => Part::Props,
            "commands" => Part::Slot,
            other => Part::Command(other.strip_prefix("commands/")?),
        };
        Some((id, part))
    }

    /// What follows `folder` in a key of this namespace.
    pub(super) fn strip<'a>(&self, key: &'a [u8], folder: &str) -> Option<&'a str> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(self.root.as_str())?.strip_prefix(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart() {
        let keys = Keys::new("a/b");
        for (key, expected) in [
            ("/a/b/tasks/x", Some(("x", Part::Task))),
            ("/a/b/tasks/x/owner", Some(("x", Part::Owner))),
            ("/a/b/tasks/x/props", Some(("x", Part::Props))),
            ("/a/b/tasks/x/commands", Some(("x", Part::Slot))),
            ("/a/b/tasks/x/commands/c", Some(("x", Part::Command("c")))),
            ("/a/b/tasks/x/other", None),
            ("/a/tasks/x", None),
        ] {
            assert_eq!(keys.split(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn a_range_ends_behind_its_slash() {
        assert_eq!(end_of("/n/tasks/a/"), b"/n/tasks/a0");
    }
}
